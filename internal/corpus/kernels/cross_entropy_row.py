"""Cross-entropy of [R, C] logits with any strides: one program a row, the whole row in one block."""

import triton
import triton.language as tl


@triton.jit
def cross_entropy_row(x, target, out, C, ignored, smoothing, x_r, x_c, target_r, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    live = c < C
    x += row * x_r
    v = tl.load(x + c * x_c, mask=live, other=float("-inf")).to(tl.float32)
    t = tl.load(target + row * target_r)
    top = tl.max(v, 0)
    lse = tl.log(tl.sum(tl.exp(v - top), 0))  # of v - top
    own = tl.load(x + t * x_c, mask=(t >= 0) & (t < C), other=0.0).to(tl.float32)  # an ignored target may be any number
    loss = lse - (own - top)
    if smoothing > 0.0:
        mean = tl.sum(tl.where(live, lse - (v - top), 0.0), 0) / C
        loss = (1.0 - smoothing) * loss + smoothing * mean
    loss = tl.where(t == ignored, 0.0, loss)
    tl.store(out + row, loss.to(out.dtype.element_ty))
