"""What cases of libraries have in common: inputs, a call forward and backward, and the comparison with a reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from record import Recorder

Values = dict[str, Any]


def normal(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = True, scale: float = 1.0) -> torch.Tensor:
    """Normally distributed values; the generator of torch is seeded per case."""
    return (torch.randn(*shape) * scale).to(dtype).requires_grad_(grad)


def leaf(values: torch.Tensor) -> torch.Tensor:
    """The same values as an input with a gradient."""
    return values.detach().clone().requires_grad_()


def twins(values: Mapping[str, Any]) -> Values:
    """Copies of the inputs for the reference: float64, with gradients where the inputs have them."""
    copies: Values = {}
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            copy = value.detach().clone()
            copy = copy.double() if copy.is_floating_point() else copy
            copies[name] = copy.requires_grad_(value.requires_grad)
        else:
            copies[name] = value
    return copies


def tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, in order; those without numbers and None are left out."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [p for p in parts if isinstance(p, torch.Tensor)]


def both_ways(
    recorder: Recorder, call: Callable[..., Any], inputs: Values, reference: Callable[..., Any] | None = None,
    tol: float = 1e-2, backward: bool = True,
) -> list[torch.Tensor]:  # fmt: skip
    """Calls forward, then backward from the sum of all outputs times random numbers, and compares with a reference."""
    copies = twins(inputs)
    outputs = tensors(call(**inputs))
    wanted = [] if reference is None else tensors(reference(**copies))
    for i, (got, want) in enumerate(zip(outputs, wanted)):
        recorder.compare(f"output {i}", got, want, tol)
    floating = [i for i, o in enumerate(outputs) if o.is_floating_point() and o.requires_grad]
    if not backward or not floating:
        return outputs
    weights = [torch.randn(outputs[i].shape) for i in floating]
    total = sum((outputs[i].float() * w).sum() for i, w in zip(floating, weights))
    total.backward()
    if wanted and all(i < len(wanted) for i in floating):
        sum((wanted[i] * w.double()).sum() for i, w in zip(floating, weights)).backward()
        for name, value in inputs.items():
            if isinstance(value, torch.Tensor) and value.requires_grad and copies[name].grad is not None:
                got = value.grad
                recorder.compare(f"gradient of {name}", torch.zeros(1) if got is None else got, copies[name].grad, tol)
    return outputs


def run_all(recorder: Recorder, cases: Mapping[str, Callable[[Recorder], None]], chosen: list[str]) -> None:
    """Runs the chosen cases, or all of them, each with a seed of its own."""
    for name, case in cases.items():
        if chosen and name not in chosen:
            continue
        torch.manual_seed(sum(name.encode()))
        recorder.run(name, case)
