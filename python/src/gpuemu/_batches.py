"""Cases that are handed out, as callers see them: dicts with inputs that remember their case."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _fuzzing, _parts
from ._case import Case
from ._http import Transport
from ._parts import array_of

if TYPE_CHECKING:
    from .client import Client


class CaseInputs(dict[str, Any]):
    """The inputs of a handed-out case by name. It remembers the case, so that submit_output need not send them back.

    Inputs that were changed since, on purpose or by the kernel, no longer are those of the case.
    """

    def __init__(self, case: Case, schema: dict[str, Any] | None) -> None:
        super().__init__((v.name, array_of(v)) for v in case.inputs)
        self.case = case.text
        self.named = {"case": case.text, **({} if schema is None else {"schema": schema})}  # of a submission
        self._sums = self._checksums()

    def _checksums(self) -> dict[str, tuple[Any, ...]]:
        return {k: (a.shape, a.dtype, zlib.crc32(_parts.flat_bytes(a))) for k, a in self.items()}

    def untouched(self) -> bool:
        """Whether the inputs still are those of the case."""
        try:
            return self._checksums() == self._sums
        except (AttributeError, TypeError, ValueError, BufferError):  # something else was put in
            return False


class TestBatch(Sequence[dict[str, Any]]):
    """Cases that are streamed while one loops over them; an index fetches that one case."""

    __test__ = False  # not a class of tests, whatever its name suggests to pytest

    def __init__(self, client: Client, request: dict[str, Any], count: int) -> None:
        self._client = client
        self._request = request
        self._count = count

    @property
    def seed(self) -> int:
        """The master seed."""
        return int(self._request["seed"])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        # A connection of its own: the loop's body may send requests while the stream is open.
        self._client._fresh()
        transport = Transport(self._client._transport.path, self._client._transport.timeout)
        with contextlib.closing(transport):
            request = dict(self._request, start=0, count=self._count)
            yield from (self._as_dict(case) for case in _fuzzing.stream(transport, request))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        at = index + self._count if index < 0 else index
        if not 0 <= at < self._count:
            raise IndexError(index)
        request = dict(self._request, start=at, count=1)
        [case] = _fuzzing.stream(self._client._fresh(), request)
        return self._as_dict(case)

    def _as_dict(self, case: Case) -> dict[str, Any]:
        first = case.inputs[0] if case.inputs else None
        layout = next((w.partition("]:")[2].partition(":")[0] for w in case.text.split() if w.startswith("in=")), "")
        return {
            "seed": case.seed, "inputs": CaseInputs(case, self._request.get("schema")),
            "shape": tuple(first.shape) if first else (), "strides": tuple(first.strides) if first else (),
            "dtype": case.dtype, "layout": layout, "attrs": case.attrs, "case": case.text, "index": case.index,
        }  # fmt: skip
