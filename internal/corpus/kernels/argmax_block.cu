// Index of the maximum over the last axis: pairs of value and index, joined by a tree in shared memory. NaN is the
// greatest; of equal ones the first wins.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 64
#define NONE 0x7fffffff

__device__ bool wins(float v, int i, float w, int j) {
  bool v_nan = v != v;
  bool w_nan = w != w;
  if (v_nan || w_nan) {
    return v_nan && (!w_nan || i < j);
  }
  return v > w || (v == w && i < j);
}

extern "C" __global__ void argmax_block(const T *x, long long *y, int H) {
  __shared__ float value[THREADS];
  __shared__ int index[THREADS];
  int t = threadIdx.x;
  const T *in = x + (size_t)blockIdx.x * H;
  float top = -INFINITY;
  int at = NONE;
  for (int h = t; h < H; h += THREADS) {
    float v = float(in[h]);
    if (wins(v, h, top, at)) {
      top = v;
      at = h;
    }
  }
  value[t] = top;
  index[t] = at;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (t < half && wins(value[t + half], index[t + half], value[t], index[t])) {
      value[t] = value[t + half];
      index[t] = index[t + half];
    }
    __syncthreads();
  }
  if (t == 0) {
    y[blockIdx.x] = index[0];
  }
}
