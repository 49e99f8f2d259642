"""Quantises groups of elements of the rows of [R, C] with any strides to int8: one program a group."""

import triton
import triton.language as tl


@triton.jit
def quantize_group(x, q, scale, C, group, groups, x_r, x_c, BLOCK: tl.constexpr):
    g = tl.program_id(0)
    row = tl.program_id(1)
    i = tl.arange(0, BLOCK)
    c = g * group + i
    live = (i < group) & (c < C)
    v = tl.load(x + row * x_r + c * x_c, mask=live, other=0.0).to(tl.float32)
    s = tl.maximum(tl.max(tl.abs(v), 0), 1e-10) / 127.0
    y = tl.floor(v / s + 0.5)
    y = tl.minimum(tl.maximum(y, -127.0), 127.0)
    tl.store(scale + row * groups + g, s)
    tl.store(q + row * C + c, y.to(tl.int8), mask=live)
