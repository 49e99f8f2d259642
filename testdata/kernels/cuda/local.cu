// Kernels that need memory of a thread: arrays with an index known only at run time, frames, registers that do not fit.
#include "compat.cuh"

extern "C" __global__ void local_index(const float *x, const int *order, float *y, int n) {
  float v[16];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
#pragma unroll
  for (int k = 0; k < 16; k++) v[k] = x[i * 16 + k];
  float s = 0.0f;
  for (int k = 0; k < 16; k++) s = s * 0.5f + v[order[k] & 15];
  y[i] = s;
}

// Insertion sort in a frame of 1 kB. Loops of a known bound stay loops, or nvcc writes thousands of lines.
extern "C" __global__ void local_sort(const int *x, int *y, int len) {
  int v[256];
  int count = len < 256 ? len : 256;
#pragma unroll 1
  for (int k = 0; k < count; k++) {
    int value = x[(blockIdx.x * blockDim.x + threadIdx.x) * len + k], at = k;
#pragma unroll 1
    while (at > 0 && v[at - 1] > value) {
      v[at] = v[at - 1];
      at--;
    }
    v[at] = value;
  }
#pragma unroll 1
  for (int k = 0; k < count; k++) y[(blockIdx.x * blockDim.x + threadIdx.x) * len + k] = v[k];
}

extern "C" __global__ void local_bytes(const char *text, int *out, int len) {
  unsigned char seen[128];
  double weight[8] = {0.5, 0.25, 0.125, 0.0625, 2.0, 4.0, 8.0, 16.0};
#pragma unroll 1
  for (int k = 0; k < 128; k++) seen[k] = 0;
#pragma unroll 1
  for (int k = 0; k < len; k++) seen[text[k] & 127]++;
  double s = 0.0;
#pragma unroll 1
  for (int k = 0; k < 128; k++) s += seen[k] * weight[seen[k] & 7];
  out[threadIdx.x] = (int)s;
}

// 64 running sums that all stay alive: with few registers (a launch bound of 1024 threads leaves 64) some go to memory.
template <int Sums> __device__ __forceinline__ void running_sums(const float *x, float *y, int rows) {
  float acc[Sums];
#pragma unroll
  for (int k = 0; k < Sums; k++) acc[k] = x[threadIdx.x * Sums + k];
#pragma unroll 1
  for (int r = 1; r < rows; r++) {
    float first = acc[0];
#pragma unroll
    for (int k = 0; k < Sums; k++)
      acc[k] = fmaf(acc[k], x[(size_t)r * Sums + (k * 7) % Sums], k + 1 < Sums ? acc[(k + 1) % Sums] : first);
  }
#pragma unroll
  for (int k = 0; k < Sums; k++) y[threadIdx.x * Sums + k] = acc[k];
}

extern "C" __global__ void __launch_bounds__(1024) spill_64(const float *x, float *y, int rows) {
  running_sums<64>(x, y, rows);
}

extern "C" __global__ void __launch_bounds__(1024, 2) spill_96(const float *x, float *y, int rows) {
  running_sums<96>(x, y, rows);
}

extern "C" __global__ void __launch_bounds__(128) spill_none(const float *x, float *y, int rows) {
  running_sums<64>(x, y, rows);
}
