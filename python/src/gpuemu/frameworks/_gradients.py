"""Gradients against differences of the function's own values.

The scalar that is differentiated is L = sum(upstream * outputs) with a random upstream gradient: with ones, a backward
pass that permutes or transposes what it gets looks right. Along a direction d, the central difference

    D(h) = sum(upstream * (f(x + h d) - f(x - h d))) / 2h

has an error of order h^2; D(h/2) and D(h) together give one of order h^4 (Richardson), and their distance says whether
the value has settled. Where it has not (a kink within h, a pole near a small x), h shrinks and the element is tried
again. Where the two one-sided slopes differ at every h, x lies on a kink: each value between them is a gradient there.

Up to 512 elements of an input are perturbed one by one. A larger input is divided at random into 512 groups; each group
moves along random signs, and the gradient is compared group by group: every element takes part exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from gpuemu.frameworks._reports import Array, CheckReport, Tolerance, agree, engine, not_run, raised, tolerance_for
from gpuemu.frameworks.base import FrameworkAdapter, float64, split_settings

if TYPE_CHECKING:
    from gpuemu.client import Client

# (atol, rtol) of a gradient computed in a dtype against the float64 derivative. A backward pass rounds after every
# step, so these are some tens of units in the last place of the dtype.
GRADIENT_TOLERANCES: Mapping[str, tuple[float, float]] = {
    "float64": (1e-7, 1e-6),
    "float32": (1e-5, 1e-3),
    "float16": (1e-2, 2e-2),
    "bfloat16": (5e-2, 1e-1),
}

# The least that differences of float32 values can prove: their rounding, 6e-8, is divided by the step.
FLOAT32_FLOOR = (2e-3, 2e-2)

# Steps in float32: near the fifth root of its rounding unit, the best for Richardson; then smaller and larger ones.
FLOAT32_STEPS = (2.0**-6, 2.0**-8, 2.0**-4)

MAX_DIRECTIONS = 512  # per input; each costs four evaluations of the function or more

# A difference is believed when its two step sizes agree within this part of the tolerance of the comparison.
SETTLED = {"float64": 0.1, "float32": 0.5}

WORST = 5  # wrong gradients of an input that are shown

# More unsettled directions than this part of an input leave the check undecided.
UNSETTLED_PART = 0.1


@dataclass(frozen=True)
class Differences:
    """How the differences are taken. eps is the largest step in float64; atol and rtol None follow the dtype."""

    eps: float = 1e-4
    atol: float | None = None
    rtol: float | None = None
    seed: int = 0
    max_directions: int = MAX_DIRECTIONS

    def __post_init__(self) -> None:
        if not 0 < self.eps <= 1:
            raise ValueError(f"eps is {self.eps!r}; the step of a difference must be above 0 and at most 1")
        if self.max_directions < 1:
            raise ValueError(f"max_directions is {self.max_directions}; at least one direction is needed")

    def steps(self, precision: str) -> tuple[float, ...]:
        if precision == "float32":
            return FLOAT32_STEPS
        return (self.eps, self.eps / 16, self.eps / 256, self.eps / 4096)


@dataclass(frozen=True)
class Direction:
    """Elements of a flattened input that move together, and how far each moves per unit of step."""

    elements: Array
    weights: Array


@dataclass(frozen=True)
class Slope:
    """A derivative along a direction; low and high are the one-sided slopes. Not settled: no value was found."""

    value: float
    low: float
    high: float
    kink: bool = False
    settled: bool = True


@dataclass(frozen=True)
class Evaluator:
    """The function on host arrays of one precision: point is where, run gives its floating outputs as float64."""

    run: Callable[[dict[str, Array]], list[Array]]
    point: dict[str, Array]
    upstream: list[Array]
    precision: str

    def outputs(self, name: str, moved: Array) -> list[Array]:
        return self.run({**self.point, name: moved})

    def slopes(self, name: str, direction: Direction, step: float, here: list[Array]) -> tuple[float, float, float]:
        """Central, forward and backward slope. Differences are taken before they are summed: less cancels."""
        ahead, behind = (self.outputs(name, self.moved(name, direction, s)) for s in (step, -step))
        rise = _weighted(self.upstream, ahead, here)
        fall = _weighted(self.upstream, here, behind)
        return (rise + fall) / (2 * step), rise / step, fall / step

    def moved(self, name: str, direction: Direction, step: float) -> Array:
        moved = np.array(self.point[name], order="C")
        moved.reshape(-1)[direction.elements] += (step * direction.weights).astype(moved.dtype)
        return moved


def _weighted(upstream: list[Array], ahead: list[Array], behind: list[Array]) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        return float(sum(np.sum(u * (a - b)) for u, a, b in zip(upstream, ahead, behind)))


def _directions(point: Array, settings: Differences, precision: str, rng: np.random.Generator) -> Iterator[Direction]:
    flat = point.reshape(-1)
    # In float32 a step has to be large against the rounding of x itself; in float64 it always is.
    weights = np.maximum(1.0, np.abs(flat)) if precision == "float32" else np.ones(flat.size)
    if flat.size <= settings.max_directions:
        for i in range(flat.size):
            yield Direction(np.array([i]), weights[i : i + 1])
        return
    signs = rng.choice(np.array([-1.0, 1.0]), size=flat.size)
    for group in np.array_split(rng.permutation(flat.size), settings.max_directions):
        yield Direction(group, (signs * weights)[group])


def _slope(
    evaluator: Evaluator, name: str, direction: Direction, here: list[Array], steps: Sequence[float], allowed: Tolerance
) -> Slope:
    part = SETTLED[evaluator.precision]
    for step in steps:
        wide, wide_ahead, wide_behind = evaluator.slopes(name, direction, step, here)
        near, near_ahead, near_behind = evaluator.slopes(name, direction, step / 2, here)
        value = (4 * near - wide) / 3
        limit = allowed.atol + allowed.rtol * abs(value)
        if not abs(near - wide) <= part * limit:  # written so that NaN is unsettled
            continue
        gap = abs(near_ahead - near_behind)
        # Of a smooth function the gap of the one-sided slopes halves with the step; at a kink it stays.
        kink = gap > limit and gap > 0.75 * abs(wide_ahead - wide_behind)
        return Slope(value, min(near_ahead, near_behind), max(near_ahead, near_behind), kink=kink)
    return Slope(float("nan"), 0.0, 0.0, settled=False)


@dataclass
class Projected:
    """Gradients of one input along its directions: got by the framework, want by differences."""

    got: list[float]
    want: list[float]
    where: list[str]  # what each is the gradient of: an element, or the number of a random direction
    kinks: int = 0
    unsettled: int = 0
    directions: int = 0

    def undecided(self) -> bool:
        return self.unsettled > UNSETTLED_PART * self.directions or not self.want


def _project(
    evaluator: Evaluator, name: str, gradient: Array, settings: Differences, allowed: Tolerance
) -> Projected:
    """Takes the differences of one input. Along a kink, want is the nearest of the values that are right."""
    rng = np.random.default_rng([settings.seed, *name.encode()])
    flat = gradient.reshape(-1)
    directions = list(_directions(evaluator.point[name], settings, evaluator.precision, rng))
    here = evaluator.run(evaluator.point)
    shape = gradient.shape
    found = Projected([], [], [], directions=len(directions))
    for number, direction in enumerate(directions):
        slope = _slope(evaluator, name, direction, here, settings.steps(evaluator.precision), allowed)
        got = float(np.dot(flat[direction.elements], direction.weights))
        want = slope.value
        if slope.kink and direction.elements.size == 1:
            want = min(max(got, slope.low), slope.high) if np.isfinite(got) else slope.low
            found.kinks += 1
        elif slope.kink or not slope.settled:
            # Along a group the kinks of several elements mix, and the interval of right values is not known.
            found.unsettled += 1
            if found.unsettled > UNSETTLED_PART * found.directions:
                break
            continue
        size = float(np.abs(direction.weights).max())
        found.got.append(got / size)
        found.want.append(want / size)
        index = ",".join(str(i) for i in np.unravel_index(int(direction.elements[0]), shape))
        found.where.append(f"[{index}]" if direction.elements.size == 1 else f", random direction {number}")
    return found


def choose_inputs(
    adapter: FrameworkAdapter, arrays: Mapping[str, Any], check_inputs: Sequence[str] | None
) -> list[str]:
    """Inputs to differentiate: those named; else those that ask for a gradient; else all of floating dtype."""
    floating = [name for name, value in arrays.items() if adapter.is_floating(value)]
    if check_inputs is not None:
        for name in check_inputs:
            if name not in floating:
                what = "is not of floating dtype" if name in arrays else "is not an input"
                known = ", ".join(floating) or "none"
                raise ValueError(f"check_inputs: {name!r} {what}; inputs of floating dtype are: {known}")
        if not check_inputs:
            raise ValueError("check_inputs is empty; name inputs, or leave it out to check all")
        return list(check_inputs)
    if not floating:
        raise ValueError("no input is of floating dtype; there is nothing to differentiate")
    return [name for name in floating if adapter.requires_grad(arrays[name])] or floating


def make_upstream(adapter: FrameworkAdapter, seed: int) -> Callable[[list[Any]], list[Any]]:
    """Random upstream gradients in the dtype of each output: what backward gets is what the differences use."""

    def upstream(outputs: list[Any]) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [adapter.from_numpy(rng.standard_normal(tuple(out.shape)), like=out) for out in outputs]

    return upstream


def gradient_report(
    adapter: FrameworkAdapter,
    func: Callable[..., Any],
    inputs: Mapping[str, Any],
    check_inputs: Sequence[str] | None,
    settings: Differences,
    client: Client | None,
    check: str = "gradients",
) -> CheckReport:
    """Compares the framework's gradients of func(**inputs) with differences of its values."""
    arrays, constants = split_settings(adapter, inputs)
    names = choose_inputs(adapter, arrays, check_inputs)
    host = {name: adapter.to_numpy(value).copy() for name, value in arrays.items()}

    def bound(**kwargs: Any) -> Any:
        return func(**kwargs, **constants)

    fresh = {name: adapter.from_numpy(host[name], like=value) for name, value in arrays.items()}
    kept: list[Array] = []

    def upstream(outputs: list[Any]) -> list[Any]:
        drawn = make_upstream(adapter, settings.seed)(outputs)
        kept.extend(float64(adapter.to_numpy(u)) for u in drawn)
        return drawn

    try:
        outputs, gradients = adapter.value_and_vjp(bound, fresh, names, upstream)
    except Exception as error:
        return _raised(adapter, bound, arrays, host, check, error)
    if not outputs:
        return CheckReport(check, passed=False, detail="the function has no output of floating dtype")
    changed = [name for name in arrays if adapter.to_numpy(fresh[name]).tobytes() != host[name].tobytes()]
    if changed:
        return CheckReport(check, passed=False, detail=f"the function changes its input {', '.join(changed)} in place")
    got = {name: float64(adapter.to_numpy(gradients[name])) for name in names}
    for name in names:
        if got[name].shape != host[name].shape:
            detail = f"gradient of {name} has shape {got[name].shape}, {name} has {host[name].shape}"
            return CheckReport(check, passed=False, detail=detail)
    with engine(client) as judge:
        work = _Work(adapter, bound, arrays, host, kept, got, settings, check)
        return work.report(judge)


def _raised(
    adapter: FrameworkAdapter, func: Callable[..., Any], arrays: Mapping[str, Any], host: Mapping[str, Array],
    check: str, error: Exception,
) -> CheckReport:  # fmt: skip
    """A function that raises by itself cannot be checked; one whose backward pass alone raises is wrong."""
    try:
        func(**{name: adapter.from_numpy(host[name], like=value) for name, value in arrays.items()})
    except Exception as own:
        return CheckReport(check, passed=False, detail=raised("the function", own), error=own)
    return CheckReport(check, passed=False, detail=raised("the backward pass", error))


def _worst(name: str, found: Projected, answer: Mapping[str, Any]) -> str:
    """How many gradients of an input are wrong, and the worst of them: element, got, want and bound."""
    output = answer["outputs"][0]
    wrong = f"{output['mismatched']} of {output['elements']}"
    lines = [f"gradient of {name}: {wrong} wrong" if "mismatched" in output else f"{name}: {answer['message']}"]
    for worst in (output.get("worst") or [])[:WORST]:
        bound = f"want {worst['want']} within {worst['bound']:.3g}"
        lines.append(f"  gradient of {name}{found.where[worst['index'][0]]}: got {worst['got']}, {bound}")
    return "\n  ".join(lines)


@dataclass(frozen=True)
class _Work:
    """One function at one point, with its gradients already taken."""

    adapter: FrameworkAdapter
    func: Callable[..., Any]
    arrays: Mapping[str, Any]
    host: dict[str, Array]
    upstream: list[Array]
    gradients: dict[str, Array]
    settings: Differences
    check: str

    def report(self, judge: Client) -> CheckReport:
        notes: list[str] = []
        for precision in ("float64", "float32"):
            evaluator = self.evaluator(precision)
            try:
                here = evaluator.run(evaluator.point)
                again = evaluator.run(evaluator.point)
            except Exception as error:
                notes.append(raised(f"in {precision} the function", error))
                continue
            problem = self.unfit(here, again)
            if problem:
                return CheckReport(self.check, passed=False, detail=problem, notes=tuple(notes))
            with np.errstate(invalid="ignore", over="ignore"):
                found = {name: self.project(evaluator, name) for name in self.gradients}
            unclear = [name for name, projected in found.items() if projected.undecided()]
            if not unclear:
                return self.judged(judge, precision, found, notes)
            notes.append(f"differences in {precision} do not settle for {', '.join(unclear)}")
        reason = "no derivative could be taken from the function's values; check it at other inputs, or against an op"
        return replace(not_run(self.check, reason), notes=tuple(notes))

    def evaluator(self, precision: str) -> Evaluator:
        point = {
            name: value.astype(precision) if self.adapter.is_floating(self.arrays[name]) else value
            for name, value in self.host.items()
        }

        def run(values: dict[str, Array]) -> list[Array]:
            with self.adapter.double_precision():
                placed = {name: self.adapter.place(value, self.arrays[name]) for name, value in values.items()}
                outputs = self.adapter.floating_leaves(self.func(**placed))
                return [float64(self.adapter.to_numpy(out)) for out in outputs]

        return Evaluator(run, point, self.upstream, precision)

    def unfit(self, here: list[Array], again: list[Array]) -> str:
        """Why the function cannot be differentiated at this point, in words (empty: it can)."""
        want = [u.shape for u in self.upstream]
        if [out.shape for out in here] != want:
            return f"outputs have shapes {[out.shape for out in here]} in wider precision, {want} in that of the inputs"
        if any(one.tobytes() != other.tobytes() for one, other in zip(here, again)):
            return "the function gives different values for the same inputs; fix its random state to check gradients"
        if not all(np.isfinite(out).all() for out in here):
            return "the function is not finite at these inputs; gradients can be checked only where it is"
        return ""

    def allowed(self, name: str, precision: str) -> Tolerance:
        settings = self.settings
        allowed = tolerance_for(
            GRADIENT_TOLERANCES, self.adapter.get_dtype_name(self.arrays[name]), settings.atol, settings.rtol
        )
        if precision == "float32":
            floor = FLOAT32_FLOOR
            return replace(allowed, atol=max(allowed.atol, floor[0]), rtol=max(allowed.rtol, floor[1]))
        return allowed

    def project(self, evaluator: Evaluator, name: str) -> Projected:
        return _project(
            evaluator, name, self.gradients[name], self.settings, self.allowed(name, evaluator.precision)
        )

    def judged(self, judge: Client, precision: str, found: dict[str, Projected], notes: list[str]) -> CheckReport:
        comparisons, problems = [], []
        for name, projected in found.items():
            allowed = self.allowed(name, precision)
            size = self.gradients[name].size
            group = -(-size // projected.directions)
            # Rounding of the elements of a group adds up like a random walk.
            allowed = replace(allowed, atol=allowed.atol * group**0.5)
            answer, problem = agree(
                judge, f"gradient of {name}", np.array(projected.got), np.array(projected.want), allowed
            )
            comparisons.append(answer)
            problems += [_worst(name, projected, answer)] if problem else []
            notes.append(f"{name}: {allowed} against differences in {precision}")
            if group > 1:
                notes.append(f"{name}: {size} elements in {projected.directions} random directions")
            if projected.kinks:
                notes.append(f"{name}: {projected.kinks} elements on a kink; a value between its slopes is right")
            if projected.unsettled:
                part = f"{projected.unsettled} of {projected.directions}"
                notes.append(f"{name}: {part} directions do not settle, not compared")
        return CheckReport(
            self.check, not problems, detail="\n  ".join(problems), notes=tuple(notes), comparisons=tuple(comparisons)
        )
