// Elementwise work: one thread per element, grid-stride loops, vector loads, the usual activations.
#include "compat.cuh"

extern "C" __global__ void add(const float *x, const float *y, float *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}

extern "C" __global__ void saxpy(float a, const float *__restrict__ x, float *__restrict__ y, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    y[i] = fmaf(a, x[i], y[i]);
}

extern "C" __global__ void gelu(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  float u = 0.7978845608f * (v + 0.044715f * v * v * v);
  y[i] = 0.5f * v * (1.0f + tanhf(u));
}

extern "C" __global__ void silu(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / (1.0f + expf(-x[i]));
}

extern "C" __global__ void leaky_relu(const float *x, float *y, float slope, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
}

// A block of four per thread, the remainder by the last threads one by one.
extern "C" __global__ void __launch_bounds__(256) relu_vec4(const float4 *x, float4 *y, int n4, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n4) {
    float4 v = x[i];
    y[i] = make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f), fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f));
  }
  int tail = n4 * 4 + i;
  if (i < 4 && tail < n) ((float *)y)[tail] = fmaxf(((const float *)x)[tail], 0.0f);
}

// Mangled names, one per type.
template <class T, int Unroll> __global__ void scale_shift(const T *x, T *y, T a, T b, int n) {
  int start = (blockIdx.x * blockDim.x + threadIdx.x) * Unroll;
#pragma unroll
  for (int k = 0; k < Unroll; k++)
    if (start + k < n) y[start + k] = a * x[start + k] + b;
}
template __global__ void scale_shift<float, 4>(const float *, float *, float, float, int);
template __global__ void scale_shift<double, 2>(const double *, double *, double, double, int);
template __global__ void scale_shift<short, 1>(const short *, short *, short, short, int);

// The rotary embedding: pairs of elements turned by an angle of their position.
extern "C" __global__ void rotary(float *x, const float *freq, int rows, int half) {
  int row = blockIdx.x, k = threadIdx.x;
  if (row >= rows || k >= half) return;
  float angle = row * freq[k], c = cosf(angle), s = sinf(angle);
  float *p = x + (size_t)row * 2 * half;
  float lo = p[k], hi = p[k + half];
  p[k] = lo * c - hi * s;
  p[k + half] = hi * c + lo * s;
}
