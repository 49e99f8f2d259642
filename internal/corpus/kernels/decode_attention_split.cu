// Attention of one query over the first kv_len keys, the keys split among the warps of a block: each warp has a softmax
// of its own range, and the ranges are merged by their maxima. A short sequence leaves some ranges empty: these warps
// write nothing, and the merge leaves them out. A block has DIMS of the D results of a head.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define SPLITS 4
#define TILE 16 // keys; a split has whole tiles, and the contract of the op begins at 16
#define DIMS (SPLITS * 32)
#define ALL 0xffffffffu

__device__ float score(const T *q, const T *k, int D, float scale) {
  float dot = 0.0f;
  for (int d = threadIdx.x % 32; d < D; d += 32) {
    dot += float(q[d]) * float(k[d]);
  }
  for (int step = 16; step > 0; step /= 2) {
    dot += __shfl_xor_sync(ALL, dot, step);
  }
  return dot * scale;
}

extern "C" __global__ void decode_attention_split(const T *q, const T *k, const T *v, const int *kv_len, T *out, int HQ,
                                                  int HKV, int N, int D) {
  __shared__ float part_top[SPLITS];
  __shared__ float part_sum[SPLITS];
  __shared__ float part_acc[SPLITS][DIMS];
  int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  int b = blockIdx.x / HQ;
  int head = b * HKV + blockIdx.x % HQ / (HQ / HKV);
  int d0 = blockIdx.y * DIMS;
  float scale = 1.0f / sqrtf(float(D));
  const T *query = q + (size_t)blockIdx.x * D;
  const T *keys = k + (size_t)head * N * D;
  const T *values = v + (size_t)head * N * D;

  int len = kv_len[b];
  int tiles = (len + TILE - 1) / TILE;
  int per = (tiles + SPLITS - 1) / SPLITS * TILE;
  int begin = warp * per;
  int end = min(begin + per, len);
  if (begin < end) {
    float top = -INFINITY;
    for (int n = begin; n < end; n++) {
      top = fmaxf(top, score(query, keys + (size_t)n * D, D, scale));
    }
    float shift = top == -INFINITY ? 0.0f : top; // all scores -inf: weights of zero, not NaN
    float sum = 0.0f;
    float acc[SPLITS] = {};
    for (int n = begin; n < end; n++) {
      float w = expf(score(query, keys + (size_t)n * D, D, scale) - shift);
      sum += w;
      for (int i = 0; i < SPLITS; i++) {
        int d = d0 + i * 32 + lane;
        acc[i] += d < D ? w * float(values[(size_t)n * D + d]) : 0.0f;
      }
    }
    for (int i = 0; i < SPLITS; i++) {
      part_acc[warp][i * 32 + lane] = acc[i];
    }
    if (lane == 0) {
      part_top[warp] = top;
      part_sum[warp] = sum;
    }
  }
  __syncthreads();

  float top = -INFINITY;
  for (int s = 0; s < SPLITS; s++) {
    if (s * per < len) {
      top = fmaxf(top, part_top[s]);
    }
  }
  float sum = 0.0f;
  float acc = 0.0f;
  for (int s = 0; s < SPLITS; s++) {
    if (s * per < len) {
      float w = expf(part_top[s] - top);
      sum += w * part_sum[s];
      acc += w * part_acc[s][threadIdx.x];
    }
  }
  if (d0 + threadIdx.x < D) {
    out[(size_t)blockIdx.x * D + d0 + threadIdx.x] = T(acc / sum);
  }
}
