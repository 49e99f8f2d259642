// Tensor cores of sm_80 through inline assembly, as hand-written kernels use them.
#include "compat.cuh"

__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void copy16(uint32_t to, const void *from, bool whole) {
  // The source size 0 makes the engine write zeros.
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(whole ? 16 : 0) : "memory");
}

__device__ __forceinline__ void load_a(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

__device__ __forceinline__ void load_b(uint32_t (&r)[2], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at));
}

__device__ __forceinline__ void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// One warp per 16x32 tile of c, two stages of copies in flight. a is row-major (m x k), b is row-major (k x n).
extern "C" __global__ void __launch_bounds__(32)
mma_pipeline(const uint16_t *a, const uint16_t *b, float *c, int n, int k) {
  __shared__ __align__(16) uint16_t as[2][16][16];
  __shared__ __align__(16) uint16_t bs[2][16][32];
  int lane = threadIdx.x;
  size_t r0 = blockIdx.y * 16, c0 = blockIdx.x * 32;
  float acc[4][4] = {};
  auto fetch = [&](int stage, int k0) {
    copy16(shared_address(&as[stage][lane / 2][lane % 2 * 8]), a + (r0 + lane / 2) * k + k0 + lane % 2 * 8, k0 < k);
    for (int half = 0; half < 2; half++) {
      int row = lane / 4 + half * 8, col = lane % 4 * 8;
      copy16(shared_address(&bs[stage][row][col]), b + (size_t)(k0 + row) * n + c0 + col, k0 < k);
    }
    asm volatile("cp.async.commit_group;");
  };
  fetch(0, 0);
  for (int k0 = 0, stage = 0; k0 < k; k0 += 16, stage ^= 1) {
    fetch(stage ^ 1, k0 + 16);
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    uint32_t af[4], bf[2];
    load_a(af, shared_address(&as[stage][lane % 16][lane / 16 * 8]));
#pragma unroll
    for (int q = 0; q < 4; q++) {
      load_b(bf, shared_address(&bs[stage][lane % 16][q * 8]));
      mma_f16(acc[q], af, bf);
    }
    __syncthreads();
  }
  asm volatile("cp.async.wait_all;");
#pragma unroll
  for (int q = 0; q < 4; q++) {
    float *p = c + (r0 + lane / 4) * n + c0 + q * 8 + lane % 4 * 2;
    *(float2 *)p = make_float2(acc[q][0], acc[q][1]);
    *(float2 *)(p + 8 * n) = make_float2(acc[q][2], acc[q][3]);
  }
}

extern "C" __global__ void mma_bf16(const uint4 *a, const uint2 *b, float4 *c) {
  uint4 x = a[threadIdx.x];
  uint2 y = b[threadIdx.x];
  float4 d = c[threadIdx.x];
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d.x), "+f"(d.y), "+f"(d.z), "+f"(d.w) : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y));
  c[threadIdx.x] = d;
}

extern "C" __global__ void mma_tf32(const float4 *a, const float2 *b, float4 *c) {
  float4 x = a[threadIdx.x], d = c[threadIdx.x];
  float2 y = b[threadIdx.x];
  uint32_t r[6];
  float in[6] = {x.x, x.y, x.z, x.w, y.x, y.y};
#pragma unroll
  for (int i = 0; i < 6; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r[i]) : "f"(in[i]));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d.x), "+f"(d.y), "+f"(d.z), "+f"(d.w)
      : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]));
  c[threadIdx.x] = d;
}

extern "C" __global__ void mma_s8(const uint4 *a, const uint2 *b, int4 *c) {
  uint4 x = a[threadIdx.x];
  uint2 y = b[threadIdx.x];
  int4 d = c[threadIdx.x];
  asm("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d.x), "+r"(d.y), "+r"(d.z), "+r"(d.w) : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y));
  c[threadIdx.x] = d;
}

extern "C" __global__ void mma_f64(const double *a, const double *b, double2 *c) {
  double2 d = c[threadIdx.x];
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(d.x), "+d"(d.y) : "d"(a[threadIdx.x]), "d"(b[threadIdx.x]));
  c[threadIdx.x] = d;
}
