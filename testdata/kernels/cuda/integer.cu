// Integer work: dot products of bytes, quantisation, bit tricks, wide products, carries, counters of random numbers.
#include "compat.cuh"

extern "C" __global__ void dot_s8(const int *a, const int *b, int *out, int words) {
  int acc = 0;
  for (int i = threadIdx.x; i < words; i += 32) acc = __dp4a(a[blockIdx.x * words + i], b[i], acc);
  for (int d = 16; d > 0; d >>= 1) acc += __shfl_xor_sync(0xffffffffu, acc, d);
  if (threadIdx.x == 0) out[blockIdx.x] = acc;
}

extern "C" __global__ void quantise_s8(const float *x, int8_t *q, float scale, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) q[i] = (int8_t)max(-127, min(127, __float2int_rn(x[i] / scale)));
}

extern "C" __global__ void unpack_s4(const unsigned *packed, const float *scale, float *out, int words, int group) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= words) return;
  unsigned w = packed[i];
#pragma unroll
  for (int k = 0; k < 8; k++) {
    int v = (int)(w << (28 - 4 * k)) >> 28;
    out[i * 8 + k] = v * scale[(i * 8 + k) / group];
  }
}

extern "C" __global__ void bits(const unsigned *x, unsigned *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = x[i];
  unsigned field;
  asm("bfe.u32 %0, %1, 5, 11;" : "=r"(field) : "r"(v));
  asm("bfi.b32 %0, %1, %0, 20, 4;" : "+r"(field) : "r"(v));
  asm("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(field) : "r"(v), "r"(__brev(v)));
  asm("shf.l.wrap.b32 %0, %0, %1, 7;" : "+r"(field) : "r"(v));
  out[i] = field + __popc(v) + __clz(v) + __byte_perm(v, field, 0x6543) + (v >> (i & 31));
}

extern "C" __global__ void add128(const uint64_t *a, const uint64_t *b, uint64_t *c) {
  int i = threadIdx.x * 2;
  uint64_t lo, hi;
  asm("add.cc.u64 %0, %2, %4;\n\taddc.u64 %1, %3, %5;"
      : "=l"(lo), "=l"(hi) : "l"(a[i]), "l"(a[i + 1]), "l"(b[i]), "l"(b[i + 1]));
  c[i] = lo, c[i + 1] = hi;
}

extern "C" __global__ void division(const int64_t *a, const int64_t *b, int64_t *q, unsigned *r, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || b[i] == 0) return;
  q[i] = a[i] / b[i];
  r[i] = (unsigned)a[i] % ((unsigned)b[i] | 1) + (unsigned)(a[i] / 10);
}

// Philox 4x32: ten rounds of wide products; dropout keeps an element when its number is large enough.
extern "C" __global__ void dropout(const float *x, float *y, float p, uint64_t seed, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i * 4 >= n) return;
  unsigned c0 = i, c1 = 0, c2 = 0, c3 = 0, k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; round++) {
    unsigned h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
    unsigned h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0, c1 = l1, c2 = h0 ^ c3 ^ k1, c3 = l0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  unsigned number[4] = {c0, c1, c2, c3};
  for (int k = 0; k < 4 && i * 4 + k < n; k++)
    y[i * 4 + k] = number[k] * 2.3283064e-10f >= p ? x[i * 4 + k] / (1.0f - p) : 0.0f;
}
