// Sum over the last axis: a block a row, partial sums of the threads joined by a tree in shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 128

extern "C" __global__ void sum_block(const T *x, T *y, int S, int H, int stride_b, int stride_s, int stride_h) {
  __shared__ float part[THREADS];
  int row = blockIdx.x;
  int t = threadIdx.x;
  const T *in = x + (row / S) * stride_b + (row % S) * stride_s;
  float acc = 0.0f;
  for (int h = t; h < H; h += THREADS) {
    acc += float(in[h * stride_h]);
  }
  part[t] = acc;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (t < half) {
      part[t] += part[t + half];
    }
    __syncthreads();
  }
  if (t == 0) {
    y[row] = T(part[0]);
  }
}
