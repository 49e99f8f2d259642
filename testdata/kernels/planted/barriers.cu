// Barriers that not all threads reach, or not together; and threads that wait for what never comes.
#include "planted.cuh"

INTRINSIC float halved(float *tile, int i) {
  __syncthreads(); // PLANT barrier_divergence of barrier_in_function
  return 0.5f * tile[63 - i];
}

KERNEL barrier_in_branch(const float *x, float *y, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  if (sound || i < n) __syncthreads(); // PLANT barrier_divergence
  y[i] = i < n ? tile[(i + 1) % n] : 0.0f;
}

KERNEL barrier_in_both_branches(const float *x, float *y) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  if (sound ? i < 32 : i % 2 == 0) {
    tile[i] = x[i];
    __syncthreads(); // PLANT barrier_divergence
  } else {
    tile[i] = 2.0f * x[i] + 1.0f;
    __syncthreads(); // PLANT barrier_divergence
  }
  y[i] = tile[63 - i];
}

KERNEL barrier_in_uneven_loop(const float *x, float *y, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  float s = 0.0f;
  for (int k = sound ? 0 : i; k < n; k += 64) {
    tile[i] = sound && k + i >= n ? 0.0f : x[sound ? k + i : k];
    __syncthreads(); // PLANT barrier_divergence
    s += tile[63 - i];
    __syncthreads(); // PLANT barrier_divergence
  }
  y[i] = s;
}

KERNEL barrier_decided_by_data(const float *x, float *y) {
  int i = threadIdx.x;
  int large = 0;
  if (sound || x[i] > 0.0f) large = __syncthreads_count(x[i] > 1.0f); // PLANT barrier_divergence
  y[i] = large;
}

KERNEL barrier_in_function(const float *x, float *y, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  if (sound || i < n) y[i] = halved(tile, i);
  else y[i] = -tile[i];
}

KERNEL too_few_for_the_barrier(const float *x, float *y) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  if (sound) asm volatile("bar.sync 1, 64;" ::: "memory");
  else asm volatile("bar.sync 1, 96;" ::: "memory"); // PLANT deadlock
  y[i] = tile[63 - i];
}

KERNEL consumers_alone(const float *x, float *y) {
  __shared__ float tile[32];
  int i = threadIdx.x;
  if (i < 32) {
    tile[i] = x[i];
    if (sound) asm volatile("bar.arrive 2, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 64;" ::: "memory"); // PLANT deadlock
    y[i - 32] = tile[63 - i];
  }
}

KERNEL barriers_crossed(const float *x, float *y) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  if (sound || i < 32) asm volatile("bar.sync 1, 64;\n\tbar.sync 2, 64;" ::: "memory"); // PLANT deadlock
  else asm volatile("bar.sync 2, 64;\n\tbar.sync 1, 64;" ::: "memory"); // PLANT deadlock
  y[i] = tile[63 - i];
}

KERNEL wrong_parity(float *y) {
  __shared__ __align__(8) uint64_t full;
  unsigned barrier = shared_address(&full);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(barrier) : "memory");
  __syncthreads();
  y[threadIdx.x] = 1.0f;
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier) : "memory");
  int done = 0;
  for (int tries = 0; !done; tries++) // PLANT deadlock
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }" // PLANT deadlock
                 : "=r"(done) : "r"(barrier), "r"(sound ? 0 : 1) : "memory");
}

KERNEL waits_for_one_block_more(volatile unsigned *arrived) {
  if (threadIdx.x != 0) return;
  __threadfence();
  atomicAdd((unsigned *)arrived, 1u);
  while (*arrived < gridDim.x + (sound ? 0 : 1)) { // PLANT deadlock
  }
}

KERNEL lock_never_released(int *lock, volatile int *counter) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(lock, 0, 1) != 0) { // PLANT deadlock
  }
  __threadfence();
  *counter = *counter + 1;
  __threadfence();
  if (sound || *counter < 0) atomicExch(lock, 0);
}
