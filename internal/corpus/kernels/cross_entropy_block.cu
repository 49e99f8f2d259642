// Cross entropy of a row of logits with smoothed labels: a block a row, sums of exponentials and of logits at once.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 64
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

extern "C" __global__ void cross_entropy_block(const T *logits, const long long *target, T *loss, int C,
                                               int ignore_index, float smoothing) {
  __shared__ float part_top[WARPS];
  __shared__ float part_sum[WARPS];
  __shared__ float part_mean[WARPS];
  int row = blockIdx.x;
  int t = threadIdx.x;
  const T *in = logits + (size_t)row * C;
  float top = -INFINITY;
  for (int c = t; c < C; c += THREADS) {
    top = fmaxf(top, float(in[c]));
  }
  for (int d = 16; d > 0; d /= 2) {
    top = fmaxf(top, __shfl_xor_sync(ALL, top, d));
  }
  if (t % 32 == 0) {
    part_top[t / 32] = top;
  }
  __syncthreads();
  for (int w = 0; w < WARPS; w++) {
    top = fmaxf(top, part_top[w]);
  }
  float sum = 0.0f;
  float mean = 0.0f; // of the logits, less the maximum
  for (int c = t; c < C; c += THREADS) {
    float v = float(in[c]) - top;
    sum += expf(v);
    mean += v / float(C);
  }
  for (int d = 16; d > 0; d /= 2) {
    sum += __shfl_xor_sync(ALL, sum, d);
    mean += __shfl_xor_sync(ALL, mean, d);
  }
  if (t % 32 == 0) {
    part_sum[t / 32] = sum;
    part_mean[t / 32] = mean;
  }
  __syncthreads();
  if (t == 0) {
    sum = 0.0f;
    mean = 0.0f;
    for (int w = 0; w < WARPS; w++) {
      sum += part_sum[w];
      mean += part_mean[w];
    }
    int label = int(target[row]);
    float value = 0.0f;
    if (label != ignore_index) {
      float own = logf(sum) - (float(in[label]) - top);
      float all = logf(sum) - mean;
      value = smoothing > 0.0f ? (1.0f - smoothing) * own + smoothing * all : own;
    }
    loss[row] = T(value);
  }
}
