// The operands of the recorded instructions, and the kernels that are easier in C++ than in PTX: sweeps of the
// approximate instructions and products of matrices. internal/ptxmath has the same generators in Go: every word below
// is part of the record, so a change needs a new recording. instructions.py compiles it with NVRTC.
typedef unsigned long long u64;
typedef long long s64;
typedef unsigned int u32;

#define STEP 0x9E3779B97F4A7C15ull

// mix is the output function of splitmix64.
__device__ inline u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

__device__ inline u64 low(int bits) { return bits >= 64 ? ~0ull : (1ull << bits) - 1; }

// with_exponent replaces the exponent field of v, clamped to its range.
__device__ inline u64 with_exponent(u64 v, int e, int ebits, int mbits) {
    int top = (1 << ebits) - 1;
    e = e < 0 ? 0 : e > top ? top : e;
    return (v & ~((u64)top << mbits)) | (u64)e << mbits;
}

// float_value is a float whose bits are drawn from r; q chooses the kind. center is the exponent field to be near.
__device__ inline u64 float_value(u64 r, u64 q, int ebits, int mbits, int center, const u64 *edges, int n) {
    u64 v = r & low(1 + ebits + mbits);
    int kind = q & 15, k = q >> 4 & 63;
    if (kind < 7) return v;
    if (kind < 11) return with_exponent(v, center + (ebits < 8 ? (k & 15) - 8 : k - 32), ebits, mbits);
    if (kind < 13) return edges[(q >> 32) % n];
    if (kind == 15) return with_exponent(v, k & 1, ebits, mbits);
    v &= ~(low(mbits) >> 3);
    return kind == 13 ? v : with_exponent(v, center + (k & 3) - 1, ebits, mbits);
}

// int_value is the same for an integer of w bits; ref is an earlier operand.
__device__ inline u64 int_value(u64 r, u64 q, int w, u64 ref, const u64 *edges, int n) {
    u64 v = r & low(w);
    int kind = q & 15, k = (int)(q >> 4 & 63) % w;
    if (kind < 7) return v;
    if (kind < 10) return v >> k;
    if (kind < 12) return (u64)((s64)(v << (64 - w)) >> (64 - w + k)) & low(w);
    if (kind < 14) return edges[(q >> 32) % n];
    if (kind == 14) return ((1ull << k) + (q >> 32) % 3 - 1) & low(w);
    return ref;
}

// shift_value is an operand that says how far or how long.
__device__ inline u64 shift_value(u64 r, u64 q, const u64 *edges, int n) {
    int kind = q & 15;
    if (kind < 8) return q >> 4 & 63;
    if (kind < 12) return r & 255;
    return kind < 14 ? edges[(q >> 32) % n] : r & low(32);
}

enum { INT = 0, FLOAT = 1, PAIR = 2, SHIFT = 3 };

// operand is operand j of tuple i: a function of the form's seed and the class alone. A one-operand form of at most 16
// bits takes every value once. ref is operand 0 of the same tuple.
__device__ inline u64 operand(u64 seed, u64 i, int j, int arity, int kind, int width, int ebits, int mbits, u64 ref,
                              int ref_ebits, int ref_mbits, const u64 *edges, int n) {
    if (arity == 1 && width <= 16) return i;
    u64 r = mix(seed + (4 * i + j + 1) * STEP), q = mix(r ^ 0x5851F42D4C957F2Dull);
    if (kind == INT) return int_value(r, q, width, j ? ref & low(width) : r & low(width), edges, n);
    if (kind == SHIFT) return shift_value(r, q, edges, n);
    int bias = (1 << (ebits - 1)) - 1, center = bias;
    bool near = j > 0 && !(arity == 3 && j == 1) && ref_ebits == ebits;
    if (near) center = ref >> ref_mbits & low(ref_ebits);
    if (kind == FLOAT) return float_value(r, q, ebits, mbits, center, edges, n);
    u64 lo = float_value(mix(r + 1), mix(q + 1), ebits, mbits, center, edges, n) & 0xffff;
    if (near) center = ref >> (16 + ref_mbits) & low(ref_ebits);
    return lo | (float_value(mix(r + 2), mix(q + 2), ebits, mbits, center, edges, n) & 0xffff) << 16;
}

// element is one element of matrix x (0: A, 1: B, 2: C) of a tile; i is its index, k its place along the products. The
// tile's number chooses the kind of numbers. ebits is 0 for integers, whose width is mbits.
__device__ inline u64 element(u64 seed, u64 tile, int x, int i, int k, int ebits, int mbits) {
    u64 r = mix(mix(seed + tile * 4 + x) + i * STEP), q = mix(r ^ 0x5851F42D4C957F2Dull);
    int kind = tile & 7;
    if (ebits == 0) {
        u64 top = 1ull << (mbits - 1);
        if (kind == 3 && x == 2) return q & 1 ? top - 1 - (r & 0xffff) : top + (r & 0xffff);
        if (kind == 3) return q & 3 ? top - (q >> 2 & 1) : 0;
        return r & low(mbits);
    }
    int bias = (1 << (ebits - 1)) - 1, top = (1 << ebits) - 1, span = ebits < 8 ? top - 1 : 32;
    int wide = ebits < 8 ? 1 + (int)(q >> 8 & 255) % span : bias - 16 + (int)(q >> 8 & 31);
    u64 v = r & low(1 + ebits + mbits);
    switch (kind) {
    case 0: return with_exponent(v, bias + (int)(q & 3) - 2, ebits, mbits);
    case 1: return with_exponent(v, wide, ebits, mbits);
    case 2: return (int)(v >> mbits & top) == top ? v & ~(1ull << mbits) : v;
    case 3: // products that cancel in pairs
        if (x < 2 && k & 1 && q & 3) {
            v = element(seed, tile, x, i - 1, k - 1, ebits, mbits);
            return x == 1 ? v ^ 1ull << (ebits + mbits) : v;
        }
        return with_exponent(v, bias - (x == 2 ? (int)(q >> 8 & 31) - 4 : (int)(q >> 8 & 7)), ebits, mbits);
    case 4: return with_exponent(v, (int)(q >> 8 & 255) % 3, ebits, mbits);
    case 5: return (q & 63) == 0 ? v | (u64)top << mbits : (int)(v >> mbits & top) == top ? v & ~(1ull << mbits) : v;
    case 6: return q & 1 ? v & 1ull << (ebits + mbits) : with_exponent(v, wide, ebits, mbits);
    }
    return with_exponent(v & ~(low(mbits) >> 2), bias + (int)(q & 3) - 1, ebits, mbits);
}

#ifdef __CUDA_ARCH__
extern "C" __global__ void operands(u64 *out, u32 n, u64 base, u64 seed, int j, int arity, int kind, int width,
                                    int ebits, int mbits, const u64 *ref, int ref_ebits, int ref_mbits,
                                    const u64 *edges, int edge_n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = operand(seed, base + i, j, arity, kind, width, ebits, mbits, j ? ref[i] : 0, ref_ebits, ref_mbits,
                         edges, edge_n);
}

// Errors of an approximate instruction over all 2^32 arguments, as the bits of non-negative doubles (which are ordered
// as integers). Compared are results whose correctly rounded value is a normal number: 0: units in the last place from
// the correctly rounded value; 1: relative to the exact value; 2, 3, 4: absolute, for |x| at most 2 pi, at most 100 pi,
// and in (1/2, 2); 5: relative for |x| outside (1/2, 2); 6: 1 where one of the two is NaN or
// infinite and the other not.
#define STATS 7

// widen is the value of an f32, without a conversion that a compiler's option could flush.
__device__ inline double widen(u32 a) {
    double v = a & 0x7f800000 ? __longlong_as_double(((u64)(a & 0x7fffffff) << 29) + (896ull << 52))
                              : (double)(int)(a & 0x7fffff) * 1.401298464324817e-45;
    if ((a & 0x7f800000) == 0x7f800000) v = __longlong_as_double((2047ull << 52) | (u64)(a & 0x7fffff) << 29);
    return a >> 31 ? -v : v;
}

__device__ inline void judge(u64 *best, u32 got, double exact, double x) {
    float rounded = (float)exact, g = __uint_as_float(got);
    u32 want = __float_as_uint(rounded);
    double list[STATS] = {0, 0, 0, 0, 0, 0, 0};
    if (isnan(rounded) != isnan(g) || isinf(rounded) != isinf(g)) {
        list[6] = 1;
    } else if (!isnan(g) && !isinf(g) && fabsf(rounded) >= 1.17549435e-38f) {
        double error = fabs(widen(got) - exact), mag = fabs(x);
        bool middle = mag > 0.5 && mag < 2;
        list[0] = (double)llabs((s64)(int)want - (s64)(int)got);
        list[1] = error / fabs(exact);
        list[2] = mag <= 6.283185307179586 ? error : 0;
        list[3] = mag <= 314.1592653589793 ? error : 0;
        list[4] = middle ? error : 0;
        list[5] = middle ? 0 : error / fabs(exact);
    }
    for (int i = 0; i < STATS; i++) {
        u64 b = __double_as_longlong(list[i]);
        best[i] = b > best[i] ? b : best[i];
    }
}

#define SWEEP(NAME, INSTRUCTION, EXACT)                                                          \
    extern "C" __global__ void NAME(u64 *stats, int ftz) {                                       \
        u64 best[STATS] = {0, 0, 0, 0, 0, 0, 0};                                                 \
        const u64 start = blockIdx.x * (u64)blockDim.x + threadIdx.x, stride = (u64)gridDim.x * blockDim.x; \
        for (u64 i = start; i < 1ull << 32; i += stride) {                                       \
            u32 got;                                                                             \
            if (ftz && !(i & 0x7f800000)) continue;                                              \
            asm volatile(INSTRUCTION " %0, %1;" : "=r"(got) : "r"((u32)i));                      \
            double x = widen((u32)i);                                                            \
            judge(best, got, EXACT, x);                                                          \
        }                                                                                        \
        for (int k = 0; k < STATS; k++) atomicMax(stats + k, best[k]);                           \
    }
SWEEP(sweep_ex2, "ex2.approx.f32", exp2(x))
SWEEP(sweep_lg2, "lg2.approx.f32", log2(x))
SWEEP(sweep_sin, "sin.approx.f32", sin(x))
SWEEP(sweep_cos, "cos.approx.f32", cos(x))
SWEEP(sweep_rcp, "rcp.approx.f32", 1 / x)
SWEEP(sweep_rsqrt, "rsqrt.approx.f32", 1 / sqrt(x))
SWEEP(sweep_sqrt, "sqrt.approx.f32", sqrt(x))
SWEEP(sweep_tanh, "tanh.approx.f32", tanh(x))
SWEEP(sweep_ex2_ftz, "ex2.approx.ftz.f32", exp2(x))
SWEEP(sweep_lg2_ftz, "lg2.approx.ftz.f32", log2(x))
SWEEP(sweep_sin_ftz, "sin.approx.ftz.f32", sin(x))
SWEEP(sweep_cos_ftz, "cos.approx.ftz.f32", cos(x))
SWEEP(sweep_rcp_ftz, "rcp.approx.ftz.f32", 1 / x)
SWEEP(sweep_rsqrt_ftz, "rsqrt.approx.ftz.f32", 1 / sqrt(x))
SWEEP(sweep_sqrt_ftz, "sqrt.approx.ftz.f32", sqrt(x))

// The quotients have two operands: 2^30 pairs instead of all, the divisor in [2^-126, 2^126].
#define SWEEP2(NAME, INSTRUCTION)                                                                \
    extern "C" __global__ void NAME(u64 *stats, int ftz) {                                       \
        u64 best[STATS] = {0, 0, 0, 0, 0, 0, 0};                                                 \
        const u64 start = blockIdx.x * (u64)blockDim.x + threadIdx.x, stride = (u64)gridDim.x * blockDim.x; \
        for (u64 i = start; i < 1ull << 30; i += stride) {                                       \
            u64 r = mix((i + 1) * STEP);                                                         \
            u32 a = (u32)r, b = (u32)(r >> 32), got, e = b >> 23 & 255;                          \
            if (e == 0 || e > 252 || !(a & 0x7f800000) || (a >> 23 & 255) == 255) continue;      \
            asm volatile(INSTRUCTION " %0, %1, %2;" : "=r"(got) : "r"(a), "r"(b));               \
            judge(best, got, widen(a) / widen(b), 3);                                            \
        }                                                                                        \
        for (int k = 0; k < STATS; k++) atomicMax(stats + k, best[k]);                           \
    }
SWEEP2(sweep_div, "div.approx.f32")
SWEEP2(sweep_div_ftz, "div.approx.ftz.f32")
SWEEP2(sweep_full, "div.full.f32")
SWEEP2(sweep_full_ftz, "div.full.ftz.f32")

// A product of matrices: WIDTH bits per element of A and B, A_REGS and B_REGS registers a lane, TILE_M rows (8 or 16),
// TILE_K products, formats (EA, MA), (EB, MB), (EC, MC) as exponent and mantissa bits. Every lane makes its own
// elements; ISSUE takes c to d.
#ifdef TILE_K
__device__ inline u64 packed(u64 seed, u64 tile, int x, int line, int k0, int ebits, int mbits) {
    u64 v = 0;
    const int per = WIDTH >= 32 ? 1 : 32 / WIDTH;
    for (int j = 0; j < per; j++)
        v |= (element(seed, tile, x, line * TILE_K + k0 + j, k0 + j, ebits, mbits) & low(WIDTH)) << (j * WIDTH % 64);
    return v;
}

#ifdef WGMMA
#define ROWS 64
#else
#define ROWS TILE_M
#endif

extern "C" __global__ void product(OUT *out, u32 tiles, u64 base, u64 seed) {
    const int lane = threadIdx.x & 31, group = lane >> 2, in = lane & 3, per = WIDTH >= 32 ? 1 : 32 / WIDTH;
#ifdef WGMMA
    const u32 which = blockIdx.x, first = (threadIdx.x >> 5) * 16;
    __shared__ __align__(128) unsigned char sb[256];
#else
    const u32 which = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), first = 0;
#endif
    if (which >= tiles) return;
    const u64 tile = base + which;
    REG a[A_REGS], b[B_REGS];
    for (int r = 0; r < A_REGS; r++)
        a[r] = TILE_M == 8 ? packed(seed, tile, 0, group, r * 4 * per + in * per, EA, MA)
                           : packed(seed, tile, 0, first + group + 8 * (r & 1), (r >> 1) * 4 * per + in * per, EA, MA);
    for (int r = 0; r < B_REGS; r++) b[r] = packed(seed, tile, 1, group, r * 4 * per + in * per, EB, MB);
    u64 c[4], d[4];
    const int have = TILE_M == 8 ? 2 : 4;
    for (int r = 0; r < have; r++)
        c[r] = element(seed, tile, 2, (first + group + 8 * (r >> 1)) * 8 + in * 2 + (r & 1), 0, EC, MC);
#ifdef WGMMA
    // Eight columns of 32 bytes: two core matrices of 8 x 16 bytes, without swizzling. Warp 0 holds all of B.
    if (threadIdx.x < 32)
        for (int r = 0; r < 2; r++) *(u32 *)(sb + r * 128 + group * 16 + in * 4) = b[r];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    const u64 at = (u64)__cvta_generic_to_shared(sb) >> 4, desc = at | 8ull << 16 | 8ull << 32;
#endif
    ISSUE
    for (int r = 0; r < have; r++)
        out[(u64)which * ROWS * 8 + (first + group + 8 * (r >> 1)) * 8 + in * 2 + (r & 1)] = (OUT)d[r];
}
#endif
#endif
