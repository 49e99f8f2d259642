"""Triton kernels for test_kernels.py and test_triton.py; apart, because importing triton is part of defining them."""

from __future__ import annotations

import triton
import triton.language as tl

BLOCKS = [(256, 4), (64, 2), (128, 1)]


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def no_mask(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n, other=1.0) * 2)


@triton.jit
def no_tail(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n - 1)


@triton.jit
def softmax_rows(x, y, n, stride, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + at, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=at < n)


@triton.jit
def softmax_over(x, y, n, stride, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at <= n, other=float("-inf")).to(tl.float32)  # PLANT oob_read
    v = tl.where(at < n, v, float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + at, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=at < n)


@triton.autotune(configs=[triton.Config({"BLOCK": b, "STAGES": 1}, num_warps=w) for b, w in BLOCKS], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def scaled(  # type: ignore[no-untyped-def]
    x, bias, y, n, s, BLOCK: tl.constexpr, STAGES: tl.constexpr, EVEN: tl.constexpr, TWICE: tl.constexpr = False
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + at) if EVEN else tl.load(x + at, mask=mask)
    if bias is not None:
        v += tl.load(bias + at, mask=mask)
    if TWICE:
        v *= 2
    tl.store(y + at, v * s, mask=mask)


def clear(args):  # type: ignore[no-untyped-def]
    args["total"][:] = 0


@triton.autotune(configs=[triton.Config({"BLOCK": b}, num_warps=w, pre_hook=clear) for b, w in BLOCKS], key=["n"])
@triton.jit
def cleared_sum(x, total, seen, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + at, mask=at < n, other=0), 0))
    before = tl.atomic_add(seen, 1)
    tl.device_assert(before < tl.num_programs(0), "what another configuration wrote is here")


@triton.jit
def of_tuple(pair, scale, y, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(pair[0] + at) * scale[0] + tl.load(pair[1] + at) * scale[1])


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # type: ignore[no-untyped-def]
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def count(x, total, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + at, mask=at < n, other=0), 0))


@triton.jit
def numbers(out, i: tl.int64, f, flag, small):  # type: ignore[no-untyped-def]
    tl.store(out, i.to(tl.float64))
    tl.store(out + 1, f.to(tl.float64))
    tl.store(out + 2, flag.to(tl.float64))
    tl.store(out + 3, small)  # 1 is part of the code


@triton.jit
def shared_sum(x, y, z):  # type: ignore[no-untyped-def]
    tl.store(z, tl.load(x) + tl.load(y))


@triton.jit
def checked(x, limit):  # type: ignore[no-untyped-def]
    v = tl.load(x)
    tl.device_print("value", v)
    tl.device_assert(v < limit, "too large")


@triton.jit
def layernorm(x, scale, shift, y, n, eps, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + tl.program_id(0) * n + at, mask=mask, other=0.0)
    mean = tl.sum(v, 0) / n
    centred = tl.where(mask, v - mean, 0.0)
    r = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    out = centred * r * tl.load(scale + at, mask=mask) + tl.load(shift + at, mask=mask)
    tl.store(y + tl.program_id(0) * n + at, out, mask=mask)
