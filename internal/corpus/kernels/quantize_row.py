"""Quantises the rows of [R, C] with any strides to int8: one program a row, which finds the scale first."""

import triton
import triton.language as tl


@triton.jit
def quantize_row(x, q, scale, C, x_r, x_c, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * x_r
    largest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + c * x_c, mask=c < C, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(v))
    s = tl.maximum(tl.max(largest, 0), 1e-10) / 127.0
    tl.store(scale + row, s)
    for start in range(0, C, BLOCK):
        c = start + tl.arange(0, BLOCK)
        live = c < C
        v = tl.load(x + c * x_c, mask=live, other=0.0).to(tl.float32)
        y = tl.floor(v / s + 0.5)
        y = tl.minimum(tl.maximum(y, -127.0), 127.0)
        tl.store(q + row * C + c, y.to(tl.int8), mask=live)
