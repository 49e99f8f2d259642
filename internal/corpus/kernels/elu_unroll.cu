// ELU: a block takes four tiles side by side, a thread one element of each.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 64
#define TILES 4

extern "C" __global__ void elu_unroll(const T *x, T *y, int n, float alpha) {
  int first = blockIdx.x * THREADS * TILES + threadIdx.x;
  for (int tile = 0; tile < TILES; tile++) {
    int i = first + tile * THREADS;
    if (i < n) {
      float v = float(x[i]);
      y[i] = T(v > 0.0f ? v : alpha * expm1f(v));
    }
  }
}
