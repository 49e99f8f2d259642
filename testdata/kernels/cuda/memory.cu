// State spaces and orders: tables with values, globals with addresses, volatile, fences, scoped atomics, cache hints.
#include "compat.cuh"

__constant__ int primes[12] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
__constant__ double weights[4] = {0.5, -1.25, 1e300, -0.0};
__device__ float scratch[64];
__device__ unsigned arrived = 0;
__device__ const char greeting[] = "a table of \"bytes\"\n";
__device__ int *cursor;
__device__ float *const alias = scratch + 8;
struct Mixed {
  short s;
  long long l;
  const void *p;
  float f[3];
};
__device__ Mixed mixed = {-7, 0x123456789abcdefLL, scratch, {1.5f, -2.25f, 3.0e-8f}};

extern "C" __global__ void tables(const int *x, int *y, double *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = primes[x[i] % 12] + greeting[x[i] % 19] + mixed.s + (int)mixed.l;
  z[i] = weights[i & 3] + alias[i & 31] + mixed.f[i % 3] + *(const float *)mixed.p;
}

// The last block to arrive adds what the others have written.
extern "C" __global__ void last_block(const float *x, float *partial, float *out, int n) {
  __shared__ bool last;
  float s = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = s;
    __threadfence();
    last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  float total = 0.0f;
  for (unsigned b = 0; b < gridDim.x; b++) total += ((volatile float *)partial)[b];
  *out = total;
}

extern "C" __global__ void spin_lock(int *lock, volatile int *counter) {
  if ((threadIdx.x & 31) == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *counter = *counter + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
  __syncwarp();
}

// One thread hands data on to the others of its warp, who meet in words of their own kind: out[0] and out[1] by
// compare-and-swap and maximum, wide[0] by addition, wide[1] by exchange of equal values.
extern "C" __global__ void scoped(int *flag, int *data, int *out, float *sum, double *wide) {
  int old, seen;
  uint64_t turn = 5;
  if (threadIdx.x == 0) {
    asm volatile("st.relaxed.gpu.global.s32 [%0], 42;" ::"l"(data) : "memory");
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
  }
  __syncwarp();
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
  asm volatile("atom.acq_rel.sys.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old) : "l"(out), "r"(0), "r"(seen) : "memory");
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(sum), "f"(1.5f) : "memory");
  asm volatile("atom.global.exch.b64 %0, [%1], %0;" : "+l"(turn) : "l"(wide + 1) : "memory");
  asm volatile("membar.sys;\n\tfence.sc.cta;" ::: "memory");
  atomicAdd(wide, 0.25);
  atomicMax(out + 1, old);
  out[2 + threadIdx.x] = *data + seen;
}

extern "C" __global__ void hints(const float4 *x, float4 *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 v;
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("prefetch.global.L2 [%0];" ::"l"(x + i + 32));
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(x + i), "l"(policy));
  asm volatile("st.global.cs.v4.f32 [%0+0], {%1, %2, %3, %4};" ::"l"(y + i), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w));
}

extern "C" __global__ void float_max_cas(const float *x, unsigned *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned seen = *out, wanted;
  do {
    wanted = seen;
    if (__uint_as_float(wanted) >= x[i]) return;
    seen = atomicCAS(out, wanted, __float_as_uint(x[i]));
  } while (seen != wanted);
}

// Addresses of all spaces behind one pointer.
extern "C" __global__ void generic_pointer(float *x, int which) {
  __shared__ float s[32];
  float l[4] = {1.0f, 2.0f, 3.0f, 4.0f};
  s[threadIdx.x & 31] = x[threadIdx.x];
  __syncthreads();
  float *p = which == 0 ? x : which == 1 ? s : which == 2 ? l : scratch;
  p[which & 3] += 1.0f;
  x[threadIdx.x] = p[threadIdx.x & 3] + l[which & 3];
}
