// Reductions: tree in shared memory, shuffles, atomics, votes.
#include "compat.cuh"

__device__ __forceinline__ float warp_sum(float v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

extern "C" __global__ void sum_shared(const float *x, float *out, int n) {
  __shared__ float part[256];
  int t = threadIdx.x;
  float s = 0.0f;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) s += x[i];
  part[t] = s;
  __syncthreads();
  for (int half = 128; half > 0; half >>= 1) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void sum_shuffle(const float *x, float *out, int n) {
  __shared__ float part[32];
  float s = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  s = warp_sum(s);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = s;
  __syncthreads();
  if (threadIdx.x < 32) {
    s = threadIdx.x < (blockDim.x >> 5) ? part[threadIdx.x] : 0.0f;
    s = warp_sum(s);
    if (threadIdx.x == 0) atomicAdd(out, s);
  }
}

// The maximum of floats through an atomic of integers: the order of positive floats is that of their bits.
extern "C" __global__ void max_abs(const float *x, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int bits = i < n ? __float_as_int(fabsf(x[i])) : 0;
  for (int d = 16; d > 0; d >>= 1) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, d));
  if ((threadIdx.x & 31) == 0) atomicMax(out, bits);
}

extern "C" __global__ void argmax(const float *x, int *out, int cols) {
  const float *row = x + (size_t)blockIdx.x * cols;
  float best = -INFINITY;
  int at = 0;
  for (int c = threadIdx.x; c < cols; c += 32)
    if (row[c] > best) best = row[c], at = c;
  for (int d = 16; d > 0; d >>= 1) {
    float other = __shfl_xor_sync(0xffffffffu, best, d);
    int where = __shfl_xor_sync(0xffffffffu, at, d);
    if (other > best || (other == best && where < at)) best = other, at = where;
  }
  if (threadIdx.x == 0) out[blockIdx.x] = at;
}

// Compaction: each warp takes a place with one atomic, each lane counts the lanes before it.
extern "C" __global__ void compact(const int *x, int *out, int *count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  bool keep = i < n && x[i] != 0;
  unsigned votes = __ballot_sync(0xffffffffu, keep);
  int place = 0;
  if (lane == 0) place = atomicAdd(count, __popc(votes));
  place = __shfl_sync(0xffffffffu, place, 0);
  if (keep) out[place + __popc(votes & ((1u << lane) - 1))] = x[i];
}

extern "C" __global__ void all_finite(const float *x, int *flag, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool bad = i < n && !(fabsf(x[i]) < INFINITY);
  if (__any_sync(0xffffffffu, bad) && (threadIdx.x & 31) == 0) atomicExch(flag, 1);
  int total = __syncthreads_count(bad);
  if (threadIdx.x == 0 && total) flag[1 + blockIdx.x] = total;
}
