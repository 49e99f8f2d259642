// C = A·B in float32 as a typed custom call of XLA, which jax.ffi registers. Memory is the GPU's; nothing is copied.
#include <cuda_runtime.h>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

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

ffi::Error Matmul(cudaStream_t stream, ffi::Buffer<ffi::F32> a, ffi::Buffer<ffi::F32> b,
                  ffi::ResultBuffer<ffi::F32> c) {
  const auto shape_a = a.dimensions(), shape_b = b.dimensions();
  if (shape_a.size() != 2 || shape_b.size() != 2 || shape_a[1] != shape_b[0]) {
    return ffi::Error::InvalidArgument("shapes do not fit");
  }
  const int m = static_cast<int>(shape_a[0]), n = static_cast<int>(shape_b[1]), k = static_cast<int>(shape_a[1]);
  if (m == 0 || n == 0) return ffi::Error::Success();
  const dim3 block(kTile, kTile), grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  matmul<<<grid, block, 0, stream>>>(a.typed_data(), b.typed_data(), c->typed_data(), m, n, k);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return ffi::Error::Internal(cudaGetErrorString(status));
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(MatmulF32, Matmul,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
