"""layernorm as a Triton kernel: one program per row. gpuemu init writes it beside its numpy version."""
import torch
import triton
import triton.language as tl


@triton.jit
def layernorm_kernel(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, values - tl.sum(values, axis=0) / columns, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    factor = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    offset = tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * columns + at, centred * scale * factor + offset, mask=inside)


def layernorm(x, weight, bias, eps=1e-5):
    x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
    y = torch.empty_like(x)
    columns = x.shape[-1]
    if x.numel() > 0:
        block = triton.next_power_of_2(columns)
        layernorm_kernel[(x.numel() // columns,)](x, weight, bias, y, columns, eps, BLOCK=block)
    return y
