// A product of matrices as kernels for Hopper make it: one thread of the first warpgroup copies tiles to two stages of
// shared memory, the second warpgroup multiplies them, and barriers in memory tell each other. Tiles lie in global
// memory as wgmma wants them, 64 rows of 128 bytes with their pieces swizzled. mode chooses a mistake: 1 gives back the
// stage that is being read, 2 does not wait for the copy, 4 reads the result before the last product is done, 8 expects
// too many bytes, 16 has no wgmma.fence.
//
// clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_90a --cuda-feature=+ptx83 -nocudainc -nocudalib -O3
//          -gline-directives-only -S pipeline.cu -o pipeline.ptx
#define DEVICE static __attribute__((device)) inline
typedef unsigned int u32;
typedef unsigned long long u64;

DEVICE void wait_for(u32 barrier, u32 parity) {
  asm volatile("{\n\t.reg .pred p;\nagain:\n\t"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t"
               "@!p bra again;\n\t}" ::"r"(barrier), "r"(parity) : "memory");
}

DEVICE void load(u32 to, const char *from, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 8192, [%2];" ::"r"(to),
               "l"(from), "r"(barrier) : "memory");
}

extern "C" __attribute__((global)) void pipeline(const char *a, const char *b, float *c, int steps, int mode) {
  __attribute__((shared, aligned(1024))) static char tiles[2][2][8192];
  __attribute__((shared)) static u64 full[2], empty[2];
  u32 thread = __nvvm_read_ptx_sreg_tid_x();
  u32 tile = (u32)(u64)(__attribute__((address_space(3))) char *)&tiles[0][0][0];
  u32 filled = (u32)(u64)(__attribute__((address_space(3))) u64 *)full;
  u32 emptied = (u32)(u64)(__attribute__((address_space(3))) u64 *)empty;
  if (thread == 0) {
    for (int i = 0; i < 2; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(filled + 8 * i));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(emptied + 8 * i));
    }
  }
  __syncthreads();
  if (thread < 128) {
    if (thread != 0) return;
    for (int i = 0; i < steps; i++) {
      u32 stage = i % 2, at = tile + 16384 * stage;
      if (i >= 2) wait_for(emptied + 8 * stage, (i / 2 - 1) & 1);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(filled + 8 * stage),
                   "r"(mode & 8 ? 16400 : 16384) : "memory");
      load(at, a + 8192 * i, filled + 8 * stage);
      load(at + 8192, b + 8192 * i, filled + 8 * stage);
    }
    return;
  }
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < steps; i++) {
    u32 stage = i % 2, at = tile + 16384 * stage;
    if (!(mode & 2)) wait_for(filled + 8 * stage, (i / 2) & 1);
    u64 pattern = 1ull << 62 | 64ull << 32 | 1ull << 16;
    u64 da = pattern | (at & 0x3ffff) >> 4, db = pattern | ((at + 8192) & 0x3ffff) >> 4;
    if (!(mode & 16)) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; k++)
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, 1, 0;\n\t"
                   "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n\t}"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(da + 2 * k), "l"(db + 2 * k) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (i > 0 || mode & 1)
      asm volatile("{\n\t.reg .b64 state;\n\tmbarrier.arrive.shared::cta.b64 state, [%0];\n\t}" ::"r"(
                       emptied + 8 * (mode & 1 ? stage : 1 - stage)) : "memory");
  }
  if (!(mode & 4)) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; i++) c[4 * (thread - 128) + i] = d[i];
}
