// Asynchronous copies that are read too early, overwritten, or waited for by the wrong threads (sm_80).
#include "planted.cuh"

HELPERS
INTRINSIC void copy_async(float *to, const float *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
INTRINSIC void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> INTRINSIC void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
HELPERS_END

KERNEL copy_not_waited_for(const float *x, float *y) {
  __shared__ float tile[32];
  int i = threadIdx.x;
  copy_async(&tile[i], &x[i]);
  commit();
  if (sound) wait<0>();
  y[i] = 2.0f * tile[i]; // PLANT async_hazard
  wait<0>();
}

KERNEL copy_not_committed(const float *x, float *y) {
  __shared__ float tile[32];
  int i = threadIdx.x;
  copy_async(&tile[i], &x[i]);
  if (sound) commit();
  wait<0>();
  y[i] = tile[i]; // PLANT async_hazard
  asm volatile("cp.async.wait_all;" ::: "memory");
}

KERNEL one_group_too_few(const float *x, float *y, int tiles) {
  __shared__ float tile[3][32];
  int i = threadIdx.x;
  for (int t = 0; t < 2; t++) copy_async(&tile[t][i], &x[32 * t + i]), commit();
  float s = 0.0f;
  for (int t = 0; t < tiles; t++) {
    if (t + 2 < tiles) copy_async(&tile[(t + 2) % 3][i], &x[32 * (t + 2) + i]);
    commit();
    if (sound) wait<2>();
    else wait<3>();
    s += tile[t % 3][i]; // PLANT async_hazard
  }
  wait<0>();
  y[i] = s;
}

KERNEL copies_of_other_threads(const float *x, float *y) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  copy_async(&tile[i], &x[i]); // PLANT race
  commit();
  wait<0>();
  if (sound) __syncthreads();
  y[i] = tile[63 - i]; // PLANT race uninit
}

KERNEL stage_overwritten(const float *x, float *y, int tiles) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  float s = 0.0f;
  for (int t = 0; t < tiles; t++) {
    copy_async(&tile[i], &x[64 * t + i]); // PLANT race
    commit();
    wait<0>();
    __syncthreads();
    s += tile[63 - i]; // PLANT race
    if (sound) __syncthreads();
  }
  y[i] = s;
}

KERNEL written_while_copied(const float *x, float *y) {
  __shared__ float tile[32];
  int i = threadIdx.x;
  copy_async(&tile[i], &x[i]);
  commit();
  if (sound) wait<0>();
  if (i >= 24) tile[i] = 0.0f; // PLANT async_hazard
  wait<0>();
  y[i] = tile[i];
}
