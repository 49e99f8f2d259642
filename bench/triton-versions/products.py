"""Products of matrices by tl.dot: formats, tiles, orders of programs, fused and split forms."""

import numpy as np
import triton
import triton.language as tl
from launches import Cases, Launch, changed, given, left, normal

CASES = Cases()


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,
           PRECISION: tl.constexpr):
    pid = tl.program_id(0)
    tall, wide = tl.cdiv(m, M), tl.cdiv(n, N)
    group = pid // (GROUP * wide)
    size = tl.minimum(tall - group * GROUP, GROUP)
    row = group * GROUP + (pid % (GROUP * wide)) % size
    col = (pid % (GROUP * wide)) // size
    rows = (row * M + tl.arange(0, M)) % m
    cols = (col * N + tl.arange(0, N)) % n
    inner = tl.arange(0, K)
    a_at = a_ptr + rows[:, None] * k + inner[None, :]
    b_at = b_ptr + inner[:, None] * n + cols[None, :]
    acc = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, K)):
        a = tl.load(a_at, mask=inner[None, :] < k - step * K, other=0.0)
        b = tl.load(b_at, mask=inner[:, None] < k - step * K, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        a_at += K
        b_at += K * n
    rows = row * M + tl.arange(0, M)
    cols = col * N + tl.arange(0, N)
    at = c_ptr + rows[:, None] * n + cols[None, :]
    tl.store(at, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < m) & (cols[None, :] < n))


@triton.jit
def matmul_transposed(a_ptr, b_ptr, bias_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    cols = tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a_mask = (inner[:, None] < k) & (rows[None, :] < m)
        b_mask = (cols[:, None] < n) & (inner[None, :] < k)
        a = tl.load(a_ptr + inner[:, None] * m + rows[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + cols[:, None] * k + inner[None, :], mask=b_mask, other=0.0)
        acc += tl.dot(tl.trans(a), tl.trans(b))
    acc += tl.load(bias_ptr + cols, mask=cols < n, other=0.0)[None, :]
    acc = tl.where(acc > 0, acc, acc * 0.01)
    out = c_ptr + rows[:, None] * n + cols[None, :]
    tl.store(out, acc.to(tl.float16), mask=(rows[:, None] < m) & (cols[None, :] < n))


@triton.jit
def matmul_blocks(a_ptr, b_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, col = tl.program_id(0) * M, tl.program_id(1) * N
    a = tl.make_block_ptr(a_ptr, (m, k), (k, 1), (row, 0), (M, K), (1, 0))
    b = tl.make_block_ptr(b_ptr, (k, n), (n, 1), (0, col), (K, N), (1, 0))
    c = tl.make_block_ptr(c_ptr, (m, n), (n, 1), (row, col), (M, N), (1, 0))
    acc = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, k, K):
        acc += tl.dot(tl.load(a, boundary_check=(0, 1), padding_option="zero"),
                      tl.load(b, boundary_check=(0, 1), padding_option="zero"))
        a = tl.advance(a, (0, K))
        b = tl.advance(b, (K, 0))
    tl.store(c, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def matmul_split(a_ptr, b_ptr, c_ptr, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SPLIT: tl.constexpr):
    rows = tl.arange(0, M)
    cols = tl.program_id(0) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in range(tl.program_id(1) * K, k, K * SPLIT):
        inner = start + tl.arange(0, K)
        acc += tl.dot(tl.load(a_ptr + rows[:, None] * k + inner[None, :]),
                      tl.load(b_ptr + inner[:, None] * n + cols[None, :]))
    tl.atomic_add(c_ptr + rows[:, None] * n + cols[None, :], acc, mask=cols[None, :] < n)


@triton.jit
def matmul_persistent(a_ptr, b_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    wide = tl.cdiv(n, N)
    for tile in range(tl.program_id(0), tl.cdiv(m, M) * wide, tl.num_programs(0)):
        rows = tile // wide * M + tl.arange(0, M)
        cols = tile % wide * N + tl.arange(0, N)
        acc = tl.zeros((M, N), dtype=tl.float32)
        for start in range(0, k, K):
            inner = start + tl.arange(0, K)
            a = tl.load(a_ptr + rows[:, None] * k + inner[None, :])
            b = tl.load(b_ptr + inner[:, None] * n + cols[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc)


@triton.jit
def matmul_grouped(a_ptr, b_ptr, c_ptr, size_ptr, groups, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    tile = tl.program_id(0)
    first = 0
    done = 0
    for g in range(groups):
        size = tl.load(size_ptr + g)
        tiles = tl.cdiv(size, M) * tl.cdiv(n, N)
        while tile >= done and tile < done + tiles:
            at = tile - done
            rows = at // tl.cdiv(n, N) * M + tl.arange(0, M)
            cols = at % tl.cdiv(n, N) * N + tl.arange(0, N)
            mask = (rows < size)[:, None]
            acc = tl.zeros((M, N), dtype=tl.float32)
            for start in range(0, k, K):
                inner = start + tl.arange(0, K)
                a = tl.load(a_ptr + (first + rows)[:, None] * k + inner[None, :], mask=mask, other=0.0)
                b = tl.load(b_ptr + g * k * n + inner[:, None] * n + cols[None, :])
                acc += tl.dot(a, b)
            tl.store(c_ptr + (first + rows)[:, None] * n + cols[None, :], acc, mask=mask)
            tile += tl.num_programs(0)
        first += size
        done += tiles


@triton.jit
def matmul_batched(a_ptr, b_ptr, c_ptr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.arange(0, B)[:, None, None]
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + batch * (M * K) + m[None, :, None] * K + k[None, None, :])
    b = tl.load(b_ptr + batch * (K * N) + k[None, :, None] * N + n[None, None, :])
    tl.store(c_ptr + batch * (M * N) + m[None, :, None] * N + n[None, None, :], tl.dot(a, b))


@triton.jit
def matmul_int8(a_ptr, b_ptr, scale_ptr, c_ptr, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.arange(0, M)
    cols = tl.program_id(0) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), dtype=tl.int32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        acc += tl.dot(tl.load(a_ptr + rows[:, None] * k + inner[None, :]),
                      tl.load(b_ptr + inner[:, None] * n + cols[None, :]))
    scale = tl.load(scale_ptr + cols)
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc.to(tl.float32) * scale[None, :])


@triton.jit
def matmul_dequantized(a_ptr, q_ptr, scale_ptr, c_ptr, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.arange(0, M)
    cols = tl.program_id(0) * N + tl.arange(0, N)
    scale = tl.load(scale_ptr + cols)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :])
        q = tl.load(q_ptr + inner[:, None] * n + cols[None, :])
        acc += tl.dot(a, q.to(tl.float16))
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc * scale[None, :])


@triton.jit
def product_chain(a_ptr, b_ptr, c_ptr, out_ptr, square_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    c = tl.load(c_ptr + n[:, None] * K + k[None, :])
    ab = tl.dot(a, b)
    tl.store(square_ptr + m, tl.sum(ab * ab, axis=1))
    out = tl.dot(ab.to(tl.float16), c)
    tl.store(out_ptr + m[:, None] * K + k[None, :], out / (1.0 + tl.max(tl.abs(ab), axis=1))[:, None])


def product(m, n, k, tile, kind="fp16", out="fp32", tolerance=1e-5):
    def draw(rng):
        a, b = normal(rng, (m, k), kind), normal(rng, (k, n), kind)
        tiles = -(-m // tile[0]) * -(-n // tile[1])
        return Launch((tiles,), {"a_ptr": given(a, kind), "b_ptr": given(b, kind),
                                 "c_ptr": left(a @ b, out, tolerance), "m": m, "n": n, "k": k})
    return draw


def with_bias(m, n, k, tile):
    def draw(rng):
        a, b, bias = normal(rng, (k, m), "fp16"), normal(rng, (n, k), "fp16"), normal(rng, n)
        want = a.T @ b.T + bias
        want = np.where(want > 0, want, want * 0.01)
        return Launch((-(-m // tile[0]), -(-n // tile[1])),
                      {"a_ptr": given(a, "fp16"), "b_ptr": given(b, "fp16"), "bias_ptr": given(bias),
                       "c_ptr": left(want, "fp16", 2e-3), "m": m, "n": n, "k": k})  # fmt: skip
    return draw


def blocks(m, n, k, tile):
    def draw(rng):
        a, b = normal(rng, (m, k), "fp16"), normal(rng, (k, n), "fp16")
        return Launch((-(-m // tile[0]), -(-n // tile[1])),
                      {"a_ptr": given(a, "fp16"), "b_ptr": given(b, "fp16"), "c_ptr": left(a @ b, "fp16", 2e-3), "m": m,
                       "n": n, "k": k})  # fmt: skip
    return draw


def split(m, n, k, tile, parts):
    def draw(rng):
        a, b = normal(rng, (m, k), "fp16"), normal(rng, (k, n), "fp16")
        start = normal(rng, (m, n))
        return Launch((n // tile, parts), {"a_ptr": given(a, "fp16"), "b_ptr": given(b, "fp16"),
                                           "c_ptr": changed(start, start + a @ b, "fp32", 2e-5), "n": n, "k": k})
    return draw


def persistent(m, n, k, programs):
    def draw(rng):
        a, b = normal(rng, (m, k), "bf16"), normal(rng, (k, n), "bf16")
        return Launch((programs,), {"a_ptr": given(a, "bf16"), "b_ptr": given(b, "bf16"),
                                    "c_ptr": left(a @ b, "fp32", 1e-5), "m": m, "n": n, "k": k})
    return draw


def groups(sizes, n, k, programs):
    def draw(rng):
        a, b = normal(rng, (sum(sizes), k), "fp16"), normal(rng, (len(sizes), k, n), "fp16")
        parts = np.split(a, np.cumsum(sizes)[:-1])
        want = np.concatenate([p @ b[g] for g, p in enumerate(parts)])
        return Launch((programs,), {"a_ptr": given(a, "fp16"), "b_ptr": given(b, "fp16"),
                                    "c_ptr": left(want, "fp32", 1e-5), "size_ptr": given(np.array(sizes), "i32"),
                                    "groups": len(sizes), "n": n, "k": k})
    return draw


def batched(b, m, n, k):
    def draw(rng):
        x, y = normal(rng, (b, m, k), "fp16"), normal(rng, (b, k, n), "fp16")
        return Launch((1,), {"a_ptr": given(x, "fp16"), "b_ptr": given(y, "fp16"), "c_ptr": left(x @ y, "fp32", 1e-5)})
    return draw


def integers(m, n, k, tile):
    def draw(rng):
        a, b = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n))
        scale = normal(rng, n)
        return Launch((n // tile,), {"a_ptr": given(a, "i8"), "b_ptr": given(b, "i8"), "scale_ptr": given(scale),
                                     "c_ptr": left((a @ b) * scale, "fp32", 1e-6), "n": n, "k": k})
    return draw


def dequantized(m, n, k, tile):
    def draw(rng):
        a, q, scale = normal(rng, (m, k), "fp16"), rng.integers(-128, 128, (k, n)), normal(rng, n)
        return Launch((n // tile,), {"a_ptr": given(a, "fp16"), "q_ptr": given(q, "i8"), "scale_ptr": given(scale),
                                     "c_ptr": left((a @ q) * scale, "fp32", 1e-5), "n": n, "k": k})
    return draw


def chain(m, n, k):
    def draw(rng):
        a, b, c = normal(rng, (m, k), "fp16"), normal(rng, (k, n), "fp16"), normal(rng, (n, k), "fp16")
        ab = a @ b
        want = ab @ c / (1 + np.abs(ab).max(1))[:, None]
        return Launch((1,), {"a_ptr": given(a, "fp16"), "b_ptr": given(b, "fp16"), "c_ptr": given(c, "fp16"),
                             "out_ptr": left(want, "fp32", 2e-3), "square_ptr": left((ab * ab).sum(1), "fp32", 1e-5)})
    return draw


TILED = {"M": 32, "N": 32, "K": 32}
for kind, tolerance in (("fp16", 2e-3), ("bf16", 1e-2)):
    CASES.of(matmul, product(48, 80, 72, (32, 32), kind, kind, tolerance), warps=(1, 4, 8), stages=(1, 3), suffix=kind,
             **TILED, GROUP=2, PRECISION="ieee")
CASES.of(matmul, product(48, 80, 72, (32, 32), "fp32", "fp32", 5e-3), warps=(1, 4), stages=(1, 3), suffix="fp32",
         **TILED, GROUP=2, PRECISION="tf32")
CASES.of(matmul, product(24, 40, 36, (16, 16), "fp32"), warps=(1, 4), stages=(1, 3), suffix="fp32", M=16, N=16, K=16,
         GROUP=2, PRECISION="ieee")
CASES.of(matmul, product(24, 40, 36, (16, 16), "fp32"), warps=(4,), stages=(1, 3), suffix="fp32", M=16, N=16, K=16,
         GROUP=2, PRECISION="tf32x3")
CASES.of(matmul, product(100, 128, 96, (64, 64)), warps=(4, 8), stages=(2, 4), suffix="large", M=64, N=64, K=32,
         GROUP=8, PRECISION="ieee")
CASES.of(matmul_transposed, with_bias(48, 80, 72, (32, 32)), warps=(1, 4), stages=(1, 3), **TILED)
CASES.of(matmul_blocks, blocks(48, 80, 72, (32, 32)), warps=(1, 4), stages=(1, 3), **TILED)
CASES.of(matmul_split, split(16, 64, 192, 32, 3), warps=(1, 4), stages=(1, 3), M=16, N=32, K=32, SPLIT=3)
CASES.of(matmul_persistent, persistent(64, 96, 64, 4), warps=(4,), stages=(1, 3), **TILED)
CASES.of(matmul_grouped, groups((20, 40, 8), 64, 64, 3), warps=(4,), stages=(1, 3), M=16, N=32, K=32)
CASES.of(matmul_batched, batched(2, 16, 16, 32), warps=(1, 4), B=2, M=16, N=16, K=32)
CASES.of(matmul_int8, integers(16, 64, 96, 32), warps=(1, 4), stages=(1, 3), M=16, N=32, K=32)
CASES.of(matmul_dequantized, dequantized(16, 64, 96, 32), warps=(1, 4), stages=(1, 3), M=16, N=32, K=32)
CASES.of(product_chain, chain(32, 32, 32), warps=(1, 2, 4, 8), M=32, N=32, K=32)
CASES.of(product_chain, chain(64, 16, 64), warps=(4,), M=64, N=16, K=64)
