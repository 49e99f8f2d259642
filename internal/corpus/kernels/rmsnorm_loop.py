"""RMS normalisation along the last axis of [B, S, H] with any strides: one program a row, tile by tile, twice."""

import triton
import triton.language as tl


@triton.jit
def rmsnorm_loop(x, weight, out, S, H, eps, x_b, x_s, x_h, weight_h, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += (row // S) * x_b + (row % S) * x_s
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        v = tl.load(x + h * x_h, mask=h < H, other=0.0).to(tl.float32)
        squares += v * v
    rms = tl.sqrt(tl.sum(squares, 0) / H + eps)
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        live = h < H
        v = tl.load(x + h * x_h, mask=live, other=0.0).to(tl.float32)
        w = tl.load(weight + h * weight_h, mask=live, other=0.0).to(tl.float32)
        y = v / rms * w
        tl.store(out + row * H + h, y.to(out.dtype.element_ty), mask=live)
