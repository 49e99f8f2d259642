// Product of int8 matrices: tiles as bytes in shared memory, b's transposed, four products an instruction; scales of
// the row and of the column at the end.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define TILE 16
#define STEP 32 // along K

extern "C" __global__ void int8_matmul_dp4a(const signed char *a, const signed char *b, const float *scale_a,
                                            const float *scale_b, T *c, int M, int N, int K) {
  __shared__ __align__(4) signed char as[TILE][STEP];
  __shared__ __align__(4) signed char bs[TILE][STEP];
  int t = threadIdx.x;
  int row = blockIdx.y * TILE + t / TILE;
  int col = blockIdx.x * TILE + t % TILE;
  int acc = 0;
  for (int k0 = 0; k0 < K; k0 += STEP) {
    for (int i = t; i < TILE * STEP; i += TILE * TILE) {
      int k = k0 + i % STEP;
      int r = blockIdx.y * TILE + i / STEP;
      int q = blockIdx.x * TILE + i / STEP;
      as[i / STEP][i % STEP] = r < M && k < K ? a[r * K + k] : 0;
      bs[i / STEP][i % STEP] = q < N && k < K ? b[k * N + q] : 0;
    }
    __syncthreads();
    const int *x = (const int *)as[t / TILE];
    const int *y = (const int *)bs[t % TILE];
    for (int k = 0; k < STEP / 4; k++) {
      acc = __dp4a(x[k], y[k], acc);
    }
    __syncthreads();
  }
  if (row < M && col < N) {
    c[row * N + col] = T(float(acc) * scale_a[row] * scale_b[col]);
  }
}
