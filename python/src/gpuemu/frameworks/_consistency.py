"""Whether a transformed function (compiled, traced, vectorised) does what the plain one does.

A value that was fixed at trace time shows only when other values follow. So the function is transformed once and run on
the inputs given and on two more sets of the same shapes: negated and scaled, and scaled alone (for functions that are
defined for positive values only). Afterwards the plain function has to repeat its first result: tracing must leave
nothing behind. The engine compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from gpuemu.frameworks._reports import Array, CheckReport, agree, engine, leaves, raised, tolerance_for
from gpuemu.frameworks.base import FrameworkAdapter, split_settings

if TYPE_CHECKING:
    from gpuemu.client import Client

# (atol, rtol) between two executions of one function: a compiler may fuse, and order sums anew. Some tens of units in
# the last place; integers are compared exactly.
CONSISTENCY_TOLERANCES: Mapping[str, tuple[float, float]] = {
    "float64": (1e-13, 1e-12),
    "float32": (1e-5, 1e-5),
    "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
}

NEGATED = -0.75  # exact in every binary format, like the next: rounding adds no difference
SCALED = 1.25


def variants(host: Mapping[str, Array]) -> Iterator[tuple[str, dict[str, Array]]]:
    """Sets of inputs of the same shapes and dtypes, the given one first.

    Integers and booleans are reversed instead: an index stays in its range.
    """
    yield "the given inputs", dict(host)
    for title, factor in (("negated and scaled inputs", NEGATED), ("scaled inputs", SCALED)):
        yield title, {name: _varied(value, factor) for name, value in host.items()}


def _varied(value: Array, factor: float) -> Array:
    if value.dtype.kind in "iub":
        varied = value.reshape(-1)[::-1].reshape(value.shape)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            varied = value * np.asarray(factor, dtype=value.dtype)
    return np.array(varied, dtype=value.dtype)


@dataclass(frozen=True)
class Pair:
    """The plain function and its transformed form; both take the arrays by name."""

    plain: Callable[..., Any]
    transformed: Callable[..., Any]
    plain_name: str
    transformed_name: str


@dataclass(frozen=True)
class Run:
    """What one execution gave: outputs, or an exception, or something that no op may do."""

    outputs: list[Array]
    exception: str = ""
    wrong: str = ""
    error: Exception | None = None  # the exception itself


@dataclass
class Consistency:
    """One check of a pair on all variants of its inputs."""

    adapter: FrameworkAdapter
    check: str
    pair: Pair
    atol: float | None = None
    rtol: float | None = None

    def report(
        self, arrays: Mapping[str, Any], client: Client | None, notes: tuple[str, ...] = ()
    ) -> CheckReport:
        host = {name: self.adapter.to_numpy(value).copy() for name, value in arrays.items()}
        found = list(notes)
        sets: list[tuple[str, dict[str, Array], list[Array]]] = []
        for title, values in variants(host):
            run = self.run(self.pair.plain, self.pair.plain_name, title, arrays, values)
            if run.exception and sets:
                # A function need not be defined for values that its user did not give.
                found.append(f"{run.exception}; not compared")
                continue
            if run.exception or run.wrong:
                return CheckReport(
                    self.check, False, True, run.exception or run.wrong, tuple(found), error=run.error
                )
            sets.append((title, values, run.outputs))
        if len(sets) == 1:
            found.append("the plain function accepts the given values only: what tracing fixes may stay unseen")
        pair = self.pair
        after = f"{pair.plain_name} after {pair.transformed_name}"
        runs = [(pair.transformed, pair.transformed_name, pair.plain_name, *one) for one in sets]
        runs.append((pair.plain, after, f"{pair.plain_name} before", *sets[0]))
        comparisons: list[dict[str, Any]] = []
        problem = ""
        with engine(client) as judge:
            for func, got_name, want_name, title, values, want in runs:
                run = self.run(func, got_name, title, arrays, values)
                head = f"{got_name} against {want_name} on {title}"
                problem = run.exception or run.wrong or self.differs(judge, head, run.outputs, want, comparisons)
                if problem:
                    break
        return CheckReport(self.check, not problem, True, problem, tuple(found), tuple(comparisons))

    def run(
        self, func: Callable[..., Any], name: str, title: str, arrays: Mapping[str, Any], values: Mapping[str, Array]
    ) -> Run:
        """Executes func on fresh arrays."""
        fresh = {key: self.adapter.from_numpy(values[key], like=arrays[key]) for key in arrays}
        try:
            outputs = [self.adapter.to_numpy(leaf).copy() for leaf in leaves(func(**fresh))]
        except Exception as error:
            return Run([], exception=raised(f"{name} on {title}", error), error=error)
        changed = [key for key in arrays if self.adapter.to_numpy(fresh[key]).tobytes() != values[key].tobytes()]
        if changed:
            return Run([], wrong=f"{name} on {title} changes its input {', '.join(changed)} in place")
        if not outputs:
            return Run([], wrong=f"{name} on {title} returns no array")
        return Run(outputs)

    def differs(
        self, judge: Client, head: str, got: list[Array], want: list[Array], comparisons: list[dict[str, Any]]
    ) -> str:
        """What the engine says about two lists of outputs; empty where they agree."""
        if len(got) != len(want):
            return f"{head}: {len(got)} outputs, not {len(want)}"
        for i, (one, other) in enumerate(zip(got, want)):
            what = head if len(got) == 1 else f"{head}, output {i}"
            if one.dtype != other.dtype or one.shape != other.shape:
                return f"{what}: {one.dtype}{list(one.shape)}, not {other.dtype}{list(other.shape)}"
            allowed = tolerance_for(CONSISTENCY_TOLERANCES, str(other.dtype), self.atol, self.rtol)
            answer, problem = agree(judge, what, one, other, allowed)
            comparisons.append(answer)
            if problem:
                return problem
        return ""


def bind(
    adapter: FrameworkAdapter, inputs: Mapping[str, Any], *functions: Callable[..., Any]
) -> tuple[dict[str, Any], list[Callable[..., Any]]]:
    """The arrays of inputs, and the functions with the settings among inputs (an axis, a flag) filled in."""
    arrays, settings = split_settings(adapter, inputs)

    def filled(func: Callable[..., Any]) -> Callable[..., Any]:
        def call(**kwargs: Any) -> Any:
            return func(**kwargs, **settings)

        return call if settings else func

    return arrays, [filled(func) for func in functions]
