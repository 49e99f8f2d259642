// Batch norm with given moments: a block for each channel of a sample, whose factor and shift it works out once.
// The input has strides.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 64

extern "C" __global__ void batchnorm_channel(const T *x, const T *mean, const T *var, const T *weight, const T *bias,
                                             T *y, int C, int L, int stride_n, int stride_c, int stride_l, float eps) {
  __shared__ float scale;
  __shared__ float centre;
  int n = blockIdx.y;
  int c = blockIdx.x;
  if (threadIdx.x == 0) {
    scale = float(weight[c]) / sqrtf(float(var[c]) + eps);
    centre = float(mean[c]);
  }
  __syncthreads();
  float shift = float(bias[c]);
  for (int l = threadIdx.x; l < L; l += THREADS) {
    float v = float(x[n * stride_n + c * stride_c + l * stride_l]);
    y[(n * C + c) * L + l] = T((v - centre) * scale + shift);
  }
}
