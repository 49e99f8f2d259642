"""x where it is not negative, alpha x elsewhere, of a contiguous tensor of n elements."""

import triton
import triton.language as tl


@triton.jit
def leaky_relu(x, out, n, alpha, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n
    v = tl.load(x + i, mask=live, other=0.0).to(tl.float32)
    y = tl.where(v >= 0.0, v, v * alpha)
    tl.store(out + i, y.to(out.dtype.element_ty), mask=live)
