"""Normalisations over the last axis: layernorm and rmsnorm."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

from typing import Any

import triton.language as tl

from .spec import FLOATS, Bug, Kernel, accumulator, jit, planted, power_of_two


@jit
def _layernorm(
    x, w, b, out, S, H, xb, xs, xh, ws, bs,
    EPS: tl.constexpr, ACC: tl.constexpr, BUG: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    h = tl.arange(0, BLOCK)
    live = h < H
    v = tl.load(x + (row // S) * xb + (row % S) * xs + h * xh, mask=live, other=0.0).to(ACC)
    mean = tl.sum(v, 0) / H
    d = tl.where(live, v - mean, 0.0)
    if BUG == "pad":
        d = v - mean
    var = tl.sum(d * d, 0) / H
    if BUG == "one_pass":
        var = tl.sum(v * v, 0) / H - mean * mean
    if BUG == "unbiased":
        var = tl.sum(d * d, 0) / tl.maximum(H - 1, 1)
    weight = tl.load(w + h * ws, mask=live, other=0.0).to(ACC)
    bias = tl.load(b + h * bs, mask=live, other=0.0).to(ACC)
    y = d / tl.sqrt(var + EPS) * weight + bias
    tl.store(out + row * H + h, y.to(out.dtype.element_ty), mask=live)


def layernorm(inputs: dict[str, Any], outputs: dict[str, Any], eps: float = 1e-5, bug: str = "") -> None:
    x, w, b, out = inputs["input"], inputs["weight"], inputs["bias"], outputs["output"]
    if out.numel() == 0:
        return
    _layernorm[(x.shape[0] * x.shape[1],)](
        x, w, b, out, x.shape[1], x.shape[2], *x.stride(), w.stride(0), b.stride(0),
        EPS=eps, ACC=accumulator(x), BUG=bug, BLOCK=power_of_two(x.shape[2]),
    )  # fmt: skip


@jit
def _rmsnorm(
    x, w, out, S, H, xb, xs, xh, ws,
    EPS: tl.constexpr, ACC: tl.constexpr, BUG: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    h = tl.arange(0, BLOCK)
    live = h < H
    v = tl.load(x + (row // S) * xb + (row % S) * xs + h * xh, mask=live, other=0.0).to(ACC)
    weight = tl.load(w + h * ws, mask=live, other=0.0).to(ACC)
    n = H
    if BUG == "length":
        n = BLOCK
    mean = tl.sum(v * v, 0) / n
    if BUG == "eps_place":
        y = v / (tl.sqrt(mean) + EPS) * weight
    elif BUG == "eps_value":
        y = v / tl.sqrt(mean + 1e-5) * weight
    else:
        y = v / tl.sqrt(mean + EPS) * weight
    tl.store(out + row * H + h, y.to(out.dtype.element_ty), mask=live)


def rmsnorm(inputs: dict[str, Any], outputs: dict[str, Any], eps: float = 1e-6, bug: str = "") -> None:
    x, w, out = inputs["input"], inputs["weight"], outputs["output"]
    if out.numel() == 0:
        return
    _rmsnorm[(x.shape[0] * x.shape[1],)](
        x, w, out, x.shape[1], x.shape[2], *x.stride(), w.stride(0),
        EPS=eps, ACC=accumulator(x), BUG=bug, BLOCK=power_of_two(x.shape[2]),
    )  # fmt: skip


LAYERNORM = Kernel("triton_layernorm", "layernorm", FLOATS, layernorm)
RMSNORM = Kernel("triton_rmsnorm", "rmsnorm", FLOATS, rmsnorm)

KERNELS = [
    LAYERNORM, RMSNORM,
    planted(LAYERNORM, "pad", Bug("padding counted", "lets the padding of a row into its variance")),
    planted(LAYERNORM, "one_pass", Bug("cancellation", "takes the variance as mean square less squared mean")),
    planted(LAYERNORM, "unbiased", Bug("wrong formula", "divides the variance by n - 1")),
    planted(RMSNORM, "eps_place", Bug("wrong epsilon", "adds eps outside the root")),
    planted(RMSNORM, "eps_value", Bug("wrong epsilon", "has 1e-5 for eps whatever is asked for")),
    planted(RMSNORM, "length", Bug("padding counted", "divides by the width of the block, not of the row")),
]  # fmt: skip
