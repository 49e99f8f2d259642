// Weights and indexes of the k experts with the greatest logits: a warp a token. A lane keeps the experts it has given
// away in a mask, which has room for 1024 of them. NaN is the greatest, so that all lanes choose the same expert even
// where the weights mean nothing.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define WARPS 4
#define ALL 0xffffffffu
#define NONE 0x7fffffff

__device__ bool wins(float v, int i, float w, int j) {
  bool v_nan = v != v;
  bool w_nan = w != w;
  if (v_nan || w_nan) {
    return v_nan && (!w_nan || i < j);
  }
  return v > w || (v == w && i < j);
}

extern "C" __global__ void moe_routing_warp(const T *logits, T *weights, int *indices, int R, int E, int k,
                                            int renormalize) {
  int row = blockIdx.x * WARPS + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= R) {
    return;
  }
  const T *in = logits + row * E;
  float top = -INFINITY;
  for (int e = lane; e < E; e += 32) {
    top = fmaxf(top, float(in[e]));
  }
  for (int d = 16; d > 0; d /= 2) {
    top = fmaxf(top, __shfl_xor_sync(ALL, top, d));
  }
  float sum = 0.0f;
  for (int e = lane; e < E; e += 32) {
    sum += expf(float(in[e]) - top);
  }
  for (int d = 16; d > 0; d /= 2) {
    sum += __shfl_xor_sync(ALL, sum, d);
  }
  unsigned taken = 0;
  float chosen = 0.0f; // of lane j: logit of choice j
  float total = 0.0f;
  for (int j = 0; j < k; j++) {
    float best = -INFINITY;
    int at = NONE;
    for (int e = lane; e < E; e += 32) {
      float v = float(in[e]);
      bool free = (taken >> (e / 32) & 1u) == 0;
      if (free && wins(v, e, best, at)) {
        best = v;
        at = e;
      }
    }
    for (int d = 16; d > 0; d /= 2) {
      float other = __shfl_xor_sync(ALL, best, d);
      int other_at = __shfl_xor_sync(ALL, at, d);
      if (wins(other, other_at, best, at)) {
        best = other;
        at = other_at;
      }
    }
    if (at % 32 == lane) {
      taken |= 1u << (at / 32);
    }
    if (lane == j) {
      chosen = expf(best - top) / sum;
      indices[row * k + j] = at;
    }
    total += expf(best - top) / sum;
  }
  if (lane < k) {
    weights[row * k + lane] = T(renormalize ? chosen / total : chosen);
  }
}
