"""int8 values of [R, C] times the scale of their group, with any strides: a program has one tile of one row."""

import triton
import triton.language as tl


@triton.jit
def dequantize_group(q, scale, out, C, group, q_r, q_c, scale_r, scale_g, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = c < C
    v = tl.load(q + row * q_r + c * q_c, mask=live, other=0).to(tl.float32)
    s = tl.load(scale + row * scale_r + (c // group) * scale_g, mask=live, other=0.0)
    y = v * s
    tl.store(out + row * C + c, y.to(out.dtype.element_ty), mask=live)
