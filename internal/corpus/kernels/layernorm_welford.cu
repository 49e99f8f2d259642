// Layer norm: mean and variance updated element by element (Welford), joined pairwise (Chan) within a warp by shuffles
// and between warps through shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 128
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

struct Moments {
  float n;
  float mean;
  float m2; // sum of squared deviations
};

__device__ Moments join(Moments a, Moments b) {
  float n = a.n + b.n;
  if (n == 0.0f) {
    return a;
  }
  float delta = b.mean - a.mean;
  float mean = a.mean + delta * (b.n / n);
  float m2 = a.m2 + b.m2 + delta * delta * (a.n * b.n / n);
  return {n, mean, m2};
}

extern "C" __global__ void layernorm_welford(const T *x, const T *weight, const T *bias, T *y, int H, float eps) {
  __shared__ Moments part[WARPS];
  const T *in = x + (size_t)blockIdx.x * H;
  T *out = y + (size_t)blockIdx.x * H;
  Moments m = {0.0f, 0.0f, 0.0f};
  for (int h = threadIdx.x; h < H; h += THREADS) {
    float v = float(in[h]);
    m.n += 1.0f;
    float delta = v - m.mean;
    m.mean += delta / m.n;
    m.m2 += delta * (v - m.mean);
  }
  for (int d = 16; d > 0; d /= 2) {
    Moments other;
    other.n = __shfl_xor_sync(ALL, m.n, d);
    other.mean = __shfl_xor_sync(ALL, m.mean, d);
    other.m2 = __shfl_xor_sync(ALL, m.m2, d);
    m = join(m, other);
  }
  if (threadIdx.x % 32 == 0) {
    part[threadIdx.x / 32] = m;
  }
  __syncthreads();
  m = part[0];
  for (int w = 1; w < WARPS; w++) {
    m = join(m, part[w]);
  }
  float inv = 1.0f / sqrtf(m.m2 / float(H) + eps);
  for (int h = threadIdx.x; h < H; h += THREADS) {
    out[h] = T((float(in[h]) - m.mean) * inv * float(weight[h]) + float(bias[h]));
  }
}
