"""Kernels composed of PyTorch's own operations, which return what they make: l2norm, var, logsumexp."""

from __future__ import annotations

from typing import Any

import torch

from .spec import FLOATS, Bug, Kernel, planted


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.float64 else x.float()


def l2norm(inputs: dict[str, Any], eps: float = 1e-12, bug: str = "") -> Any:
    x = inputs["input"]
    v = _wide(x)
    if bug == "in_place" and v is x:
        v.mul_(1.0 / 3.0)  # a scale that the quotient loses again
    norm = v.square().sum(-1, keepdim=True).sqrt()
    if bug != "eps":
        norm = norm.clamp_min(eps)
    return (v / norm).to(x.dtype)


def var(inputs: dict[str, Any], correction: int = 0, bug: str = "") -> Any:
    x = inputs["input"]
    return torch.var(_wide(x), -1, unbiased=True if bug == "correction" else bool(correction)).to(x.dtype)


def logsumexp(inputs: dict[str, Any], bug: str = "") -> Any:
    x = inputs["input"]
    v = _wide(x)
    if bug == "max":
        return v.exp().sum(-1).log().to(x.dtype)
    return torch.logsumexp(v, -1).to(x.dtype)


L2NORM = Kernel("torch_l2norm", "l2norm", FLOATS, l2norm, outputs="returned")
VAR = Kernel("torch_var", "var", FLOATS, var, outputs="returned")
LOGSUMEXP = Kernel("torch_logsumexp", "logsumexp", FLOATS, logsumexp, outputs="returned")

KERNELS = [
    L2NORM, VAR, LOGSUMEXP,
    planted(L2NORM, "eps", Bug("wrong epsilon", "divides by a norm of 0")),
    planted(L2NORM, "in_place", Bug("input changed", "scales its input in place", "input_modified"),
            ("float32", "float64")),
    planted(VAR, "correction", Bug("attribute ignored", "always divides by n - 1")),
    planted(LOGSUMEXP, "max", Bug("overflow", "does not subtract the maximum")),
]  # fmt: skip
