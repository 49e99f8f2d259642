"""a + b of two [B, S, H] tensors with any strides; the output is contiguous."""

import triton
import triton.language as tl


@triton.jit
def offset(i, S, H, stride_b, stride_s, stride_h):
    """Where element i of a [B, S, H] tensor lies."""
    return (i // (S * H)) * stride_b + ((i // H) % S) * stride_s + (i % H) * stride_h


@triton.jit
def add_strided(a, b, out, n, S, H, a_b, a_s, a_h, b_b, b_s, b_h, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n
    x = tl.load(a + offset(i, S, H, a_b, a_s, a_h), mask=live, other=0.0).to(tl.float32)
    y = tl.load(b + offset(i, S, H, b_b, b_s, b_h), mask=live, other=0.0).to(tl.float32)
    z = x + y
    tl.store(out + i, z.to(out.dtype.element_ty), mask=live)
