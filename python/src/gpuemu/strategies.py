"""Strategies of Hypothesis: cases and inputs of an operator, made by the engine, shrunk by Hypothesis.

Hypothesis draws the sizes, data type, layout and seed; the engine makes the case that has them. So a failing example
shrinks to the smallest sizes that still fail. Hypothesis is needed when a strategy is made: pip install
gpuemu[hypothesis].

    @given(case=strategies.cases("softmax"))
    def test_softmax(case):
        output = my_softmax(case["inputs"]["input"])
        client.submit_output("softmax", case["inputs"], output, case["seed"], store="none").check()
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._options import listed
from .client import Client
from .results import ClientError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["arrays", "cases"]

LAYOUTS = ("contiguous", "strided", "transposed")  # the simplest first: Hypothesis shrinks towards it


class DrawnCase(dict[str, Any]):
    """A case as of Client.get_test_case. Hypothesis shows its text, which Client.reproduce takes."""

    def __repr__(self) -> str:
        return str(self["case"])


class DrawnArrays(dict[str, Any]):
    """The inputs of a case by name. Hypothesis shows the text of the case."""

    case = ""

    def __repr__(self) -> str:
        return f"inputs of {self.case}"


def cases(
    op: str, *, max_size: int = 64, dtypes: Sequence[Any] | None = None, layouts: Sequence[str] | None = None,
    value_distribution: str | None = None, attrs: Mapping[str, Any] | None = None,
    op_schema: Mapping[str, Any] | None = None, client: Client | None = None,
) -> SearchStrategy[dict[str, Any]]:  # fmt: skip
    """A strategy for cases of an operator: dicts with inputs, seed, attrs, dtype and case, as of Client.get_test_case.

    Args:
        op: operator of gpuemu.toml or of the catalogue; with op_schema any name.
        max_size: the largest size of a dimension.
        dtypes: data types to draw from, the simplest first; default: those that the operator is fuzzed with.
        layouts: memory layouts to draw from, the simplest first; default: contiguous, strided and transposed.
        value_distribution, attrs, op_schema: as of Client.fuzz_op_client_side.
        client: the engine; default: one is started with the first example.

    Example:
        >>> from hypothesis import given, settings
        >>> from gpuemu import Client, strategies
        >>> client = Client()
        >>> @settings(max_examples=5, deadline=None, database=None)
        ... @given(case=strategies.cases("relu", dtypes=["float32"]))
        ... def test_relu(case):
        ...     output = case["inputs"]["input"].clip(min=0)
        ...     client.submit_output("relu", case["inputs"], output, case["seed"], store="none").check()
        >>> test_relu()
    """
    if max_size < 1:
        raise ValueError(f"cases({op!r}): max_size is {max_size}, want at least 1")
    st = _hypothesis()
    options = {"value_distribution": value_distribution, "attrs": attrs, "op_schema": op_schema}
    source = _Source(op, options, dtypes, client)
    allowed = list(LAYOUTS if layouts is None else listed(layouts))

    def drawn(draw: Callable[..., Any]) -> dict[str, Any]:
        sizes = {name: draw(st.integers(1, max_size), label=name) for name in source.dims()}
        types = source.dtypes()
        dtype = draw(st.sampled_from(types), label="dtype") if len(types) > 1 else types[0]
        layout = draw(st.sampled_from(allowed), label="layout") if len(allowed) > 1 else allowed[0]
        return source.case(sizes, dtype, layout, draw(st.integers(0, 2**64 - 1), label="seed"))

    made: SearchStrategy[dict[str, Any]] = st.composite(drawn)()
    return made


def arrays(op: str, name: str | None = None, **options: Any) -> SearchStrategy[Any]:
    """A strategy for the inputs of an operator: dicts of arrays by name, or with a name that array alone.

    Args:
        op: the operator.
        name: of one input.
        **options: as of cases.

    Example:
        >>> from gpuemu import strategies
        >>> strategies.arrays("softmax", "input", dtypes=["float16"], max_size=3).example().dtype  # doctest: +SKIP
        dtype('float16')
    """

    def inputs(case: dict[str, Any]) -> Any:
        found = DrawnArrays(case["inputs"])
        found.case = case["case"]
        if name is None:
            return found
        if name not in found:
            raise ClientError(f"{op} has no input {name!r}", hint="its inputs are: " + ", ".join(found))
        return found[name]

    return cases(op, **options).map(inputs)


class _Source:
    """Where the cases of a strategy come from. Asks the engine when the first example is drawn."""

    def __init__(
        self, op: str, options: Mapping[str, Any], dtypes: Sequence[Any] | None, client: Client | None
    ) -> None:
        self._op = op
        self._options = {k: v for k, v in options.items() if v is not None}
        self._client = client
        self._given = None if dtypes is None else list(listed(dtypes))
        self._dims: list[str] | None = None
        self._types: list[Any] = []

    def _learn(self) -> None:
        """Reads dims and data types off a few cases. An operator that the engine does not know is an error here."""
        if self._client is None:
            self._client = Client()
        batch = list(self._client.get_test_batch(self._op, 16, 1, dtypes=self._given, **self._options))
        found = [{d.partition(":")[0]: None for d in _word(case["case"], "dims=").split(",")} for case in batch]
        self._dims = list(found[0])
        self._types = self._given or sorted({case["dtype"] for case in batch}, key=lambda d: (d != "float32", d))

    def dims(self) -> list[str]:
        """The names of the dimensions."""
        if self._dims is None:
            self._learn()
        return self._dims or []

    def dtypes(self) -> list[Any]:
        """The data types, the simplest first."""
        if self._dims is None:
            self._learn()
        return self._types

    def case(self, sizes: Mapping[str, int], dtype: Any, layout: str, seed: int) -> dict[str, Any]:
        """The case with these sizes; where the operator has none (heads that do not divide), one with smaller sizes."""
        assert self._client is not None
        options = {**self._options, "dtypes": [dtype], "layouts": [layout]}
        try:
            shapes = {name: [size] for name, size in sizes.items()}
            return DrawnCase(self._client.get_test_case(self._op, seed, shapes=shapes, **options))
        except ClientError as error:
            if error.code != "gen-no-shape":
                raise
        shapes = {name: list(range(1, size + 1)) for name, size in sizes.items()}
        return DrawnCase(self._client.get_test_case(self._op, seed, shapes=shapes, **options))


def _word(text: str, start: str) -> str:
    return next((word[len(start) :] for word in text.split() if word.startswith(start)), "")


def _hypothesis() -> Any:
    try:
        import hypothesis.strategies
    except ImportError as error:
        raise ImportError(
            f"gpuemu.strategies needs hypothesis, which {sys.executable} cannot import ({error}); "
            "pip install gpuemu[hypothesis]"
        ) from error
    return hypothesis.strategies
