"""Sums of products and other reductions, in the shapes that people write them."""

import numpy as np
import triton
import triton.language as tl
from launches import Cases, Launch, given, left, normal

CASES = Cases()
EVERY = (1, 2, 4, 8)


@triton.jit
def row_products(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + at).to(tl.float32)
    b = tl.load(b_ptr + at).to(tl.float32)
    tl.store(out_ptr + tl.arange(0, M), tl.sum(a * b, axis=1))


@triton.jit
def column_products(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + tl.arange(0, N), tl.sum(tl.load(a_ptr + at) * tl.load(b_ptr + at), axis=0))


@triton.jit
def square_sum(x_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK)).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(v * v))


@triton.jit
def normalized(x_ptr, out_ptr, scale_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = row * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + at)
    scale = 1.0 / tl.sqrt(tl.sum(v * v) + 1e-6)
    tl.store(scale_ptr + row, scale)
    tl.store(out_ptr + at, v * scale)


@triton.jit
def cosine(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + at)
    b = tl.load(b_ptr + at)
    both = tl.sum(a * b, axis=1)
    tl.store(out_ptr + tl.arange(0, M), both * tl.rsqrt(tl.sum(a * a, axis=1) * tl.sum(b * b, axis=1)))


@triton.jit
def moments(x_ptr, mean_ptr, var_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    mean = tl.sum(x, axis=0) / cols
    off = tl.where(at < cols, x - mean, 0.0)
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, tl.sum(off * off, axis=0) / cols)


@triton.jit
def combine_moments(n1, m1, s1, n2, m2, s2):
    n = n1 + n2
    share = tl.where(n == 0.0, 0.0, n2 / n)
    d = m2 - m1
    return n, m1 + d * share, s1 + s2 + d * d * n1 * share


@triton.jit
def welford(x_ptr, mean_ptr, var_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    one = tl.full([M, N], 1.0, tl.float32)
    n, mean, s = tl.reduce((one, x, tl.zeros([M, N], tl.float32)), 1, combine_moments)
    tl.store(mean_ptr + tl.arange(0, M), mean)
    tl.store(var_ptr + tl.arange(0, M), s / n)


@triton.jit
def extremes(x_ptr, most_ptr, least_ptr, col_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(most_ptr + tl.arange(0, M), tl.max(x, axis=1))
    tl.store(least_ptr + tl.arange(0, M), tl.min(x, axis=1))
    tl.store(col_ptr + tl.arange(0, N), tl.max(tl.abs(x), axis=0))


@triton.jit
def places(x_ptr, most_ptr, least_ptr, col_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(most_ptr + tl.arange(0, M), tl.argmax(x, axis=1))
    tl.store(least_ptr + tl.arange(0, M), tl.argmin(x, axis=1))
    tl.store(col_ptr + tl.arange(0, N), tl.argmax(x, axis=0))


@triton.jit
def middle(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, A)[:, None, None] * (B * C) + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)[None, None, :]
    x = tl.load(x_ptr + at)
    out = tl.sum(x * x, axis=1)
    tl.store(out_ptr + tl.arange(0, A)[:, None] * C + tl.arange(0, C)[None, :], out)


@triton.jit
def complex_products(ar_ptr, ai_ptr, br_ptr, bi_ptr, re_ptr, im_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    ar, ai = tl.load(ar_ptr + at), tl.load(ai_ptr + at)
    br, bi = tl.load(br_ptr + at), tl.load(bi_ptr + at)
    tl.store(re_ptr + tl.arange(0, M), tl.sum(ar * br - ai * bi, axis=1))
    tl.store(im_ptr + tl.arange(0, M), tl.sum(ar * bi + ai * br, axis=1))


@triton.jit
def matrix_vector(a_ptr, x_ptr, out_ptr, cols, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    acc = tl.zeros([M], dtype=tl.float32)
    for start in range(0, cols, N):
        at = start + tl.arange(0, N)
        mask = at < cols
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        a = tl.load(a_ptr + row[:, None] * cols + at[None, :], mask=mask[None, :], other=0.0).to(tl.float32)
        acc += tl.sum(a * x[None, :], axis=1)
    tl.store(out_ptr + row, acc)


@triton.jit
def scaled_by_sum(x_ptr, w_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    w = tl.load(w_ptr + tl.arange(0, N))
    tl.store(out_ptr + at, x - w[None, :] * tl.sum(x * w[None, :], axis=1, keep_dims=True))


@triton.jit
def distances(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    k = tl.arange(0, K)
    a = tl.load(a_ptr + tl.arange(0, M)[:, None] * K + k[None, :])
    b = tl.load(b_ptr + tl.arange(0, N)[:, None] * K + k[None, :])
    d = a[:, None, :] - b[None, :, :]
    tl.store(out_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tl.sum(d * d, axis=2))


@triton.jit
def larger_magnitude(x, y):
    return tl.where(tl.abs(x) >= tl.abs(y), x, y)


@triton.jit
def custom(x_ptr, i_ptr, out_ptr, bits_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = row * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + row, tl.reduce(tl.load(x_ptr + at), 0, larger_magnitude))
    tl.store(bits_ptr + row, tl.xor_sum(tl.load(i_ptr + at), 0))


@triton.jit
def both_axes(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    total = tl.sum(tl.sum(x * x, axis=1), axis=0)
    tl.store(out_ptr, total)
    tl.store(out_ptr + 1, tl.sum(tl.sum(x * x, axis=0), axis=0))
    tl.store(out_ptr + 2, tl.max(x) - tl.min(x))


@triton.jit
def long_sum(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + at, mask=at < n, other=0.0) * tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(acc, axis=0))


def products(m, n, axis, kind="fp32"):
    def draw(rng):
        a, b = normal(rng, (m, n), kind), normal(rng, (m, n), kind)
        args = {"a_ptr": given(a, kind), "b_ptr": given(b, kind), "out_ptr": left((a * b).sum(axis), "fp32", 1e-5)}
        return Launch((1,), args)
    return draw


def squares(n, kind="fp32"):
    def draw(rng):
        x = normal(rng, (3, n), kind)
        return Launch((3,), {"x_ptr": given(x, kind), "out_ptr": left((x * x).sum(1), "fp32", 1e-5)})
    return draw


def unit(n):
    def draw(rng):
        x = normal(rng, (3, n))
        scale = 1 / np.sqrt((x * x).sum(1) + 1e-6)
        return Launch((3,), {"x_ptr": given(x), "out_ptr": left(x * scale[:, None], "fp32", 1e-5),
                             "scale_ptr": left(scale, "fp32", 1e-5)})
    return draw


def angle(m, n):
    def draw(rng):
        a, b = normal(rng, (m, n)), normal(rng, (m, n))
        want = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
        return Launch((1,), {"a_ptr": given(a), "b_ptr": given(b), "out_ptr": left(want, "fp32", 2e-5)})
    return draw


def spread(cols):
    def draw(rng):
        x = normal(rng, (3, cols))
        return Launch((3,), {"x_ptr": given(x), "mean_ptr": left(x.mean(1), "fp32", 2e-5),
                             "var_ptr": left(x.var(1), "fp32", 2e-5), "cols": cols})
    return draw


def spread_rows(m, n):
    def draw(rng):
        x = normal(rng, (m, n))
        return Launch((1,), {"x_ptr": given(x), "mean_ptr": left(x.mean(1), "fp32", 2e-5),
                             "var_ptr": left(x.var(1), "fp32", 2e-5)})
    return draw


def ends(m, n):
    def draw(rng):
        x = normal(rng, (m, n))
        return Launch((1,), {"x_ptr": given(x), "most_ptr": left(x.max(1)), "least_ptr": left(x.min(1)),
                             "col_ptr": left(np.abs(x).max(0))})
    return draw


def found(m, n):
    def draw(rng):
        x = np.round(normal(rng, (m, n)) * 2)  # with ties, of which the first one counts
        return Launch((1,), {"x_ptr": given(x), "most_ptr": left(x.argmax(1), "i32"),
                             "least_ptr": left(x.argmin(1), "i32"), "col_ptr": left(x.argmax(0), "i32")})
    return draw


def cube(a, b, c):
    def draw(rng):
        x = normal(rng, (a, b, c))
        return Launch((1,), {"x_ptr": given(x), "out_ptr": left((x * x).sum(1), "fp32", 1e-5)})
    return draw


def complexes(m, n):
    def draw(rng):
        a, b = (normal(rng, (m, n)) + 1j * normal(rng, (m, n)) for _ in range(2))
        want = (a * b).sum(1)
        return Launch((1,), {"ar_ptr": given(a.real), "ai_ptr": given(a.imag), "br_ptr": given(b.real),
                             "bi_ptr": given(b.imag), "re_ptr": left(want.real, "fp32", 2e-5),
                             "im_ptr": left(want.imag, "fp32", 2e-5)})
    return draw


def vectors(m, cols, kind):
    def draw(rng):
        a, x = normal(rng, (2 * m, cols), kind), normal(rng, cols, kind)
        return Launch((2,), {"a_ptr": given(a, kind), "x_ptr": given(x, kind), "out_ptr": left(a @ x, "fp32", 2e-5),
                             "cols": cols})
    return draw


def without(m, n):
    def draw(rng):
        x, w = normal(rng, (m, n)), normal(rng, n)
        want = x - w * (x @ w)[:, None]
        return Launch((1,), {"x_ptr": given(x), "w_ptr": given(w), "out_ptr": left(want, "fp32", 2e-5)})
    return draw


def apart(m, n, k):
    def draw(rng):
        a, b = normal(rng, (m, k)), normal(rng, (n, k))
        want = ((a[:, None] - b[None]) ** 2).sum(2)
        return Launch((1,), {"a_ptr": given(a), "b_ptr": given(b), "out_ptr": left(want, "fp32", 1e-5)})
    return draw


def chosen(n):
    def draw(rng):
        x, i = normal(rng, (3, n)), rng.integers(0, 1 << 30, (3, n))
        most = np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)[:, 0]
        return Launch((3,), {"x_ptr": given(x), "i_ptr": given(i, "i32"), "out_ptr": left(most),
                             "bits_ptr": left(np.bitwise_xor.reduce(i, axis=1), "i32")})
    return draw


def whole(m, n):
    def draw(rng):
        x = normal(rng, (m, n))
        square = (x * x).sum()
        return Launch((1,), {"x_ptr": given(x), "out_ptr": left([square, square, x.max() - x.min()], "fp32", 1e-5)})
    return draw


def long(n, block):
    def draw(rng):
        x, y = normal(rng, n), normal(rng, n)
        steps = np.arange(n) // block % 3
        want = [(x * y)[steps == p].sum() for p in range(3)]
        return Launch((3,), {"x_ptr": given(x), "y_ptr": given(y), "out_ptr": left(want, "fp32", 5e-5), "n": n})
    return draw


for m, n in ((8, 16), (16, 16), (4, 64), (64, 8), (32, 32), (2, 128), (1, 64)):
    CASES.of(row_products, products(m, n, 1), warps=EVERY, M=m, N=n)
    CASES.of(column_products, products(m, n, 0), warps=EVERY, M=m, N=n)
CASES.of(row_products, products(16, 32, 1, "fp16"), warps=EVERY, suffix="fp16", M=16, N=32)
for block in (32, 64, 128, 256, 1024):
    CASES.of(square_sum, squares(block), warps=EVERY, BLOCK=block)
    CASES.of(normalized, unit(block), warps=EVERY, BLOCK=block)
CASES.of(square_sum, squares(128, "bf16"), warps=EVERY, suffix="bf16", BLOCK=128)
for m, n in ((8, 16), (16, 64)):
    CASES.of(cosine, angle(m, n), warps=EVERY, M=m, N=n)
    CASES.of(welford, spread_rows(m, n), warps=(1, 4), M=m, N=n)
    CASES.of(extremes, ends(m, n), warps=EVERY, M=m, N=n)
    CASES.of(places, found(m, n), warps=EVERY, M=m, N=n)
    CASES.of(complex_products, complexes(m, n), warps=EVERY, M=m, N=n)
    CASES.of(scaled_by_sum, without(m, n), warps=EVERY, M=m, N=n)
    CASES.of(both_axes, whole(m, n), warps=EVERY, M=m, N=n)
CASES.of(moments, spread(100), warps=EVERY, BLOCK=128)
CASES.of(moments, spread(33), warps=(1, 4), BLOCK=64)
CASES.of(middle, cube(4, 8, 16), warps=(1, 4), A=4, B=8, C=16)
CASES.of(middle, cube(8, 16, 4), warps=(1, 4), A=8, B=16, C=4)
CASES.of(matrix_vector, vectors(16, 100, "fp32"), warps=EVERY, M=16, N=32)
CASES.of(matrix_vector, vectors(8, 200, "fp16"), warps=(1, 4), suffix="fp16", M=8, N=64)
CASES.of(distances, apart(8, 8, 16), warps=(1, 4), M=8, N=8, K=16)
CASES.of(custom, chosen(128), warps=EVERY, BLOCK=128)
CASES.of(long_sum, long(1000, 128), warps=EVERY, BLOCK=128)
