"""Running sum along the last axis of [B, S, H] with any strides: one program a row, a scan a tile, and a carry."""

import triton
import triton.language as tl


@triton.jit
def cumsum_loop(x, out, S, H, x_b, x_s, x_h, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += (row // S) * x_b + (row % S) * x_s
    carry = 0.0
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        live = h < H
        v = tl.load(x + h * x_h, mask=live, other=0.0).to(tl.float32)
        y = carry + tl.cumsum(v, 0)
        tl.store(out + row * H + h, y.to(out.dtype.element_ty), mask=live)
        carry += tl.sum(v, 0)
