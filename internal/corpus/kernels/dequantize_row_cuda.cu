// int8 times the scale of its row: four elements a thread, strided input.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 64
#define EACH 4

extern "C" __global__ void dequantize_row_cuda(const signed char *q, const float *scale, T *y, int C, int stride_r,
                                               int stride_c) {
  int row = blockIdx.y;
  int first = (blockIdx.x * THREADS + threadIdx.x) * EACH;
  float s = scale[row];
  for (int c = first; c < min(first + EACH, C); c++) {
    y[row * C + c] = T(float(q[row * stride_r + c * stride_c]) * s);
  }
}
