// Values that nobody has set: tails of tiles, accumulators, workspaces; and outputs that nobody writes.
#include "planted.cuh"

KERNEL tail_of_tile(const float *x, float *y, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  if (i < n) tile[i] = x[i];
  else if (sound) tile[i] = 0.0f;
  __syncthreads();
  y[i] = tile[63 - i]; // PLANT uninit
}

KERNEL return_before_fill(const float *x, float *y, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  if (!sound && i >= n) return;
  tile[i] = i < n ? x[i] : 0.0f;
  __syncthreads();
  float s = 0.0f;
  for (int k = 0; k < 64; k++) s += tile[k];
  if (i == 0) *y = s; // PLANT uninit
}

KERNEL accumulator(const float *x, float *y, int n, int skip) {
  int i = threadIdx.x;
  float best;
  if (sound) best = -1.0f;
  for (int k = 0; k < n; k++)
    if (k != skip && (k == 0 || x[k] > best)) best = x[k];
  y[i] = best; // PLANT uninit
}

KERNEL local_not_cleared(const int *x, int *y, int n) {
  int bins[8];
  for (int k = 0; k < (sound ? 8 : 7); k++) bins[k] = 0;
  for (int k = 0; k < n; k++) bins[x[k] & 7]++;
  int sum = 0;
  for (int k = 0; k < 8; k++) sum += bins[(k + threadIdx.x) & 7];
  y[threadIdx.x] = sum; // PLANT uninit
}

KERNEL counter_not_cleared(const float *x, int *y, int n) {
  __shared__ int count;
  int i = threadIdx.x;
  if (sound && i == 0) count = 0;
  __syncthreads();
  if (i < n && x[i] > 0.0f) {
    int slot = atomicAdd(&count, 1);
    y[slot] = i; // PLANT uninit
  }
}

KERNEL flag_not_cleared(const float *x, float *y, int n) {
  __shared__ int found;
  int i = threadIdx.x;
  if (sound && i == 0) found = 0;
  __syncthreads();
  if (i < n && x[i] > 1e6f) found = 1;
  __syncthreads();
  if (found) // PLANT uninit
    y[i] = -1.0f;
}

KERNEL workspace_read_first(const float *x, float *work, float *y) {
  int i = thread();
  if (sound) work[i] = 0.0f;
  work[i] += x[i]; // PLANT uninit
  y[i] = x[i];
}

KERNEL output_accumulated(const float *x, float *y, int n) {
  int i = thread();
  if (i < n) y[i] = (sound ? 0.0f : y[i]) + x[i]; // PLANT uninit
}

KERNEL column_of_matrix(const float *x, float *y) {
  __shared__ float tile[16][17];
  int c = threadIdx.x, r = threadIdx.y;
  if (sound || c != r) tile[r][c] = x[16 * r + c];
  __syncthreads();
  y[16 * r + c] = tile[c][r]; // PLANT uninit
}

KERNEL shuffle_of_nothing(const float *x, float *y) {
  __shared__ float part[8];
  int lane = threadIdx.x;
  if (lane < (sound ? 8 : 4)) part[lane] = x[lane];
  __syncwarp();
  float v = lane < 8 ? part[lane] : 0.0f;
  for (int d = 4; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  if (lane == 0) *y = v; // PLANT uninit
}

KERNEL shuffle_of_ended_lanes(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (!sound && i >= n) return;
  float s = i < n ? x[i] : 0.0f;
  for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
  if (i == 0) *y = s; // PLANT uninit
}

KERNEL last_not_written(const float *x, float *y, int n) {
  int i = thread();
  if (i < (sound ? n : n - 1)) y[i] = x[i]; // PLANT unwritten
}

KERNEL tail_not_written(const float *x, float *y, int n) {
  int i = thread();
  if (i < n / 4) ((float4 *)y)[i] = ((const float4 *)x)[i]; // PLANT unwritten
  if (sound && i < n % 4) y[n / 4 * 4 + i] = x[n / 4 * 4 + i];
}

KERNEL rows_skipped(float *y, int rows, int cols) {
  int row = blockIdx.x * (sound ? 2 : 3) + threadIdx.y;
  if (row < rows)
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[row * cols + c] = row; // PLANT unwritten
}
