// What a kernel says to the host: printf with and without arguments, assertions.
#include "compat.cuh"

extern "C" __global__ void print_values(const float *x, int n) {
  if (threadIdx.x == 0) printf("start\n");
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && !(x[i] == x[i])) printf("%d: x[%d] = %f (%s)\n", blockIdx.x, i, x[i], "not a number");
}

extern "C" __global__ void checked_index(const int *index, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(index[i] >= 0 && index[i] < n);
  y[i] = x[index[i]];
}
