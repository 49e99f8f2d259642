// Quantisation of rows to float8_e4m3fn: a block a row, absmax by a tree in shared memory, scale = absmax / 448.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

typedef ELEMENT T;

#define THREADS 128
#define LARGEST 448.0f

extern "C" __global__ void quantize_fp8_row(const T *x, __nv_fp8_storage_t *q, float *scale, int C) {
  __shared__ float part[THREADS];
  int t = threadIdx.x;
  const T *in = x + (size_t)blockIdx.x * C;
  float top = 0.0f;
  for (int c = t; c < C; c += THREADS) {
    top = fmaxf(top, fabsf(float(in[c])));
  }
  part[t] = top;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (t < half) {
      part[t] = fmaxf(part[t], part[t + half]);
    }
    __syncthreads();
  }
  float s = fmaxf(part[0], 1e-10f) / LARGEST;
  for (int c = t; c < C; c += THREADS) {
    float v = fminf(fmaxf(float(in[c]) / s, -LARGEST), LARGEST);
    q[(size_t)blockIdx.x * C + c] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
  }
  if (t == 0) {
    scale[blockIdx.x] = s;
  }
}
