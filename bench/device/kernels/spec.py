"""What a kernel of this folder is, and what the files here share: compilation and the sizes of a launch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

FLOATS = ("float32", "float16", "bfloat16", "float64")
NARROW = ("float16", "bfloat16")
DOT = ("float32", "float16", "bfloat16")  # what tl.dot multiplies with an accumulator of float32


@dataclass(frozen=True)
class Bug:
    """A planted bug.

    Attributes:
        kind: class of bug, one of a short list; the summary counts these.
        sentence: what the kernel does wrong.
        finding: kind of the guard's finding that is expected, "" where only values are wrong.
    """

    kind: str
    sentence: str
    finding: str = ""


@dataclass(frozen=True)
class Kernel:
    """A kernel, correct or with a planted bug.

    Attributes:
        name: unique; a planted one is CORRECT/BUG.
        op: operator of the catalogue.
        dtypes: those whose contract the correct kernel keeps.
        call: call(inputs, outputs, **attributes) writes to outputs; with outputs="returned" it is
            call(inputs, **attributes) and returns the output.
        bug: None where the kernel is correct.
        outputs: who allocates them: "allocated" (the guard) or "returned" (the kernel).
        repeat: whether each case runs twice, which finds races.
    """

    name: str
    op: str
    dtypes: tuple[str, ...]
    call: Callable[..., Any]
    bug: Bug | None = None
    outputs: str = "allocated"
    repeat: bool = False


def planted(kernel: Kernel, variant: str, bug: Bug, dtypes: tuple[str, ...] = (), repeat: bool = False) -> Kernel:
    """The kernel with a bug: its call takes the name of the variant."""
    return Kernel(
        name=f"{kernel.name}/{variant}", op=kernel.op, dtypes=dtypes or kernel.dtypes[:2],
        call=functools.partial(kernel.call, bug=variant), bug=bug, outputs=kernel.outputs, repeat=repeat,
    )  # fmt: skip


def jit(fn: Callable[..., Any]) -> Any:
    """triton.jit without variants for sizes that are 1 or multiples of 16 and for aligned pointers.

    A hundred cases have dozens of such combinations, and each would be compiled for half a second.
    """
    names = [n for n, p in inspect.signature(fn).parameters.items() if "constexpr" not in str(p.annotation)]
    return triton.jit(fn, do_not_specialize=names, do_not_specialize_on_alignment=names)


def accumulator(x: torch.Tensor) -> Any:
    """The type that the contracts of the catalogue compute in."""
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def power_of_two(n: int) -> int:
    """The width of a block that holds a whole row of n; at least 64, so that few widths are compiled."""
    return max(64, 1 << (n - 1).bit_length())
