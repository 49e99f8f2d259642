// Pairs for the semantic diff: each case is a kernel before and, with AFTER defined, after an edit that keeps its
// meaning. "same" means that the compiler is expected to write the same code but for names and lines; "other" that it
// may write other code. A line "build NAME: BEFORE => AFTER" gives compilers and flags where they are not the usual.
#include "../cuda/compat.cuh"

#define FULL 0xffffffffu

// case rename_variables: edit, same: local variables have other names
#ifdef CASE_rename_variables
extern "C" __global__ void rename_variables(const float *x, float *y, int n) {
#ifndef AFTER
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? x[i] : 0.0f;
  if (i < n) y[i] = v * v + 1.0f;
#else
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  float value = index < n ? x[index] : 0.0f;
  if (index < n) y[index] = value * value + 1.0f;
#endif
}
#endif

// case rename_kernel: edit, same: the kernel has another name
#ifdef CASE_rename_kernel
#ifdef AFTER
#define rename_kernel kernel_with_a_new_name
#endif
extern "C" __global__ void rename_kernel(const float *x, float *y, int cols) {
  float s = 0.0f;
  for (int c = 0; c < cols; c++) s += x[threadIdx.x * cols + c];
  y[threadIdx.x] = s;
}
#endif

// case rename_parameters: edit, same: parameters have other names
#ifdef CASE_rename_parameters
#ifndef AFTER
extern "C" __global__ void rename_parameters(const float *x, const float *w, float *y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] * w[i] + y[i];
}
#else
extern "C" __global__ void rename_parameters(const float *input, const float *weight, float *output, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) output[i] = input[i] * weight[i] + output[i];
}
#endif
#endif

// case comments: edit, same: comments and empty lines between statements
// build comments: clang-19 -O3 -gline-directives-only => clang-19 -O3 -gline-directives-only
#ifdef CASE_comments
extern "C" __global__ void comments(const float *x, float *y, int cols) {
#ifndef AFTER
  float m = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += 32) m = fmaxf(m, x[c]);
  for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, d));
  y[threadIdx.x] = m;
#else
  float m = -INFINITY; // nothing seen yet

  /* every lane takes
     each 32nd element */
  for (int c = threadIdx.x; c < cols; c += 32) m = fmaxf(m, x[c]);

  for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, d));
  y[threadIdx.x] = m;
#endif
}
#endif

// case line_shift: edit, same: the kernel moves down in its file
// build line_shift: clang-22 -O3 -gline-directives-only => clang-22 -O3 -gline-directives-only
#ifdef CASE_line_shift
#ifdef AFTER





#endif
extern "C" __global__ void line_shift(const double *x, double *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = sqrt(fabs(x[i]));
}
#endif

// case whitespace: edit, same: spaces and line breaks
#ifdef CASE_whitespace
extern "C" __global__ void whitespace(const float *x, float *y, int rows, int cols) {
#ifndef AFTER
  int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows && col < cols) y[col * rows + row] = x[row * cols + col];
#else
  int row = blockIdx.y,
      col=blockIdx.x*blockDim.x+threadIdx.x;
  if ( row < rows
       && col < cols )
  { y[ col*rows + row ]
      = x[ row*cols + col ]; }
#endif
}
#endif

// case debug_lines: edit, same: line information is switched on
// build debug_lines: clang-19 -O3 => clang-19 -O3 -gline-directives-only
#ifdef CASE_debug_lines
extern "C" __global__ void debug_lines(const float *x, float *y, int n) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0.0f;
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];
}
#endif

// case debug_whole: edit, same: whole debug information is switched on
// build debug_whole: clang-19 -O0 => clang-19 -O0 -g
#ifdef CASE_debug_whole
extern "C" __global__ void debug_whole(const float *x, float *y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) y[i] = 3.0f * x[i];
}
#endif

// case declaration_order: edit, same: local variables are declared in another order
#ifdef CASE_declaration_order
extern "C" __global__ void declaration_order(const float *x, float *y, float eps, int cols) {
#ifndef AFTER
  float sum = 0.0f;
  int c = 0;
  float inverse;
#else
  float inverse;
  int c = 0;
  float sum = 0.0f;
#endif
  for (; c < cols; c++) sum += x[c] * x[c];
  inverse = rsqrtf(sum / cols + eps);
  y[threadIdx.x] = x[threadIdx.x] * inverse;
}
#endif

// case temporaries: edit, other: parts of an expression get names, so their order may change
#ifdef CASE_temporaries
extern "C" __global__ void temporaries(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
#ifndef AFTER
  y[i] = 0.5f * x[i] * (1.0f + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
#else
  float v = x[i];
  float cubic = 0.044715f * v * v * v;
  float inner = 0.7978845608f * (v + cubic);
  float half = 0.5f * v;
  y[i] = half * (1.0f + tanhf(inner));
#endif
}
#endif

// case extract_function: edit, same: an expression becomes a function that is always inlined
#ifdef CASE_extract_function
__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }
extern "C" __global__ void extract_function(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifndef AFTER
  if (i < n) y[i] = x[i] * (1.0f / (1.0f + expf(-x[i])));
#else
  if (i < n) y[i] = x[i] * sigmoid(x[i]);
#endif
}
#endif

// case while_loop: edit, same: a for loop is written as a while loop
#ifdef CASE_while_loop
extern "C" __global__ void while_loop(const float *x, float *y, int cols) {
  float s = 0.0f;
#ifndef AFTER
  for (int c = threadIdx.x; c < cols; c += 32) s += x[blockIdx.x * cols + c];
#else
  int c = threadIdx.x;
  while (c < cols) {
    s = s + x[blockIdx.x * cols + c];
    c = c + 32;
  }
#endif
  y[blockIdx.x * 32 + threadIdx.x] = s;
}
#endif

// case type_alias: edit, same: types get other names
#ifdef CASE_type_alias
#ifdef AFTER
typedef float real;
using count = int;
#else
#define real float
#define count int
#endif
extern "C" __global__ void type_alias(const real *x, real *y, count n) {
  count i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i], real(0));
}
#endif

// case named_constant: edit, same: a number becomes a constant
#ifdef CASE_named_constant
constexpr float slope = 0.01f;
extern "C" __global__ void named_constant(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifndef AFTER
  if (i < n) y[i] = x[i] > 0.0f ? x[i] : 0.01f * x[i];
#else
  if (i < n) y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
#endif
}
#endif

// case number_notation: edit, same: numbers are written in another way
#ifdef CASE_number_notation
extern "C" __global__ void number_notation(const float *x, float *y, unsigned *z) {
#ifndef AFTER
  y[threadIdx.x] = x[threadIdx.x] * 0.375f + 1000.0f;
  z[threadIdx.x] = threadIdx.x & 255u;
#else
  y[threadIdx.x] = x[threadIdx.x] * 0x1.8p-2f + 1e3f;
  z[threadIdx.x] = threadIdx.x & 0xffu;
#endif
}
#endif

// case parentheses: edit, same: brackets that change nothing
#ifdef CASE_parentheses
extern "C" __global__ void parentheses(const float *x, const float *y, float *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifndef AFTER
  if (i < n) z[i] = x[i] * y[i] + x[i] - y[i];
#else
  if ((i) < (n)) { z[i] = (((x[i] * y[i]) + x[i]) - y[i]); }
#endif
}
#endif

// case pointer_notation: edit, same: an index becomes pointer arithmetic
#ifdef CASE_pointer_notation
extern "C" __global__ void pointer_notation(const float *x, float *y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
#ifndef AFTER
    y[i] = -x[i];
#else
    *(y + i) = -*(x + i);
#endif
}
#endif

// case guard_or_return: edit, same: a guard around the work becomes a return before it
#ifdef CASE_guard_or_return
extern "C" __global__ void guard_or_return(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifndef AFTER
  if (i < n) y[i] = x[i] * x[i];
#else
  if (i >= n) return;
  y[i] = x[i] * x[i];
#endif
}
#endif

// case unused_function: edit, same: a function that nobody calls is added
#ifdef CASE_unused_function
#ifdef AFTER
static __device__ float nobody_calls_this(float v) { return v * 17.0f; }
static __device__ int nobody_reads_this = 5;
#endif
extern "C" __global__ void unused_function(const float *x, float *y) {
  float v = x[threadIdx.x];
  v += __shfl_xor_sync(FULL, v, 1);
  y[threadIdx.x] = v;
}
#endif

// case shared_renamed: edit, same: an array in shared memory has another name
#ifdef CASE_shared_renamed
#ifdef AFTER
#define tile staging_buffer
#endif
extern "C" __global__ void shared_renamed(const float *x, float *y) {
  __shared__ float tile[32][33];
  tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
#endif

// case callee_renamed: edit, same: a function that is called has another name
#ifdef CASE_callee_renamed
#ifdef AFTER
#define horner evaluate_polynomial
#endif
extern "C" __device__ __noinline__ float horner(float x, const float *c, int n) {
  float p = 0.0f;
  for (int k = n - 1; k >= 0; k--) p = p * x + c[k];
  return p;
}
extern "C" __global__ void callee_renamed(const float *x, const float *c, float *y, int n) {
  y[threadIdx.x] = horner(x[threadIdx.x], c, n);
}
#endif

// case namespace_moved: edit, same: the kernel and its table move into a namespace, so mangled names change
#ifdef CASE_namespace_moved
#ifdef AFTER
namespace kernels {
#endif
__constant__ int steps[6] = {1, 4, 9, 16, 25, 36};
__global__ void namespace_moved(const int *x, int *y) { y[threadIdx.x] = steps[x[threadIdx.x] % 6]; }
#ifdef AFTER
}
#endif
#endif

// case kernel_order: edit, same: another kernel of the file moves in front, so labels and symbols get other numbers
#ifdef CASE_kernel_order
#define OTHER                                                                                                          \
  extern "C" __global__ void other(const float *x, float *y, int n) {                                                  \
    __shared__ float s[32];                                                                                            \
    for (int i = threadIdx.x; i < n; i += 32) s[threadIdx.x] = x[i];                                                   \
    y[threadIdx.x] = s[threadIdx.x ^ 1];                                                                               \
  }
#ifdef AFTER
OTHER
#endif
extern "C" __global__ void kernel_order(const float *x, float *y, int n) {
  __shared__ float part[32];
  float s = 0.0f;
  for (int i = threadIdx.x; i < n; i += 32) s += x[i];
  part[threadIdx.x] = s;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 1; i < 32; i++) s += part[i];
  if (threadIdx.x == 0) *y = s;
}
#ifndef AFTER
OTHER
#endif
#endif

// case const_added: edit, same: values that do not change are declared const
#ifdef CASE_const_added
#ifdef AFTER
#define CONST const
#else
#define CONST
#endif
extern "C" __global__ void const_added(float CONST *x, float *y, CONST int n) {
  CONST int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;
}
#endif

// case compound_assignment: edit, same: x += y becomes x = x + y
#ifdef CASE_compound_assignment
extern "C" __global__ void compound_assignment(const double *x, double *y, int n) {
  double s = 0.0;
#ifndef AFTER
  for (int i = 0; i < n; i++) s += x[i] * x[i];
#else
  for (int i = 0; i < n; ++i) s = s + x[i] * x[i];
#endif
  y[threadIdx.x] = s;
}
#endif

// case shift_for_product: edit, same: a product with a power of two becomes a shift
#ifdef CASE_shift_for_product
extern "C" __global__ void shift_for_product(const unsigned *x, unsigned *y) {
#ifndef AFTER
  y[threadIdx.x] = x[threadIdx.x] * 8 + x[threadIdx.x] / 4 + x[threadIdx.x] % 16;
#else
  y[threadIdx.x] = (x[threadIdx.x] << 3) + (x[threadIdx.x] >> 2) + (x[threadIdx.x] & 15);
#endif
}
#endif

// case commuted_sum: edit, other: the operands of an addition change places
#ifdef CASE_commuted_sum
extern "C" __global__ void commuted_sum(const float *x, const float *y, float *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifndef AFTER
  if (i < n) z[i] = x[i] + y[i];
#else
  if (i < n) z[i] = y[i] + x[i];
#endif
}
#endif

// case commuted_product: edit, other: factors change places
#ifdef CASE_commuted_product
extern "C" __global__ void commuted_product(const float *x, const float *w, float *y, float a) {
  int i = threadIdx.x;
#ifndef AFTER
  y[i] = a * x[i] * w[i];
#else
  y[i] = w[i] * (x[i] * a);
#endif
}
#endif

// case commuted_maximum: edit, other: the operands of a maximum change places
#ifdef CASE_commuted_maximum
extern "C" __global__ void commuted_maximum(const float *x, float *y) {
  float m = x[threadIdx.x];
#ifndef AFTER
  for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, d));
#else
  for (int d = 16; d > 0; d >>= 1) m = fmaxf(__shfl_xor_sync(FULL, m, d), m);
#endif
  y[threadIdx.x] = m;
}
#endif

// case doubled: edit, other: a product with 2 becomes a sum
#ifdef CASE_doubled
extern "C" __global__ void doubled(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifndef AFTER
  if (i < n) y[i] = x[i] * 2.0f;
#else
  if (i < n) y[i] = x[i] + x[i];
#endif
}
#endif

// case halved: edit, other: a division by 2 becomes a product with 0.5
#ifdef CASE_halved
extern "C" __global__ void halved(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifndef AFTER
  if (i < n) y[i] = x[i] / 2.0f;
#else
  if (i < n) y[i] = x[i] * 0.5f;
#endif
}
#endif

// case negated_sum: edit, other: a difference becomes the sum with the negated value
#ifdef CASE_negated_sum
extern "C" __global__ void negated_sum(const float *x, const float *y, float *z) {
#ifndef AFTER
  z[threadIdx.x] = x[threadIdx.x] - y[threadIdx.x];
#else
  z[threadIdx.x] = x[threadIdx.x] + (-y[threadIdx.x]);
#endif
}
#endif

// case statement_order: edit, other: statements that do not depend on each other change places
#ifdef CASE_statement_order
extern "C" __global__ void statement_order(const float *__restrict__ x, float *__restrict__ sine,
                                           float *__restrict__ cosine) {
  float v = x[threadIdx.x];
#ifndef AFTER
  sine[threadIdx.x] = sinf(v) * 0.5f;
  cosine[threadIdx.x] = cosf(v) * 0.25f;
#else
  cosine[threadIdx.x] = cosf(v) * 0.25f;
  sine[threadIdx.x] = sinf(v) * 0.5f;
#endif
}
#endif

// case swapped_arms: edit, other: the arms of an if change places and its condition is negated
#ifdef CASE_swapped_arms
extern "C" __global__ void swapped_arms(const int *x, int *y, int *z) {
  int v = x[threadIdx.x];
#ifndef AFTER
  if (v < 10) {
    y[threadIdx.x] = v * 3;
    atomicAdd(z, 1);
  } else {
    y[threadIdx.x] = v - 7;
    atomicMax(z, v);
  }
#else
  if (!(v < 10)) {
    y[threadIdx.x] = v - 7;
    atomicMax(z, v);
  } else {
    y[threadIdx.x] = v * 3;
    atomicAdd(z, 1);
  }
#endif
}
#endif

// case select_for_branch: edit, other: a branch becomes a conditional expression
#ifdef CASE_select_for_branch
extern "C" __global__ void select_for_branch(const float *x, float *y, float slope) {
  float v = x[threadIdx.x], r;
#ifndef AFTER
  if (v > 0.0f) r = v;
  else r = slope * v;
#else
  r = v > 0.0f ? v : slope * v;
#endif
  y[threadIdx.x] = r;
}
#endif

// case unroll: edit, other: a loop is unrolled four times
#ifdef CASE_unroll
extern "C" __global__ void unroll(const float *x, float *y, int n) {
#ifndef AFTER
#pragma unroll 1
#else
#pragma unroll 4
#endif
  for (int i = threadIdx.x; i < n; i += 256) y[i] = x[i] * 1.5f;
}
#endif

// case unroll_whole: edit, other: a loop of known length is unrolled
#ifdef CASE_unroll_whole
extern "C" __global__ void unroll_whole(const float *x, float *y) {
  float s = 0.0f;
#ifndef AFTER
#pragma unroll 1
#else
#pragma unroll
#endif
  for (int k = 0; k < 8; k++) s = s * 0.5f + x[threadIdx.x * 8 + k];
  y[threadIdx.x] = s;
}
#endif

// case vector_load: edit, other: four loads become one
#ifdef CASE_vector_load
extern "C" __global__ void vector_load(const float *x, float *y) {
  int i = threadIdx.x * 4;
#ifndef AFTER
  y[threadIdx.x] = x[i] + x[i + 1] + x[i + 2] + x[i + 3];
#else
  float4 v = *(const float4 *)(x + i);
  y[threadIdx.x] = v.x + v.y + v.z + v.w;
#endif
}
#endif

// case shared_padding: edit, other: rows of a tile get one unused element against bank conflicts
#ifdef CASE_shared_padding
#ifndef AFTER
#define PITCH 32
#else
#define PITCH 33
#endif
extern "C" __global__ void shared_padding(const float *x, float *y) {
  __shared__ float tile[32][PITCH];
  tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
#endif

// case launch_bounds: edit, other: the compiler is told the largest block
#ifdef CASE_launch_bounds
#ifdef AFTER
#define BOUNDS __launch_bounds__(256, 4)
#else
#define BOUNDS
#endif
extern "C" __global__ void BOUNDS launch_bounds(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}
#endif

// case restrict_added: edit, other: the compiler is told that buffers do not overlap
#ifdef CASE_restrict_added
#ifdef AFTER
#define ALONE __restrict__
#else
#define ALONE
#endif
extern "C" __global__ void restrict_added(const float *ALONE x, const float *ALONE w, float *ALONE y, int n) {
  for (int i = threadIdx.x; i < n; i += 32) y[i] = x[i] * w[0] + w[1];
}
#endif

// case no_inline: edit, other: a function is called instead of inlined
#ifdef CASE_no_inline
#ifdef AFTER
#define HOW __noinline__
#else
#define HOW __forceinline__
#endif
__device__ HOW float cube(float v) { return v * v * v; }
extern "C" __global__ void no_inline(const float *x, float *y) { y[threadIdx.x] = cube(x[threadIdx.x]); }
#endif

// case reduction_order: edit, other: the steps of a maximum go from near to far
#ifdef CASE_reduction_order
extern "C" __global__ void reduction_order(const int *x, int *y) {
  int m = x[threadIdx.x];
#ifndef AFTER
  for (int d = 16; d > 0; d >>= 1) m = max(m, __shfl_xor_sync(FULL, m, d));
#else
  for (int d = 1; d < 32; d <<= 1) m = max(m, __shfl_xor_sync(FULL, m, d));
#endif
  y[threadIdx.x] = m;
}
#endif

// case loop_backwards: edit, other: a search runs from the end to the start
#ifdef CASE_loop_backwards
extern "C" __global__ void loop_backwards(const int *x, int *y, int n) {
  int m = x[0];
#ifndef AFTER
#pragma unroll 1
  for (int i = 0; i < n; i++) m = min(m, x[i]);
#else
#pragma unroll 1
  for (int i = n - 1; i >= 0; i--) m = min(m, x[i]);
#endif
  y[threadIdx.x] = m;
}
#endif

// case compiler_16_19: edit, other: another compiler
// build compiler_16_19: clang-16 -O3 => clang-19 -O3
#ifdef CASE_compiler_16_19
extern "C" __global__ void compiler_16_19(const float *x, float *y, int cols, float eps) {
  float q = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 32) q += x[c] * x[c];
  for (int d = 16; d > 0; d >>= 1) q += __shfl_xor_sync(FULL, q, d);
  y[threadIdx.x] = rsqrtf(q / cols + eps);
}
#endif

// case compiler_19_22: edit, other: another compiler
// build compiler_19_22: clang-19 -O3 => clang-22 -O3
#ifdef CASE_compiler_19_22
extern "C" __global__ void compiler_19_22(const float *a, const float *b, float *c, int n, int k) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  float acc = 0.0f;
  for (int i = 0; i < k; i++) acc += a[blockIdx.y * k + i] * b[i * n + col];
  c[blockIdx.y * n + col] = acc;
}
#endif

// case level_1: edit, other: another level of optimisation
// build level_1: clang-19 -O3 => clang-19 -O1
#ifdef CASE_level_1
extern "C" __global__ void level_1(const float *x, float *y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] > 0.0f ? x[i] : expf(x[i]) - 1.0f;
}
#endif

// case level_0: edit, other: no optimisation
// build level_0: clang-19 -O3 => clang-19 -O0
#ifdef CASE_level_0
extern "C" __global__ void level_0(const int *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 5 - 2;
}
#endif

// case isa_version: edit, same: another version of PTX for the same machine
// build isa_version: clang-19 -O3 => clang-19 -O3 --cuda-feature=+ptx83
#ifdef CASE_isa_version
extern "C" __global__ void isa_version(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fminf(x[i], 6.0f);
}
#endif
