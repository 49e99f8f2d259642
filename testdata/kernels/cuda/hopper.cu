// sm_90a: bulk copies with barriers in shared memory, warpgroup products, clusters. Written for the code it makes.
#include "compat.cuh"

__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void wait_parity(uint32_t barrier, uint32_t parity) {
  asm volatile("{\n\t"
               ".reg .pred done;\n"
               "WAIT:\n\t"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, 0x989680;\n\t"
               "@done bra.uni READY;\n\t"
               "bra.uni WAIT;\n"
               "READY:\n\t"
               "}" ::"r"(barrier), "r"(parity) : "memory");
}

extern "C" __global__ void bulk_copy(const float *x, float *y, int bytes) {
  extern __shared__ __align__(128) float buffer[];
  __shared__ __align__(8) uint64_t full;
  uint32_t barrier = shared_address(&full), data = shared_address(buffer);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(1));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(data),
                 "l"(x), "r"(bytes), "r"(barrier) : "memory");
  }
  wait_parity(barrier, 0);
  buffer[threadIdx.x] *= 2.0f;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(y), "r"(data), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier));
  }
}

extern "C" __global__ void tensor_copy(const void *map, float *y) {
  __shared__ __align__(128) float tile[32][32];
  __shared__ __align__(8) uint64_t full;
  uint32_t barrier = shared_address(&full);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(4096) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(tile)), "l"(map), "r"(blockIdx.x * 32),
                 "r"(blockIdx.y * 32), "r"(barrier) : "memory");
  }
  wait_parity(barrier, 0);
  y[threadIdx.x] = tile[threadIdx.x % 32][threadIdx.x / 32];
}

extern "C" __global__ void __launch_bounds__(128) warpgroup_product(const uint64_t *descriptor, float *y) {
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  uint64_t a = descriptor[0], b = descriptor[1];
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{\n\t"
               ".reg .pred p;\n\t"
               "setp.ne.b32 p, %6, 0;\n\t"
               "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n\t"
               "}" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b), "r"(1));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
  for (int i = 0; i < 4; i++) y[threadIdx.x * 4 + i] = d[i];
}

// Two groups of warps with other needs of registers; the named barrier counts both.
extern "C" __global__ void __launch_bounds__(256) specialised(const float *x, float *y) {
  __shared__ float buffer[128];
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    buffer[threadIdx.x] = x[threadIdx.x];
    asm volatile("barrier.cta.arrive 1, 256;" ::: "memory");
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    asm volatile("barrier.cta.sync 1, 256;" ::: "memory");
    y[threadIdx.x - 128] = buffer[255 - threadIdx.x] * 0.5f;
  }
}

// The value of the same slot of shared memory in the next block of the cluster.
extern "C" __global__ void cluster_neighbour(const float *x, float *y) {
  __shared__ float slot;
  uint32_t rank, size, there, leader;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  if (threadIdx.x == 0) slot = x[blockIdx.x];
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(&slot)), "r"((rank + 1) % size));
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there));
  asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; }" : "=r"(leader));
  int sum;
  asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(sum) : "r"((int)threadIdx.x));
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
  if ((threadIdx.x & 31) == leader) y[blockIdx.x] = v + sum;
}

extern "C" __global__ void fp8_convert(const float2 *x, uint16_t *y, unsigned *back) {
  float2 v = x[threadIdx.x];
  uint16_t e;
  unsigned h;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(e) : "f"(v.y), "f"(v.x));
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(h) : "h"(e));
  asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
  y[threadIdx.x] = e, back[threadIdx.x] = h;
}
