// int8 with a scale for each group of a row: a warp a group, its greatest magnitude by shuffles.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define WARPS 4
#define ALL 0xffffffffu

extern "C" __global__ void quantize_group_cuda(const T *x, signed char *q, float *scale, int R, int C, int group) {
  int groups = (C + group - 1) / group;
  int id = blockIdx.x * WARPS + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (id >= R * groups) {
    return;
  }
  int row = id / groups;
  int first = id % groups * group;
  int last = min(first + group, C);
  const T *in = x + row * C;
  float top = 0.0f;
  for (int c = first + lane; c < last; c += 32) {
    top = fmaxf(top, fabsf(float(in[c])));
  }
  for (int d = 16; d > 0; d /= 2) {
    top = fmaxf(top, __shfl_xor_sync(ALL, top, d));
  }
  float s = fmaxf(top, 1e-10f) / 127.0f;
  for (int c = first + lane; c < last; c += 32) {
    int v = __float2int_rn(float(in[c]) / s);
    q[row * C + c] = (signed char)max(-128, min(127, v));
  }
  if (lane == 0) {
    scale[id] = s;
  }
}
