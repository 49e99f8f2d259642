// Attention of one query a sequence over the first kv_len keys: a block for each head. Keys come in tiles; the running
// maximum and sum are rescaled once a tile. Keys and values have strides, as in a cache.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 64
#define WARPS (THREADS / 32)
#define KEYS 32 // of a tile
#define ALL 0xffffffffu
#define LOWEST (-3.402823466e+38f) // finite, so that a score of -inf leaves no difference of infinities

extern "C" __global__ void decode_attention_online(const T *q, const T *k, const T *v, const int *kv_len, T *y, int HQ,
                                                   int HKV, int D, int stride_kb, int stride_kh, int stride_kn,
                                                   int stride_kd, int stride_vb, int stride_vh, int stride_vn,
                                                   int stride_vd) {
  extern __shared__ float acc[]; // D sums, an element belongs to one thread
  __shared__ float score[KEYS];
  int t = threadIdx.x;
  int b = blockIdx.y;
  int head = blockIdx.x;
  int group = head / (HQ / HKV);
  int len = kv_len[b];
  float scale = 1.0f / sqrtf(float(D));
  const T *query = q + (b * HQ + head) * D;
  const T *keys = k + b * stride_kb + group * stride_kh;
  const T *values = v + b * stride_vb + group * stride_vh;
  for (int d = t; d < D; d += THREADS) {
    acc[d] = 0.0f;
  }
  float top = LOWEST;
  float sum = 0.0f;
  for (int n0 = 0; n0 < len; n0 += KEYS) {
    int count = min(KEYS, len - n0);
    for (int j = t / 32; j < count; j += WARPS) {
      float dot = 0.0f;
      for (int d = t % 32; d < D; d += 32) {
        dot += float(query[d]) * float(keys[(n0 + j) * stride_kn + d * stride_kd]);
      }
      for (int m = 16; m > 0; m /= 2) {
        dot += __shfl_xor_sync(ALL, dot, m);
      }
      if (t % 32 == 0) {
        score[j] = dot * scale;
      }
    }
    __syncthreads();
    float next = top;
    for (int j = 0; j < count; j++) {
      next = fmaxf(next, score[j]);
    }
    float alpha = expf(top - next);
    __syncthreads();
    if (t < count) {
      score[t] = expf(score[t] - next);
    }
    __syncthreads();
    sum *= alpha;
    for (int j = 0; j < count; j++) {
      sum += score[j];
    }
    for (int d = t; d < D; d += THREADS) {
      float part = 0.0f;
      for (int j = 0; j < count; j++) {
        part += score[j] * float(values[(n0 + j) * stride_vn + d * stride_vd]);
      }
      acc[d] = acc[d] * alpha + part;
    }
    top = next;
    __syncthreads();
  }
  for (int d = t; d < D; d += THREADS) {
    y[(b * HQ + head) * D + d] = T(acc[d] / sum);
  }
}
