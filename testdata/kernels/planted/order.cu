// Results that depend on the order of blocks and warps.
#include "planted.cuh"

KERNEL float_sum(const float *x, float *sum, int *exact) {
  int i = thread();
  if (sound) atomicAdd(exact, (int)(x[i] * 1024.0f));
  else atomicAdd(sum, x[i]); // PLANT nondeterministic
}

KERNEL compacted(const float *x, int *y, int *count) {
  int i = thread();
  if (x[i] <= 0.0f) return;
  if (sound) {
    atomicAdd(count, 1);
    atomicAdd(&y[i], i);
  } else {
    int slot = atomicAdd(count, 1);
    y[slot] = i; // PLANT nondeterministic
  }
}

KERNEL first_come(const float *x, int *winner) {
  int i = thread();
  if (x[i] <= 0.5f) return;
  if (sound) atomicMin(winner, i);
  else atomicCAS(winner, 0x7fffffff, i); // PLANT nondeterministic
}

KERNEL last_come(const int *x, int *y) {
  int i = thread();
  if (sound) atomicMax(y, x[i]);
  else atomicExch(y, x[i]); // PLANT nondeterministic
}
