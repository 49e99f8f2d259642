"""log(sum(exp(x))) along the last axis of [B, S, H] with any strides: one program a row, with a running maximum."""

import triton
import triton.language as tl


@triton.jit
def logsumexp_loop(x, out, S, H, x_b, x_s, x_h, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += (row // S) * x_b + (row % S) * x_s
    top = float("-inf")
    total = 0.0
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        v = tl.load(x + h * x_h, mask=h < H, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, 0))
        safe = tl.where(new == float("-inf"), 0.0, new)  # -inf - -inf is NaN
        total = total * tl.exp(top - safe) + tl.sum(tl.exp(v - safe), 0)
        top = new
    y = top + tl.log(total)
    tl.store(out + row, y.to(out.dtype.element_ty))
