// x over the Euclidean norm of its row, at least eps: a block a row, strided input.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 64

extern "C" __global__ void l2norm_block(const T *x, T *y, int S, int H, int stride_b, int stride_s, int stride_h,
                                        float eps) {
  __shared__ float part[THREADS];
  int row = blockIdx.x;
  int t = threadIdx.x;
  const T *in = x + (row / S) * stride_b + (row % S) * stride_s;
  float squares = 0.0f;
  for (int h = t; h < H; h += THREADS) {
    float v = float(in[h * stride_h]);
    squares += v * v;
  }
  part[t] = squares;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (t < half) {
      part[t] += part[t + half];
    }
    __syncthreads();
  }
  float norm = sqrtf(part[0]);
  norm = norm < eps ? eps : norm; // a NaN stays one
  for (int h = t; h < H; h += THREADS) {
    y[row * H + h] = T(float(in[h * stride_h]) / norm);
  }
}
