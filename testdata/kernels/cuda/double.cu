// Double precision: dot product, Horner's scheme, one Jacobi step, complex product.
#include "compat.cuh"

extern "C" __global__ void dot_f64(const double *x, const double *y, double *out, int n) {
  __shared__ double part[128];
  double s = 0.0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) s = fma(x[i], y[i], s);
  part[threadIdx.x] = s;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if ((int)threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}

extern "C" __global__ void polynomial(const double *x, double *y, int n) {
  const double coefficient[6] = {1.0, 1.0, 0.5, 0x1.5555555555555p-3, 0x1.5555555555555p-5, 0x1.1111111111111p-7};
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double p = coefficient[5];
  for (int k = 4; k >= 0; k--) p = p * x[i] + coefficient[k];
  y[i] = sqrt(fabs(p)) / (1.0 + p * p);
}

extern "C" __global__ void jacobi(const double *a, const double *b, const double *x, double *next, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  double s = b[row];
  for (int c = 0; c < n; c++)
    if (c != row) s -= a[(size_t)row * n + c] * x[c];
  next[row] = s / a[(size_t)row * n + row];
}

extern "C" __global__ void complex_product(const double2 *x, const double2 *y, double2 *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double2 u = x[i], v = y[i];
  z[i].x = u.x * v.x - u.y * v.y;
  z[i].y = u.x * v.y + u.y * v.x;
}

extern "C" __global__ void mixed_widths(const double *x, float *f, int *i32, int64_t *i64, unsigned short *u16, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  f[i] = (float)x[i];
  i32[i] = (int)x[i];
  i64[i] = (int64_t)x[i];
  u16[i] = (unsigned short)x[i];
}
