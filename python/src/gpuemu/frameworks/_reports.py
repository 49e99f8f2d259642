"""What a check says, and how it asks the engine.

Python runs functions and collects arrays here; whether two arrays agree is decided by the engine (`Client.compare`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuemu import _escape
from gpuemu._judged import Judged, JudgedDict, ValidationError

if TYPE_CHECKING:
    from gpuemu.client import Client

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, repr=False)
class CheckReport(Judged):
    """What one check found; true if it passed.

    A check that could not run has `ran` False, never passes, and says why in `detail`. Where the function under test
    raised on the inputs that it was given, `error` is the exception: nothing was checked.
    """

    name: str
    passed: bool
    ran: bool = True
    detail: str = ""
    notes: tuple[str, ...] = ()
    comparisons: tuple[dict[str, Any], ...] = ()
    error: Exception | None = field(default=None, compare=False)

    def _green(self) -> bool:
        return self.passed

    def _text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        state = "passed" if self.passed else "error" if self.error else "failed" if self.ran else "not run"
        lines = [f"{self.name}: {state}" + (f": {self.detail}" if self.detail else "")]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


class CheckResults(JudgedDict):
    """What an adapter found: a dict, which is true if everything that was asked for passed."""

    def __init__(self, members: Mapping[str, Any], passed: bool, text: str) -> None:
        super().__init__(members)
        self._passed = passed
        self._said = text

    def _green(self) -> bool:
        return self._passed

    def _text(self) -> str:
        return self._said


def verdict_of(report: CheckReport) -> bool:
    """The report as the True or False of the short form; a check that did not run warns, since False alone hides it.

    Raises:
        ValidationError: the function raised. False would let `assert not check(...)` pass for a function with a typo.
    """
    if report.error is not None:
        raise ValidationError(_escape.block(str(report)), report) from report.error
    if not report.ran:
        warnings.warn(_escape.block(f"{report.name} was not run: {report.detail}"), RuntimeWarning, stacklevel=3)
    return report.passed


def not_run(check: str, reason: str) -> CheckReport:
    return CheckReport(check, passed=False, ran=False, detail=reason)


def raised(what: str, error: Exception) -> str:
    """An exception of the user's function as one line: its first line says what is wrong, tracers print pages."""
    lines = str(error).strip().splitlines()
    return f"{what} raised {type(error).__name__}" + (f": {lines[0]}" if lines else "")


@contextmanager
def engine(client: Client | None) -> Iterator[Client]:
    """The client given, or one of our own for the time of a check."""
    if client is not None:
        yield client
        return
    from gpuemu.client import Client as OwnClient

    with OwnClient() as own:
        yield own


@dataclass(frozen=True)
class Tolerance:
    """|got - want| <= atol * max(1, largest |want|) + rtol * |want|, unless given by the user, who means atol itself.

    atol follows the size of the whole array because an element that is small through cancellation carries the rounding
    of its large neighbours.
    """

    atol: float
    rtol: float
    scaled: bool = True

    def absolute(self, want: Array) -> float:
        if not self.scaled:
            return self.atol
        finite = np.abs(want[np.isfinite(want)]) if want.size else want
        return self.atol * max(1.0, float(finite.max()) if finite.size else 0.0)

    def __str__(self) -> str:
        return f"atol {self.atol:g}, rtol {self.rtol:g}"


def tolerance_for(
    table: Mapping[str, tuple[float, float]], dtype: str, atol: float | None, rtol: float | None
) -> Tolerance:
    """The user's tolerance where given, else that of the dtype; a dtype without one (integers) is compared exactly."""
    for name, value in (("atol", atol), ("rtol", rtol)):
        if value is not None and not (value >= 0 and np.isfinite(value)):
            raise ValueError(f"{name} is {value!r}; it must be a finite number, 0 or more")
    standard = table.get(dtype, (0.0, 0.0))
    return Tolerance(
        atol=standard[0] if atol is None else float(atol),
        rtol=standard[1] if rtol is None else float(rtol),
        scaled=atol is None,
    )


def agree(client: Client, what: str, got: Array, want: Array, tolerance: Tolerance) -> tuple[dict[str, Any], str]:
    """The engine's comparison of got with want, and what is wrong in words (empty: nothing)."""
    answer = client.compare(got, want, atol=tolerance.absolute(want.astype(np.float64)), rtol=tolerance.rtol)
    if answer["passed"]:
        return answer, ""
    return answer, f"{what}: {answer['message']}"


def leaves(tree: Any) -> list[Any]:
    """The arrays of a function's result, which may be one array or nested tuples, lists and dicts; None is no array."""
    if tree is None:
        return []
    if isinstance(tree, Mapping):
        return [leaf for key in tree for leaf in leaves(tree[key])]
    if isinstance(tree, Sequence) and not isinstance(tree, (str, bytes)):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]
