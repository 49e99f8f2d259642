// Control flow: loops within loops whose length depends on the thread, early exits, labels in inline assembly.
#include "compat.cuh"

extern "C" __global__ void collatz(const unsigned *x, int *steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = x[i];
  int count = 0;
  while (v != 1 && count < 1000) {
    v = v & 1 ? 3 * v + 1 : v >> 1;
    count++;
  }
  steps[i] = count;
}

extern "C" __global__ void mandelbrot(int *out, int width, int height, int limit) {
  for (int y = blockIdx.y; y < height; y += gridDim.y)
    for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < width; x += gridDim.x * blockDim.x) {
      float cr = 3.0f * x / width - 2.0f, ci = 2.0f * y / height - 1.0f, r = 0.0f, m = 0.0f;
      int k = 0;
      for (; k < limit; k++) {
        float rr = r * r, mm = m * m;
        if (rr + mm > 4.0f) break;
        m = 2.0f * r * m + ci;
        r = rr - mm + cr;
      }
      out[y * width + x] = k;
    }
}

extern "C" __global__ void sparse_rows(const int *start, const int *column, const float *value, const float *x,
                                       float *y, int rows) {
  for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
    float acc = 0.0f;
    for (int at = start[row]; at < start[row + 1]; at++) {
      if (column[at] < 0) continue;
      float v = value[at] * x[column[at]];
      if (v != v) {
        acc = v;
        goto done;
      }
      acc += v;
    }
  done:
    y[row] = acc;
  }
}

// The same label in two scopes, a predicate register and a loop inside the assembly.
extern "C" __global__ void asm_scopes(const unsigned *x, unsigned *y) {
  unsigned v = x[threadIdx.x], count;
  asm volatile("{\n\t"
               ".reg .pred p;\n\t"
               ".reg .u32 t;\n\t"
               "mov.u32 %0, 0;\n\t"
               "mov.u32 t, %1;\n"
               "AGAIN:\n\t"
               "setp.eq.u32 p, t, 0;\n\t"
               "@p bra.uni DONE;\n\t"
               "shr.u32 t, t, 1;\n\t"
               "add.u32 %0, %0, 1;\n\t"
               "bra AGAIN;\n"
               "DONE:\n\t"
               "}" : "=&r"(count) : "r"(v));
  unsigned twos;
  asm volatile("{\n\t"
               ".reg .pred p, q;\n\t"
               ".reg .b32 t<3>;\n\t"
               "mov.b32 t0, %1; mov.b32 %0, 0;\n"
               "AGAIN: and.b32 t1, t0, 1; setp.ne.s32 p|q, t1, 0; @p bra DONE;\n\t"
               "setp.gt.and.u32 p, %0, 30, !q; @p bra DONE;\n\t"
               "{ .reg .b32 t1; mov.b32 t1, 1; shr.b32 t0, t0, t1; @!p add.s32 %0, %0, 1; }\n\t"
               "bra AGAIN;\n"
               "DONE: }" : "=&r"(twos) : "r"(v));
  y[threadIdx.x] = count * 256 + twos;
}

// Triton's way to write a guarded load, and special registers of all kinds.
extern "C" __global__ void asm_guarded(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v;
  asm volatile("{ .reg .pred p; setp.lt.s32 p, %2, %3; mov.f32 %0, 0fFF800000; @p ld.global.f32 %0, [ %1 + 0 ]; }"
               : "=f"(v) : "l"(x + i), "r"(i), "r"(n));
  unsigned lane, warp, below, clock;
  asm volatile("mov.u32 %0, %%laneid;\n\tmov.u32 %1, %%nwarpid;\n\tmov.u32 %2, %%lanemask_lt;\n\tmov.u32 %3, %%clock;"
               : "=r"(lane), "=r"(warp), "=r"(below), "=r"(clock));
  if (i < n && (lane | warp | below | clock) != 0) y[i] = v;
}

extern "C" __global__ void guarded_exit(const int *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) asm volatile("exit;");
  if (x[i] < 0) __trap();
  asm volatile(".pragma \"nounroll\";");
  int s = 0;
#pragma unroll 1
  for (int k = 0; k <= x[i]; k++) s += k * k;
  y[i] = s;
}
