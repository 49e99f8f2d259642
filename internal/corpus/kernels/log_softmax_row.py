"""Logarithm of softmax along the last axis of [B, S, H] with any strides: one program a row, the row in one block."""

import triton
import triton.language as tl


@triton.jit
def log_softmax_row(x, out, S, H, x_b, x_s, x_h, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    h = tl.arange(0, BLOCK)
    live = h < H
    x += (row // S) * x_b + (row % S) * x_s
    v = tl.load(x + h * x_h, mask=live, other=float("-inf")).to(tl.float32)
    top = tl.max(v, 0)
    total = tl.sum(tl.exp(v - top), 0)
    y = (v - top) - tl.log(total)
    tl.store(out + row * H + h, y.to(out.dtype.element_ty), mask=live)
