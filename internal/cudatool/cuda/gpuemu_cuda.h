// gpuemu_cuda.h declares for clang the part of the CUDA language that kernels commonly use, where CUDA itself is not
// installed. Functions that CUDA's library would expand to long polynomials become the approximate instruction: the code
// is read and counted, and its values are near but not those of CUDA's library.
#pragma once

typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define INT_MAX __INT_MAX__

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
#include <__clang_cuda_builtin_vars.h> // threadIdx and its kin; part of clang itself

// Code of these functions has the line of the call: nobody has this file.
#define GPUEMU_FN static __device__ __forceinline__ __attribute__((nodebug))

#define GPUEMU_PAIRS(T, name)                                                       \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                \
  struct alignas(sizeof(T) == 8 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; };    \
  GPUEMU_FN name##2 make_##name##2(T x, T y) { return name##2{x, y}; }              \
  GPUEMU_FN name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }
#define GPUEMU_TRIPLE(T, name)                                                      \
  struct name##3 { T x, y, z; };                                                    \
  GPUEMU_FN name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }

GPUEMU_PAIRS(signed char, char)
GPUEMU_PAIRS(unsigned char, uchar)
GPUEMU_PAIRS(short, short)
GPUEMU_PAIRS(unsigned short, ushort)
GPUEMU_PAIRS(int, int)
GPUEMU_PAIRS(unsigned, uint)
GPUEMU_PAIRS(long long, longlong)
GPUEMU_PAIRS(unsigned long long, ulonglong)
GPUEMU_PAIRS(float, float)
GPUEMU_PAIRS(double, double)
GPUEMU_TRIPLE(int, int)
GPUEMU_TRIPLE(float, float)
GPUEMU_TRIPLE(double, double)
GPUEMU_FN uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return uint3{x, y, z}; }

GPUEMU_FN int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
GPUEMU_FN unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
GPUEMU_FN float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
GPUEMU_FN float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
template <class T> GPUEMU_FN T __ldg(const T *p) { return *p; }

GPUEMU_FN float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
GPUEMU_FN float fminf(float x, float y) { return __builtin_fminf(x, y); }
GPUEMU_FN float fabsf(float x) { return __builtin_fabsf(x); }
GPUEMU_FN float floorf(float x) { return __builtin_floorf(x); }
GPUEMU_FN float ceilf(float x) { return __builtin_ceilf(x); }
GPUEMU_FN float truncf(float x) { return __builtin_truncf(x); }
GPUEMU_FN double fmax(double x, double y) { return __builtin_fmax(x, y); }
GPUEMU_FN double fmin(double x, double y) { return __builtin_fmin(x, y); }
GPUEMU_FN double fabs(double x) { return __builtin_fabs(x); }
GPUEMU_FN float fmaf(float x, float y, float z) { return __nvvm_fma_rn_f(x, y, z); }
GPUEMU_FN double fma(double x, double y, double z) { return __nvvm_fma_rn_d(x, y, z); }
GPUEMU_FN float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
GPUEMU_FN double sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
GPUEMU_FN float rsqrtf(float x) { return __nvvm_rsqrt_approx_f(x); }
GPUEMU_FN float exp2f(float x) { return __nvvm_ex2_approx_f(x); }
GPUEMU_FN float expf(float x) { return __nvvm_ex2_approx_f(x * 1.4426950408889634f); }
GPUEMU_FN float __expf(float x) { return expf(x); }
GPUEMU_FN float log2f(float x) { return __nvvm_lg2_approx_f(x); }
GPUEMU_FN float logf(float x) { return __nvvm_lg2_approx_f(x) * 0.6931471805599453f; }
GPUEMU_FN float __logf(float x) { return logf(x); }
GPUEMU_FN float powf(float x, float y) { return exp2f(y * log2f(x)); }
GPUEMU_FN float sinf(float x) { return __nvvm_sin_approx_f(x); }
GPUEMU_FN float cosf(float x) { return __nvvm_cos_approx_f(x); }
GPUEMU_FN float tanhf(float x) { return 1.0f - 2.0f / (expf(2.0f * x) + 1.0f); }
// Polynomials fitted at Chebyshev points, to erf(x)/x in x² up to 1 and to log2(1 - erf(x)) up to 4: the relative error is
// 1.7e-7, three units in the last place.
GPUEMU_FN float erff(float x) {
  float t = fabsf(x), s = x * x, y;
  if (t <= 1.0f) {
    y = fmaf(fmaf(fmaf(7.882497448e-05f, s, -8.018855006e-04f), s, 5.189312156e-03f), s, -2.685432881e-02f);
    return x * fmaf(fmaf(fmaf(y, s, 1.128359735e-01f), s, -3.761262596e-01f), s, 1.128379107e+00f);
  }
  t = fminf(t, 4.0f);
  y = fmaf(fmaf(fmaf(-1.920139221e-05f, t, 4.581596004e-04f), t, -4.958352074e-03f), t, 3.263662755e-02f);
  y = fmaf(fmaf(fmaf(fmaf(y, t, -1.490577757e-01f), t, -9.220167398e-01f), t, -1.624367833e+00f), t, -1.092074905e-03f);
  y = 1.0f - exp2f(y);
  return x < 0.0f ? -y : x > 0.0f ? y : x;
}
GPUEMU_FN float __fdividef(float x, float y) { return __nvvm_div_approx_f(x, y); }
GPUEMU_FN int __float2int_rn(float x) { return __nvvm_f2i_rn(x); }
GPUEMU_FN bool isnan(float x) { return __builtin_isnan(x); }
GPUEMU_FN bool isinf(float x) { return __builtin_isinf(x); }
template <class T> GPUEMU_FN T min(T x, T y) { return y < x ? y : x; }
template <class T> GPUEMU_FN T max(T x, T y) { return x < y ? y : x; }

GPUEMU_FN int __popc(unsigned x) { return __builtin_popcount(x); }
GPUEMU_FN int __clz(int x) { return x ? __builtin_clz(x) : 32; }
GPUEMU_FN int __ffs(int x) { return __builtin_ffs(x); }
GPUEMU_FN unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)(((uint64_t)x * y) >> 32); }
GPUEMU_FN unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
GPUEMU_FN unsigned __byte_perm(unsigned x, unsigned y, unsigned s) { return __nvvm_prmt(x, y, s); }
GPUEMU_FN int __dp4a(int x, int y, int z) {
  int d;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(z));
  return d;
}

#define GPUEMU_SHUFFLE(T, suffix)                                                                                     \
  GPUEMU_FN T __shfl_sync(unsigned m, T v, int l, int w = 32) {                                                       \
    return __nvvm_shfl_sync_idx_##suffix(m, v, l, ((32 - w) << 8) | 31);                                              \
  }                                                                                                                   \
  GPUEMU_FN T __shfl_xor_sync(unsigned m, T v, int l, int w = 32) {                                                   \
    return __nvvm_shfl_sync_bfly_##suffix(m, v, l, ((32 - w) << 8) | 31);                                             \
  }                                                                                                                   \
  GPUEMU_FN T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32) {                                             \
    return __nvvm_shfl_sync_down_##suffix(m, v, d, ((32 - w) << 8) | 31);                                             \
  }                                                                                                                   \
  GPUEMU_FN T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32) {                                               \
    return __nvvm_shfl_sync_up_##suffix(m, v, d, (32 - w) << 8);                                                      \
  }
GPUEMU_SHUFFLE(float, f32)
GPUEMU_SHUFFLE(int, i32)
GPUEMU_SHUFFLE(unsigned, i32)

GPUEMU_FN unsigned __ballot_sync(unsigned m, int p) { return __nvvm_vote_ballot_sync(m, p); }
GPUEMU_FN int __any_sync(unsigned m, int p) { return __nvvm_vote_any_sync(m, p); }
GPUEMU_FN int __all_sync(unsigned m, int p) { return __nvvm_vote_all_sync(m, p); }
GPUEMU_FN unsigned __match_any_sync(unsigned m, unsigned v) { return __nvvm_match_any_sync_i32(m, v); }
GPUEMU_FN unsigned __activemask() {
  unsigned m;
  asm volatile("activemask.b32 %0;" : "=r"(m));
  return m;
}
GPUEMU_FN void __syncwarp(unsigned m = 0xffffffffu) { __nvvm_bar_warp_sync(m); }
GPUEMU_FN int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
GPUEMU_FN int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
GPUEMU_FN void __threadfence() { __nvvm_membar_gl(); }
GPUEMU_FN void __threadfence_block() { __nvvm_membar_cta(); }
GPUEMU_FN void __trap() { asm volatile("trap;"); }
GPUEMU_FN size_t __cvta_generic_to_shared(const void *p) {
  size_t a;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(p));
  return a;
}

GPUEMU_FN int atomicAdd(int *p, int v) { return __nvvm_atom_add_gen_i(p, v); }
GPUEMU_FN unsigned atomicAdd(unsigned *p, unsigned v) { return __nvvm_atom_add_gen_i((int *)p, (int)v); }
GPUEMU_FN unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) {
  return __nvvm_atom_add_gen_ll((long long *)p, (long long)v);
}
GPUEMU_FN float atomicAdd(float *p, float v) { return __nvvm_atom_add_gen_f(p, v); }
GPUEMU_FN double atomicAdd(double *p, double v) { return __nvvm_atom_add_gen_d(p, v); }
GPUEMU_FN int atomicMax(int *p, int v) { return __nvvm_atom_max_gen_i(p, v); }
GPUEMU_FN int atomicMin(int *p, int v) { return __nvvm_atom_min_gen_i(p, v); }
GPUEMU_FN unsigned atomicOr(unsigned *p, unsigned v) { return __nvvm_atom_or_gen_i((int *)p, (int)v); }
GPUEMU_FN int atomicCAS(int *p, int c, int v) { return __nvvm_atom_cas_gen_i(p, c, v); }
GPUEMU_FN unsigned atomicCAS(unsigned *p, unsigned c, unsigned v) {
  return __nvvm_atom_cas_gen_i((int *)p, (int)c, (int)v);
}
GPUEMU_FN int atomicExch(int *p, int v) { return __nvvm_atom_xchg_gen_i(p, v); }
GPUEMU_FN unsigned atomicInc(unsigned *p, unsigned v) { return __nvvm_atom_inc_gen_ui(p, v); }

extern "C" __device__ int printf(const char *, ...); // clang turns a call of it into one of vprintf
extern "C" __device__ int vprintf(const char *, void *);
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
#define assert(c) ((c) ? (void)0 : __assertfail(#c, __FILE__, __LINE__, "kernel", 1))
