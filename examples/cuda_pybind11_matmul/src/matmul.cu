// C = A·B in float32, row by row, with host memory in and out: what the module calls.
#include <cuda_runtime.h>

namespace {

constexpr int kTile = 16;

// One block computes one tile of C. Elements outside of A and B count as zero in both, so that no product of a NaN
// with a padding arises.
__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k) {
  __shared__ float tile_a[kTile][kTile], tile_b[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile + y, col = blockIdx.x * kTile + x;
  float sum = 0;
  for (int at = 0; at < k; at += kTile) {
    tile_a[y][x] = row < m && at + x < k ? a[static_cast<size_t>(row) * k + at + x] : 0;
    tile_b[y][x] = at + y < k && col < n ? b[static_cast<size_t>(at + y) * n + col] : 0;
    __syncthreads();
    for (int i = 0; i < kTile && at + i < k; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  if (row < m && col < n) c[static_cast<size_t>(row) * n + col] = sum;
}

struct Buffer {
  float *data = nullptr;
  ~Buffer() { cudaFree(data); }
};

cudaError_t run(const float *a, const float *b, float *c, int m, int n, int k) {
  const size_t size_a = sizeof(float) * m * k, size_b = sizeof(float) * k * n, size_c = sizeof(float) * m * n;
  Buffer on_a, on_b, on_c;
  cudaError_t status = cudaMalloc(&on_a.data, size_a);
  if (status == cudaSuccess) status = cudaMalloc(&on_b.data, size_b);
  if (status == cudaSuccess) status = cudaMalloc(&on_c.data, size_c);
  if (status == cudaSuccess) status = cudaMemcpy(on_a.data, a, size_a, cudaMemcpyHostToDevice);
  if (status == cudaSuccess) status = cudaMemcpy(on_b.data, b, size_b, cudaMemcpyHostToDevice);
  if (status != cudaSuccess) return status;
  const dim3 block(kTile, kTile), grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  matmul<<<grid, block>>>(on_a.data, on_b.data, on_c.data, m, n, k);
  status = cudaGetLastError();
  // The copy waits for the kernel and reports what went wrong in it.
  if (status == cudaSuccess) status = cudaMemcpy(c, on_c.data, size_c, cudaMemcpyDeviceToHost);
  return status;
}

}  // namespace

extern "C" int matmul_f32(const float *a, const float *b, float *c, int m, int n, int k) {
  if (m < 0 || n < 0 || k < 0) return cudaErrorInvalidValue;
  if (m == 0 || n == 0) return cudaSuccess;
  return run(a, b, c, m, n, k);
}

extern "C" const char *matmul_error(int status) { return cudaGetErrorString(static_cast<cudaError_t>(status)); }
