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
        sets: list[tuple[str, dict[str, Array]]] = []
        expected: list[list[Array]] = []
        for title, values in variants(host):
            outputs, problem = self.run(self.pair.plain, self.pair.plain_name, title, arrays, values)
            if problem and not sets:
                return CheckReport(self.check, passed=False, detail=problem, notes=tuple(found))
            if problem:
                found.append(f"{problem}; not compared")
                continue
            sets.append((title, values))
            expected.append(outputs)
        if len(sets) == 1:
            found.append("the plain function accepts the given values only: what tracing fixes may stay unseen")
        comparisons: list[dict[str, Any]] = []
        with engine(client) as judge:
            for (title, values), want in zip(sets, expected):
                got, problem = self.run(self.pair.transformed, self.pair.transformed_name, title, arrays, values)
                problem = problem or self.differs(
                    judge, self.pair.transformed_name, self.pair.plain_name, title, got, want, comparisons
                )
                if problem:
                    return CheckReport(self.check, False, True, problem, tuple(found), tuple(comparisons))
            problem = self.left_behind(judge, arrays, sets[0], expected[0], comparisons)
        return CheckReport(self.check, not problem, True, problem, tuple(found), tuple(comparisons))

    def left_behind(
        self,
        judge: Client,
        arrays: Mapping[str, Any],
        given: tuple[str, dict[str, Array]],
        want: list[Array],
        comparisons: list[dict[str, Any]],
    ) -> str:
        name = f"{self.pair.plain_name} after {self.pair.transformed_name}"
        again, problem = self.run(self.pair.plain, name, given[0], arrays, given[1])
        before = f"{self.pair.plain_name} before"
        return problem or self.differs(judge, name, before, given[0], again, want, comparisons)

    def run(
        self, func: Callable[..., Any], name: str, title: str, arrays: Mapping[str, Any], values: Mapping[str, Array]
    ) -> tuple[list[Array], str]:
        """Outputs of func on fresh arrays, or why there are none."""
        fresh = {key: self.adapter.from_numpy(values[key], like=arrays[key]) for key in arrays}
        try:
            outputs = [self.adapter.to_numpy(leaf).copy() for leaf in leaves(func(**fresh))]
        except Exception as error:
            return [], raised(f"{name} on {title}", error)
        changed = [key for key in arrays if self.adapter.to_numpy(fresh[key]).tobytes() != values[key].tobytes()]
        if changed:
            return [], f"{name} on {title} changes its input {', '.join(changed)} in place"
        if not outputs:
            return [], f"{name} on {title} returns no array"
        return outputs, ""

    def differs(
        self,
        judge: Client,
        got_name: str,
        want_name: str,
        title: str,
        got: list[Array],
        want: list[Array],
        comparisons: list[dict[str, Any]],
    ) -> str:
        """What the engine says about two lists of outputs; empty where they agree."""
        head = f"{got_name} against {want_name} on {title}"
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
