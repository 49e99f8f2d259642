"""Sum along the last axis of [B, S, H] with any strides: one program a row, a partial sum for each lane of a tile."""

import triton
import triton.language as tl


@triton.jit
def sum_loop(x, out, S, H, x_b, x_s, x_h, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += (row // S) * x_b + (row % S) * x_s
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        acc += tl.load(x + h * x_h, mask=h < H, other=0.0).to(tl.float32)
    y = tl.sum(acc, 0)
    tl.store(out + row, y.to(out.dtype.element_ty))
