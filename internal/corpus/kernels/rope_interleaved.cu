// Rotary embedding of neighbouring pairs: a thread a pair, strided input.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

extern "C" __global__ void rope_interleaved(const T *x, const T *cos, const T *sin, T *y, int n, int S, int H, int D,
                                            int stride_b, int stride_s, int stride_h, int stride_d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  int half = D / 2;
  int pair = i % half;
  int h = i / half % H;
  int s = i / half / H % S;
  int b = i / half / H / S;
  const T *in = x + b * stride_b + s * stride_s + h * stride_h + 2 * pair * stride_d;
  float x1 = float(in[0]);
  float x2 = float(in[stride_d]);
  float c = float(cos[s * half + pair]);
  float r = float(sin[s * half + pair]);
  y[2 * i] = T(x1 * c - x2 * r);
  y[2 * i + 1] = T(x2 * c + x1 * r);
}
