// Matrix products on the ordinary cores: one element per thread, a tile in shared memory, a tile of registers.
#include "compat.cuh"

extern "C" __global__ void matmul_naive(const float *a, const float *b, float *c, int m, int n, int k) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || col >= n) return;
  float acc = 0.0f;
  for (int i = 0; i < k; i++) acc += a[row * k + i] * b[i * n + col];
  c[row * n + col] = acc;
}

extern "C" __global__ void matmul_tile16(const float *a, const float *b, float *c, int m, int n, int k) {
  __shared__ float at[16][16], bt[16][17];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float acc = 0.0f;
  for (int k0 = 0; k0 < k; k0 += 16) {
    at[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.0f;
    bt[ty][tx] = k0 + ty < k && col < n ? b[(k0 + ty) * n + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; i++) acc += at[ty][i] * bt[i][tx];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = acc;
}

// 256 threads, a 64x64 tile of c, 4x4 elements per thread; sizes are multiples of 64.
extern "C" __global__ void __launch_bounds__(256, 2)
matmul_tile64(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n, int k) {
  __shared__ float at[16][64], bt[16][64];
  int t = threadIdx.x, tr = t / 16 * 4, tc = t % 16 * 4;
  size_t r0 = blockIdx.y * 64, c0 = blockIdx.x * 64;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += 16) {
    float4 av = *(const float4 *)(a + (r0 + t / 4) * k + k0 + t % 4 * 4);
    at[t % 4 * 4 + 0][t / 4] = av.x;
    at[t % 4 * 4 + 1][t / 4] = av.y;
    at[t % 4 * 4 + 2][t / 4] = av.z;
    at[t % 4 * 4 + 3][t / 4] = av.w;
    *(float4 *)&bt[t / 16][tc] = *(const float4 *)(b + (size_t)(k0 + t / 16) * n + c0 + tc);
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < 16; i++) {
      float4 x = *(float4 *)&at[i][tr], y = *(float4 *)&bt[i][tc];
      float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int r = 0; r < 4; r++)
#pragma unroll
        for (int q = 0; q < 4; q++) acc[r][q] = fmaf(xs[r], ys[q], acc[r][q]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 4; r++)
    *(float4 *)(c + (r0 + tr + r) * n + c0 + tc) = make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
}

// The tile's size comes with the launch.
extern "C" __global__ void gemv_dynamic(const float *a, const float *x, float *y, int rows, int cols) {
  extern __shared__ float vec[];
  for (int c = threadIdx.x; c < cols; c += blockDim.x) vec[c] = x[c];
  __syncthreads();
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float acc = 0.0f;
  for (int c = 0; c < cols; c++) acc += a[(size_t)row * cols + c] * vec[c];
  y[row] = acc;
}
