// Races in shared memory: barriers that are missing before a read, before a write, between two writes.
#include "planted.cuh"

KERNEL reverse(const float *x, float *y) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i]; // PLANT race
  if (sound) __syncthreads();
  y[i] = tile[63 - i]; // PLANT race uninit
}

KERNEL tile_reused(const float *x, float *y, int tiles) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  float s = 0.0f;
  for (int t = 0; t < tiles; t++) {
    tile[i] = x[64 * t + i]; // PLANT race
    __syncthreads();
    s += tile[63 - i]; // PLANT race
    if (sound) __syncthreads();
  }
  y[i] = s;
}

KERNEL one_slot_for_all_warps(const float *x, float *y) {
  __shared__ float part[2];
  int i = threadIdx.x, warp = i / 32;
  float s = x[i];
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
  if (i % 32 == 0) part[sound ? warp : 0] = s; // PLANT race
  __syncthreads();
  if (i == 0) *y = sound ? part[0] + part[1] : part[0];
}

KERNEL tree_without_barrier(const float *x, float *y) {
  __shared__ float part[128];
  int i = threadIdx.x;
  part[i] = x[i]; // PLANT race
  __syncthreads();
  for (int d = 64; d > 0; d >>= 1) {
    if (i < d) part[i] += part[i + d]; // PLANT race
    if (sound) __syncthreads();
  }
  if (i == 0) *y = part[0];
}

KERNEL scan_in_place(const float *x, float *y) {
  __shared__ float sums[64];
  int i = threadIdx.x;
  sums[i] = x[i];
  __syncthreads();
  for (int d = 1; d < 64; d *= 2) {
    float v = i >= d ? sums[i - d] : 0.0f; // PLANT race
    if (sound) __syncthreads();
    sums[i] += v; // PLANT race
    __syncthreads();
  }
  y[i] = sums[i];
}

KERNEL buffers_not_swapped(const float *x, float *y, int steps) {
  __shared__ float buffer[2][64];
  int i = threadIdx.x, from = 0;
  buffer[0][i] = x[i];
  __syncthreads();
  for (int k = 0; k < steps; k++) {
    float v = buffer[from][(i + 33) % 64]; // PLANT race
    int to = sound ? 1 - from : from;
    buffer[to][i] = 0.5f * v; // PLANT race
    __syncthreads();
    from = to;
  }
  y[i] = buffer[from][i];
}

KERNEL bins_not_atomic(const int *x, int *y) {
  __shared__ int bins[16];
  int i = threadIdx.x;
  if (i < 16) bins[i] = 0;
  __syncthreads();
  if (sound) atomicAdd(&bins[x[i] & 15], 1);
  else bins[x[i] & 15] += 1; // PLANT race
  __syncthreads();
  if (i < 16) y[i] = bins[i];
}

KERNEL lanes_share_a_slot(const int *x, int *y) {
  __shared__ int slot[32];
  int lane = threadIdx.x;
  slot[sound ? lane : lane / 2] = x[lane]; // PLANT race
  __syncwarp();
  y[lane] = slot[lane / 2];
}

KERNEL halves_of_a_warp(const int *x, int *y) {
  __shared__ int slot[32];
  int lane = threadIdx.x;
  slot[lane] = x[lane];
  __syncwarp();
  if (lane < 16) {
    slot[lane] = -x[lane] - 1; // PLANT race
    if (sound) __syncwarp();
    y[lane] = slot[lane] + 1;
  } else {
    if (sound) __syncwarp();
    y[lane] = slot[lane - 16] * 3; // PLANT race
  }
}

KERNEL half_reads_half_writes(const int *x, int *y) {
  __shared__ int slot[32];
  int lane = threadIdx.x;
  slot[lane] = x[lane];
  __syncwarp();
  if (lane >= 16) {
    y[lane] = slot[lane - 16] * 3; // PLANT race
    if (sound) __syncwarp();
  } else {
    if (sound) __syncwarp();
    slot[lane] = -x[lane] - 1; // PLANT race
    y[lane] = slot[lane] + 1;
  }
}

KERNEL counter_cleared_too_late(const int *x, int *y) {
  __shared__ int count;
  int i = threadIdx.x;
  if (i == 0) count = 0; // PLANT race
  if (sound) __syncthreads();
  if (x[i] > 3) atomicAdd(&count, 1); // PLANT race
  __syncthreads();
  if (i == 0) *y = count;
}

KERNEL broadcast(const float *x, float *y) {
  __shared__ float scale;
  int i = threadIdx.x;
  if (i == 0) scale = x[0]; // PLANT race
  if (sound) __syncthreads();
  y[i] = 2.0f * scale; // PLANT race uninit
}

KERNEL sum_read_too_early(const float *x, float *y) {
  __shared__ float part[2];
  __shared__ float total;
  int i = threadIdx.x;
  float s = x[i];
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
  if (i % 32 == 0) part[i / 32] = s;
  __syncthreads();
  if (i == 0) total = part[0] + part[1]; // PLANT race
  if (sound) __syncthreads();
  y[i] = x[i] / total; // PLANT race uninit
}

KERNEL matmul_one_barrier(const float *a, const float *b, float *c, int n) {
  __shared__ float p[8][8], q[8][8];
  int tx = threadIdx.x, ty = threadIdx.y;
  float s = 0.0f;
  for (int k = 0; k < n; k += 8) {
    p[ty][tx] = a[ty * n + k + tx]; // PLANT race
    q[ty][tx] = b[(k + ty) * 8 + tx]; // PLANT race
    __syncthreads();
    for (int j = 0; j < 8; j++) s += p[ty][j] * q[j][tx]; // PLANT race
    if (sound) __syncthreads();
  }
  c[ty * 8 + tx] = s;
}

KERNEL transpose_without_barrier(const float *x, float *y) {
  __shared__ float tile[16][17];
  int c = threadIdx.x, r = threadIdx.y;
  tile[r][c] = x[16 * r + c]; // PLANT race
  if (sound) __syncthreads();
  y[16 * r + c] = tile[c][r]; // PLANT race uninit
}

KERNEL barrier_of_a_warp(const float *x, float *y) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i]; // PLANT race
  if (sound) __syncthreads();
  else __syncwarp();
  y[i] = tile[(i + 32) % 64]; // PLANT race uninit
}

KERNEL flag_without_fence(const int *x, int *y) {
  __shared__ int data, ready;
  int i = threadIdx.x;
  if (i == 0) ready = 0;
  __syncthreads();
  if (i == 0) {
    data = x[0]; // PLANT race
    if (sound) __threadfence_block();
    atomicExch(&ready, 1);
  }
  if (i == 32) {
    while (atomicAdd(&ready, 0) == 0) {
    }
    __threadfence_block();
    y[0] = data; // PLANT race
  }
}
