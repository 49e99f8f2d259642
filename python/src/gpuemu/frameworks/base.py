"""What a framework has to offer so that its functions can be checked: conversion, gradients, fresh copies."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from gpuemu.frameworks._reports import Array, CheckReport, leaves, verdict_of

if TYPE_CHECKING:
    from gpuemu.client import Client


def framework_module(name: str, title: str, extra: str) -> Any:
    """The framework's module, or an ImportError that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{title} cannot be imported ({error}); pip install gpuemu[{extra}]") from error


class FrameworkAdapter(ABC):
    """Arrays and gradients of one framework.

    The abstract methods are what every adapter has. `value_and_vjp` and `place` have a meaning for any framework whose
    `compute_gradient` takes an output and an upstream gradient; the others override them.
    """

    @abstractmethod
    def to_numpy(self, tensor: Any) -> Array:
        """The values of tensor in host memory, same dtype, outside any gradient graph."""

    @abstractmethod
    def from_numpy(self, arr: Array, like: Any | None = None) -> Any:
        """arr as an array of the framework; with like, of its dtype and on its device."""

    @abstractmethod
    def get_dtype_name(self, tensor: Any) -> str:
        """Name of the dtype as the engine spells it: "float32", "bfloat16"."""

    @abstractmethod
    def requires_grad(self, tensor: Any) -> bool:
        """Whether a gradient with respect to tensor is asked for."""

    @abstractmethod
    def compute_gradient(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Gradients by name of input. Parameters differ: JAX differentiates a function, TensorFlow what a tape saw.

        In general: compute_gradient(output, inputs, grad_output=None), for the inputs that require a gradient.
        """

    def is_available(self) -> bool:
        """Whether the framework can be imported."""
        return True

    def get_framework_name(self) -> str:
        """Name of the framework: "pytorch", "jax", "tensorflow"."""
        return "unknown"

    def is_array(self, value: Any) -> bool:
        """Whether value is an array, rather than a setting such as an axis."""
        return hasattr(value, "shape") and hasattr(value, "dtype")

    def is_floating(self, tensor: Any) -> bool:
        return self.get_dtype_name(tensor).startswith(("float", "bfloat"))

    def place(self, arr: Array, like: Any) -> Any:
        """arr with its own dtype, on the device of like."""
        return self.from_numpy(arr)

    def double_precision(self) -> AbstractContextManager[Any]:
        """Inside, float64 arrays stay float64."""
        return nullcontext()

    def value_and_vjp(
        self,
        func: Callable[..., Any],
        inputs: dict[str, Any],
        names: Sequence[str],
        upstream: Callable[[list[Any]], list[Any]],
    ) -> tuple[list[Any], dict[str, Any]]:
        """The floating outputs of func(**inputs), and the gradients of sum(upstream * outputs) by name.

        upstream gets the outputs and gives one array of the same shape and dtype for each.
        """
        outputs = self.floating_leaves(func(**inputs))
        if len(outputs) != 1:
            raise ValueError(f"{len(outputs)} floating outputs; this adapter can differentiate exactly one")
        return outputs, self.compute_gradient(outputs[0], inputs, upstream(outputs)[0])

    def floating_leaves(self, tree: Any) -> list[Any]:
        return [leaf for leaf in leaves(tree) if self.is_array(leaf) and self.is_floating(leaf)]


def split_settings(adapter: FrameworkAdapter, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays, and settings (an axis, a flag) that a function gets unchanged."""
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs is a {type(inputs).__name__}; it must be a dict of arrays by parameter name")
    arrays = {name: value for name, value in inputs.items() if adapter.is_array(value)}
    if not arrays:
        raise ValueError("inputs has no array; there is nothing to check")
    return arrays, {name: value for name, value in inputs.items() if name not in arrays}


def float64(arr: Array) -> Array:
    """arr widened exactly; bfloat16 and float8 arrays (ml_dtypes) cast like any other."""
    return np.asarray(arr).astype(np.float64)


class GradientChecker:
    """Compares a function's gradients with differences of its values, for any framework.

    Differences are taken in float64, see `gpuemu.frameworks._gradients`; the engine compares. atol and rtol follow the
    dtype of the inputs unless given.
    """

    def __init__(
        self,
        adapter: FrameworkAdapter,
        eps: float = 1e-4,
        atol: float | None = None,
        rtol: float | None = None,
        seed: int = 0,
        client: Client | None = None,
    ) -> None:
        self.adapter = adapter
        self.eps = eps
        self.atol = atol
        self.rtol = rtol
        self.seed = seed
        self.client = client

    def check(
        self, func: Callable[..., Any], inputs: dict[str, Any], check_inputs: Sequence[str] | None = None
    ) -> bool:
        """True if the gradients of func(**inputs) are right."""
        return verdict_of(self.report(func, inputs, check_inputs))

    def report(
        self, func: Callable[..., Any], inputs: dict[str, Any], check_inputs: Sequence[str] | None = None
    ) -> CheckReport:
        """What `check` found, in words."""
        from gpuemu.frameworks._gradients import Differences, gradient_report

        settings = Differences(eps=self.eps, atol=self.atol, rtol=self.rtol, seed=self.seed)
        return gradient_report(self.adapter, func, inputs, check_inputs, settings, self.client)
