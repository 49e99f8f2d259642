// log(sum(exp(x))) over the last axis: a warp a row, maximum and sum in one pass, the sum rescaled whenever the
// maximum rises.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define WARPS 4
#define ALL 0xffffffffu
#define LOWEST (-3.402823466e+38f) // finite, so that an element of -inf leaves no difference of infinities

extern "C" __global__ void logsumexp_online(const T *x, T *y, int rows, int H) {
  int row = blockIdx.x * WARPS + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) {
    return;
  }
  const T *in = x + (size_t)row * H;
  float top = LOWEST;
  float sum = 0.0f;
  for (int h = lane; h < H; h += 32) {
    float v = float(in[h]);
    float next = fmaxf(top, v);
    sum = sum * expf(top - next) + expf(v - next);
    top = next;
  }
  for (int d = 16; d > 0; d /= 2) {
    float other_top = __shfl_xor_sync(ALL, top, d);
    float other_sum = __shfl_xor_sync(ALL, sum, d);
    float next = fmaxf(top, other_top);
    sum = sum * expf(top - next) + other_sum * expf(other_top - next);
    top = next;
  }
  if (lane == 0) {
    y[row] = T(top + logf(sum));
  }
}
