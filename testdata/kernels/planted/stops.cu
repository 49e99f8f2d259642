// Kernels that stop themselves.
#include "planted.cuh"

KERNEL assertion_fails(const int *index, const float *x, float *y, int n) {
  int i = thread();
  int from = sound ? index[i] % n : index[i];
  assert(from < n); // PLANT assert
  y[i] = x[from];
}

KERNEL trap_on_nan(const float *x, float *y) {
  int i = thread();
  float v = x[i];
  if (sound ? i < 0 : v != v) __trap(); // PLANT trap
  y[i] = v;
}

KERNEL unreachable_case(const int *kind, int *y) {
  int i = thread(), v = 0;
  switch (sound ? kind[i] & 1 : kind[i]) {
  case 0: v = 1; break;
  case 1: v = -1; break;
  default: __trap(); // PLANT trap
  }
  y[i] = v;
}
