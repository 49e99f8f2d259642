// Softmax over rows: a block per row in three passes, and a warp per row with a running maximum.
#include "compat.cuh"

__device__ __forceinline__ float block_max(float v, float *part) {
  for (int d = 16; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = threadIdx.x < (blockDim.x >> 5) ? part[threadIdx.x & 31] : -INFINITY;
  for (int d = 16; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  if (threadIdx.x == 0) part[0] = v;
  __syncthreads();
  v = part[0];
  __syncthreads();
  return v;
}

__device__ __forceinline__ float block_sum(float v, float *part) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = threadIdx.x < (blockDim.x >> 5) ? part[threadIdx.x & 31] : 0.0f;
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  if (threadIdx.x == 0) part[0] = v;
  __syncthreads();
  v = part[0];
  __syncthreads();
  return v;
}

extern "C" __global__ void softmax_block(const float *x, float *y, int cols) {
  __shared__ float part[32];
  const float *in = x + (size_t)blockIdx.x * cols;
  float *out = y + (size_t)blockIdx.x * cols;
  float m = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) m = fmaxf(m, in[c]);
  m = block_max(m, part);
  float s = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) s += expf(in[c] - m);
  s = block_sum(s, part);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = expf(in[c] - m) / s;
}

extern "C" __global__ void softmax_online(const float *x, float *y, int rows, int cols) {
  int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (row >= rows) return;
  const float *in = x + (size_t)row * cols;
  float m = -INFINITY, s = 0.0f;
  for (int c = lane; c < cols; c += 32) {
    float v = in[c], next = fmaxf(m, v);
    s = s * expf(m - next) + expf(v - next);
    m = next;
  }
  for (int d = 16; d > 0; d >>= 1) {
    float om = __shfl_xor_sync(0xffffffffu, m, d), os = __shfl_xor_sync(0xffffffffu, s, d);
    float next = fmaxf(m, om);
    // A lane without an element has m = -inf; the difference of infinities would be NaN.
    s = (m == next ? s : s * expf(m - next)) + (om == next ? os : os * expf(om - next));
    m = next;
  }
  for (int c = lane; c < cols; c += 32) y[(size_t)row * cols + c] = expf(in[c] - m) / s;
}

extern "C" __global__ void cross_entropy(const float *logits, const int64_t *target, float *loss, int cols) {
  __shared__ float part[32];
  const float *in = logits + (size_t)blockIdx.x * cols;
  float m = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) m = fmaxf(m, in[c]);
  m = block_max(m, part);
  float s = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) s += expf(in[c] - m);
  s = block_sum(s, part);
  if (threadIdx.x == 0) {
    int64_t t = target[blockIdx.x];
    loss[blockIdx.x] = t < 0 ? 0.0f : logf(s) + m - in[t];
  }
}
