// Running sum over the last axis: a block a row, tile after tile. Within a tile sums of 1, 2, 4 … neighbours are added
// up in shared memory (Hillis and Steele), from buffer to buffer; the total of the tiles before is carried along.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 128

extern "C" __global__ void cumsum_scan(const T *x, T *y, int S, int H, int stride_b, int stride_s, int stride_h) {
  __shared__ float part[2][THREADS];
  int row = blockIdx.x;
  int t = threadIdx.x;
  const T *in = x + (row / S) * stride_b + (row % S) * stride_s;
  float carry = 0.0f;
  for (int h0 = 0; h0 < H; h0 += THREADS) {
    int h = h0 + t;
    int now = 0;
    part[now][t] = h < H ? float(in[h * stride_h]) : 0.0f;
    __syncthreads();
    for (int d = 1; d < THREADS; d *= 2) {
      float left = t >= d ? part[now][t - d] : 0.0f;
      part[1 - now][t] = part[now][t] + left;
      now = 1 - now;
      __syncthreads();
    }
    if (h < H) {
      y[row * H + h] = T(carry + part[now][t]);
    }
    carry += part[now][THREADS - 1];
    __syncthreads();
  }
}
