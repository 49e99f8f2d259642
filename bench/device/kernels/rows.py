"""Kernels that reduce rows: softmax in one pass and online, cross-entropy, sum, cumsum."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# ruff: noqa: SIM108 (branches on a constexpr are taken at compile time)

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl

from .spec import FLOATS, NARROW, Bug, Kernel, accumulator, jit, planted, power_of_two

TILE = 128  # of kernels that walk along a row


@jit
def _softmax(x, out, S, H, xb, xs, xh, ACC: tl.constexpr, BUG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    h = tl.arange(0, BLOCK)
    live = h < H
    pad = float("-inf")
    if BUG == "pad":
        pad = 0.0
    v = tl.load(x + (row // S) * xb + (row % S) * xs + h * xh, mask=live, other=pad).to(ACC)
    if BUG == "max":
        e = tl.exp(v)
    else:
        e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * H + h, (e / tl.sum(e, 0)).to(out.dtype.element_ty), mask=live)


def softmax(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    x, out = inputs["input"], outputs["output"]
    if out.numel() == 0:
        return
    b, s, h = x.shape
    _softmax[(b * s,)](x, out, s, h, *x.stride(), ACC=accumulator(x), BUG=bug, BLOCK=power_of_two(h))


@jit
def _online_softmax(x, out, S, H, xb, xs, xh, ACC: tl.constexpr, BUG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += (row // S) * xb + (row % S) * xs
    m = tl.full((), float("-inf"), ACC)
    total = tl.full((), 0.0, ACC)
    end = H
    if BUG == "last_tile":
        end = tl.maximum(H // BLOCK, 1) * BLOCK
    for start in range(0, end, BLOCK):
        h = start + tl.arange(0, BLOCK)
        v = tl.load(x + h * xh, mask=h < H, other=float("-inf")).to(ACC)
        new = tl.maximum(m, tl.max(v, 0))
        safe = tl.where(new == float("-inf"), 0.0, new)  # -inf - -inf is NaN
        alpha = tl.exp(m - safe)
        if BUG == "alpha":
            alpha = tl.full((), 1.0, ACC)
        part = tl.sum(tl.exp(v - safe), 0)
        if BUG == "assign":
            total = part
        else:
            total = total * alpha + part
        m = new
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        live = h < H
        v = tl.load(x + h * xh, mask=live, other=float("-inf")).to(ACC)
        if BUG == "axis":
            m = tl.max(v, 0)
            total = tl.sum(tl.exp(v - m), 0)
        tl.store(out + row * H + h, (tl.exp(v - m) / total).to(out.dtype.element_ty), mask=live)


def online_softmax(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    x, out = inputs["input"], outputs["output"]
    if out.numel() == 0:
        return
    b, s, h = x.shape
    _online_softmax[(b * s,)](x, out, s, h, *x.stride(), ACC=accumulator(x), BUG=bug, BLOCK=TILE)


@jit
def _cross_entropy(
    x, target, out, C, ignore, xr, xc, ts,
    SMOOTH: tl.constexpr, ACC: tl.constexpr, BUG: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    live = c < C
    pad = float("-inf")
    if BUG == "pad":
        pad = 0.0
    v = tl.load(x + row * xr + c * xc, mask=live, other=pad).to(ACC)
    t = tl.load(target + row * ts)
    m = tl.max(v, 0)
    lse = tl.log(tl.sum(tl.exp(v - m), 0))  # of v - m
    seen = (t >= 0) & (t < C)  # an ignored target may be anything
    own = tl.load(x + row * xr + t * xc, mask=seen, other=0.0).to(ACC)
    loss = lse - (own - m)
    if SMOOTH > 0.0:
        rest = tl.sum(tl.where(live, lse - (v - m), 0.0), 0) / C
        loss = (1.0 - SMOOTH) * loss + SMOOTH * rest
    if BUG != "ignore":
        loss = tl.where(t == ignore, 0.0, loss)
    tl.store(out + row, loss.to(out.dtype.element_ty))


def cross_entropy(
    inputs: dict[str, Any], outputs: dict[str, Any], ignore_index: int = -100, label_smoothing: float = 0.0,
    bug: str = "",
) -> None:  # fmt: skip
    x, t, out = inputs["logits"], inputs["target"], outputs["output"]
    if out.numel() == 0:
        return
    _cross_entropy[(x.shape[0],)](
        x, t, out, x.shape[1], ignore_index, *x.stride(), t.stride(0),
        SMOOTH=float(label_smoothing), ACC=accumulator(x), BUG=bug, BLOCK=power_of_two(x.shape[1]),
    )  # fmt: skip


@jit
def _sum(x, out, S, H, xb, xs, xh, ACC: tl.constexpr, BUG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += (row // S) * xb + (row % S) * xs
    acc = tl.zeros((BLOCK,), ACC)
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        if BUG == "tail_mask":
            acc += tl.load(x + tl.minimum(h, H - 1) * xh).to(ACC)
        elif BUG == "assign":
            acc = tl.load(x + h * xh, mask=h < H, other=0.0).to(ACC)
        else:
            acc += tl.load(x + h * xh, mask=h < H, other=0.0).to(ACC)
    tl.store(out + row, tl.sum(acc, 0).to(out.dtype.element_ty))


def row_sum(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    x, out = inputs["input"], outputs["output"]
    if out.numel() == 0:
        return
    b, s, h = x.shape
    narrow = tl.float16 if x.dtype == torch.float16 else tl.bfloat16
    acc = narrow if bug == "narrow" else accumulator(x)
    _sum[(b * s,)](x, out, s, h, *x.stride(), ACC=acc, BUG=bug, BLOCK=TILE)


@jit
def _cumsum(x, out, S, H, xb, xs, xh, ACC: tl.constexpr, BUG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += (row // S) * xb + (row % S) * xs
    carry = tl.full((), 0.0, ACC)
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        live = h < H
        v = tl.load(x + h * xh, mask=live, other=0.0).to(ACC)
        tl.store(out + row * H + h, (tl.cumsum(v, 0) + carry).to(out.dtype.element_ty), mask=live)
        if BUG == "carry":
            carry = tl.sum(v, 0)
        elif BUG == "narrow":
            carry = (carry + tl.sum(v, 0)).to(out.dtype.element_ty).to(ACC)
        else:
            carry += tl.sum(v, 0)


def cumsum(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    x, out = inputs["input"], outputs["output"]
    if out.numel() == 0:
        return
    b, s, h = x.shape
    _cumsum[(b * s,)](x, out, s, h, *x.stride(), ACC=accumulator(x), BUG=bug, BLOCK=TILE)


SOFTMAX = Kernel("triton_softmax", "softmax", FLOATS, softmax)
ONLINE = Kernel("triton_online_softmax", "softmax", FLOATS, online_softmax)
CROSS_ENTROPY = Kernel("triton_cross_entropy", "cross_entropy", FLOATS, cross_entropy)
SUM = Kernel("triton_sum", "sum", FLOATS, row_sum)
CUMSUM = Kernel("triton_cumsum", "cumsum", FLOATS, cumsum)

KERNELS = [
    SOFTMAX, ONLINE, CROSS_ENTROPY, SUM, CUMSUM,
    planted(SOFTMAX, "pad", Bug("padding counted", "pads a row with 0 instead of -inf")),
    planted(SOFTMAX, "max", Bug("overflow", "does not subtract the maximum")),
    planted(ONLINE, "alpha", Bug("rescale forgotten", "does not rescale the sum when the maximum rises")),
    planted(ONLINE, "last_tile", Bug("last tile dropped", "leaves the last, partial tile out of the sum")),
    planted(ONLINE, "axis", Bug("wrong reduction", "normalises each tile by itself where a row has several")),
    planted(ONLINE, "assign", Bug("assigned, not added", "keeps the sum of the last tile only")),
    planted(CROSS_ENTROPY, "pad", Bug("padding counted", "pads the logits with 0 instead of -inf")),
    planted(CROSS_ENTROPY, "ignore", Bug("attribute ignored", "gives ignored rows a loss")),
    planted(SUM, "tail_mask", Bug("tail mask missing", "adds the last element again for each missing one")),
    planted(SUM, "assign", Bug("assigned, not added", "keeps the last tile only")),
    planted(SUM, "narrow", Bug("wrong accumulator", "adds in the storage type"), NARROW),
    planted(CUMSUM, "carry", Bug("assigned, not added", "carries the sum of the last tile only")),
    planted(CUMSUM, "narrow", Bug("wrong accumulator", "carries the sum in the storage type"), NARROW),
]  # fmt: skip
