"""Launches of Triton kernels as data: arguments, what they hold, and what a kernel is to leave in them.

A Case is a kernel with its constants, and a function that draws one launch of it. Values are float64 arrays whose
elements the kind can represent; references are computed from them in float64.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Kind of Triton's signatures: the name that launch files and Triton's specialization of tensors have for it, and the
# type of numpy that its elements are kept in.
KINDS: dict[str, tuple[str, str, Any]] = {
    "fp64": ("float64", "float64", np.float64), "fp32": ("float32", "float32", np.float32),
    "fp16": ("float16", "float16", np.float16), "bf16": ("bfloat16", "bfloat16", np.uint16),
    "fp8e4nv": ("float8_e4m3fn", "float8_e4m3fn", np.uint8), "fp8e5": ("float8_e5m2", "float8_e5m2", np.uint8),
    "i8": ("int8", "int8", np.int8), "u8": ("uint8", "uint8", np.uint8), "i16": ("int16", "int16", np.int16),
    "i32": ("int32", "int32", np.int32), "i64": ("int64", "int64", np.int64),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor argument. Data is None where nothing is in its memory, want where nothing is expected of it."""

    kind: str
    shape: tuple[int, ...]
    role: str  # in, out or inout
    data: Any = None
    want: Any = None
    tolerance: float = 0.0  # relative to the largest element that is expected; 0: equal


Arg = Tensor | int | float


@dataclasses.dataclass(frozen=True)
class Launch:
    """The grid and the arguments by the names of the parameters."""

    grid: tuple[int, ...]
    args: dict[str, Arg]


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel with constants. It is compiled once for each number of warps and stages."""

    name: str
    kernel: Any
    constants: dict[str, Any]
    draw: Callable[[np.random.Generator], Launch]
    warps: Sequence[int] = (4,)
    stages: Sequence[int] = (2,)
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    archs: Sequence[int] = (80, 90)


class Cases(list[Case]):
    """A list that cases are added to by keywords."""

    def of(self, kernel: Any, draw: Callable[[np.random.Generator], Launch], warps: Sequence[int] = (4,),
           stages: Sequence[int] = (2,), suffix: str = "", options: dict[str, Any] | None = None,
           archs: Sequence[int] = (80, 90), **constants: Any) -> None:  # fmt: skip
        """Adds a case, which is called as the kernel and its constants."""
        parts = [f"{v}" for v in constants.values() if isinstance(v, (int, str))]
        name = "-".join([kernel.fn.__name__, *parts, *([suffix] if suffix else [])])
        if any(name == c.name for c in self):
            raise ValueError(f"two cases are called {name}")
        self.append(Case(name, kernel, constants, draw, warps, stages, options or {}, archs))


def table(kind: str) -> np.ndarray:
    """The values of the 256 codes of a format of eight bits."""
    exponent, fraction, bias = (4, 3, 7) if kind == "fp8e4nv" else (5, 2, 15)
    values = np.empty(256)
    for code in range(256):
        e, f = code >> fraction & (1 << exponent) - 1, code & (1 << fraction) - 1
        size = (e > 0) + f / (1 << fraction)
        values[code] = size * 2.0 ** (max(e, 1) - bias) * (-1 if code & 128 else 1)
        if (kind == "fp8e4nv" and code & 127 == 127) or (kind == "fp8e5" and e == 31):
            values[code] = np.nan
    return values


TABLES = {kind: table(kind) for kind in ("fp8e4nv", "fp8e5")}


def encode(values: Any, kind: str) -> np.ndarray:
    """Elements of the kind, floats rounded to nearest even, formats of eight bits to some nearest one."""
    values = np.asarray(values)
    if kind in TABLES:
        codes = np.flatnonzero(~np.isnan(TABLES[kind]))
        near = np.abs(values.reshape(-1, 1) - TABLES[kind][codes]).argmin(axis=1)
        return codes[near].astype(np.uint8).reshape(values.shape)
    if kind == "bf16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return values.astype(KINDS[kind][2])


def decode(elements: np.ndarray, kind: str) -> np.ndarray:
    """The values of elements: float64, integers as int64."""
    if kind in TABLES:
        return TABLES[kind][elements]
    if kind == "bf16":
        return (elements.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return elements.astype(np.float64 if kind.startswith("fp") else np.int64)


def rounded(values: Any, kind: str) -> np.ndarray:
    """The values that remain of some in a kind."""
    return decode(encode(values, kind), kind)


def normal(rng: np.random.Generator, shape: Any, kind: str = "fp32", scale: float = 1.0) -> np.ndarray:
    """Normal numbers that the kind can represent."""
    return rounded(rng.standard_normal(shape) * scale, kind)


def given(values: Any, kind: str = "fp32") -> Tensor:
    """An input."""
    values = np.asarray(values)
    return Tensor(kind, values.shape, "in", values)


def left(want: Any, kind: str = "fp32", tolerance: float = 0.0) -> Tensor:
    """An output that has nothing in it at first."""
    want = np.asarray(want)
    return Tensor(kind, want.shape, "out", None, want, tolerance)


def changed(values: Any, want: Any, kind: str = "fp32", tolerance: float = 0.0) -> Tensor:
    """A tensor that the kernel reads and writes."""
    values = np.asarray(values)
    return Tensor(kind, values.shape, "inout", values, np.asarray(want), tolerance)


def grown(values: Any, kind: str = "i32") -> Tensor:
    """A tensor that the kernel reads and writes, and of which nothing is expected."""
    values = np.asarray(values)
    return Tensor(kind, values.shape, "inout", values)


def variants(case: Case) -> list[tuple[int, int]]:
    """Warps and stages of the builds of a case."""
    return list(itertools.product(case.warps, case.stages))
