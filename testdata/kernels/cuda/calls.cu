// Functions that stay functions: arguments and results through .param, structs by value, pointers to functions,
// recursion, and a switch wide enough for a table of branches.
#include "compat.cuh"

struct Pair {
  double weight;
  int count;
  char tag[3];
};

extern "C" __device__ __noinline__ float blend(float x, float y, float t) { return fmaf(t, y - x, x); }

extern "C" __device__ __noinline__ Pair merge(Pair p, Pair q) {
  p.weight += q.weight;
  p.count += q.count;
  p.tag[1] = q.tag[0];
  return p;
}

extern "C" __device__ __noinline__ void store_both(float *at, float x, bool twice) {
  at[0] = x;
  if (twice) at[1] = x;
}

__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

__device__ float twice(float x) { return x * 2.0f; }
__device__ float square(float x) { return x * x; }
__device__ float negated(float x) { return -x; }

typedef float (*Unary)(float);
__device__ Unary table[3] = {twice, square, negated};

extern "C" __global__ void call_scalar(const float *x, const float *y, float *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) store_both(z + 2 * i, blend(x[i], y[i], 0.25f), (i & 1) == 0);
}

extern "C" __global__ void call_struct(const Pair *p, Pair *q, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) q[i] = merge(p[i], q[i]);
}

extern "C" __global__ void call_indirect(const float *x, float *y, const int *which, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = table[which[i] % 3](x[i]);
}

extern "C" __global__ void call_recursive(const int *x, int *y) {
  y[threadIdx.x] = ackermann(x[threadIdx.x] & 1, x[threadIdx.x] & 3);
}

extern "C" __global__ void interpreter(const unsigned char *code, float *out, int steps) {
  float acc = out[threadIdx.x], other = 1.0f;
  for (int pc = 0; pc < steps; pc++) {
    switch (code[pc]) {
    case 0: acc += other; break;
    case 1: acc -= other; break;
    case 2: acc *= other; break;
    case 3: other = acc; break;
    case 4: acc = fabsf(acc); break;
    case 5: acc = sqrtf(acc); break;
    case 6: acc = exp2f(acc); break;
    case 7: other = other * 0.5f + 3.0f; break;
    case 8: out[threadIdx.x] = acc; break;
    case 9: acc = out[other > 0.0f ? 0 : 1]; break;
    default: return;
    }
  }
  out[threadIdx.x] = acc;
}
