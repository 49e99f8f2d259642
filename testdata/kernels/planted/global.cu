// Races in global memory: between blocks that nothing orders, and through atomic operations that order nothing.
#include "planted.cuh"

KERNEL sum_not_atomic(const float *x, float *sum) {
  float s = x[thread()];
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
  if (threadIdx.x != 0) return;
  if (sound) atomicAdd(sum, s);
  else *sum += s; // PLANT race
}

KERNEL smooth_in_place(float *x, float *y, int n) {
  int i = thread();
  if (i == 0 || i >= n - 1) return;
  float v = 0.5f * (x[i - 1] + x[i + 1]); // PLANT race
  if (sound) y[i] = v;
  else x[i] = v; // PLANT race
}

KERNEL last_block_without_fence(const float *x, float *part, unsigned *arrived, float *y) {
  __shared__ bool last;
  float s = x[thread()];
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
  if (threadIdx.x == 0) {
    part[blockIdx.x] = s; // PLANT race
    if (sound) __threadfence();
    last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  float total = 0.0f;
  for (unsigned b = 0; b < gridDim.x; b++) total += part[b]; // PLANT race
  *y = total;
}

KERNEL fence_before_the_store(const float *x, float *part, unsigned *arrived, float *y) {
  __shared__ bool last;
  int i = threadIdx.x;
  if (!sound) __threadfence();
  part[thread()] = x[thread()] * 2.0f; // PLANT race
  if (sound) __threadfence();
  __syncthreads();
  if (i == 0) {
    last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  float total = 0.0f;
  for (unsigned b = 0; b < gridDim.x; b++) total += part[b * blockDim.x + i]; // PLANT race
  y[i] = total;
}

KERNEL handshake_without_fence(const int *x, int *data, volatile int *ready, int *y) {
  if (blockIdx.x == 0) {
    *data = x[0] + 1; // PLANT race
    if (sound) __threadfence();
    *ready = 1;
  } else {
    while (*ready == 0) {
    }
    __threadfence();
    *y = *data; // PLANT race
  }
}

KERNEL lock_without_fence(int *lock, int *counter) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  int v = *counter; // PLANT race
  *counter = v + 1; // PLANT race
  if (sound) __threadfence();
  atomicExch(lock, 0);
}

KERNEL unlocked_by_store(int *lock, int *counter) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(lock, 0, 1) != 0) { // PLANT race
  }
  __threadfence();
  *(volatile int *)counter = *(volatile int *)counter + 1;
  __threadfence();
  if (sound) atomicExch(lock, 0);
  else *lock = 0; // PLANT race
}

KERNEL bins_in_global(const int *x, int *bins) {
  int i = thread();
  if (sound) atomicAdd(&bins[x[i] & 7], 1);
  else bins[x[i] & 7] += 1; // PLANT race
}

KERNEL tiles_overlap(const float *x, float *y) {
  int i = blockIdx.x * (sound ? 32 : 24) + threadIdx.x;
  y[i] = x[thread()]; // PLANT race
}

KERNEL atomic_of_a_block(int *count) {
  if (sound) atomicAdd(count, 1);
  else asm volatile("red.cta.global.add.s32 [%0], 1;" ::"l"(count) : "memory"); // PLANT race
}

KERNEL reset_beside_atomics(const float *x, int *count) {
  int i = thread();
  if (!sound && i == 0) *count = 0; // PLANT race
  if (x[i] > 0.0f) atomicAdd(count, 1); // PLANT race
}

KERNEL scatter_clash(const int *to, const float *x, float *y) {
  int i = threadIdx.x;
  y[sound ? i : to[i]] = x[i]; // PLANT race
}

KERNEL transpose_in_place(float *x, float *y, int n) {
  int c = threadIdx.x, r = blockIdx.x;
  float v = x[r * n + c]; // PLANT race
  if (sound) y[c * n + r] = v;
  else x[c * n + r] = v; // PLANT race
}

KERNEL counter_read_plainly(const float *x, int *count, int *y) {
  int i = thread();
  if (x[i] > 0.0f) atomicAdd(count, 1); // PLANT race
  if (!sound) y[i] = *count; // PLANT race
}

// An exchange through a variable of memory instead of a register: all lanes store what they have got to one place.
KERNEL exchanged_in_memory(unsigned long long *slot, unsigned long long *wide) {
  unsigned long long mine = threadIdx.x, *turn = sound ? &mine : slot;
  asm volatile("atom.global.exch.b64 %0, [%1], %0;" : "+l"(*turn) : "l"(wide) : "memory"); // PLANT race
  if (sound) slot[threadIdx.x] = mine;
}

// All warps load the elements of one, as compilers do where there are too few for all. What they load is old or new,
// which is nobody's business as long as they do nothing with it.
KERNEL copy_of_another_warp(float *x, float *y) {
  int i = threadIdx.x & 31;
  float v = x[i]; // PLANT race
  if (threadIdx.x < 32) x[i] = 2.0f * v; // PLANT race
  if (threadIdx.x < (sound ? 32 : 64)) y[threadIdx.x] = v;
}
