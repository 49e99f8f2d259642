// compat.cuh lets the kernels beside it go through nvcc and NVRTC as they are, and through clang without CUDA: there
// it declares the part of the CUDA language that they use. Functions that CUDA's library would expand to long
// polynomials become the approximate instruction, which is enough for code that is read, not trusted for its values.
#pragma once

#if defined(__CUDACC__) && !defined(__clang__)

#define NVIDIA_COMPILER 1
#ifndef __CUDACC_RTC__
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#else
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef signed char int8_t;
typedef long long int64_t;
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

#else // clang with -nocudainc

typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef signed char int8_t;
typedef long long int64_t;
typedef __SIZE_TYPE__ size_t;

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict
#define INFINITY __builtin_inff()

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
#include <__clang_cuda_builtin_vars.h> // threadIdx and its kin; part of clang itself

struct __align__(8) float2 { float x, y; };
struct __align__(16) float4 { float x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
struct __align__(16) double2 { double x, y; };

#define INTRINSIC static __device__ __forceinline__

INTRINSIC float2 make_float2(float x, float y) { return float2{x, y}; }
INTRINSIC float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }
INTRINSIC int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
INTRINSIC unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
INTRINSIC float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
INTRINSIC float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
template <class T> INTRINSIC T __ldg(const T *p) { return *p; }

INTRINSIC float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
INTRINSIC float fminf(float x, float y) { return __builtin_fminf(x, y); }
INTRINSIC float fabsf(float x) { return __builtin_fabsf(x); }
INTRINSIC float floorf(float x) { return __builtin_floorf(x); }
INTRINSIC float fmaf(float x, float y, float z) { return __nvvm_fma_rn_f(x, y, z); }
INTRINSIC double fma(double x, double y, double z) { return __nvvm_fma_rn_d(x, y, z); }
INTRINSIC float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
INTRINSIC double sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
INTRINSIC double fabs(double x) { return __builtin_fabs(x); }
INTRINSIC float rsqrtf(float x) { return __nvvm_rsqrt_approx_f(x); }
INTRINSIC float exp2f(float x) { return __nvvm_ex2_approx_f(x); }
INTRINSIC float expf(float x) { return __nvvm_ex2_approx_f(x * 1.4426950408889634f); }
INTRINSIC float logf(float x) { return __nvvm_lg2_approx_f(x) * 0.6931471805599453f; }
INTRINSIC float sinf(float x) { return __nvvm_sin_approx_f(x); }
INTRINSIC float cosf(float x) { return __nvvm_cos_approx_f(x); }
INTRINSIC float tanhf(float x) { return 1.0f - 2.0f / (expf(2.0f * x) + 1.0f); }
INTRINSIC float __fdividef(float x, float y) { return __nvvm_div_approx_f(x, y); }
INTRINSIC int __float2int_rn(float x) { return __nvvm_f2i_rn(x); }
INTRINSIC int min(int x, int y) { return x < y ? x : y; }
INTRINSIC int max(int x, int y) { return x > y ? x : y; }
INTRINSIC unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }

INTRINSIC int __popc(unsigned x) { return __builtin_popcount(x); }
INTRINSIC int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
INTRINSIC int __ffs(int x) { return __builtin_ffs(x); }
INTRINSIC unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)(((uint64_t)x * y) >> 32); }
INTRINSIC unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
INTRINSIC unsigned __byte_perm(unsigned x, unsigned y, unsigned s) { return __nvvm_prmt(x, y, s); }
INTRINSIC int __dp4a(int x, int y, int z) {
  int d;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(z));
  return d;
}

INTRINSIC float __shfl_sync(unsigned m, float v, int l, int w = 32) {
  return __nvvm_shfl_sync_idx_f32(m, v, l, ((32 - w) << 8) | 31);
}
INTRINSIC int __shfl_sync(unsigned m, int v, int l, int w = 32) {
  return __nvvm_shfl_sync_idx_i32(m, v, l, ((32 - w) << 8) | 31);
}
INTRINSIC float __shfl_xor_sync(unsigned m, float v, int l, int w = 32) {
  return __nvvm_shfl_sync_bfly_f32(m, v, l, ((32 - w) << 8) | 31);
}
INTRINSIC int __shfl_xor_sync(unsigned m, int v, int l, int w = 32) {
  return __nvvm_shfl_sync_bfly_i32(m, v, l, ((32 - w) << 8) | 31);
}
INTRINSIC float __shfl_down_sync(unsigned m, float v, int d, int w = 32) {
  return __nvvm_shfl_sync_down_f32(m, v, d, ((32 - w) << 8) | 31);
}
INTRINSIC float __shfl_up_sync(unsigned m, float v, int d, int w = 32) {
  return __nvvm_shfl_sync_up_f32(m, v, d, (32 - w) << 8);
}
INTRINSIC int __shfl_up_sync(unsigned m, int v, int d, int w = 32) {
  return __nvvm_shfl_sync_up_i32(m, v, d, (32 - w) << 8);
}
INTRINSIC unsigned __ballot_sync(unsigned m, int p) { return __nvvm_vote_ballot_sync(m, p); }
INTRINSIC int __any_sync(unsigned m, int p) { return __nvvm_vote_any_sync(m, p); }
INTRINSIC int __all_sync(unsigned m, int p) { return __nvvm_vote_all_sync(m, p); }
INTRINSIC unsigned __match_any_sync(unsigned m, unsigned v) { return __nvvm_match_any_sync_i32(m, v); }
INTRINSIC unsigned __activemask() {
  unsigned m;
  asm volatile("activemask.b32 %0;" : "=r"(m));
  return m;
}
INTRINSIC void __syncwarp(unsigned m = 0xffffffffu) { __nvvm_bar_warp_sync(m); }
INTRINSIC int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
INTRINSIC int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
INTRINSIC void __threadfence() { __nvvm_membar_gl(); }
INTRINSIC void __threadfence_block() { __nvvm_membar_cta(); }
INTRINSIC void __trap() { asm volatile("trap;"); }
INTRINSIC size_t __cvta_generic_to_shared(const void *p) {
  size_t a;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(p));
  return a;
}

INTRINSIC int atomicAdd(int *p, int v) { return __nvvm_atom_add_gen_i(p, v); }
INTRINSIC unsigned atomicAdd(unsigned *p, unsigned v) { return __nvvm_atom_add_gen_i((int *)p, (int)v); }
INTRINSIC uint64_t atomicAdd(uint64_t *p, uint64_t v) { return __nvvm_atom_add_gen_ll((long long *)p, (long long)v); }
INTRINSIC float atomicAdd(float *p, float v) { return __nvvm_atom_add_gen_f(p, v); }
INTRINSIC double atomicAdd(double *p, double v) { return __nvvm_atom_add_gen_d(p, v); }
INTRINSIC int atomicMax(int *p, int v) { return __nvvm_atom_max_gen_i(p, v); }
INTRINSIC int atomicMin(int *p, int v) { return __nvvm_atom_min_gen_i(p, v); }
INTRINSIC unsigned atomicOr(unsigned *p, unsigned v) { return __nvvm_atom_or_gen_i((int *)p, (int)v); }
INTRINSIC int atomicCAS(int *p, int c, int v) { return __nvvm_atom_cas_gen_i(p, c, v); }
INTRINSIC unsigned atomicCAS(unsigned *p, unsigned c, unsigned v) {
  return __nvvm_atom_cas_gen_i((int *)p, (int)c, (int)v);
}
INTRINSIC int atomicExch(int *p, int v) { return __nvvm_atom_xchg_gen_i(p, v); }
INTRINSIC unsigned atomicInc(unsigned *p, unsigned v) { return __nvvm_atom_inc_gen_ui(p, v); }

extern "C" __device__ int vprintf(const char *, void *);
extern "C" __device__ int printf(const char *, ...); // clang turns a call of it into one of vprintf
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
#define assert(c) ((c) ? (void)0 : __assertfail(#c, __FILE__, __LINE__, "kernel", 1))

#endif
