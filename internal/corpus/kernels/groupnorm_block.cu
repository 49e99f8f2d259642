// Group norm: a block for each group of channels of a sample; mean first, then the squared deviations.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 128
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

__device__ float block_sum(float v, float *part) {
  for (int d = 16; d > 0; d /= 2) {
    v += __shfl_xor_sync(ALL, v, d);
  }
  if (threadIdx.x % 32 == 0) {
    part[threadIdx.x / 32] = v;
  }
  __syncthreads();
  v = 0.0f;
  for (int w = 0; w < WARPS; w++) {
    v += part[w];
  }
  __syncthreads();
  return v;
}

extern "C" __global__ void groupnorm_block(const T *x, const T *weight, const T *bias, T *y, int C, int L, int groups,
                                           float eps) {
  __shared__ float part[WARPS];
  int channels = C / groups;
  int first = blockIdx.x % groups * channels;
  int n = channels * L;
  const T *in = x + (size_t)blockIdx.x * n;
  T *out = y + (size_t)blockIdx.x * n;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    sum += float(in[i]);
  }
  float mean = block_sum(sum, part) / float(n);
  float squares = 0.0f;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    float d = float(in[i]) - mean;
    squares += d * d;
  }
  float inv = rsqrtf(block_sum(squares, part) / float(n) + eps);
  for (int i = threadIdx.x; i < n; i += THREADS) {
    int c = first + i / L;
    out[i] = T((float(in[i]) - mean) * inv * float(weight[c]) + float(bias[c]));
  }
}
