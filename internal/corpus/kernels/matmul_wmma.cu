// Matrix product on tensor cores: four warps a block, 16x16 of the product each. Ragged edges are filled with zeros in
// shared memory, so fragments are always whole; the product goes back through shared memory for the same reason.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;
typedef ELEMENT T;

#define EDGE 32 // of the block's tile
#define STEP 16 // along K
#define THREADS 128

extern "C" __global__ void matmul_wmma(const T *a, const T *b, T *c, int M, int N, int K) {
  __shared__ __align__(32) T as[EDGE][STEP];
  __shared__ __align__(32) T bs[STEP][EDGE];
  __shared__ __align__(32) float cs[EDGE][EDGE];
  int t = threadIdx.x;
  int row0 = blockIdx.y * EDGE;
  int col0 = blockIdx.x * EDGE;
  int r = t / 64 * 16;
  int q = t / 32 % 2 * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  for (int k0 = 0; k0 < K; k0 += STEP) {
    for (int i = t; i < EDGE * STEP; i += THREADS) {
      int row = row0 + i / STEP;
      int k = k0 + i % STEP;
      as[i / STEP][i % STEP] = row < M && k < K ? a[row * K + k] : T(0.0f);
    }
    for (int i = t; i < STEP * EDGE; i += THREADS) {
      int k = k0 + i / EDGE;
      int col = col0 + i % EDGE;
      bs[i / EDGE][i % EDGE] = k < K && col < N ? b[k * N + col] : T(0.0f);
    }
    __syncthreads();
    wmma::load_matrix_sync(fa, &as[r][0], STEP);
    wmma::load_matrix_sync(fb, &bs[0][q], EDGE);
    wmma::mma_sync(acc, fa, fb, acc);
    __syncthreads();
  }
  wmma::store_matrix_sync(&cs[r][q], acc, EDGE, wmma::mem_row_major);
  __syncthreads();
  for (int i = t; i < EDGE * EDGE; i += THREADS) {
    int row = row0 + i / EDGE;
    int col = col0 + i % EDGE;
    if (row < M && col < N) {
      c[row * N + col] = T(cs[i / EDGE][i % EDGE]);
    }
  }
}
