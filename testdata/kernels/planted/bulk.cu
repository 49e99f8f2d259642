// Bulk copies and their barriers (sm_90).
#include "planted.cuh"

HELPERS
INTRINSIC void wait_parity(unsigned barrier, unsigned parity) {
  int done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}

INTRINSIC void load(float *to, const float *from, unsigned bytes, unsigned barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

INTRINSIC void make(unsigned barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
HELPERS_END

KERNEL bulk_not_waited_for(const float *x, float *y) {
  __shared__ __align__(128) float tile[64];
  __shared__ __align__(8) uint64_t full;
  int i = threadIdx.x;
  unsigned barrier = shared_address(&full);
  if (i == 0) make(barrier);
  __syncthreads();
  if (i == 0) load(tile, x, sizeof tile, barrier); // PLANT race
  if (sound) wait_parity(barrier, 0);
  else __syncthreads();
  y[i] = tile[i]; // PLANT async_hazard race
  wait_parity(barrier, 0);
}

KERNEL bulk_source_overwritten(const float *x, float *y) {
  __shared__ __align__(128) float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (i == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(y), "r"(shared_address(tile)),
                 "r"((int)sizeof tile) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (sound) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    tile[0] = 0.0f; // PLANT async_hazard
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

KERNEL expects_too_much(const float *x, float *y) {
  __shared__ __align__(128) float tile[64];
  __shared__ __align__(8) uint64_t full;
  int i = threadIdx.x;
  unsigned barrier = shared_address(&full);
  if (i == 0) make(barrier);
  __syncthreads();
  if (i == 0) {
    if (!sound) asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(barrier) : "memory");
    load(tile, x, sizeof tile, barrier);
  }
  wait_parity(barrier, 0); // PLANT deadlock
  y[i] = tile[i];
}
