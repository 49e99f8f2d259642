"""Rotary embedding of [B, S, H, D] with any strides: n pairs half a head apart, a block of them a program."""

import triton
import triton.language as tl


@triton.jit
def rope_half(
    x, cos, sin, out, n, S, H, D, x_b, x_s, x_h, x_d, cos_s, cos_d, sin_s, sin_d, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n
    half = D // 2
    d = i % half
    h = (i // half) % H
    s = (i // (half * H)) % S
    b = i // (half * H * S)
    x += b * x_b + s * x_s + h * x_h
    x1 = tl.load(x + d * x_d, mask=live, other=0.0).to(tl.float32)
    x2 = tl.load(x + (d + half) * x_d, mask=live, other=0.0).to(tl.float32)
    c = tl.load(cos + s * cos_s + d * cos_d, mask=live, other=0.0).to(tl.float32)
    z = tl.load(sin + s * sin_s + d * sin_d, mask=live, other=0.0).to(tl.float32)
    y1 = x1 * c - x2 * z
    y2 = x2 * c + x1 * z
    out += ((b * S + s) * H + h) * D
    tl.store(out + d, y1.to(out.dtype.element_ty), mask=live)
    tl.store(out + d + half, y2.to(out.dtype.element_ty), mask=live)
