"""What travels between the engine, the client and the guard: cases, and what their execution gave.

Plain data without behaviour. Dtypes are the engine's names: float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2
int8 to int64 uint8 to uint64 bool. Strides and offsets count elements, not bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(eq=False)
class View:
    """One input: element (i, j, …) is element offset + i*strides[0] + j*strides[1] + … of the storage."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: np.ndarray[Any, Any]  # read-only uint8, one axis: the bytes as the engine sent them


@dataclass
class OutputSpec:
    """One output that the engine asks for."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None  # None: not known beforehand


@dataclass(eq=False)
class Form:
    """What cases have in common that differ in their seed alone."""

    op: str
    before: str  # text before the seed
    behind: str  # and behind it
    dtype: str
    attrs: dict[str, Any]
    views: list[tuple[str, str, tuple[int, ...], tuple[int, ...], int]]  # of the inputs: all but the storage
    outputs: list[OutputSpec] | None
    places: list[tuple[int, int, int]]  # of the inputs in Case.block: begin, end, end of the red zone behind it
    size: int  # bytes of a block
    # What np.ndarray is called with for each input, behind its name: shape, dtype, and offset and strides in bytes of a
    # block. The guard notes it here for the cases that follow.
    numpy_views: list[tuple[str, tuple[int, ...], np.dtype[Any], int, tuple[int, ...]]] | None = None


@dataclass(eq=False)
class Case:
    """One case as the engine handed it out."""

    index: int
    op: str
    text: str  # the canonical text
    seed: int  # 64 bits, without sign
    dtype: str
    attrs: dict[str, Any]
    inputs: list[View]
    outputs: list[OutputSpec] | None  # None: the op has no schema
    form: Form | None = None  # of a case of a batch
    block: np.ndarray[Any, Any] | None = None  # its inputs with their red zones, as the guard lays them out; read-only


class BatchCase(Case):
    """A case of a batch. What follows from its form is made when it is asked for: where a case passes, nobody does."""

    def __init__(self, index: int, form: Form, digits: str, block: np.ndarray[Any, Any]) -> None:
        self.index, self.form, self.block = index, form, block
        self.digits = digits  # the seed
        self.attrs, self.outputs = form.attrs, form.outputs
        self._form = form

    @cached_property
    def op(self) -> str:  # type: ignore[override]
        return self._form.op

    @cached_property
    def dtype(self) -> str:  # type: ignore[override]
        return self._form.dtype

    @cached_property
    def text(self) -> str:  # type: ignore[override]
        return self._form.before + self.digits + self._form.behind

    @cached_property
    def seed(self) -> int:  # type: ignore[override]
        return int(self.digits)

    @cached_property
    def inputs(self) -> list[View]:  # type: ignore[override]
        assert self.block is not None
        return [View(*v, self.block[begin:end]) for v, (begin, end, _) in zip(self._form.views, self._form.places)]


@dataclass
class Finding:
    """Something that the guard saw in memory; kinds are listed in docs/python.md."""

    kind: str
    name: str  # of the input or output
    sentence: str


@dataclass
class Failure:
    """Why there are no outputs; reasons are those of docs/formats/worker-v1.md."""

    reason: str
    message: str
    hint: str = ""
    trace: str = ""


@dataclass(eq=False)
class Execution:
    """What came out of one case: outputs or a failure, never both."""

    outputs: dict[str, np.ndarray[Any, Any]] | None
    again: dict[str, np.ndarray[Any, Any]] | None = None  # of the second execution
    findings: list[Finding] = field(default_factory=list)
    failure: Failure | None = None
    time_ns: int = 0  # in the kernel, up to the end of its work on the device; the first execution alone
