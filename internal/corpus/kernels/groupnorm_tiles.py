"""Group normalisation of [N, C, L] with any strides: one program has the W channels of a group, as W L elements."""

import triton
import triton.language as tl


@triton.jit
def groupnorm_tiles(x, weight, bias, out, C, L, W, eps, x_n, x_c, x_l, weight_c, bias_c, BLOCK: tl.constexpr):
    first = tl.program_id(0) * W
    sample = tl.program_id(1)
    x += sample * x_n
    n = W * L
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        c = first + i // L
        acc += tl.load(x + c * x_c + (i % L) * x_l, mask=i < n, other=0.0).to(tl.float32)
    mean = tl.sum(acc, 0) / n
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        c = first + i // L
        v = tl.load(x + c * x_c + (i % L) * x_l, mask=i < n, other=0.0).to(tl.float32)
        d = tl.where(i < n, v - mean, 0.0)
        squares += d * d
    std = tl.sqrt(tl.sum(squares, 0) / n + eps)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        live = i < n
        c = first + i // L
        v = tl.load(x + c * x_c + (i % L) * x_l, mask=live, other=0.0).to(tl.float32)
        w = tl.load(weight + c * weight_c, mask=live, other=0.0).to(tl.float32)
        b = tl.load(bias + c * bias_c, mask=live, other=0.0).to(tl.float32)
        y = (v - mean) / std * w + b
        tl.store(out + sample * C * L + c * L + i % L, y.to(out.dtype.element_ty), mask=live)
