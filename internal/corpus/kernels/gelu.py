"""GELU, 0.5 x (1 + erf(x / sqrt(2))), of a [B, S, H] tensor with any strides: a program has one tile of one row."""

import triton
import triton.language as tl


@triton.jit
def gelu(x, out, S, H, x_b, x_s, x_h, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    h = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = h < H
    x += (row // S) * x_b + (row % S) * x_s
    v = tl.load(x + h * x_h, mask=live, other=0.0).to(tl.float32)
    y = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    tl.store(out + row * H + h, y.to(out.dtype.element_ty), mask=live)
