// GELU in its tanh form: a block for each piece of a row; the input has strides, the output has none.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 128

extern "C" __global__ void gelu_tanh_cuda(const T *x, T *y, int S, int H, int stride_b, int stride_s, int stride_h) {
  int row = blockIdx.x;
  int h = blockIdx.y * THREADS + threadIdx.x;
  if (h >= H) {
    return;
  }
  float v = float(x[(row / S) * stride_b + (row % S) * stride_s + h * stride_h]);
  float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
  y[row * H + h] = T(0.5f * v * (1.0f + tanhf(inner)));
}
