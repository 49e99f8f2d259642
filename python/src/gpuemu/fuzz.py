"""Shapes, data types, layouts and arrays from a seed, and a fuzzer for functions that run in this process.

Two interfaces of the same names exist, and both work. A call that the published package accepts gives what it gives:
the same seeds, shapes, data types and layouts. Where it has no answer, the documented call holds.

    for batch, seq in fuzz_shapes(batch=[1, 2], seq=[64, 128])     every combination, as published
    for shape in fuzz_shapes(min_dims=2, max_dims=3)               random shapes without end, as documented

The engine has far better cases for operators that it knows (Client.fuzz_op_client_side). This fuzzer is for functions
that bring their own reference.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Callable, ClassVar

from . import _calling, _values
from ._values import Array
from .arrays import Refusal
from .rng import SeededRng, default_seed

if TYPE_CHECKING:
    from .results import FuzzResults, ValidationResult

__all__ = [
    "FuzzConfig",
    "SeededFuzzer",
    "TestCase",
    "fuzz_dtypes",
    "fuzz_dtypes_seeded",
    "fuzz_layouts",
    "fuzz_layouts_seeded",
    "fuzz_shapes",
    "fuzz_shapes_seeded",
    "generate_random_tensor",
]

# Defaults of the published fuzzer.
_BATCH_SIZES = (1, 2, 4, 8, 16, 32)
_SEQ_LENGTHS = (64, 128, 256, 512, 1024)
_HIDDEN_DIMS = (256, 512, 768, 1024)
_EDGE_CASES = ((1,), (1, 1), (1, 1, 1))
_DTYPES = ("float32", "float16")
_LAYOUTS = ("contiguous", "strided", "transposed")
_EDGE_CASE_PROBABILITY = 0.1

# Random shapes have at most so many elements, 64 MiB of float32: four dimensions of 1024 would have 2^40.
_MAX_ELEMENTS = 1 << 24

Reference = Callable[..., Any]


@dataclass(frozen=True)
class _Lists:
    """Shapes as the published fuzzer draws them: one entry of each list, or with some probability an edge case."""

    batch_sizes: Sequence[int] = _BATCH_SIZES
    seq_lengths: Sequence[int] = _SEQ_LENGTHS
    hidden_dims: Sequence[int] = _HIDDEN_DIMS
    edge_cases: Sequence[Sequence[int]] = _EDGE_CASES
    edge_case_probability: float = _EDGE_CASE_PROBABILITY

    def __post_init__(self) -> None:
        for name in ("batch_sizes", "seq_lengths", "hidden_dims"):
            if not len(getattr(self, name)):
                raise ValueError(f"{name} is empty: give at least one size")
            _values.check_shape(getattr(self, name))
        for shape in self.edge_cases:
            _values.check_shape(shape)

    def draw(self, rng: SeededRng) -> tuple[int, ...]:
        if len(self.edge_cases) and rng.gen_bool(self.edge_case_probability):
            return tuple(rng.choice(self.edge_cases))
        return (rng.choice(self.batch_sizes), rng.choice(self.seq_lengths), rng.choice(self.hidden_dims))


@dataclass(frozen=True)
class _Ranges:
    """Shapes with a number of dimensions and with sizes in a range.

    Small sizes are as likely as large ones: the number of binary digits of a size is drawn first. The dimensions share
    max_elements, and are shuffled, because the first one has most of it to draw from.
    """

    min_dims: int = 1
    max_dims: int = 4
    min_size: int = 1
    max_size: int = 1024
    max_elements: int = _MAX_ELEMENTS

    def __post_init__(self) -> None:
        for low, high in (("min_dims", "max_dims"), ("min_size", "max_size")):
            least, most = getattr(self, low), getattr(self, high)
            if isinstance(least, bool) or not isinstance(least, int) or not isinstance(most, int):
                raise TypeError(f"{low} and {high} are integers, not {least!r} and {most!r}")
            if not 0 <= least <= most:
                raise ValueError(f"{low}={least}, {high}={most}: 0 <= {low} <= {high} is needed")
        if self.min_size**self.max_dims > self.max_elements:
            raise ValueError(
                f"{self.max_dims} dimensions of at least {self.min_size} exceed max_elements={self.max_elements}: "
                "lower max_dims or min_size, or raise max_elements"
            )

    def draw(self, rng: SeededRng) -> tuple[int, ...]:
        rank = rng.gen_range(self.min_dims, self.max_dims + 1)
        shape: list[int] = []
        room = self.max_elements
        for others in range(rank - 1, -1, -1):
            limit = min(self.max_size, room // max(self.min_size, 1) ** others)
            size = _draw_size(rng, self.min_size, limit)
            room //= max(size, 1)
            shape.append(size)
        rng.shuffle(shape)
        return tuple(shape)


def _draw_size(rng: SeededRng, low: int, high: int) -> int:
    digits = rng.gen_range(low.bit_length(), high.bit_length() + 1)
    return rng.gen_range(max(low, 1 << digits >> 1), min(high, (1 << digits) - 1) + 1)


def _cases(seed: int) -> Iterator[SeededRng]:
    """The streams of the cases of a run."""
    master = SeededRng(seed)
    return (master.derive(f"iter_{i}") for i in itertools.count())


def fuzz_shapes(
    min_dims: int = 1, max_dims: int = 4, min_size: int = 1, max_size: int = 1024, *,
    max_elements: int = _MAX_ELEMENTS, seed: int | None = None, **dimensions: Iterable[int],
) -> Iterator[tuple[int, ...]]:  # fmt: skip
    """Shapes: every combination of named lists of sizes, or without such lists random ones without end.

    Args:
        min_dims, max_dims: number of dimensions.
        min_size, max_size: size of each.
        max_elements: a random shape has no more elements.
        seed: of the random shapes; default: a new one.
        **dimensions: lists of sizes, as batch=[1, 2], seq=[64, 128].

    Example:
        >>> list(fuzz_shapes(batch=[1, 2], seq=[64]))
        [(1, 64), (2, 64)]
        >>> len(next(fuzz_shapes(min_dims=3, max_dims=3, seed=1)))
        3
    """
    if dimensions:
        return itertools.product(*dimensions.values())
    ranges = _Ranges(min_dims, max_dims, min_size, max_size, max_elements)
    return (ranges.draw(rng.derive("shape")) for rng in _cases(default_seed() if seed is None else seed))


def fuzz_dtypes(
    dtypes: Sequence[Any] | None = None, exclude: Sequence[Any] | None = None, *,
    include: Sequence[Any] | None = None, seed: int | None = None,
) -> Iterator[str]:  # fmt: skip
    """Data types: each of a list once, or with include or exclude random ones without end.

    Args:
        dtypes: the list; default: float32 and float16. With exclude it means include.
        include: types to draw from; default: all that arrays can have here. bfloat16 and float8 need ml_dtypes.
        exclude: types to leave out of those.
        seed: of the random types; default: a new one.

    Example:
        >>> list(fuzz_dtypes(["float32", np.float16]))
        ['float32', 'float16']
    """
    if include is None and exclude is None:
        return iter([_values.check_dtype(d) for d in (_DTYPES if dtypes is None else dtypes)])
    if include is not None and dtypes is not None:
        raise TypeError("fuzz_dtypes() takes dtypes or include, not both")
    wanted = include if include is not None else dtypes
    names = _available() if wanted is None else [_values.check_dtype(d) for d in wanted]
    left_out = {_values.check_dtype(d) for d in exclude or ()}
    names = [n for n in names if n not in left_out]
    if not names:
        raise ValueError("fuzz_dtypes(): no type is left; exclude fewer")
    return (rng.derive("dtype").choice(names) for rng in _cases(default_seed() if seed is None else seed))


def _available() -> list[str]:
    names = []
    for name in _values.DTYPES:
        try:
            _values.published(SeededRng(0), (0,), name)
        except Refusal:  # ml_dtypes is not installed
            continue
        names.append(name)
    return names


def fuzz_layouts(
    shape: Sequence[int] | None = None, include_contiguous: bool = True, include_strided: bool = True,
    include_transposed: bool = True, *, seed: int | None = None,
) -> Iterator[Any]:  # fmt: skip
    """Layouts of a shape, each once, as (shape, strides); or without a shape random names of layouts without end.

    Args:
        shape: base shape. Strides count elements.
        include_contiguous: row-major.
        include_strided: row-major with a gap after each element.
        include_transposed: two neighbouring dimensions swapped, each pair once.
        seed: of the random names; default: a new one.

    Example:
        >>> [strides for _, strides in fuzz_layouts((2, 3))]
        [(3, 1), (2, 1), (6, 2)]
    """
    if shape is None:
        wanted = {"contiguous": include_contiguous, "strided": include_strided, "transposed": include_transposed}
        names = [n for n in _values.LAYOUTS if wanted.get(n, True)]
        return (rng.derive("layout").choice(names) for rng in _cases(default_seed() if seed is None else seed))
    dims = _values.check_shape(shape)
    layouts = []
    if include_contiguous:
        layouts.append((dims, _values.strides(dims)))
    if include_transposed:
        for i in range(len(dims) - 1):
            swapped = (*dims[:i], dims[i + 1], dims[i], *dims[i + 2 :])
            layouts.append((swapped, _values.strides(swapped)))
    if include_strided and dims:
        layouts.append((dims, _values.strides(dims, "strided")))
    return iter(layouts)


def fuzz_shapes_seeded(
    seed: int, batch_sizes: Sequence[int] | None = None, seq_lengths: Sequence[int] | None = None,
    hidden_dims: Sequence[int] | None = None, edge_cases: Sequence[Sequence[int]] | None = None,
    edge_case_probability: float = _EDGE_CASE_PROBABILITY, **ranges: int,
) -> Iterator[tuple[int, tuple[int, ...]]]:  # fmt: skip
    """(case seed, shape) without end, as the published fuzzer draws them.

    Args:
        seed: master seed.
        batch_sizes, seq_lengths, hidden_dims: sizes of the three dimensions.
        edge_cases: shapes that are taken now and then instead.
        edge_case_probability: how often.
        **ranges: min_dims, max_dims, min_size, max_size, max_elements: shapes of fuzz_shapes instead of lists.

    Example:
        >>> next(fuzz_shapes_seeded(42)) == next(fuzz_shapes_seeded(42))
        True
    """
    source = _shapes(batch_sizes, seq_lengths, hidden_dims, edge_cases, edge_case_probability, ranges)
    return ((rng.seed, source.draw(rng.derive("shape"))) for rng in _cases(seed))


def _shapes(
    batch_sizes: Sequence[int] | None, seq_lengths: Sequence[int] | None, hidden_dims: Sequence[int] | None,
    edge_cases: Sequence[Sequence[int]] | None, probability: float, ranges: Mapping[str, int],
) -> _Lists | _Ranges:  # fmt: skip
    lists = {"batch_sizes": batch_sizes, "seq_lengths": seq_lengths, "hidden_dims": hidden_dims,
             "edge_cases": edge_cases}  # fmt: skip
    given = {name: sizes for name, sizes in lists.items() if sizes is not None}
    if not ranges:
        return _Lists(**given, edge_case_probability=probability)  # type: ignore[arg-type]  # each has its own type
    unknown = set(ranges) - set(_Ranges.__dataclass_fields__)
    if unknown:
        raise TypeError(f"unknown argument {min(unknown)}: known are {', '.join(_Ranges.__dataclass_fields__)}")
    if given:
        raise ValueError(f"{min(given)} and {min(ranges)} exclude each other: shapes come from lists or from ranges")
    return _Ranges(**ranges)


def fuzz_dtypes_seeded(seed: int, dtypes: Sequence[Any] | None = None) -> Iterator[tuple[int, str]]:
    """(case seed, data type) without end, as the published fuzzer draws them.

    Example:
        >>> next(fuzz_dtypes_seeded(42, ["int8"]))[1]
        'int8'
    """
    names = [_values.check_dtype(d) for d in (_DTYPES if dtypes is None else dtypes)]
    if not names:
        raise ValueError("dtypes is empty: give at least one")
    return ((rng.seed, rng.derive("dtype").choice(names)) for rng in _cases(seed))


def fuzz_layouts_seeded(
    seed: int, shape: Sequence[int] | None = None, layouts: Sequence[str] | None = None
) -> Iterator[Any]:
    """(case seed, layout, shape, strides) without end, as the published fuzzer draws them.

    Args:
        seed: master seed.
        shape: of the tensors; without it the draws are (case seed, layout).
        layouts: names to draw from; default: contiguous, strided and transposed.

    Example:
        >>> next(fuzz_layouts_seeded(42, layouts=["strided"]))[1]
        'strided'
    """
    names = [_values.check_layout(name) for name in (_LAYOUTS if layouts is None else layouts)]
    if not names:
        raise ValueError("layouts is empty: give at least one")
    drawn = ((rng.seed, rng.derive("layout").choice(names)) for rng in _cases(seed))
    if shape is None:
        return drawn
    dims = _values.check_shape(shape)
    return ((case, layout, dims, _values.strides(dims, layout)) for case, layout in drawn)


def generate_random_tensor(
    seed: int, shape: Sequence[int], dtype: Any = "float32", domain: str | Sequence[float] = (-1.0, 1.0)
) -> Array:
    """A random array from a seed, the same on every machine.

    Args:
        seed: the same seed gives the same array.
        shape: its shape.
        dtype: its data type; bfloat16 and float8 need ml_dtypes.
        domain: (low, high): uniform values in that range, ends included. Or a name: the stream of that name below the
            seed, drawn as the published generator does, ten times a normal variate; TestCase.generate_input uses it.

    Example:
        >>> generate_random_tensor(42, (2, 3)).shape
        (2, 3)
    """
    dims, name = _values.check_shape(shape), _values.check_dtype(dtype)
    rng = SeededRng(seed)
    if isinstance(domain, str):
        return _values.published(rng.derive(domain), dims, name)
    if len(domain) != 2:
        raise ValueError(f"domain is a pair (low, high) or a name, not {domain!r}")
    return _values.uniform(rng.derive("data"), dims, name, float(domain[0]), float(domain[1]))


_DEFAULT: Any = None  # replaced by the default in FuzzConfig.__post_init__, which so knows what was given


@dataclass
class FuzzConfig:
    """What a SeededFuzzer draws from.

    Shapes come from lists (batch_sizes, seq_lengths, hidden_dims, edge_cases: as published) or, if one of min_dims,
    max_dims, min_size and max_size is given, from ranges (as documented). One configuration cannot have both.

    Attributes:
        seed: master seed; None: a new one.
        batch_sizes, seq_lengths, hidden_dims: sizes of the three dimensions.
        dtypes: default: float32 and float16; with ranges float32.
        layouts: default: contiguous, strided and transposed; with ranges contiguous.
        edge_cases: shapes that are taken in a tenth of the cases.
        iterations: number of cases of run().
        min_dims, max_dims, min_size, max_size: number of dimensions, and size of each.
        max_elements: a shape from ranges has no more elements.
        inputs: names of the inputs. All have the shape, data type and layout of the case.
        options: what else a run of the engine was asked for, such as attrs and values, where the configuration is
            that of a stored or returned failure. A SeededFuzzer does not use it.

    Example:
        >>> FuzzConfig(max_dims=2, iterations=5).dtypes
        ['float32']
    """

    seed: int | None = None
    batch_sizes: list[int] = _DEFAULT
    seq_lengths: list[int] = _DEFAULT
    hidden_dims: list[int] = _DEFAULT
    dtypes: list[str] = _DEFAULT
    layouts: list[str] = _DEFAULT
    edge_cases: list[list[int]] = _DEFAULT
    iterations: int = 100
    min_dims: int = _DEFAULT
    max_dims: int = _DEFAULT
    min_size: int = _DEFAULT
    max_size: int = _DEFAULT
    max_elements: int = _MAX_ELEMENTS
    inputs: list[str] = field(default_factory=lambda: ["input"])
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ranges = {n: v for n in ("min_dims", "max_dims", "min_size", "max_size") if (v := getattr(self, n)) is not None}
        if ranges:
            ranges["max_elements"] = self.max_elements
        _shapes(self.batch_sizes, self.seq_lengths, self.hidden_dims, self.edge_cases, _EDGE_CASE_PROBABILITY, ranges)
        self._from_ranges = bool(ranges)
        defaults: dict[str, Any] = {
            "batch_sizes": list(_BATCH_SIZES), "seq_lengths": list(_SEQ_LENGTHS), "hidden_dims": list(_HIDDEN_DIMS),
            "edge_cases": [[1], [1, 1], [1, 1, 1], [0]], "min_dims": 1, "max_dims": 4, "min_size": 1, "max_size": 1024,
            "dtypes": ["float32"] if ranges else list(_DTYPES),
            "layouts": ["contiguous"] if ranges else list(_LAYOUTS),
        }  # fmt: skip
        for name, value in defaults.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        for name in ("dtypes", "layouts", "inputs"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: give at least one")
        self.dtypes = [_values.check_dtype(d) for d in self.dtypes]
        for layout in self.layouts:
            _values.check_layout(layout)

    def draw_shape(self, rng: SeededRng) -> tuple[int, ...]:
        """A shape from the lists or the ranges, whichever the configuration has."""
        if self._from_ranges:
            return _Ranges(self.min_dims, self.max_dims, self.min_size, self.max_size, self.max_elements).draw(rng)
        return _Lists(self.batch_sizes, self.seq_lengths, self.hidden_dims, self.edge_cases).draw(rng)

    def to_dict(self) -> dict[str, Any]:
        """The configuration as a dict, with the keys of the published one."""
        options: dict[str, Any] = (
            {name: getattr(self, name) for name in _Ranges.__dataclass_fields__}
            if self._from_ranges
            else {name: getattr(self, name) for name in ("batch_sizes", "seq_lengths", "hidden_dims", "edge_cases")}
        )
        return {"seed": self.seed, "shape_options": options, "dtypes": self.dtypes, "layouts": self.layouts}


@dataclass
class TestCase:
    """One case of a SeededFuzzer.

    Attributes:
        seed: seed of the case.
        shape, dtype, layout: of all its inputs.
        strides: in elements, as the published fuzzer writes them beside the layout (see _values.strides).
        input_names: names of the inputs.

    Example:
        >>> SeededFuzzer(42, FuzzConfig(max_dims=2)).next_test_case().inputs["input"].dtype.name
        'float32'
    """

    __test__: ClassVar[bool] = False  # pytest: not a class of tests

    seed: int
    shape: tuple[int, ...]
    dtype: str
    layout: str
    strides: tuple[int, ...] = ()
    input_names: tuple[str, ...] = ("input",)

    def generate_input(self, name: str = "input") -> Array:
        """A fresh array with the layout of the case. Its values are the stream of that name below the seed."""
        return _values.lay_out(generate_random_tensor(self.seed, self.shape, self.dtype, domain=name), self.layout)

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """The inputs by name, made when they are first asked for."""
        return {name: self.generate_input(name) for name in self.input_names}


_TestCase = TestCase  # the class has an attribute of that name, too, as in the published package


class SeededFuzzer:
    """Cases without end from a seed, and a loop that runs a function on them.

    >>> fuzzer = SeededFuzzer(42, FuzzConfig(max_dims=2, max_size=64, iterations=50))
    >>> results = fuzzer.run(my_softmax, reference=my_softmax)

    Args:
        seed: master seed, or a FuzzConfig that has it.
        config: what to draw from.
    """

    TestCase = _TestCase

    def __init__(self, seed: int | FuzzConfig | None = None, config: FuzzConfig | None = None) -> None:
        if isinstance(seed, FuzzConfig):
            if config is not None:
                raise TypeError("SeededFuzzer takes a seed and a config, or a config alone, not two configs")
            seed, config = None, seed
        self.config = FuzzConfig() if config is None else config
        if seed is None:
            seed = self.config.seed
        elif self.config.seed not in (None, seed):
            raise ValueError(f"SeededFuzzer has seed {seed}, its config has {self.config.seed}: leave one out")
        self._rng = SeededRng(default_seed() if seed is None else seed)
        self._iteration = 0

    @property
    def seed(self) -> int:
        """The master seed: the same seed gives the same cases."""
        return self._rng.seed

    def next_test_case(self) -> _TestCase:
        """The next case."""
        rng = self._rng.derive(f"iter_{self._iteration}")
        self._iteration += 1
        shape = self.config.draw_shape(rng.derive("shape"))
        dtype = rng.derive("dtype").choice(self.config.dtypes)
        layout = rng.derive("layout").choice(self.config.layouts)
        return _TestCase(rng.seed, shape, dtype, layout, _values.strides(shape, layout), tuple(self.config.inputs))

    def next(self) -> _TestCase:
        """The next case."""
        return self.next_test_case()

    def iterator(self, max_iterations: int = 1000) -> Iterator[_TestCase]:
        """The next max_iterations cases."""
        return (self.next_test_case() for _ in range(max_iterations))

    def reset(self) -> None:
        """Begins with the first case again."""
        self._iteration = 0

    def run(
        self, op_fn: Callable[..., Any], reference: Reference | None = None, *,
        op: str | None = None, iterations: int | None = None, tolerance: Any | None = None,
        fail_fast: bool = False, client: Any | None = None, store: str = "all", **attrs: Any,
    ) -> FuzzResults:  # fmt: skip
        """Runs a function on the next cases and has the engine judge what it returns.

        Args:
            op_fn: the function: takes a dict of arrays by name, or each by its name, as for
                Client.fuzz_op_client_side, and returns an array, a tuple or a dict.
            reference: a function of the same kind whose results are right. Without it an operator that the engine
                knows judges.
            op: that operator; default: the one with the name of op_fn.
            iterations: number of cases; default: that of the configuration.
            tolerance: with reference: an object or dict with atol and rtol; default: that of the data type.
            fail_fast: end at the first failure.
            client: the Client to use; default: a new one.
            store: which verdicts to store: all, failures or none.
            **attrs: attributes of the operator.
        """
        name = op or str(getattr(op_fn, "__name__", ""))
        if op is None and not name.isidentifier():  # "<lambda>", or a callable object
            if reference is None:
                raise ValueError(_nothing_to_judge_by("a function without a name"))
            name = "kernel"
        if client is None:
            from .client import Client

            with Client() as own:
                return self.run(
                    op_fn, reference, op=name, iterations=iterations, tolerance=tolerance, fail_fast=fail_fast,
                    client=own, store=store, **attrs,
                )  # fmt: skip
        tally = _Tally(self.seed)
        for case in self.iterator(self.config.iterations if iterations is None else iterations):
            options = {"store": store} if reference is None else {"store": store, "tolerance": tolerance}
            result = _judge(client, case, op_fn, reference, name, options, attrs)
            _complete(result, case, self.config)
            tally.add(result)
            if fail_fast and tally.failures:
                break
        return tally.results()


def _nothing_to_judge_by(what: str) -> str:
    return (
        f"nothing to judge by: {what} names no operator that the engine knows. Pass reference=FUNCTION, whose results "
        "are right, or op=NAME, an operator of the catalogue (gpuemu ops) or of gpuemu.toml"
    )


def _judge(
    client: Any, case: TestCase, op_fn: Callable[..., Any], reference: Reference | None, op: str,
    options: Mapping[str, Any], attrs: Mapping[str, Any],
) -> ValidationResult:  # fmt: skip
    """Runs one case. Kernel, reference and engine get arrays of their own: a kernel may write to its inputs."""
    from .results import ClientError, ReproductionInfo, ValidationResult

    def inputs() -> dict[str, Array]:
        return {name: _values.lay_out(array, case.layout) for name, array in case.inputs.items()}

    try:
        output = _calling.adapted(op_fn, inputs, attrs)
    except Exception as err:  # whatever a kernel raises is a finding about the kernel
        where = ReproductionInfo(case.seed, case.shape, case.strides, case.dtype, case.layout)
        message = f"{op} raised {type(err).__name__}: {err}"
        return ValidationResult(
            passed=False, seed=case.seed, op_name=op, verdict="error", reason="raised", message=message,
            failures=[{"kind": "raised", "message": message}], repro_info=where,
        )  # fmt: skip
    expected = None if reference is None else _calling.adapted(reference, inputs, attrs)
    given = {} if reference is None else {"expected": expected}
    try:
        result: ValidationResult = client.submit_output(op, inputs(), output, case.seed, **given, **options, **attrs)
    except ClientError as err:
        if reference is None and err.code.endswith("unknown-op"):
            raise ValueError(_nothing_to_judge_by(repr(op))) from err
        raise
    return result


def _complete(result: ValidationResult, case: TestCase, config: FuzzConfig) -> None:
    """Adds to a failure what makes its case again."""
    from . import _reproduction  # it reads configurations itself

    _reproduction.fill_arrays(result, case.inputs, config)
    if result.repro_info is not None:
        result.repro_info.layout = case.layout


class _Tally:
    """Counts verdicts; it makes none."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._begin = time.perf_counter()
        self._counts = {"passed": 0, "failed": 0, "not_run": 0, "undecided": 0}
        self.failures: list[ValidationResult] = []
        self._unjudged: list[ValidationResult] = []

    def add(self, result: ValidationResult) -> None:
        if result.passed:
            self._counts["passed"] += 1
        elif result.verdict in ("not_run", "undecided"):
            self._counts[result.verdict] += 1
            self._unjudged.append(result)
        else:
            self._counts["failed"] += 1
            self.failures.append(result)

    def results(self) -> FuzzResults:
        from .results import FuzzResults

        return FuzzResults(
            seed=self._seed, total=sum(self._counts.values()), failures=self.failures, unjudged=self._unjudged,
            duration=time.perf_counter() - self._begin, **self._counts,
        )  # fmt: skip
