// Tensor cores through the C++ interface, whose layout of fragments stays hidden; for nvcc and NVRTC alone.
#include "compat.cuh"
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_f16(const half *a, const half *b, float *c, int n, int k) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  for (int k0 = 0; k0 < k; k0 += 16) {
    wmma::load_matrix_sync(fa, a + (size_t)blockIdx.y * 16 * k + k0, k);
    wmma::load_matrix_sync(fb, b + (size_t)blockIdx.x * 16 * k + k0, k);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  wmma::store_matrix_sync(c + (size_t)blockIdx.y * 16 * n + blockIdx.x * 16, acc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_s8(const signed char *a, const signed char *b, int *c) {
  __shared__ signed char as[32 * 16];
  for (int i = threadIdx.x; i < 32 * 16; i += 32) as[i] = a[i];
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 32, 8, 16, int> acc;
  wmma::load_matrix_sync(fa, as, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::load_matrix_sync(acc, c, 8, wmma::mem_row_major);
  wmma::mma_sync(acc, fa, fb, acc);
  wmma::store_matrix_sync(c, acc, 8, wmma::mem_row_major);
}
