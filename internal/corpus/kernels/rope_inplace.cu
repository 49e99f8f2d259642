// Rotary embedding in place: a block copies a row of D elements to the output and rotates it there, 64 pairs at a time.
// The two elements of a pair belong to different warps, so everything is read before anything is written.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define PAIRS 64

extern "C" __global__ void rope_inplace(const T *x, const T *cosine, const T *sine, T *y, int S, int H, int D) {
  int t = threadIdx.x;
  int half = D / 2;
  int s = blockIdx.x / H % S;
  T *row = y + (size_t)blockIdx.x * D;
  for (int d = t; d < D; d += 2 * PAIRS) {
    row[d] = x[(size_t)blockIdx.x * D + d];
  }
  __syncthreads();
  for (int p0 = 0; p0 < half; p0 += PAIRS) {
    int p = p0 + t % PAIRS;
    bool second = t >= PAIRS;
    float own = 0.0f, partner = 0.0f, c = 0.0f, sn = 0.0f;
    if (p < half) {
      own = float(row[second ? half + p : p]);
      partner = float(row[second ? p : half + p]);
      c = float(cosine[s * half + p]);
      sn = float(sine[s * half + p]);
    }
    __syncthreads();
    if (p < half) {
      row[second ? half + p : p] = T(second ? own * c + partner * sn : own * c - partner * sn);
    }
  }
}
