"""Tolerances: |got - want| <= atol + rtol·|want|, applied by the engine.

The numbers are those of the engine's profiles. Where the engine's oracle knows an operator, its error bounds are better
than any of them; tolerances are for references that come without bounds. Integers and bool are compared exactly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, overload

from . import _values
from .rng import derive_seed

__all__ = [
    "DEFAULT_TOLERANCES",
    "FRAMEWORK_MULTIPLIERS",
    "CalibratedTolerance",
    "ToleranceConfig",
    "ToleranceProfile",
    "calibrate_tolerance",
    "compare_tolerances",
    "get_recommended_tolerance",
]

# atol and rtol, which are equal, by profile and data type: the profiles of the engine. Other types are exact.
_FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_STRICT = dict(zip(_FLOATS, (1e-12, 1e-7, 0.0008192, 0.0065536, 0.0625, 0.125)))
_RELAXED = dict(zip(_FLOATS, (1e-8, 1e-3, 5e-2, 5e-2, 0.125, 0.25)))
_PROFILES = {
    "default": dict(zip(_FLOATS, (1e-10, 1e-5, 1e-2, 1e-2, 0.0625, 0.125))),
    "strict": _STRICT,
    "relaxed": _RELAXED,
    "testing": _RELAXED,
    "production": _STRICT,
    "cross-framework": dict(zip(_FLOATS, (1e-9, 1e-4, 2e-2, 2e-2, 0.125, 0.25))),
}

# How much wider the tolerances of a framework and of an operator are: facts of the published package. XLA fuses and
# reorders; long sums and chains of functions collect errors.
FRAMEWORK_MULTIPLIERS = {"numpy": 1.0, "pytorch": 1.0, "torch": 1.0, "cupy": 1.0, "jax": 1.5, "tensorflow": 1.5}
_OPERATIONS = {
    "matmul": 1.5, "conv2d": 2.0, "softmax": 1.5, "batchnorm": 2.0, "layernorm": 2.0, "attention": 2.5,
}  # fmt: skip
_PAIR_FACTOR = 1.5  # of two frameworks, on top of the wider one


@dataclass(frozen=True)
class ToleranceConfig:
    """One tolerance. It can be read like a dict, too: tolerance["atol"], dict(tolerance), print(tolerance).

    Attributes:
        atol: absolute part.
        rtol: relative part; it scales with the wanted value.

    Example:
        >>> ToleranceConfig(1e-5, 1e-5).scale(2).atol
        2e-05
    """

    atol: float
    rtol: float

    def __post_init__(self) -> None:
        for name in ("atol", "rtol"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be a finite number that is not negative, got {value}")

    @classmethod
    def for_dtype(cls, dtype: Any, framework: str = "numpy") -> ToleranceConfig:
        """The default of a data type, a little wider for frameworks that compile with XLA."""
        return _tolerance("default", dtype).scale(_framework(framework))

    @classmethod
    def strict(cls, dtype: Any = "float32") -> ToleranceConfig:
        """About what one rounding needs: 1e-7 for float32."""
        return _tolerance("strict", dtype)

    @classmethod
    def relaxed(cls, dtype: Any = "float32") -> ToleranceConfig:
        """Wide: 1e-3 for float32."""
        return _tolerance("relaxed", dtype)

    def scale(self, factor: float) -> ToleranceConfig:
        """Both parts times a factor."""
        return ToleranceConfig(self.atol * factor, self.rtol * factor)

    def to_dict(self) -> dict[str, float]:
        """The two numbers by name."""
        return {"atol": self.atol, "rtol": self.rtol}

    def __getitem__(self, name: str) -> float:
        return self.to_dict()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def keys(self) -> Sequence[str]:
        """The names of the two numbers: what dict(tolerance) asks for."""
        return ("atol", "rtol")

    def __str__(self) -> str:
        return json.dumps(self.to_dict())


def _tolerance(profile: str, dtype: Any) -> ToleranceConfig:
    value = _PROFILES[profile].get(_values.check_dtype(dtype), 0.0)
    return ToleranceConfig(value, value)


def _framework(name: str) -> float:
    if name not in FRAMEWORK_MULTIPLIERS:
        raise ValueError(f"unknown framework {name!r}: known are {', '.join(FRAMEWORK_MULTIPLIERS)}")
    return FRAMEWORK_MULTIPLIERS[name]


# The tolerances of for_dtype by data type.
DEFAULT_TOLERANCES = {dtype: ToleranceConfig(value, value) for dtype, value in _PROFILES["default"].items()}


@dataclass(frozen=True, eq=False)
class CalibratedTolerance(ToleranceConfig):
    """A fitted tolerance with its evidence: print(tolerance.report()).

    Attributes:
        fitted: runs that it was fitted to.
        held_out: runs that it was tried on.
        false_alarms: of those, how many it refuses although they conform.
        misses: planted errors, as dicts: error ("zeros", "1 % off"), size (|error| / |want|), below (missed where
            |want| is at most this; absent: everywhere) and share (of the held-out elements that are not zero).
    """

    fitted: int = 0
    held_out: int = 0
    false_alarms: int = 0
    misses: tuple[dict[str, Any], ...] = ()

    @property
    def accepted(self) -> float:
        """The share of the held-out conforming runs that it accepts."""
        return 1 - self.false_alarms / self.held_out if self.held_out else 0.0

    def report(self) -> str:
        """What it accepts and misses, one finding a line."""
        passed = self.held_out - self.false_alarms
        lines = [
            f"atol {self.atol:.3g}, rtol {self.rtol:.3g}, fitted to {self.fitted} runs",
            f"accepts {passed} of {self.held_out} held-out conforming runs ({100 * self.accepted:.1f} %)",
        ]
        for miss in self.misses:
            where = f"where |want| <= {miss['below']:.3g}" if "below" in miss else "everywhere"
            lines.append(f"misses an error of {miss['error']} {where}: {100 * miss['share']:.2g} % of the values")
        return "\n".join(lines)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToleranceConfig):
            return NotImplemented
        return (self.atol, self.rtol) == (other.atol, other.rtol)

    def __hash__(self) -> int:
        return hash((self.atol, self.rtol))

    def __str__(self) -> str:
        return super().__str__()


class _Get:
    """ToleranceProfile.get: of the class it looks a profile up, of a profile a data type."""

    @overload
    def __get__(self, profile: None, owner: type[ToleranceProfile]) -> Callable[[str], ToleranceProfile]: ...

    @overload
    def __get__(self, profile: ToleranceProfile, owner: type[ToleranceProfile]) -> Callable[[str], ToleranceConfig]: ...

    def __get__(self, profile: ToleranceProfile | None, owner: type[ToleranceProfile]) -> Callable[[str], Any]:
        return _named_profile if profile is None else profile.for_type


@dataclass(frozen=True, init=False)
class ToleranceProfile(ToleranceConfig):
    """A named set of tolerances, one for each data type. The profile itself is its tolerance for float32.

    Hence both forms work: ToleranceProfile.for_testing().atol, and ToleranceProfile.for_testing().get("float16").
    ToleranceProfile.get("testing") looks the profile up by its name: default, strict, relaxed, testing, production or
    cross-framework.

    Args:
        name: what to call it.
        tolerances: by data type; types that are not in it have their default.

    Example:
        >>> ToleranceProfile.for_production() == ToleranceProfile.get("production")
        True
    """

    name: str
    tolerances: Mapping[str, ToleranceConfig] = field(hash=False)

    get = _Get()

    def __init__(self, name: str, tolerances: Mapping[str, ToleranceConfig]) -> None:
        for dtype in tolerances:
            _values.check_dtype(dtype)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "tolerances", dict(tolerances))
        own = self.for_type("float32")
        super().__init__(own.atol, own.rtol)

    def for_type(self, dtype: Any) -> ToleranceConfig:
        """The tolerance of a data type."""
        return self.tolerances.get(_values.check_dtype(dtype)) or ToleranceConfig.for_dtype(dtype)

    @classmethod
    def for_testing(cls) -> ToleranceProfile:
        """Wide, for development."""
        return _named_profile("testing")

    @classmethod
    def for_production(cls) -> ToleranceProfile:
        """Narrow, for production."""
        return _named_profile("production")

    @classmethod
    def for_cross_framework(cls, source: str | None = None, target: str | None = None) -> ToleranceProfile:
        """For two frameworks: any two, or those that are named, with the wider factor of the two times 1.5."""
        if source is None and target is None:
            return _named_profile("cross-framework")
        if source is None or target is None:
            raise TypeError("for_cross_framework() takes two frameworks, or none")
        factor = max(_framework(source), _framework(target)) * _PAIR_FACTOR
        scaled = {d: ToleranceConfig.for_dtype(d).scale(factor) for d in _FLOATS}
        return cls(f"{source}_to_{target}", scaled)


def _named_profile(name: str) -> ToleranceProfile:
    values = _PROFILES.get(name.replace("_", "-"))
    if values is None:
        raise ValueError(f"unknown tolerance profile {name!r}: known are {', '.join(_PROFILES)}")
    return ToleranceProfile(name.replace("_", "-"), {d: ToleranceConfig(v, v) for d, v in values.items()})


def get_recommended_tolerance(
    dtype: Any, framework: str | None = None, operation: str | None = None
) -> ToleranceConfig:  # fmt: skip
    """The default of a data type, wider for some frameworks and operators (matmul, conv2d, softmax, attention, …).

    Example:
        >>> get_recommended_tolerance("float16").atol > get_recommended_tolerance("float32").atol
        True
    """
    tolerance = ToleranceConfig.for_dtype(dtype, framework or "numpy")
    return tolerance.scale(_OPERATIONS.get((operation or "").lower(), 1.0))


def compare_tolerances(a: ToleranceConfig, b: ToleranceConfig) -> dict[str, Any]:
    """How much wider a is than b: atol_ratio and rtol_ratio as text, a_stricter and b_stricter if one is in both."""

    def ratio(x: float, y: float) -> str:
        return f"{x / y:.2f}x" if y > 0 else "inf"

    return {
        "atol_ratio": ratio(a.atol, b.atol),
        "rtol_ratio": ratio(a.rtol, b.rtol),
        "a_stricter": a.atol < b.atol and a.rtol < b.rtol,
        "b_stricter": b.atol < a.atol and b.rtol < a.rtol,
    }


def calibrate_tolerance(
    op_fn: Any = None, ref_fn: Any = None, shapes: Sequence[Sequence[int]] | None = None, dtype: Any = "float32",
    n_samples: int = 100, seed: int = 42, percentile: float = 99.0, safety_margin: float = 2.0, *,
    test_fn: Callable[..., Any] | None = None, reference_fn: Callable[..., Any] | None = None,
    input_shapes: Sequence[Sequence[int]] | None = None, iterations: int | None = None, client: Any = None,
) -> CalibratedTolerance:  # fmt: skip
    """The tolerance that a correct function needs, from runs on random inputs.

    calibrate_tolerance(op_fn, ref_fn, shapes) runs two functions on the same inputs; the engine compares what they
    return and fits the tolerance. calibrate_tolerance(client, "my_op") has the engine run the configured candidate of
    an operator. In both, what runs is taken to be right.

    Args:
        op_fn: the function, also as test_fn; or a Client.
        ref_fn: the function that it is measured against, also as reference_fn; or the name of an operator.
        shapes: one for each argument of the functions, also as input_shapes.
        dtype: data type of the arguments.
        n_samples: number of runs, also as iterations; the engine needs 40.
        seed: of the inputs, uniform in [-1, 1].
        percentile: of the errors.
        safety_margin: what it is multiplied by.
        client: the Client to use for two functions; default: a new one.

    Returns:
        A tolerance that also says what share of the held-out runs it accepts and which planted errors it misses.

    Raises:
        ClientError: the tolerance would accept zeros for most values: one of the functions is wrong.

    Example:
        >>> tolerance = calibrate_tolerance(my_tanh, np.tanh, [(64, 64)])
        >>> 0 < tolerance.rtol < 1e-4
        True
    """
    samples = n_samples if iterations is None else iterations
    if isinstance(ref_fn, str):
        return _calibrate_operator(op_fn, ref_fn, _values.check_dtype(dtype), samples)
    candidate = _one_of("op_fn", op_fn, "test_fn", test_fn)
    reference = _one_of("ref_fn", ref_fn, "reference_fn", reference_fn)
    sizes = [_values.check_shape(s) for s in _one_of("shapes", shapes, "input_shapes", input_shapes)]
    for name, function in (("op_fn", candidate), ("ref_fn", reference)):
        if not callable(function):
            found = type(function).__name__
            raise TypeError(f"{name} is a {found}: pass two functions and shapes, or a Client and the name of an op")
    if client is None:
        from .client import Client

        with Client() as own:
            errors = _measure(own, candidate, reference, sizes, dtype, samples, seed)
            return _as_config(own.fit_tolerance(dtype, errors, percentile, safety_margin))
    errors = _measure(client, candidate, reference, sizes, dtype, samples, seed)
    return _as_config(client.fit_tolerance(dtype, errors, percentile, safety_margin))


def _one_of(name: str, value: Any, other_name: str, other: Any) -> Any:
    if (value is None) == (other is None):
        raise TypeError(f"calibrate_tolerance() needs exactly one of {name} and {other_name}")
    return other if value is None else value


def _as_config(reply: Mapping[str, Any]) -> CalibratedTolerance:
    return CalibratedTolerance(
        float(reply["atol"]), float(reply["rtol"]), int(reply.get("fitted", 0)), int(reply.get("held_out", 0)),
        int(reply.get("false_alarms", 0)), tuple(reply.get("misses") or ()),
    )  # fmt: skip


def _calibrate_operator(client: Any, op: str, dtype: str, iterations: int) -> CalibratedTolerance:
    if not hasattr(client, "calibrate"):
        raise TypeError(f'calibrate_tolerance(client, "{op}") needs a Client first, not a {type(client).__name__}')
    fitted = {c["dtype"]: c for c in client.calibrate(op, dtype, iterations)}
    if dtype not in fitted:
        raise ValueError(f"{op} was not calibrated for {dtype}, only for {', '.join(fitted) or 'nothing'}")
    return _as_config(fitted[dtype])


def _measure(
    client: Any, candidate: Callable[..., Any], reference: Callable[..., Any], sizes: list[tuple[int, ...]],
    dtype: str, samples: int, seed: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """The errors of all runs, as the engine measures them. Each function has arrays of its own."""
    from .fuzz import generate_random_tensor

    errors = []
    for i in range(samples):
        case = derive_seed(seed, f"iter_{i}")
        inputs = [generate_random_tensor(derive_seed(case, f"input_{k}"), s, dtype) for k, s in enumerate(sizes)]
        want = reference(*(a.copy() for a in inputs))
        got = candidate(*inputs)
        reply = client.compare(got, want, errors=True)
        for output in reply["outputs"]:
            if "max_abs" not in output or "max_want" not in output:
                why = reply.get("message") or "the engine could not compare the results"
                raise ValueError(f"sample {i} (seed {case}): {why}")
            errors.append({"max_abs": output["max_abs"], "max_want": output["max_want"],
                           "bins": output.get("errors") or []})  # fmt: skip
    return errors
