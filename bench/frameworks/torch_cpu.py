"""The operators of the catalogue on PyTorch's CPU kernels: those of bench/device, or composed where a release has none.

Functions get tensors of the type of the contract (float32, or float64).
"""

from __future__ import annotations

import torch
from torch_ops import COMPOSED, OPS, Attrs, Op

__all__ = ["available"]


def attend(a: Attrs, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """What scaled_dot_product_attention, which PyTorch has since 2.0, computes without a fused kernel."""
    scores = q @ k.transpose(-2, -1) * (a["scale"] or q.shape[-1] ** -0.5)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, -1) @ v


def attention(a: Attrs, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    m, n, group = q.shape[-2], k.shape[-2], q.shape[1] // k.shape[1]
    i = torch.arange(m)[:, None] + (n - m if a["align"] != "top_left" else 0)
    j = torch.arange(n)[None, :]
    mask = torch.ones(m, n, dtype=torch.bool)
    if a["causal"]:
        mask &= j <= i
    if a["window"]:
        mask &= j > i - a["window"]
    return attend(a, q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), mask)


def decode_attention(
    a: Attrs, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kv_len: torch.Tensor
) -> torch.Tensor:
    group = q.shape[1] // k.shape[1]
    mask = (torch.arange(k.shape[2])[None, :] < kv_len[:, None])[:, None, None]
    return attend(a, q[:, :, None], k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), mask)[:, :, 0]


def int8_matmul(
    a: Attrs, x: torch.Tensor, y: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor
) -> torch.Tensor:
    """A product of integers, which the CPU has for int32."""
    return (x.int() @ y.int()).float() * sa[:, None] * sb[None, :]


def available() -> dict[str, Op]:
    """The functions of this release by operator."""
    ops = dict(OPS, int8_matmul=int8_matmul)
    if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        for name in ("attention", "causal_attention", "window_attention", "gqa_attention"):
            ops[name] = attention
        ops["decode_attention"] = decode_attention
    if not hasattr(torch.nn.functional, "rms_norm"):
        ops["rmsnorm"] = COMPOSED["rmsnorm"]
    if not hasattr(torch, "float8_e4m3fn"):
        del ops["quantize_fp8_row"]
    del ops["fp8_matmul"]  # scaled products of fp8 need a GPU
    return ops
