"""Softmax along the last axis of [B, S, H] with any strides: one program a row, with a running maximum and sum."""

import triton
import triton.language as tl


@triton.jit
def softmax_online(x, out, S, H, x_b, x_s, x_h, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += (row // S) * x_b + (row % S) * x_s
    top = float("-inf")
    total = 0.0
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        v = tl.load(x + h * x_h, mask=h < H, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, 0))
        safe = tl.where(new == float("-inf"), 0.0, new)  # -inf - -inf is NaN
        alpha = tl.exp(top - safe)
        total = total * alpha + tl.sum(tl.exp(v - safe), 0)
        top = new
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        live = h < H
        v = tl.load(x + h * x_h, mask=live, other=float("-inf")).to(tl.float32)
        y = tl.exp(v - top) / total
        tl.store(out + row * H + h, y.to(out.dtype.element_ty), mask=live)
