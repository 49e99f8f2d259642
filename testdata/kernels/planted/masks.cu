// Member masks that name lanes which do not come, or leave out some that do.
#include "planted.cuh"

KERNEL sum_in_branch(const float *x, float *y, int n) {
  int i = threadIdx.x;
  float s = i < n ? x[i] : 0.0f;
  if (sound || i < n) {
    for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d); // PLANT bad_mask
  }
  y[i] = s;
}

KERNEL half_a_mask(const float *x, float *y) {
  int i = threadIdx.x;
  float v = x[i];
  y[i] = v + __shfl_xor_sync(sound ? 0xffffffffu : 0x0000ffffu, v, 1); // PLANT bad_mask
}

KERNEL warp_barrier_in_branch(const int *x, int *y) {
  __shared__ int slot[32];
  int lane = threadIdx.x;
  slot[lane] = x[lane];
  if (sound) __syncwarp();
  if (lane < 8) {
    __syncwarp(sound ? 0xff : 0xffff); // PLANT bad_mask
    y[lane] = slot[lane ^ 1];
  } else {
    y[lane] = -slot[lane];
  }
}

KERNEL masks_differ(const int *x, int *y) {
  int lane = threadIdx.x;
  unsigned mask = sound || lane < 16 ? 0xffffffffu : 0xffff0000u;
  y[lane] = __shfl_xor_sync(mask, x[lane], 1); // PLANT bad_mask
}

KERNEL vote_in_uneven_loop(const int *x, int *y) {
  int lane = threadIdx.x, rounds = 0;
  for (int k = 0; k < (sound ? 4 : x[lane]); k++)
    if (__any_sync(0xffffffffu, k < lane)) rounds++; // PLANT bad_mask
  y[lane] = rounds;
}

KERNEL mask_of_another_branch(const float *x, float *y) {
  int lane = threadIdx.x;
  float v = x[lane];
  unsigned positive = __ballot_sync(0xffffffffu, v > 0.0f);
  if (v > 0.0f) v += __shfl_sync(positive, v, __ffs(positive) - 1);
  else v -= __shfl_sync(sound ? ~positive : positive, v, __ffs(~positive) - 1); // PLANT bad_mask
  y[lane] = v;
}

KERNEL leader_alone(int *count, int *y) {
  int lane = threadIdx.x, first = 0;
  if (lane == 0) {
    first = atomicAdd(count, 32);
    if (!sound) first = __shfl_sync(0xffffffffu, first, 0); // PLANT bad_mask
  }
  if (sound) first = __shfl_sync(0xffffffffu, first, 0);
  y[lane] = first + lane;
}
