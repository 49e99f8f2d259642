// Half and bfloat16 through the headers of CUDA, so for nvcc and NVRTC alone.
#include "compat.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void half2_gelu(const __half2 *x, __half2 *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 v = __half22float2(x[i]);
  v.x = 0.5f * v.x * (1.0f + tanhf(0.7978845608f * (v.x + 0.044715f * v.x * v.x * v.x)));
  v.y = 0.5f * v.y * (1.0f + tanhf(0.7978845608f * (v.y + 0.044715f * v.y * v.y * v.y)));
  y[i] = __float22half2_rn(v);
}

extern "C" __global__ void half_dot(const __half2 *x, const __half2 *y, __half *out, int n) {
  __half2 acc = __float2half2_rn(0.0f);
  for (int i = threadIdx.x; i < n; i += 32) acc = __hfma2(x[i], y[i], acc);
  for (int d = 16; d > 0; d >>= 1) acc = __hadd2(acc, __shfl_xor_sync(0xffffffffu, acc, d));
  if (threadIdx.x == 0) *out = __hadd(__low2half(acc), __high2half(acc));
}

extern "C" __global__ void bf16_rmsnorm(const __nv_bfloat16 *x, const __nv_bfloat16 *w, __nv_bfloat16 *y, int cols) {
  const __nv_bfloat16 *in = x + (size_t)blockIdx.x * cols;
  float q = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 32) q += __bfloat162float(in[c]) * __bfloat162float(in[c]);
  for (int d = 16; d > 0; d >>= 1) q += __shfl_xor_sync(0xffffffffu, q, d);
  float inv = rsqrtf(q / cols + 1e-6f);
  for (int c = threadIdx.x; c < cols; c += 32)
    y[(size_t)blockIdx.x * cols + c] = __hmul(__float2bfloat16(__bfloat162float(in[c]) * inv), w[c]);
}

extern "C" __global__ void to_fp8(const float *x, __nv_fp8_e4m3 *a, __nv_fp8_e5m2 *b, float scale, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = __nv_fp8_e4m3(x[i] * scale), b[i] = __nv_fp8_e5m2(x[i] * scale);
}

extern "C" __global__ void half_atomic(const __half *x, __half *out, __nv_bfloat162 *pair, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, x[i]), atomicAdd(pair, __float2bfloat162_rn(1.0f));
}
