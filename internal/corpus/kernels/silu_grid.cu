// SiLU, x / (1 + exp(-x)), of a contiguous tensor: a grid that does not grow with it, every thread strides on.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

extern "C" __global__ void silu_grid(const T *x, T *y, int n) {
  int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    float v = float(x[i]);
    float e = expf(-v);
    y[i] = T(v / (1.0f + e));
  }
}
