// Matrix product with two buffers of tiles: while one is multiplied, cp.async fills the other. A copy of an element
// outside its matrix reads nothing and writes a zero.
#include <cuda_pipeline.h>

typedef ELEMENT T;

#define TILE 16

__device__ void fetch(T *to, const T *from, bool inside) {
  __pipeline_memcpy_async(to, from, sizeof(T), inside ? 0 : sizeof(T));
}

extern "C" __global__ void matmul_async(const T *a, const T *b, T *c, int M, int N, int K) {
  __shared__ T as[2][TILE][TILE];
  __shared__ T bs[2][TILE][TILE];
  int tx = threadIdx.x;
  int ty = threadIdx.y;
  int row = blockIdx.y * TILE + ty;
  int col = blockIdx.x * TILE + tx;
  int tiles = (K + TILE - 1) / TILE;
  fetch(&as[0][ty][tx], a + row * K + tx, row < M && tx < K);
  fetch(&bs[0][ty][tx], b + ty * N + col, ty < K && col < N);
  __pipeline_commit();
  float acc = 0.0f;
  for (int tile = 0; tile < tiles; tile++) {
    int now = tile % 2;
    int next = (tile + 1) % 2;
    int k0 = (tile + 1) * TILE;
    fetch(&as[next][ty][tx], a + row * K + k0 + tx, row < M && k0 + tx < K);
    fetch(&bs[next][ty][tx], b + (k0 + ty) * N + col, k0 + ty < K && col < N);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    for (int k = 0; k < TILE; k++) {
      acc += as[now][ty][k] * bs[now][k][tx];
    }
    __syncthreads();
  }
  if (row < M && col < N) {
    c[row * N + col] = acc;
  }
}
