"""Kernels that follow indexes: embedding, gather, scatter_add with atomic additions."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from .spec import FLOATS, Bug, Kernel, jit, planted

BLOCK = 64


@jit
def _embedding(table, index, out, D, tv, td, s, BUG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = d < D
    i = tl.load(index + row * s)
    if BUG == "stride":
        tv = D
        td = 1
    x = tl.load(table + i * tv + d * td, mask=live, other=0.0)
    tl.store(out + row * D + d, x, mask=live)


def embedding(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    table, index, out = inputs["table"], inputs["index"], outputs["output"]
    if out.numel() == 0:
        return
    blocks = table.shape[1] // BLOCK if bug == "tail" else triton.cdiv(table.shape[1], BLOCK)
    _embedding[(index.shape[0], max(1, blocks))](
        table, index, out, table.shape[1], *table.stride(), index.stride(0), BUG=bug, BLOCK=BLOCK
    )


@jit
def _gather(x, index, out, K, xr, xc, ir, ic, BUG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = k < K
    if BUG == "first_row":
        c = tl.load(index + k * ic, mask=live, other=0)
    else:
        c = tl.load(index + row * ir + k * ic, mask=live, other=0)
    tl.store(out + row * K + k, tl.load(x + row * xr + c * xc, mask=live, other=0.0), mask=live)


def gather(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    x, index, out = inputs["input"], inputs["index"], outputs["output"]
    if out.numel() == 0:
        return
    _gather[(index.shape[0], triton.cdiv(index.shape[1], BLOCK))](
        x, index, out, index.shape[1], *x.stride(), *index.stride(), BUG=bug, BLOCK=BLOCK
    )


@jit
def _copy(x, out, D, xv, xd, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + row * D + d, tl.load(x + row * xv + d * xd, mask=d < D, other=0.0), mask=d < D)


@jit
def _scatter_add(src, index, out, D, sr, sd, s, BUG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = d < D
    x = tl.load(src + row * sr + d * sd, mask=live, other=0.0)
    to = out + tl.load(index + row * s) * D + d
    if BUG == "race":
        tl.store(to, tl.load(to, mask=live, other=0.0) + x, mask=live)
    else:
        tl.atomic_add(to, x, mask=live)


def scatter_add(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    x, index, src, out = inputs["input"], inputs["index"], inputs["src"], outputs["output"]
    if out.numel() == 0:
        return
    blocks = triton.cdiv(x.shape[1], BLOCK)
    if bug != "uninitialised":
        _copy[(x.shape[0], blocks)](x, out, x.shape[1], *x.stride(), BLOCK=BLOCK)
    if src.shape[0] > 0:
        _scatter_add[(src.shape[0], blocks)](
            src, index, out, x.shape[1], *src.stride(), index.stride(0), BUG=bug, BLOCK=BLOCK
        )


EMBEDDING = Kernel("triton_embedding", "embedding", FLOATS, embedding)
GATHER = Kernel("triton_gather", "gather", FLOATS, gather)
# Atomic additions to a narrow type round each time: the contract asks for sums in float32.
SCATTER = Kernel("triton_scatter_add", "scatter_add", ("float32", "float64"), scatter_add)

KERNELS = [
    EMBEDDING, GATHER, SCATTER,
    planted(EMBEDDING, "stride", Bug("stride ignored", "reads the table as if it were contiguous")),
    planted(EMBEDDING, "tail", Bug("tail not written", "rounds the number of blocks down", "not_fully_written")),
    planted(GATHER, "first_row", Bug("wrong row", "takes the indexes of the first row for all")),
    planted(SCATTER, "race", Bug("race", "loads, adds and stores instead of adding atomically", "nondeterministic"),
            repeat=True),
    planted(SCATTER, "uninitialised", Bug("output not initialised", "adds to whatever the output held",
                                          "not_fully_written")),
]  # fmt: skip
