// Attention for one query row per warp, and with a running maximum over tiles of keys in shared memory.
#include "compat.cuh"

// Scores of a row in dynamic shared memory, then softmax, then the weighted sum of values.
extern "C" __global__ void attention_row(const float *q, const float *k, const float *v, float *o, int len, int dim,
                                         float scale, bool causal) {
  extern __shared__ float score[];
  int row = blockIdx.x, head = blockIdx.y, lane = threadIdx.x;
  size_t offset = (size_t)head * len * dim;
  const float *qr = q + offset + (size_t)row * dim;
  int last = causal ? row + 1 : len;
  float m = -INFINITY;
  for (int j = lane; j < last; j += 32) {
    float dot = 0.0f;
    for (int d = 0; d < dim; d++) dot = fmaf(qr[d], k[offset + (size_t)j * dim + d], dot);
    score[j] = dot * scale;
    m = fmaxf(m, score[j]);
  }
  for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
  float s = 0.0f;
  for (int j = lane; j < last; j += 32) s += score[j] = expf(score[j] - m);
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
  __syncwarp();
  for (int d = lane; d < dim; d += 32) {
    float acc = 0.0f;
    for (int j = 0; j < last; j++) acc += score[j] * v[offset + (size_t)j * dim + d];
    o[offset + (size_t)row * dim + d] = acc / s;
  }
}

// 64 threads, one query each, keys in tiles of 32; dim is 32.
extern "C" __global__ void __launch_bounds__(64)
attention_online(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v,
                 float *__restrict__ o, int len, float scale) {
  __shared__ float ks[32][32], vs[32][32];
  int row = blockIdx.x * 64 + threadIdx.x;
  float query[32], acc[32], m = -INFINITY, l = 0.0f;
#pragma unroll
  for (int d = 0; d < 32; d++) query[d] = row < len ? q[row * 32 + d] : 0.0f, acc[d] = 0.0f;
  for (int j0 = 0; j0 < len; j0 += 32) {
    for (int i = threadIdx.x; i < 32 * 32; i += 64) {
      bool in = j0 + i / 32 < len;
      ks[i / 32][i % 32] = in ? k[j0 * 32 + i] : 0.0f;
      vs[i / 32][i % 32] = in ? v[j0 * 32 + i] : 0.0f;
    }
    __syncthreads();
    for (int j = 0; j < min(32, len - j0); j++) {
      float dot = 0.0f;
#pragma unroll
      for (int d = 0; d < 32; d++) dot += query[d] * ks[j][d];
      float next = fmaxf(m, dot * scale), alpha = expf(m - next), p = expf(dot * scale - next);
      l = l * alpha + p;
#pragma unroll
      for (int d = 0; d < 32; d++) acc[d] = acc[d] * alpha + p * vs[j][d];
      m = next;
    }
    __syncthreads();
  }
  if (row >= len) return;
#pragma unroll
  for (int d = 0; d < 32; d++) o[row * 32 + d] = acc[d] / l;
}
