"""Elementwise kernels over [B, S, H] with any strides: add, relu, gelu, swiglu; and dequantize_row, rope."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# ruff: noqa: SIM108 (branches on a constexpr are taken at compile time)

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from .spec import FLOATS, NARROW, Bug, Kernel, accumulator, jit, planted

BLOCK = 256


@triton.jit
def _at(i, S, H, sb, ss, sh):
    """Offset of element i of a [B, S, H] tensor."""
    return (i // (S * H)) * sb + ((i // H) % S) * ss + (i % H) * sh


@jit
def _elementwise(
    a, b, out, n, S, H, ab, as_, ah, bb, bs, bh,
    OP: tl.constexpr, ACC: tl.constexpr, BUG: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n
    at_a = _at(i, S, H, ab, as_, ah)
    if BUG == "stride":
        at_a = i
    if BUG == "index16":
        at_a = _at(i.to(tl.uint16).to(tl.int32), S, H, ab, as_, ah)
    x = tl.load(a + at_a, mask=live, other=0.0)
    if OP == "relu":
        if BUG == "nan":
            y = tl.maximum(x, 0.0)
        else:
            y = tl.where(x <= 0.0, 0.0, x)  # not x > 0 ? x : 0, which turns NaN into 0
    elif OP == "gelu":
        f = x.to(ACC)
        y = 0.5 * f * (1.0 + tl.erf(f * 0.7071067811865476))
        if BUG == "half":
            y = f * (1.0 + tl.erf(f * 0.7071067811865476))
    else:
        u = tl.load(b + _at(i, S, H, bb, bs, bh), mask=live, other=0.0).to(ACC)
        f = x.to(ACC)
        if OP == "add":
            y = f + u
        elif BUG == "operand":
            y = f * (u / (1.0 + tl.exp(-u)))
        else:
            y = f / (1.0 + tl.exp(-f)) * u
    if BUG == "overrun":
        live = i < n + 8
    tl.store(out + i, y.to(out.dtype.element_ty), mask=live)
    if BUG == "in_place":
        tl.store(a + at_a, y.to(out.dtype.element_ty), mask=live)


def _run(op: str, x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, bug: str) -> None:
    n = out.numel()
    if n == 0:
        return
    grid = max(1, n // BLOCK) if bug == "tail" else triton.cdiv(n, BLOCK)
    _elementwise[(grid,)](
        x, y, out, n, x.shape[1], x.shape[2], *x.stride(), *y.stride(),
        OP=op, ACC=accumulator(x), BUG=bug, BLOCK=BLOCK,
    )  # fmt: skip


def add(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    _run("add", inputs["a"], inputs["b"], outputs["output"], bug)


def relu(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    _run("relu", inputs["input"], inputs["input"], outputs["output"], bug)


def gelu(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    _run("gelu", inputs["input"], inputs["input"], outputs["output"], bug)


def swiglu(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    _run("swiglu", inputs["gate"], inputs["up"], outputs["output"], bug)


@jit
def _dequantize_row(q, scale, out, C, qr, qc, ss, ACC: tl.constexpr, BUG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = c < C
    source = row
    if BUG == "row":
        source = tl.maximum(row - 1, 0)
    s = tl.load(scale + source * ss)
    x = tl.load(q + row * qr + c * qc, mask=live, other=0)
    if BUG == "narrow":
        y = x.to(out.dtype.element_ty) * s.to(out.dtype.element_ty)
    else:
        y = x.to(ACC) * s.to(ACC)
    tl.store(out + row * C + c, y.to(out.dtype.element_ty), mask=live)


def dequantize_row(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    q, scale, out = inputs["q"], inputs["scale"], outputs["output"]
    if out.numel() == 0:
        return
    _dequantize_row[(q.shape[0], triton.cdiv(q.shape[1], BLOCK))](
        q, scale, out, q.shape[1], *q.stride(), scale.stride(0), ACC=accumulator(out), BUG=bug, BLOCK=BLOCK
    )


@jit
def _rope(
    x, cos, sin, out, n, S, H, D, xb, xs, xh, xd, cs, cd, ss, sd,
    ACC: tl.constexpr, INTERLEAVED: tl.constexpr, BUG: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # one pair each
    live = i < n
    half = D // 2
    p = i % half
    h = (i // half) % H
    s = (i // (half * H)) % S
    b = i // (half * H * S)
    if INTERLEAVED and BUG != "halves":
        d1 = 2 * p
        d2 = 2 * p + 1
    else:
        d1 = p
        d2 = p + half
    at = b * xb + s * xs + h * xh
    x1 = tl.load(x + at + d1 * xd, mask=live, other=0.0).to(ACC)
    x2 = tl.load(x + at + d2 * xd, mask=live, other=0.0).to(ACC)
    t = s
    if BUG == "position":
        t = h % S
    c = tl.load(cos + t * cs + p * cd, mask=live, other=0.0).to(ACC)
    z = tl.load(sin + t * ss + p * sd, mask=live, other=0.0).to(ACC)
    to = out + ((b * S + s) * H + h) * D
    tl.store(to + d1, (x1 * c - x2 * z).to(out.dtype.element_ty), mask=live)
    tl.store(to + d2, (x2 * c + x1 * z).to(out.dtype.element_ty), mask=live)


def rope(inputs: dict[str, Any], outputs: dict[str, Any], interleaved: bool = False, bug: str = "") -> None:
    x, cos, sin, out = inputs["input"], inputs["cos"], inputs["sin"], outputs["output"]
    n = out.numel() // 2
    if n == 0:
        return
    _rope[(triton.cdiv(n, BLOCK),)](
        x, cos, sin, out, n, *x.shape[1:], *x.stride(), *cos.stride(), *sin.stride(),
        ACC=accumulator(x), INTERLEAVED=bool(interleaved), BUG=bug, BLOCK=BLOCK,
    )  # fmt: skip


ADD = Kernel("triton_add", "add", FLOATS, add)
RELU = Kernel("triton_relu", "relu", FLOATS, relu)
GELU = Kernel("triton_gelu", "gelu", FLOATS, gelu)
SWIGLU = Kernel("triton_swiglu", "swiglu", FLOATS, swiglu)
DEQUANTIZE = Kernel("triton_dequantize_row", "dequantize_row", FLOATS, dequantize_row)
ROPE = Kernel("triton_rope", "rope", FLOATS, rope)

KERNELS = [
    ADD, RELU, GELU, SWIGLU, DEQUANTIZE, ROPE,
    planted(ADD, "stride", Bug("stride ignored", "reads its first input as if it were contiguous")),
    planted(ADD, "overrun", Bug("write past the end", "writes eight elements too many", "overrun")),
    planted(RELU, "tail", Bug("tail not written", "rounds the number of blocks down", "not_fully_written")),
    planted(RELU, "nan", Bug("NaN swallowed", "takes the maximum of NaN and 0, which is 0")),
    planted(GELU, "in_place", Bug("input changed", "stores the result over its input, too", "input_modified")),
    planted(GELU, "half", Bug("wrong formula", "forgets the factor 0.5")),
    planted(SWIGLU, "operand", Bug("wrong operand", "activates up instead of gate")),
    planted(SWIGLU, "index16", Bug("index overflow", "counts elements in 16 bits")),
    planted(DEQUANTIZE, "row", Bug("wrong row", "takes the scale of the row before")),
    planted(DEQUANTIZE, "narrow", Bug("wrong accumulator", "multiplies in the storage type"), NARROW),
    planted(ROPE, "halves", Bug("attribute ignored", "rotates halves where neighbours are asked for")),
    planted(ROPE, "position", Bug("wrong row", "takes the angle of the head, not of the position")),
]  # fmt: skip
