// Pairs for the semantic diff: each case is a sound kernel and, with AFTER defined, the same kernel with one fault.
// A line "case NAME: fault, FAMILY: what" stands before each; tools/fixtures.py reads it and compiles each case alone.
#include "../cuda/compat.cuh"

#define FULL 0xffffffffu

#ifdef AFTER
#define PICK(sound, faulty) faulty
#else
#define PICK(sound, faulty) sound
#endif

// case softmax_pad: fault, mask: lanes beyond the row load 0 instead of minus infinity
#ifdef CASE_softmax_pad
extern "C" __global__ void softmax_pad(const float *x, float *y, int cols) {
  int c = threadIdx.x;
  float v = c < cols ? x[blockIdx.x * cols + c] : PICK(-INFINITY, 0.0f), m = v;
  for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, d));
  float e = expf(v - m), s = e;
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(FULL, s, d);
  if (c < cols) y[blockIdx.x * cols + c] = e / s;
}
#endif

// case store_unmasked: fault, mask: the store has lost its guard
#ifdef CASE_store_unmasked
extern "C" __global__ void store_unmasked(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? x[i] : 0.0f;
  if (PICK(i < n, true)) y[i] = v * v;
}
#endif

// case bound_le: fault, mask: less-or-equal in place of less
#ifdef CASE_bound_le
extern "C" __global__ void bound_le(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i PICK(<, <=) n) y[i] = fabsf(x[i]);
}
#endif

// case last_tile: fault, tile loop: a remainder of the inner size is skipped
#ifdef CASE_last_tile
extern "C" __global__ void last_tile(const float *a, const float *b, float *c, int n, int k) {
  __shared__ float at[16][16], bt[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float acc = 0.0f;
  for (int t = 0; t < PICK((k + 15) / 16, k / 16); t++) {
    at[ty][tx] = t * 16 + tx < k ? a[row * k + t * 16 + tx] : 0.0f;
    bt[ty][tx] = t * 16 + ty < k ? b[(t * 16 + ty) * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 16; i++) acc += at[ty][i] * bt[i][tx];
    __syncthreads();
  }
  c[row * n + col] = acc;
}
#endif

// case start_one: fault, tile loop: the sum starts at the second element
#ifdef CASE_start_one
extern "C" __global__ void start_one(const float *x, float *y, int cols) {
  float s = 0.0f;
#pragma unroll 1
  for (int c = PICK(0, 1); c < cols; c++) s += x[threadIdx.x * cols + c];
  y[threadIdx.x] = s;
}
#endif

// case wrong_stride: fault, index: rows are taken to be as long as the matrix is high
#ifdef CASE_wrong_stride
extern "C" __global__ void wrong_stride(const float *x, float *y, int rows, int cols) {
  int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows && col < cols) y[col * rows + row] = x[row * PICK(cols, rows) + col];
}
#endif

// case int_product: fault, index: the offset of a row is multiplied in 32 bits
#ifdef CASE_int_product
extern "C" __global__ void int_product(const float *x, float *y, int cols) {
  size_t offset = PICK((size_t)blockIdx.x * cols, blockIdx.x * cols);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) y[offset + c] = -x[offset + c];
}
#endif

// case wrong_axis: fault, index: the guard looks at the other axis
#ifdef CASE_wrong_axis
extern "C" __global__ void wrong_axis(const float *x, float *y, int width, int height) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (PICK(px, py) < width && PICK(py, px) < height) y[py * width + px] = 2.5f * x[py * width + px];
}
#endif

// case acc_assign: fault, accumulate: the sum is overwritten instead of added to
#ifdef CASE_acc_assign
extern "C" __global__ void acc_assign(const float *a, const float *b, float *c, int n, int k) {
  int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  float acc = 0.0f;
  for (int i = 0; i < k; i++) acc PICK(+=, =) a[row * k + i] * b[i * n + col];
  c[row * n + col] = acc;
}
#endif

// case half_accumulator: fault, accumulate: the running sum is kept in half precision
#ifdef CASE_half_accumulator
extern "C" __global__ void half_accumulator(const float *x, float *y, int cols) {
  float s = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 32) {
    s += x[blockIdx.x * cols + c];
#ifdef AFTER
    asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h; }" : "+f"(s));
#endif
  }
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(FULL, s, d);
  y[blockIdx.x] = s;
}
#endif

// case lost_atomic: fault, accumulate: blocks overwrite one another's sums
#ifdef CASE_lost_atomic
extern "C" __global__ void lost_atomic(const float *x, float *y, int n) {
  float s = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(FULL, s, d);
  if ((threadIdx.x & 31) == 0) PICK((void)atomicAdd(y, s), *y = s);
}
#endif

// case missing_alpha: fault, online softmax: the sum is not rescaled when the maximum rises
#ifdef CASE_missing_alpha
extern "C" __global__ void missing_alpha(const float *x, const float *v, float *o, int cols) {
  float m = -INFINITY, l = 0.0f, acc = 0.0f;
  for (int c = 0; c < cols; c++) {
    float s = x[threadIdx.x * cols + c], next = fmaxf(m, s), alpha = expf(m - next), p = expf(s - next);
    l = l * alpha + p;
    acc = PICK(acc * alpha, acc) + p * v[c];
    m = next;
  }
  o[threadIdx.x] = acc / l;
}
#endif

// case stale_max: fault, online softmax: the new element is scaled by the old maximum
#ifdef CASE_stale_max
extern "C" __global__ void stale_max(const float *x, float *o, int cols) {
  float m = x[threadIdx.x * cols], l = 1.0f;
  for (int c = 1; c < cols; c++) {
    float v = x[threadIdx.x * cols + c], next = fmaxf(m, v);
    l = l * expf(m - next) + expf(v - PICK(next, m));
    m = next;
  }
  o[threadIdx.x] = m + logf(l);
}
#endif

// case wrong_base: fault, online softmax: a power of two in place of the exponential
#ifdef CASE_wrong_base
extern "C" __global__ void wrong_base(const float *x, float *y, float shift, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = PICK(expf, exp2f)(x[i] - shift);
}
#endif

// case max_init: fault, online softmax: the maximum starts at 0
#ifdef CASE_max_init
extern "C" __global__ void max_init(const float *x, float *y, int cols) {
  float m = PICK(-INFINITY, 0.0f);
  for (int c = threadIdx.x; c < cols; c += 32) m = fmaxf(m, x[blockIdx.x * cols + c]);
  for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, d));
  if (threadIdx.x == 0) y[blockIdx.x] = m;
}
#endif

// case scale_wrong: fault, attention: scores are divided by the width instead of its root
#ifdef CASE_scale_wrong
extern "C" __global__ void scale_wrong(const float *q, const float *k, float *s, int len, int dim) {
  float dot = 0.0f;
  for (int d = 0; d < dim; d++) dot += q[blockIdx.x * dim + d] * k[threadIdx.x * dim + d];
  s[blockIdx.x * len + threadIdx.x] = dot / PICK(sqrtf((float)dim), (float)dim);
}
#endif

// case causal_diagonal: fault, attention: a query does not see its own key
#ifdef CASE_causal_diagonal
extern "C" __global__ void causal_diagonal(float *s, int len) {
  int row = blockIdx.x, col = threadIdx.x;
  if (col < len && !(col PICK(<=, <) row)) s[row * len + col] = -INFINITY;
}
#endif

// case eps_missing: fault, normalise: nothing is added under the root
#ifdef CASE_eps_missing
extern "C" __global__ void eps_missing(const float *x, float *y, int cols) {
  float q = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 32) q += x[blockIdx.x * cols + c] * x[blockIdx.x * cols + c];
  for (int d = 16; d > 0; d >>= 1) q += __shfl_xor_sync(FULL, q, d);
  float inv = rsqrtf(PICK(q / cols + 1e-6f, q / cols));
  for (int c = threadIdx.x; c < cols; c += 32) y[blockIdx.x * cols + c] = x[blockIdx.x * cols + c] * inv;
}
#endif

// case eps_outside: fault, normalise: epsilon is added to the root, not under it
#ifdef CASE_eps_outside
extern "C" __global__ void eps_outside(const float *x, const float *var, float *y, float eps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] / PICK(sqrtf(var[blockIdx.x] + eps), (sqrtf(var[blockIdx.x]) + eps));
}
#endif

// case eps_value: fault, normalise: epsilon is ten times too small
#ifdef CASE_eps_value
extern "C" __global__ void eps_value(const float *x, const float *q, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] * rsqrtf(q[blockIdx.x] + PICK(1e-5f, 1e-6f));
}
#endif

// case variance_divisor: fault, normalise: the sum is divided by one less than the number of elements
#ifdef CASE_variance_divisor
extern "C" __global__ void variance_divisor(const float *x, float *var, float mean, int cols) {
  float q = 0.0f;
  for (int c = 0; c < cols; c++) q += (x[threadIdx.x * cols + c] - mean) * (x[threadIdx.x * cols + c] - mean);
  var[threadIdx.x] = q / PICK(cols, (cols - 1));
}
#endif

// case gelu_constant: fault, constants: 0.8 in place of the root of 2/pi
#ifdef CASE_gelu_constant
extern "C" __global__ void gelu_constant(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[i] = 0.5f * v * (1.0f + tanhf(PICK(0.7978845608f, 0.8f) * (v + 0.044715f * v * v * v)));
}
#endif

// case leaky_slope: fault, constants: a slope of 0.1 in place of 0.01
#ifdef CASE_leaky_slope
extern "C" __global__ void leaky_slope(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] > 0.0f ? x[i] : PICK(0.01f, 0.1f) * x[i];
}
#endif

// case sign_flip: fault, constants: the rotation adds where it subtracts
#ifdef CASE_sign_flip
extern "C" __global__ void sign_flip(float *x, const float *c, const float *s, int half) {
  int k = threadIdx.x;
  float lo = x[k], hi = x[k + half];
  x[k] = lo * c[k] PICK(-, +) hi * s[k];
  x[k + half] = hi * c[k] + lo * s[k];
}
#endif

// case swapped_operands: fault, constants: the difference is taken the other way round
#ifdef CASE_swapped_operands
extern "C" __global__ void swapped_operands(const float *x, const float *y, float *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = PICK(x[i] - y[i], y[i] - x[i]);
}
#endif

// case table_value: fault, constants: one value of a table is off
#ifdef CASE_table_value
__constant__ float taps[5] = {0.0625f, 0.25f, PICK(0.375f, 0.35f), 0.25f, 0.0625f};
extern "C" __global__ void table_value(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float acc = 0.0f;
#pragma unroll 1
  for (int t = 0; t < 5; t++)
    if (i + t < n) acc += taps[t] * x[i + t];
  if (i < n) y[i] = acc;
}
#endif

// case shuffle_offset: fault, reduction: the first step of the reduction is missing
#ifdef CASE_shuffle_offset
extern "C" __global__ void shuffle_offset(const float *x, float *y) {
  float s = x[blockIdx.x * 32 + threadIdx.x];
#pragma unroll 1
  for (int d = PICK(16, 8); d > 0; d >>= 1) s += __shfl_xor_sync(FULL, s, d);
  if (threadIdx.x == 0) y[blockIdx.x] = s;
}
#endif

// case wrong_reduction: fault, reduction: the minimum in place of the maximum
#ifdef CASE_wrong_reduction
extern "C" __global__ void wrong_reduction(const float *x, float *y) {
  float m = x[blockIdx.x * 32 + threadIdx.x];
  for (int d = 16; d > 0; d >>= 1) m = PICK(fmaxf, fminf)(m, __shfl_xor_sync(FULL, m, d));
  if (threadIdx.x == 0) y[blockIdx.x] = m;
}
#endif

// case missing_barrier: fault, concurrency: threads read what others have not yet written
#ifdef CASE_missing_barrier
extern "C" __global__ void missing_barrier(const float *x, float *y) {
  __shared__ float s[256];
  s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  PICK(__syncthreads(), (void)0);
  y[blockIdx.x * 256 + threadIdx.x] = s[255 - threadIdx.x];
}
#endif

// case wait_count: fault, concurrency: one group of copies more may be in flight when its data is read
#ifdef CASE_wait_count
extern "C" __global__ void wait_count(const float *x, float *y) {
  __shared__ float s[2][32];
  for (int stage = 0; stage < 2; stage++) {
    uint32_t to = (uint32_t)__cvta_generic_to_shared(&s[stage][threadIdx.x]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(x + stage * 32 + threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.wait_group %0;" ::"n"(PICK(1, 2)) : "memory");
  __syncthreads();
  y[threadIdx.x] = s[0][31 - threadIdx.x];
}
#endif

// case missing_trans: fault, layout: the right-hand matrix is loaded without being transposed
#ifdef CASE_missing_trans
extern "C" __global__ void missing_trans(const uint4 *b, uint2 *out) {
  __shared__ __align__(16) uint4 s[32];
  s[threadIdx.x] = b[threadIdx.x];
  __syncwarp();
  uint2 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2" PICK(".trans", "") ".shared.b16 {%0, %1}, [%2];"
               : "=r"(r.x), "=r"(r.y) : "r"((uint32_t)__cvta_generic_to_shared(&s[threadIdx.x & 15])));
  out[threadIdx.x] = r;
}
#endif

// case clamp_bound: fault, quantisation: values are clamped to 128, which a byte cannot hold
#ifdef CASE_clamp_bound
extern "C" __global__ void clamp_bound(const float *x, int8_t *q, float scale, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) q[i] = (int8_t)max(-127, min(PICK(127, 128), __float2int_rn(x[i] * scale)));
}
#endif

// case truncation: fault, quantisation: values are cut off instead of rounded
#ifdef CASE_truncation
extern "C" __global__ void truncation(const float *x, int *q, float scale, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) q[i] = PICK(__float2int_rn(x[i] * scale), (int)(x[i] * scale));
}
#endif

// case scale_group: fault, quantisation: the scale of the first group is used for all
#ifdef CASE_scale_group
extern "C" __global__ void scale_group(const int8_t *q, const float *scale, float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = q[i] * scale[PICK(i / 64, 0)];
}
#endif
