// Accesses that are wider than the address is aligned.
#include "planted.cuh"

KERNEL vector_at_odd_offset(const float *x, float *y, int offset) {
  float4 v = *(const float4 *)(x + 4 * threadIdx.x + (sound ? 0 : offset)); // PLANT misaligned
  y[threadIdx.x] = v.x + v.y + v.z + v.w;
}

KERNEL pair_in_shared(const unsigned *x, uint64_t *y, int shift) {
  __shared__ __align__(8) unsigned tile[130];
  int i = threadIdx.x;
  tile[2 * i] = x[2 * i], tile[2 * i + 1] = x[2 * i + 1];
  if (i < 2) tile[128 + i] = 0;
  __syncthreads();
  const void *pair = &tile[2 * i + (sound ? 0 : shift)];
  asm("" : "+l"(pair)); // or clang, which sees the alignment of the tile, makes two loads of it
  y[i] = *(const uint64_t *)pair; // PLANT misaligned
}

KERNEL packed_records(const uint8_t *x, int *y) {
  const uint8_t *record = x + 5 * threadIdx.x + 1;
  int v;
  if (sound) v = record[0] | record[1] << 8 | record[2] << 16 | record[3] << 24;
  else v = *(const int *)record; // PLANT misaligned
  y[threadIdx.x] = v;
}

KERNEL half_pairs(uint16_t *y, int shift) {
  unsigned at = 2 * threadIdx.x + (sound ? 0 : shift);
  *(unsigned *)(y + at) = threadIdx.x; // PLANT misaligned
}

KERNEL atomic_on_bytes(uint8_t *y) {
  atomicAdd((unsigned *)(y + (sound ? 4 : 2) * (threadIdx.x & 1)), 1u); // PLANT misaligned
}
