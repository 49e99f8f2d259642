// The k greatest of a row in falling order, with their indexes: a block a row finds one after the other. Value and
// index are packed into one number whose order is that of the result, so that one atomic maximum finds the next.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 64
#define ALL 0xffffffffu

typedef unsigned long long Key;

// Larger values have larger keys, NaN the largest; of equal values the first has the largest.
__device__ Key key_of(float v, int i) {
  unsigned bits = __float_as_uint(v + 0.0f); // -0 becomes 0
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  if (v != v) {
    bits = 0xffffffffu;
  }
  return Key(bits) << 32 | unsigned(0x7fffffff - i);
}

extern "C" __global__ void topk_rows(const T *x, T *values, long long *indices, int N, int k) {
  __shared__ Key best;
  const T *in = x + (size_t)blockIdx.x * N;
  Key found = ~0ull;
  for (int j = 0; j < k; j++) {
    if (threadIdx.x == 0) {
      best = 0;
    }
    __syncthreads();
    Key mine = 0;
    for (int i = threadIdx.x; i < N; i += THREADS) {
      Key key = key_of(float(in[i]), i);
      if (key < found && key > mine) {
        mine = key;
      }
    }
    for (int d = 16; d > 0; d /= 2) {
      Key other = __shfl_xor_sync(ALL, mine, d);
      mine = other > mine ? other : mine;
    }
    if (threadIdx.x % 32 == 0) {
      atomicMax(&best, mine);
    }
    __syncthreads();
    found = best;
    __syncthreads();
    if (threadIdx.x == 0) {
      int at = 0x7fffffff - int(unsigned(found));
      values[blockIdx.x * k + j] = in[at];
      indices[blockIdx.x * k + j] = at;
    }
  }
}
