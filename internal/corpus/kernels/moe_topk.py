"""Routing of R tokens to k of E experts: softmax of a row of logits, then the greatest k; one program a token."""

import triton
import triton.language as tl


@triton.jit
def moe_topk(logits, weights, indices, E, k, renormalize, logits_r, logits_e, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    e = tl.arange(0, BLOCK)
    live = e < E
    v = tl.load(logits + row * logits_r + e * logits_e, mask=live, other=float("-inf")).to(tl.float32)
    p = tl.exp(v - tl.max(v, 0))
    p = p / tl.sum(p, 0)
    p = tl.where(live, p, -1.0)
    p = tl.where(p == p, p, 0.0)  # or a row with NaN would name experts that do not exist
    left = p
    total = 0.0
    for _ in range(k):
        best = tl.argmax(left, 0)
        total += tl.max(left, 0)
        left = tl.where(e == best, -1.0, left)
    divisor = tl.where(renormalize != 0, total, 1.0)
    left = p
    for j in range(k):
        best = tl.argmax(left, 0)
        w = tl.max(left, 0) / divisor
        tl.store(weights + row * k + j, w.to(weights.dtype.element_ty))
        tl.store(indices + row * k + j, best)
        left = tl.where(e == best, -1.0, left)
