// Matrix product: a tile of a and one of b in shared memory, an element of the product for each thread. Both matrices
// have strides, so transposed ones need no copy.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define TILE 16

extern "C" __global__ void matmul_tiled(const T *a, const T *b, T *c, int M, int N, int K, int stride_am, int stride_ak,
                                        int stride_bk, int stride_bn) {
  __shared__ float as[TILE][TILE];
  __shared__ float bs[TILE][TILE + 1];
  int tx = threadIdx.x;
  int ty = threadIdx.y;
  int row = blockIdx.y * TILE + ty;
  int col = blockIdx.x * TILE + tx;
  float acc = 0.0f;
  for (int k0 = 0; k0 < K; k0 += TILE) {
    as[ty][tx] = row < M && k0 + tx < K ? float(a[row * stride_am + (k0 + tx) * stride_ak]) : 0.0f;
    bs[ty][tx] = k0 + ty < K && col < N ? float(b[(k0 + ty) * stride_bk + col * stride_bn]) : 0.0f;
    __syncthreads();
    for (int k = 0; k < TILE; k++) {
      acc += as[ty][k] * bs[k][tx];
    }
    __syncthreads();
  }
  if (row < M && col < N) {
    c[row * N + col] = T(acc);
  }
}
