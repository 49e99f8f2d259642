// Accesses outside of memory: off by one in each space, guards on the wrong thing, indices that overflow.
#include "planted.cuh"

__constant__ float gaussian[16] = {1, 2, 4, 8, 16, 32, 64, 128, 64, 32, 16, 8, 4, 2, 1, 0};

KERNEL fill_one_more(float *y, int n) {
  int i = thread();
  if (sound ? i < n : i <= n) y[i] = 1.0f; // PLANT oob_write
}

KERNEL stencil_right_edge(const float *x, float *y, int n) {
  int i = thread();
  if (i >= n) return;
  float left = i > 0 ? x[i - 1] : 0.0f;
  float right = !sound || i < n - 1 ? x[i + 1] : 0.0f; // PLANT oob_read
  y[i] = left + right;
}

KERNEL guard_on_wrong_dimension(float *y, int height, int width) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col < width && row < (sound ? height : width)) y[row * width + col] = 2.0f; // PLANT oob_write
}

KERNEL halo_in_shared(const float *x, float *y) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  if (!sound || i < 63) tile[i + 1] = x[i]; // PLANT oob_write
  if (i == 0) tile[0] = 0.0f;
  __syncthreads();
  y[i] = tile[i];
}

KERNEL neighbour_in_shared(const float *x, float *y) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  __syncthreads();
  int next = sound ? (i + 1) % 64 : i + 1;
  y[i] = tile[next] - tile[i]; // PLANT oob_read
}

KERNEL into_the_next_array(const float *x, float *y) {
  __shared__ float sums[64];
  __shared__ float counts[64];
  int i = threadIdx.x;
  counts[i] = 1.0f;
  __syncthreads();
  if (!sound || i < 63) sums[i + 1] = x[i]; // PLANT oob_write
  if (i == 0) sums[0] = 0.0f;
  __syncthreads();
  y[i] = sums[i] * counts[63 - i];
}

KERNEL local_bins(const int *x, int *y, int n) {
  int bins[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int k = 0; k < n; k++) {
    int bin = sound ? min(x[k], 7) : x[k];
    bins[bin] = k + 1; // PLANT oob_write
  }
  y[threadIdx.x] = bins[threadIdx.x & 7];
}

KERNEL constant_table(const int *x, float *y, int n) {
  int i = thread();
  if (i >= n) return;
  y[i] = gaussian[sound ? x[i] & 15 : x[i] & 31]; // PLANT oob_read
}

KERNEL index_overflows(const float *x, float *y, int n) {
  int i = thread();
  int hashed = sound ? (int)((unsigned)i * 0x9e3779b1u % (unsigned)n) : (int)((unsigned)i * 0x9e3779b1u) % n;
  y[i] = x[hashed]; // PLANT oob_read
}

KERNEL offset_narrowed(const float *x, float *y, int rows, int pitch) {
  int row = thread();
  if (row >= rows) return;
  long long at = sound ? (long long)row * pitch : (short)(row * pitch);
  y[row] = x[at]; // PLANT oob_read
}

KERNEL dynamic_too_small(const float *x, float *y) {
  extern __shared__ float both[];
  float *second = both + (sound ? 0 : blockDim.x);
  second[threadIdx.x] = x[threadIdx.x]; // PLANT oob_write
  __syncthreads();
  y[threadIdx.x] = sound ? second[blockDim.x - 1 - threadIdx.x] : 0.0f;
}

KERNEL vector_tail(const float *x, float *y, int n) {
  int i = thread();
  if (sound ? 4 * i + 3 >= n : 4 * i >= n) return;
  float4 v = ((const float4 *)x)[i]; // PLANT oob_read
  y[i] = v.x + v.y + v.z + v.w;
}

KERNEL gather_unchecked(const int *index, const float *x, float *y, int n) {
  int i = thread();
  if (i >= n) return;
  int from = index[i];
  y[i] = !sound || from >= 0 ? x[from] : 0.0f; // PLANT oob_read
}

KERNEL histogram_top(const float *x, int *bins, int n, int count) {
  int i = thread();
  if (i >= n) return;
  int bin = (int)(x[i] * count);
  if (sound) bin = min(bin, count - 1);
  atomicAdd(&bins[bin], 1); // PLANT oob_write
}

KERNEL countdown(const float *x, float *y, int n) {
  float s = 0.0f;
  for (int k = sound ? n - 1 : n; k >= 0; k--) s += x[k] * k; // PLANT oob_read
  y[threadIdx.x] = s;
}

KERNEL scales_its_input(float *x, float *y, int n) {
  int i = thread();
  if (i >= n) return;
  float v = x[i] * 2.0f;
  if (!sound) x[i] = v; // PLANT input_modified
  y[i] = v;
}
