// Maximum over the last axis: a warp a row, four rows a block, joined by shuffles. A NaN is the maximum of its row.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define WARPS 4
#define ALL 0xffffffffu

__device__ float greater(float v, float w) {
  return v > w || v != v ? v : w;
}

extern "C" __global__ void max_warp(const T *x, T *y, int rows, int S, int H, int stride_b, int stride_s,
                                    int stride_h) {
  int row = blockIdx.x * WARPS + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) {
    return;
  }
  const T *in = x + (row / S) * stride_b + (row % S) * stride_s;
  float top = -INFINITY;
  for (int h = lane; h < H; h += 32) {
    top = greater(float(in[h * stride_h]), top);
  }
  for (int d = 16; d > 0; d /= 2) {
    top = greater(__shfl_down_sync(ALL, top, d), top);
  }
  if (lane == 0) {
    y[row] = T(top);
  }
}
