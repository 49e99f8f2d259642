// One instruction of each family that a listing must be classified by. Nothing here is meant to compute something.
#include <stdint.h>

extern "C" __global__ void tensor_cores(float *c, const uint32_t *a, double *d) {
    __shared__ __align__(1024) uint32_t tile[2048];
    uint32_t r[4], address = static_cast<uint32_t>(__cvta_generic_to_shared(tile)) + threadIdx.x * 16;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(a + threadIdx.x * 4));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
    float f[4] = {1, 2, 3, 4};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
                 : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
    int i[4] = {1, 2, 3, 4};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
                 : "+r"(i[0]), "+r"(i[1]), "+r"(i[2]), "+r"(i[3])
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
    double e[2] = {d[0], d[1]};
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%2}, {%0,%1};"
                 : "+d"(e[0]), "+d"(e[1])
                 : "d"(d[2]));
    for (int k = 0; k < 4; k++) c[threadIdx.x * 4 + k] = f[k] + i[k] + e[k & 1];
}

extern "C" __global__ void memory(const float4 *x, float4 *y, unsigned char *b, int *counter, int n) {
    __shared__ int hits[32];
    hits[threadIdx.x & 31] = 0;
    __syncthreads();
    y[threadIdx.x] = x[threadIdx.x];
    b[threadIdx.x] = b[threadIdx.x + n] + 1;
    atomicAdd(counter, 1);
    int before = atomicMax(counter + 1, n);
    atomicAdd(&hits[before & 31], 1);
    float a[16];
    for (int k = 0; k < n; k++) a[k & 15] = x[k].y;
    y[n].x = a[before & 15];
    if (n > 5) y[n].y = hits[n & 31];
}

#if __CUDA_ARCH__ == 900
extern "C" __global__ void hopper(float *c, const __grid_constant__ uint64_t map[16], uint64_t descriptor) {
    __shared__ __align__(1024) uint32_t tile[2048];
    __shared__ __align__(8) uint64_t barrier;
    uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
    uint32_t mbar = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %2}], [%3];"
                 ::"r"(address), "l"(map), "r"(0), "r"(mbar) : "memory");
    float f[4] = {1, 2, 3, 4};
    asm volatile("wgmma.fence.sync.aligned;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %4, 1, 1, 1, 0, 0;\n"
                 "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                 : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3]) : "l"(descriptor));
    c[threadIdx.x] = f[0] + f[1] + f[2] + f[3] + tile[threadIdx.x];
}
#endif
