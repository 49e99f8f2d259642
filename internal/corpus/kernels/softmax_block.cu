// Softmax of a row by one block: maximum, sum of exponentials, quotient; both reductions by shuffles within a warp and
// through shared memory between warps.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 128
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

__device__ float block_max(float v, float *part) {
  for (int d = 16; d > 0; d /= 2) {
    v = fmaxf(v, __shfl_xor_sync(ALL, v, d));
  }
  if (threadIdx.x % 32 == 0) {
    part[threadIdx.x / 32] = v;
  }
  __syncthreads();
  v = part[0];
  for (int w = 1; w < WARPS; w++) {
    v = fmaxf(v, part[w]);
  }
  __syncthreads();
  return v;
}

__device__ float block_sum(float v, float *part) {
  for (int d = 16; d > 0; d /= 2) {
    v += __shfl_xor_sync(ALL, v, d);
  }
  if (threadIdx.x % 32 == 0) {
    part[threadIdx.x / 32] = v;
  }
  __syncthreads();
  v = part[0];
  for (int w = 1; w < WARPS; w++) {
    v += part[w];
  }
  __syncthreads();
  return v;
}

extern "C" __global__ void softmax_block(const T *x, T *y, int H) {
  __shared__ float part[WARPS];
  const T *in = x + (size_t)blockIdx.x * H;
  T *out = y + (size_t)blockIdx.x * H;
  float top = -INFINITY;
  for (int h = threadIdx.x; h < H; h += THREADS) {
    top = fmaxf(top, float(in[h]));
  }
  top = block_max(top, part);
  float sum = 0.0f;
  for (int h = threadIdx.x; h < H; h += THREADS) {
    sum += expf(float(in[h]) - top);
  }
  sum = block_sum(sum, part);
  for (int h = threadIdx.x; h < H; h += THREADS) {
    out[h] = T(expf(float(in[h]) - top) / sum);
  }
}
