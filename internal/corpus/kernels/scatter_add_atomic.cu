// Rows of src added to rows of the input that index names: atomic additions into float32 totals, which start at zero;
// the block that finishes last adds the input and rounds.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 128

extern "C" __global__ void scatter_add_atomic(const T *x, const long long *index, const T *src, T *y, float *total,
                                              int *finished, int V, int D, int R) {
  __shared__ bool last;
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < R * D) {
    int row = int(index[i / D]);
    atomicAdd(&total[row * D + i % D], float(src[i]));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence(); // the additions of this block come before its count
    last = atomicAdd(finished, 1) == gridDim.x - 1;
    __threadfence(); // and those of the others before the reads below
  }
  __syncthreads();
  if (!last) {
    return;
  }
  for (int j = threadIdx.x; j < V * D; j += THREADS) {
    y[j] = T(float(x[j]) + __ldcg(&total[j]));
  }
}
