"""Tiled products: matmul, matmul with bias and activation."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from .spec import DOT, Bug, Kernel, jit, planted

TILE_M, TILE_N, TILE_K = 32, 32, 32


@triton.jit
def _activate(x, ACT: tl.constexpr):
    if ACT == "relu":
        x = tl.where(x <= 0.0, 0.0, x)
    elif ACT == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACT == "gelu_tanh":
        u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        x = 0.5 * x * (2.0 - 2.0 / (tl.exp(2.0 * u) + 1.0))
    elif ACT == "silu":
        x = x / (1.0 + tl.exp(-x))
    return x


@jit
def _matmul(
    a, b, bias, out, M, N, K, am, ak, bk, bn, cn,
    BIAS: tl.constexpr, ACT: tl.constexpr, SUM: tl.constexpr, BUG: tl.constexpr,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * TM + tl.arange(0, TM)
    n = tl.program_id(1) * TN + tl.arange(0, TN)
    acc = tl.zeros((TM, TN), SUM)
    end = K
    if BUG == "last_tile":
        end = (K // TK) * TK
    if BUG == "stride":
        bk = N
        bn = 1
    for start in range(0, end, TK):
        k = start + tl.arange(0, TK)
        inside = k < K
        if BUG == "tail_mask":
            inside = k >= 0
            k = k % K  # stays within the matrices, where the real slip reads what lies behind them
        x = tl.load(a + m[:, None] * am + k[None, :] * ak, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        y = tl.load(b + k[:, None] * bk + n[None, :] * bn, mask=inside[:, None] & (n[None, :] < N), other=0.0)
        part = tl.dot(x, y, input_precision="ieee", out_dtype=SUM)
        if BUG == "assign":
            acc = part
        else:
            acc += part
    if BIAS:
        if BUG == "bias_row":
            acc += tl.load(bias + (m % N) * cn)[:, None].to(SUM)
            acc = _activate(acc, ACT)
        elif BUG == "order":
            acc = _activate(acc, ACT) + tl.load(bias + n * cn, mask=n < N, other=0.0)[None, :].to(SUM)
        else:
            acc += tl.load(bias + n * cn, mask=n < N, other=0.0)[None, :].to(SUM)
            acc = _activate(acc, ACT)
    live = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out + m[:, None] * N + n[None, :], acc.to(out.dtype.element_ty), mask=live)


def _run(inputs: dict[str, Any], outputs: dict[str, Any], act: str, bug: str) -> None:
    a, b, out = inputs["a"], inputs["b"], outputs["output"]
    if out.numel() == 0:
        return
    (m, k), n = a.shape, b.shape[1]
    bias = inputs.get("bias")
    _matmul[(triton.cdiv(m, TILE_M), triton.cdiv(n, TILE_N))](
        a, b, a if bias is None else bias, out, m, n, k, *a.stride(), *b.stride(),
        0 if bias is None else bias.stride(0),
        BIAS=bias is not None, ACT=act, SUM=tl.float16 if bug == "narrow" else tl.float32, BUG=bug,
        TM=TILE_M, TN=TILE_N, TK=TILE_K,
    )  # fmt: skip


def matmul(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    _run(inputs, outputs, "none", bug)


def linear(inputs: dict[str, Any], outputs: dict[str, Any], act: str = "none", bug: str = "") -> None:
    _run(inputs, outputs, act, bug)


MATMUL = Kernel("triton_matmul", "matmul", DOT, matmul)
LINEAR = Kernel("triton_linear", "matmul_bias_act", DOT, linear)

KERNELS = [
    MATMUL, LINEAR,
    planted(MATMUL, "assign", Bug("assigned, not added", "keeps the product of the last tile of K only")),
    planted(MATMUL, "last_tile", Bug("last tile dropped", "leaves out the last, partial tile of K")),
    planted(MATMUL, "tail_mask", Bug("tail mask missing", "multiplies past the end of K")),
    planted(MATMUL, "stride", Bug("stride ignored", "reads b as if it were contiguous")),
    planted(MATMUL, "narrow", Bug("wrong accumulator", "adds in float16"), ("float16",)),
    planted(LINEAR, "bias_row", Bug("wrong row", "takes the bias of the row, not of the column")),
    planted(LINEAR, "order", Bug("wrong formula", "adds the bias after the activation")),
]  # fmt: skip
