"""gelu as a Triton kernel: one program per 1024 elements. gpuemu init writes it beside its numpy version."""
import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < count, other=0.0).to(tl.float32)
    tl.store(y + at, 0.5 * values * (1.0 + tl.erf(values * 0.7071067811865476)), mask=at < count)


def gelu(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel() > 0:
        gelu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
