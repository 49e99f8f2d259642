"""Elementwise kernels: functions of libdevice, inline assembly, random numbers, conversions, hints for loads."""

import math

import numpy as np
import triton
import triton.language as tl
from launches import Cases, Launch, changed, given, left, normal, rounded

try:
    from triton.language.extra import libdevice
except ImportError:  # where it is with each backend
    from triton.language.extra.cuda import libdevice

CASES = Cases()
EVERY = (1, 2, 4, 8)


@triton.jit
def device_functions(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, libdevice.tanh(x))
    tl.store(out_ptr + N + at, libdevice.asin(x * 0.125))
    tl.store(out_ptr + 2 * N + at, libdevice.pow(tl.abs(x) + 0.5, 1.5))
    tl.store(out_ptr + 3 * N + at, libdevice.log1p(tl.abs(x)))
    tl.store(out_ptr + 4 * N + at, libdevice.expm1(x))
    tl.store(out_ptr + 5 * N + at, libdevice.rint(x * 3))
    tl.store(out_ptr + 6 * N + at, libdevice.cbrt(x))


@triton.jit
def device_doubles(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, libdevice.erf(x) + libdevice.atan(x))
    tl.store(out_ptr + N + at, tl.exp(x) * tl.sqrt(tl.abs(x)))


@triton.jit
def functions(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.sin(x) + tl.cos(x))
    tl.store(out_ptr + N + at, tl.exp2(x) + tl.log2(tl.abs(x) + 1))
    tl.store(out_ptr + 2 * N + at, tl.erf(x))
    tl.store(out_ptr + 3 * N + at, tl.sigmoid(x))
    tl.store(out_ptr + 4 * N + at, tl.floor(x) + tl.ceil(x * 2))
    tl.store(out_ptr + 5 * N + at, tl.fma(x, x, 1.0))
    tl.store(out_ptr + 6 * N + at, tl.clamp(x, -0.5, 0.5))
    tl.store(out_ptr + 7 * N + at, tl.div_rn(x, 3.0) + tl.sqrt_rn(tl.abs(x)))


@triton.jit
def assembly(x_ptr, y_ptr, out_ptr, packed_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    y = tl.load(y_ptr + at)
    out = tl.inline_asm_elementwise("{ .reg .b32 t; mul.lo.s32 t, $1, 3; xor.b32 $0, t, $2; }", "=r,r,r", [x, y],
                                    dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out_ptr + at, out)
    bytes = x.to(tl.int8)
    inverted = tl.inline_asm_elementwise("not.b32 $0, $1;", "=r,r", [bytes], dtype=tl.int8, is_pure=True, pack=4)
    tl.store(packed_ptr + at, inverted)


@triton.jit
def random_numbers(out_ptr, int_ptr, seed, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_ptr + at, tl.rand(seed, at))
    tl.store(int_ptr + at, tl.randint(seed, at))


@triton.jit
def random_normals(out_ptr, sum_ptr, seed, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.randn(seed, at)
    tl.store(out_ptr + at, x)
    tl.store(sum_ptr, tl.sum(x * x))


@triton.jit
def dropout(x_ptr, out_ptr, n, p, seed, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(tl.rand(seed, at) > p, x / (1 - p), 0.0), mask=at < n)


@triton.jit
def conversions(x_ptr, half_ptr, brain_ptr, int_ptr, bits_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(half_ptr + at, x.to(tl.float16))
    tl.store(brain_ptr + at, x.to(tl.bfloat16))
    tl.store(int_ptr + at, (x * 100).to(tl.int32))
    tl.store(bits_ptr + at, x.to(tl.int32, bitcast=True) & 0x7FFFFFFF)


@triton.jit
def narrow_floats(x_ptr, out_ptr, back_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    y = x.to(tl.float8e5)
    tl.store(out_ptr + at, y)
    tl.store(back_ptr + at, y.to(tl.float32))


@triton.jit
def whole_numbers(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, x // y)
    tl.store(out_ptr + N + at, x % y)
    tl.store(out_ptr + 2 * N + at, (x << 3) ^ (y >> 1) | 1)
    tl.store(out_ptr + 3 * N + at, tl.umulhi(x, y))
    tl.store(out_ptr + 4 * N + at, tl.cdiv(x, y) + tl.minimum(x, y))


@triton.jit
def hinted(x_ptr, y_ptr, out_ptr, n, N: tl.constexpr):
    start = tl.multiple_of(tl.program_id(0) * N, N)
    at = tl.max_contiguous(start + tl.arange(0, N), N)
    x = tl.load(x_ptr + at, mask=at < n, other=1.0, eviction_policy="evict_last")
    y = tl.load(y_ptr + at, mask=at < n, cache_modifier=".cg")
    tl.store(out_ptr + at, tl.where(x > 0, x + y, x * y), mask=at < n, cache_modifier=".cs")


@triton.jit
def in_place(x_ptr, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(x_ptr + at, x * 0.5 + 1.0, mask=at < n)


@triton.jit
def scalar_in_place(x_ptr, sum_ptr, N: tl.constexpr):
    total = tl.load(sum_ptr)
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(sum_ptr, total + tl.sum(x * x))


@triton.jit
def adam(p_ptr, g_ptr, m_ptr, v_ptr, n, rate, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    mask = at < n
    g = tl.load(g_ptr + at, mask=mask)
    m = 0.9 * tl.load(m_ptr + at, mask=mask) + 0.1 * g
    v = 0.99 * tl.load(v_ptr + at, mask=mask) + 0.01 * g * g
    tl.store(m_ptr + at, m, mask=mask)
    tl.store(v_ptr + at, v, mask=mask)
    p = tl.load(p_ptr + at, mask=mask)
    tl.store(p_ptr + at, p - rate * m / (tl.sqrt(v) + 1e-8), mask=mask)


@triton.jit
def block_copy(x_ptr, out_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    row, col = tl.program_id(0) * M, tl.program_id(1) * N
    x = tl.make_block_ptr(x_ptr, (rows, cols), (cols, 1), (row, col), (M, N), (1, 0))
    out = tl.make_block_ptr(out_ptr, (rows, cols), (cols, 1), (row, col), (M, N), (1, 0))
    tl.store(out, tl.load(x, boundary_check=(0, 1), padding_option="zero") + 1.0, boundary_check=(0, 1))


@triton.jit
def descriptor_copy(x_ptr, out_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, cols], [cols, 1], [M, N])
    out = tl.make_tensor_descriptor(out_ptr, [rows, cols], [cols, 1], [M, N])
    row, col = tl.program_id(0) * M, tl.program_id(1) * N
    out.store([row, col], x.load([row, col]) + 1.0)


@triton.jit
def branches(x_ptr, out_ptr, mode, N: tl.constexpr, UP: tl.constexpr):
    i = tl.program_id(0)
    at = i * N + tl.arange(0, N)
    x = tl.load(x_ptr + at)
    if UP:
        x = x + 1.0
    if mode == 3:
        x = x * 2.0
    elif tl.sum(x) > 0:
        x = x - tl.max(x)
    else:
        for _ in range(i + 1):
            x = x * 0.5
    tl.store(out_ptr + at, x)


@triton.jit
def bounded(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.device_assert(x < 100.0, "an element is too large")
    tl.store(out_ptr + at, x + 1.0, mask=at < n)


ERF, ATAN = np.vectorize(math.erf), np.arctan


def device(n):
    def draw(rng):
        x = normal(rng, n)
        want = [np.tanh(x), np.arcsin(x / 8), (np.abs(x) + 0.5) ** 1.5, np.log1p(np.abs(x)), np.expm1(x),
                np.rint((x * 3).astype(np.float32)), np.cbrt(x)]
        return Launch((1,), {"x_ptr": given(x), "out_ptr": left(np.stack(want), "fp32", 1e-5)})
    return draw


def doubles(n):
    def draw(rng):
        x = normal(rng, n, "fp64")
        want = [ERF(x) + ATAN(x), np.exp(x) * np.sqrt(np.abs(x))]
        return Launch((1,), {"x_ptr": given(x, "fp64"), "out_ptr": left(np.stack(want), "fp64", 1e-13)})
    return draw


def evaluated(n):
    def draw(rng):
        x = normal(rng, n)
        want = [np.sin(x) + np.cos(x), np.exp2(x) + np.log2(np.abs(x) + 1), ERF(x), 1 / (1 + np.exp(-x)),
                np.floor(x) + np.ceil(x * 2), x * x + 1, np.clip(x, -0.5, 0.5), x / 3 + np.sqrt(np.abs(x))]
        return Launch((1,), {"x_ptr": given(x), "out_ptr": left(np.stack(want), "fp32", 1e-5)})
    return draw


def assembled(n):
    def draw(rng):
        x, y = rng.integers(-(1 << 20), 1 << 20, n), rng.integers(-(1 << 20), 1 << 20, n)
        return Launch((1,), {"x_ptr": given(x, "i32"), "y_ptr": given(y, "i32"), "out_ptr": left(3 * x ^ y, "i32"),
                             "packed_ptr": left(~x.astype(np.int8), "i8")})
    return draw


def philox(counter, seed, rounds=10):
    """The four words of Triton's tl.randint4x for counters and a seed below 2^32; tl.randint gives the first one.

    Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011: Philox-4x32.
    """
    mask = np.uint64(0xFFFFFFFF)
    c = [counter.astype(np.uint64), *(np.zeros(counter.shape, np.uint64) for _ in range(3))]
    k0, k1 = np.uint64(seed), np.uint64(0)
    for _ in range(rounds):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & mask, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & mask]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    return [word.astype(np.uint32).view(np.int32) for word in c]


def uniform(words):
    """What tl.rand makes of words."""
    folded = np.where(words < 0, -words.astype(np.int64) - 1, words)
    return folded.astype(np.float32).astype(float) * float(np.float32(4.6566127342e-10))


def random(n):
    def draw(rng):
        seed = int(rng.integers(3, 1 << 30)) | 2
        words = philox(np.arange(3 * n), seed)[0]
        return Launch((3,), {"out_ptr": left(uniform(words), "fp32", 1e-6), "int_ptr": left(words, "i32"),
                             "seed": seed})
    return draw


def normals(n):
    def draw(rng):
        seed = int(rng.integers(3, 1 << 30)) | 2
        first, second = (uniform(words) for words in philox(np.arange(n), seed)[:2])
        x = np.sqrt(-2 * np.log(np.maximum(first, 1e-7))) * np.cos(2 * math.pi * second)  # Box and Muller
        return Launch((1,), {"out_ptr": left(x, "fp32", 1e-5), "sum_ptr": left([(x * x).sum()], "fp32", 1e-5),
                             "seed": seed})
    return draw


def dropped(n, block):
    def draw(rng):
        seed, x = int(rng.integers(3, 1 << 30)) | 2, normal(rng, n)
        want = np.where(uniform(philox(np.arange(n), seed)[0]) > float(np.float32(0.3)), x / 0.7, 0.0)
        return Launch((-(-n // block),), {"x_ptr": given(x), "out_ptr": left(want, "fp32", 1e-6), "n": n, "p": 0.3,
                                          "seed": seed})
    return draw


def converted(n):
    def draw(rng):
        x = normal(rng, n)
        bits = x.astype(np.float32).view(np.int32) & 0x7FFFFFFF
        hundred = (x.astype(np.float32) * np.float32(100)).astype(np.int32)
        return Launch((1,), {"x_ptr": given(x), "half_ptr": left(x, "fp16"), "brain_ptr": left(x, "bf16"),
                             "int_ptr": left(hundred, "i32"), "bits_ptr": left(bits, "i32")})
    return draw


def narrowed(n):
    def draw(rng):
        x = rounded(normal(rng, n), "fp8e5")
        return Launch((1,), {"x_ptr": given(x), "out_ptr": left(x, "fp8e5"), "back_ptr": left(x)})
    return draw


def numbers(n):
    def draw(rng):
        x, y = rng.integers(1, 1 << 28, n), rng.integers(1, 1 << 12, n)
        want = [x // y, x % y, ((x << 3) ^ (y >> 1) | 1).astype(np.int32), x * y >> 32, -(-x // y) + np.minimum(x, y)]
        return Launch((1,), {"x_ptr": given(x, "i32"), "y_ptr": given(y, "i32"),
                             "out_ptr": left(np.stack(want), "i32")})
    return draw


def hints(n, block):
    def draw(rng):
        x, y = normal(rng, n), normal(rng, n)
        return Launch((-(-n // block),), {"x_ptr": given(x), "y_ptr": given(y),
                                          "out_ptr": left(np.where(x > 0, x + y, x * y), "fp32", 1e-6), "n": n})
    return draw


def placed(n, block):
    def draw(rng):
        x = normal(rng, n)
        return Launch((-(-n // block),), {"x_ptr": changed(x, x / 2 + 1, "fp32", 1e-6), "n": n})
    return draw


def total(n):
    def draw(rng):
        x, start = normal(rng, n), normal(rng, 1)
        return Launch((1,), {"x_ptr": given(x), "sum_ptr": changed(start, start + (x * x).sum(), "fp32", 1e-5)})
    return draw


def optimized(n, block):
    def draw(rng):
        p, g, m, v = normal(rng, n), normal(rng, n), normal(rng, n), normal(rng, n) ** 2
        v = v.astype(np.float32).astype(float)
        m1, v1 = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        p1 = p - 0.01 * m1 / (np.sqrt(v1) + 1e-8)
        return Launch((-(-n // block),), {"p_ptr": changed(p, p1, "fp32", 1e-5), "g_ptr": given(g),
                                          "m_ptr": changed(m, m1, "fp32", 1e-5), "v_ptr": changed(v, v1, "fp32", 1e-5),
                                          "n": n, "rate": 0.01})
    return draw


def copied(rows, cols, m, n):
    def draw(rng):
        x = normal(rng, (rows, cols))
        return Launch((-(-rows // m), -(-cols // n)), {"x_ptr": given(x), "out_ptr": left(x + 1, "fp32", 1e-6),
                                                       "rows": rows, "cols": cols})
    return draw


def branched(n, mode, up):
    def draw(rng):
        x = normal(rng, (4, n))
        x[0] += 1  # a sum above 0, so that both ways are taken
        x = x.astype(np.float32).astype(float)
        y = x + 1 if up else x
        want = y * 2 if mode == 3 else np.stack(
            [r - r.max() if r.sum() > 0 else r * 0.5 ** (i + 1) for i, r in enumerate(y)])
        return Launch((4,), {"x_ptr": given(x), "out_ptr": left(want, "fp32", 1e-6), "mode": mode})
    return draw


def asserted(n, block):
    def draw(rng):
        x = normal(rng, n)
        return Launch((-(-n // block),), {"x_ptr": given(x), "out_ptr": left(x + 1, "fp32", 1e-6), "n": n})
    return draw


CASES.of(device_functions, device(128), warps=(1, 4), N=128)
CASES.of(device_functions, device(32), warps=(4,), N=32)
CASES.of(device_doubles, doubles(64), warps=(1, 4), N=64)
CASES.of(functions, evaluated(128), warps=(1, 4), N=128)
CASES.of(assembly, assembled(128), warps=(1, 4), N=128)
CASES.of(assembly, assembled(32), warps=(1, 4), N=32)
CASES.of(random_numbers, random(64), warps=(1, 4), N=64)
CASES.of(random_normals, normals(128), warps=(1, 4), N=128)
CASES.of(dropout, dropped(100, 64), warps=EVERY, N=64)
CASES.of(conversions, converted(128), warps=(1, 4), N=128)
CASES.of(narrow_floats, narrowed(64), warps=(1, 4), N=64)
CASES.of(whole_numbers, numbers(64), warps=(1, 4), N=64)
CASES.of(hinted, hints(100, 64), warps=EVERY, N=64)
CASES.of(in_place, placed(100, 64), warps=EVERY, N=64)
CASES.of(in_place, placed(50, 16), warps=EVERY, N=16)
CASES.of(scalar_in_place, total(64), warps=EVERY, N=64)
CASES.of(adam, optimized(100, 64), warps=EVERY, N=64)
CASES.of(adam, optimized(50, 32), warps=EVERY, N=32)
CASES.of(block_copy, copied(20, 40, 16, 16), warps=EVERY, M=16, N=16)
CASES.of(descriptor_copy, copied(20, 40, 16, 16), warps=(4,), M=16, N=16)
for mode in (3, 5):
    CASES.of(branches, branched(64, mode, True), warps=EVERY, suffix=str(mode), N=64, UP=True)
CASES.of(bounded, asserted(100, 64), warps=EVERY, options={"debug": True}, N=64)
