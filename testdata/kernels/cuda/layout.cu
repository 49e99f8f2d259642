// Work that moves or combines neighbours: scan, transpose, convolution, pooling, stencil.
#include "compat.cuh"

__constant__ float taps[7] = {0.03125f, 0.109375f, 0.21875f, 0.28125f, 0.21875f, 0.109375f, 0.03125f};

extern "C" __global__ void scan_block(const float *x, float *y, float *totals, int n) {
  __shared__ float warp_total[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float v = i < n ? x[i] : 0.0f;
  for (int d = 1; d < 32; d <<= 1) {
    float before = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += before;
  }
  if (lane == 31) warp_total[warp] = v;
  __syncthreads();
  if (warp == 0) {
    float t = warp_total[lane];
    for (int d = 1; d < 32; d <<= 1) {
      float before = __shfl_up_sync(0xffffffffu, t, d);
      if (lane >= d) t += before;
    }
    warp_total[lane] = t;
  }
  __syncthreads();
  if (warp > 0) v += warp_total[warp - 1];
  if (i < n) y[i] = v;
  if (threadIdx.x == blockDim.x - 1) totals[blockIdx.x] = v;
}

extern "C" __global__ void transpose(const float *x, float *y, int rows, int cols) {
  __shared__ float tile[32][33];
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (row + j < rows && col < cols) tile[threadIdx.y + j][threadIdx.x] = x[(size_t)(row + j) * cols + col];
  __syncthreads();
  int out_col = blockIdx.y * 32 + threadIdx.x, out_row = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (out_row + j < cols && out_col < rows)
      y[(size_t)(out_row + j) * rows + out_col] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void conv1d_same(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float acc = 0.0f;
  for (int t = 0; t < 7; t++) {
    int j = i + t - 3;
    if (j >= 0 && j < n) acc += taps[t] * x[j];
  }
  y[i] = acc;
}

struct Conv {
  int height, width, in, out, stride, pad;
};

// The sizes travel as one struct by value: a .param with an alignment and offsets.
extern "C" __global__ void conv2d3x3(const float *x, const float *w, float *y, Conv s) {
  int ox = blockIdx.x * blockDim.x + threadIdx.x, oy = blockIdx.y * blockDim.y + threadIdx.y, oc = blockIdx.z;
  int oh = (s.height + 2 * s.pad - 3) / s.stride + 1, ow = (s.width + 2 * s.pad - 3) / s.stride + 1;
  if (ox >= ow || oy >= oh) return;
  float acc = 0.0f;
  for (int ic = 0; ic < s.in; ic++)
#pragma unroll
    for (int ky = 0; ky < 3; ky++)
#pragma unroll
      for (int kx = 0; kx < 3; kx++) {
        int iy = oy * s.stride + ky - s.pad, ix = ox * s.stride + kx - s.pad;
        if (iy >= 0 && iy < s.height && ix >= 0 && ix < s.width)
          acc += x[(ic * s.height + iy) * s.width + ix] * w[((oc * s.in + ic) * 3 + ky) * 3 + kx];
      }
  y[(oc * oh + oy) * ow + ox] = acc;
}

extern "C" __global__ void maxpool2(const float *x, float *y, int height, int width) {
  int ox = blockIdx.x * blockDim.x + threadIdx.x, oy = blockIdx.y;
  if (ox >= width / 2) return;
  const float2 top = ((const float2 *)(x + (size_t)oy * 2 * width))[ox];
  const float2 bottom = ((const float2 *)(x + ((size_t)oy * 2 + 1) * width))[ox];
  y[(size_t)oy * (width / 2) + ox] = fmaxf(fmaxf(top.x, top.y), fmaxf(bottom.x, bottom.y));
}

extern "C" __global__ void stencil5(const double *x, double *y, int nx, int ny, double w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < 1 || j < 1 || i >= nx - 1 || j >= ny - 1) return;
  size_t c = (size_t)j * nx + i;
  y[c] = x[c] + w * (x[c - 1] + x[c + 1] + x[c - nx] + x[c + nx] - 4.0 * x[c]);
}
