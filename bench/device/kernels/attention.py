"""Attention in one pass over tiles of keys, with the running maximum of the online softmax."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from .spec import DOT, Bug, Kernel, jit, planted

TILE_M, TILE_N = 32, 32


@jit
def _attention(
    q, k, v, out, scale, HQ, G, M, N, D, shift, window,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, BUG: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, TD: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * TM + tl.arange(0, TM)
    batch = tl.program_id(1) // HQ
    head = tl.program_id(1) % HQ
    d = tl.arange(0, TD)
    rows = (m[:, None] < M) & (d[None, :] < D)
    x = tl.load(q + batch * qb + head * qh + m[:, None] * qm + d[None, :] * qd, mask=rows, other=0.0)
    k += batch * kb + (head // G) * kh
    v += batch * vb + (head // G) * vh
    top = tl.full((TM,), float("-inf"), tl.float32)
    total = tl.zeros((TM,), tl.float32)
    acc = tl.zeros((TM, TD), tl.float32)
    for start in range(0, N, TN):
        n = start + tl.arange(0, TN)
        keys = (n[:, None] < N) & (d[None, :] < D)
        y = tl.load(k + n[:, None] * kn + d[None, :] * kd, mask=keys, other=0.0)
        z = tl.load(v + n[:, None] * vn + d[None, :] * vd, mask=keys, other=0.0)
        s = tl.dot(x, tl.trans(y), input_precision="ieee") * scale
        seen = (n[None, :] < N) & (m[:, None] >= 0)
        if BUG == "pad":
            seen = (n[None, :] >= 0) & (m[:, None] >= 0)
        if CAUSAL:
            last = m[:, None] + shift
            if BUG == "future":
                last += 1
            seen = seen & (n[None, :] <= last)
        if WINDOW:
            seen = seen & (n[None, :] > m[:, None] + shift - window)
        s = tl.where(seen, s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        safe = tl.where(new == float("-inf"), 0.0, new)  # a row that has seen no key yet
        p = tl.exp(s - safe[:, None])
        alpha = tl.exp(top - safe)
        total = total * alpha + tl.sum(p, 1)
        if BUG != "alpha":
            acc = acc * alpha[:, None]
        acc += tl.dot(p.to(z.dtype), z, input_precision="ieee")
        top = new
    acc = acc / total[:, None]
    to = out + (tl.program_id(1) * M + m[:, None]) * D + d[None, :]
    tl.store(to, acc.to(out.dtype.element_ty), mask=rows)


def attention(
    inputs: dict[str, Any], outputs: dict[str, Any], causal: bool = False, align: str = "bottom_right", window: int = 0,
    scale: float = 0.0, bug: str = "",
) -> None:  # fmt: skip
    q, k, v, out = inputs["q"], inputs["k"], inputs["v"], outputs["output"]
    if out.numel() == 0:
        return
    (b, hq, m, d), (hkv, n) = q.shape, k.shape[1:3]
    shift = n - m if align == "bottom_right" and bug != "align" else 0
    factor = 1.0 if bug == "scale" else scale or d**-0.5
    _attention[(triton.cdiv(m, TILE_M), b * hq)](
        q, k, v, out, factor, hq, hq // hkv, m, n, d, shift, window, *q.stride(), *k.stride(), *v.stride(),
        CAUSAL=bool(causal), WINDOW=window > 0, BUG=bug, TM=TILE_M, TN=TILE_N, TD=max(16, triton.next_power_of_2(d)),
    )  # fmt: skip


FULL = Kernel("triton_attention", "attention", DOT, attention)
CAUSAL = Kernel("triton_causal_attention", "causal_attention", DOT, attention)
GQA = Kernel("triton_gqa_attention", "gqa_attention", DOT, attention)
WINDOW = Kernel("triton_window_attention", "window_attention", DOT, attention)

KERNELS = [
    FULL, CAUSAL, GQA, WINDOW,
    planted(FULL, "scale", Bug("scale missing", "does not divide the scores by sqrt(D)")),
    planted(FULL, "alpha", Bug("rescale forgotten", "does not rescale the output when the maximum rises")),
    planted(FULL, "pad", Bug("padding counted", "gives keys behind the last a score of 0")),
    planted(CAUSAL, "future", Bug("mask off by one", "lets a row see one key of its future")),
    planted(CAUSAL, "align", Bug("mask misaligned", "aligns the mask at the top left where M and N differ")),
]  # fmt: skip
