"""What the caller's functions get and return: outputs by name, references, what is called after each case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

import numpy as np

from . import _calling, _parts
from ._case import Case, Execution
from .arrays import to_numpy
from .guard import Guard
from .results import ClientError, ValidationResult

OnCase = Callable[[Case, dict[str, Any], Optional[dict[str, Any]], ValidationResult], None]


def named(value: Any, default: str) -> dict[str, np.ndarray[Any, Any]]:
    """Outputs by name; a single array, or a tuple as the kernel returned it, gets names by place."""
    if isinstance(value, Mapping):
        return {str(k): to_numpy(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)) and not all(isinstance(v, (int, float, complex)) for v in value):
        if len(value) == 1:
            return {default: to_numpy(value[0])}
        return {f"{default}{i}": to_numpy(v) for i, v in enumerate(value)}
    return {default: to_numpy(value)}


def reference_hook(reference: Callable[..., Any]) -> Callable[[Case], dict[str, np.ndarray[Any, Any]]]:
    """A reference of the caller's as a function of a case: it gets float64, and the attributes that it takes."""
    kept: list[Callable[..., Any]] = []  # as a function of a dict, once the names of inputs are known

    def hook(case: Case) -> dict[str, np.ndarray[Any, Any]]:
        inputs = {}
        for view in case.inputs:
            array = _parts.array_of(view)
            inputs[view.name] = array.astype(np.float64) if "float" in view.dtype else array
        if not kept:
            kept.append(_calling.bound(reference, inputs))
        values = kept[0](inputs, **case.attrs)
        if values is None:
            raise ClientError("the reference returned None", hint="return an array, a tuple of them or a dict")
        specs = case.outputs or []
        if isinstance(values, (tuple, list)) and len(specs) == len(values):
            values = dict(zip([spec.name for spec in specs], values))
        wants = named(values, specs[0].name if len(specs) == 1 else "output")
        for name, want in wants.items():
            if want.dtype.kind not in "fiub" and want.dtype.name not in _parts.FORMATS:
                raise ClientError(f"the reference returned {name} as {want.dtype.name}", hint="return float64")
            shapes = [spec.shape for spec in specs if spec.name == name]
            if shapes and shapes[0] is not None and want.shape != shapes[0]:
                raise ClientError(f"the reference returned {name} of shape {want.shape}, the schema says {shapes[0]}")
        return wants

    return hook


def case_hook(guard: Guard, on_case: OnCase) -> Callable[[Case, Execution, ValidationResult], None]:
    """What calls on_case after a verdict, with fresh inputs."""

    def hook(case: Case, done: Execution, result: ValidationResult) -> None:
        where = guard.arrays
        inputs = {
            v.name: where.view(where.buffer(v.storage), v.dtype, v.shape, v.strides, v.offset) for v in case.inputs
        }
        on_case(case, inputs, done.outputs, result)

    return hook
