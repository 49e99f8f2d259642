// Half, bfloat16 and fp8 through instructions, so that every compiler can do it without CUDA's headers.
#include "compat.cuh"

extern "C" __global__ void half_axpy(const uint16_t *x, uint16_t *y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint16_t s;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(s) : "f"(a));
  asm("fma.rn.f16 %0, %1, %2, %0;" : "+h"(y[i]) : "h"(s), "h"(x[i]));
}

extern "C" __global__ void half2_relu(const unsigned *x, unsigned *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = x[i], d;
  asm("{ .reg .b32 z; mov.b32 z, 0; max.f16x2 %0, %1, z; }" : "=r"(d) : "r"(v));
  asm("{ .reg .f16 lo, hi; mov.b32 {lo, hi}, %0; add.rn.f16 lo, lo, hi; mul.ftz.f16 hi, hi, lo; mov.b32 %0, {lo, hi}; }"
      : "+r"(d));
  y[i] = d;
}

extern "C" __global__ void bf16_sum(const uint16_t *x, uint16_t *out, int n) {
  float s = 0.0f;
  for (int i = threadIdx.x; i < n; i += 32) s += __uint_as_float((unsigned)x[i] << 16);
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
  if (threadIdx.x == 0)
    asm volatile("{ .reg .b16 r; cvt.rn.bf16.f32 r, %0; st.global.b16 [%1], r; }" ::"f"(s), "l"(out));
}

extern "C" __global__ void bf16x2_fma(const unsigned *x, const unsigned *y, unsigned *z) {
  int i = threadIdx.x;
  unsigned d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(x[i]), "r"(y[i]), "r"(z[i]));
  asm("fma.rn.relu.bf16x2 %0, %0, %1, %1;" : "+r"(d) : "r"(x[i]));
  z[i] = d;
}

extern "C" __global__ void half_exp(const uint16_t *x, uint16_t *y) {
  uint16_t v = x[threadIdx.x];
  asm("ex2.approx.f16 %0, %0;\n\ttanh.approx.f16 %0, %0;\n\tneg.f16 %0, %0;" : "+h"(v));
  y[threadIdx.x] = v;
}
