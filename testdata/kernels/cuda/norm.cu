// Normalisations over the last axis.
#include "compat.cuh"

__device__ __forceinline__ float block_total(float v) {
  __shared__ float part[32];
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  float total = 0.0f;
  for (unsigned w = 0; w < blockDim.x >> 5; w++) total += part[w];
  __syncthreads();
  return total;
}

extern "C" __global__ void layernorm(const float *x, const float *gamma, const float *beta, float *y, int cols,
                                     float eps) {
  const float *in = x + (size_t)blockIdx.x * cols;
  float s = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) s += in[c];
  float mean = block_total(s) / cols;
  float q = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) q += (in[c] - mean) * (in[c] - mean);
  float inv = rsqrtf(block_total(q) / cols + eps);
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    y[(size_t)blockIdx.x * cols + c] = (in[c] - mean) * inv * gamma[c] + beta[c];
}

extern "C" __global__ void rmsnorm(const float *x, const float *w, float *y, int cols, float eps) {
  const float *in = x + (size_t)blockIdx.x * cols;
  float q = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) q += in[c] * in[c];
  float inv = 1.0f / sqrtf(block_total(q) / cols + eps);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) y[(size_t)blockIdx.x * cols + c] = in[c] * inv * w[c];
}

// One warp per row, mean and variance updated element by element (Welford) and then joined pairwise (Chan).
extern "C" __global__ void welford(const float *x, float *mean, float *var, int cols) {
  const float *in = x + (size_t)blockIdx.x * cols;
  float m = 0.0f, q = 0.0f, n = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 32) {
    n += 1.0f;
    float d = in[c] - m;
    m += d / n;
    q += d * (in[c] - m);
  }
  for (int d = 16; d > 0; d >>= 1) {
    float om = __shfl_xor_sync(0xffffffffu, m, d), oq = __shfl_xor_sync(0xffffffffu, q, d);
    float on = __shfl_xor_sync(0xffffffffu, n, d), total = n + on;
    if (total > 0.0f) {
      float delta = om - m;
      m += delta * on / total;
      q += oq + delta * delta * n * on / total;
      n = total;
    }
  }
  if (threadIdx.x == 0) mean[blockIdx.x] = m, var[blockIdx.x] = q / n;
}
