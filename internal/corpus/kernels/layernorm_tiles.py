"""Layer normalisation along the last axis of a contiguous [rows, H]: one program a row, three walks over its tiles."""

import triton
import triton.language as tl


@triton.jit
def layernorm_tiles(x, weight, bias, out, H, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for h0 in range(0, H, BLOCK):
        h = h0 + lane
        total += tl.load(x + row * H + h, mask=h < H, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / H
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for h0 in range(0, H, BLOCK):
        h = h0 + lane
        v = tl.load(x + row * H + h, mask=h < H, other=0.0).to(tl.float32)
        d = tl.where(h < H, v - mean, 0.0)
        squares += d * d
    std = tl.sqrt(tl.sum(squares, 0) / H + eps)
    for h0 in range(0, H, BLOCK):
        h = h0 + lane
        v = tl.load(x + row * H + h, mask=h < H, other=0.0).to(tl.float32)
        w = tl.load(weight + h, mask=h < H, other=0.0).to(tl.float32)
        b = tl.load(bias + h, mask=h < H, other=0.0).to(tl.float32)
        y = (v - mean) / std * w + b
        tl.store(out + row * H + h, y.to(out.dtype.element_ty), mask=h < H)
