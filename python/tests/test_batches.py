"""Batches: cases in columns, inputs laid out by the engine as the guard wants them, outputs and the rest apart."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from gpuemu import Client, _fuzzing, _parts
from gpuemu._shared import SharedFile
from gpuemu.arrays import arrays
from gpuemu.guard import Guard, _Inputs

REQUEST: dict[str, Any] = {"seed": "5", "start": 2, "count": 30}


@pytest.mark.parametrize("op", ["softmax", "matmul", "embedding"])
def test_a_batch_has_the_cases_of_the_stream(client: Client, op: str) -> None:
    """Whatever their layouts and types, and between the red zones that the guard would make itself."""
    transport = client._connect()
    wanted = list(_fuzzing.stream(transport, dict(REQUEST, op=op)))
    with SharedFile() as shared:
        cases = _fuzzing.fetch(transport, dict(REQUEST, op=op), shared)
        assert len(cases) == len(wanted) == 30
        for got, want in zip(cases, wanted):
            for name in ("index", "op", "text", "seed", "dtype", "attrs", "outputs"):
                assert getattr(got, name) == getattr(want, name)
            for mine, other in zip(got.inputs, want.inputs):
                assert dataclasses.replace(mine, storage=other.storage).__dict__ == other.__dict__
                assert mine.storage.tobytes() == other.storage.tobytes()
            assert got.block is not None and not got.block.flags.writeable
            assert got.block.tobytes() == _Inputs(arrays("numpy"), want)._image()


def spoiled(x: Any) -> None:
    """Writes one byte of the red zone behind an input."""
    base = x.base
    while getattr(base, "base", None) is not None:
        base = base.base
    at = x.__array_interface__["data"][0] - base.__array_interface__["data"][0] + x.nbytes
    base.view(np.uint8)[at] ^= 1


def test_what_the_guard_saw_is_told_of_its_own_case(client: Client) -> None:
    """Cases that go in columns and those with something to tell are mixed in one batch."""
    number = iter(range(10**6))

    def kernel(inputs: dict[str, Any]) -> Any:
        x = inputs["input"]
        y = np.maximum(x, 0)
        kind = next(number) % 5
        if kind == 1:
            spoiled(x)
        elif kind == 2:
            x[...] = 1
        elif kind == 3:
            raise ValueError("no")
        elif kind == 4:
            y += 1
        return y

    seen: list[str] = []
    results = client.fuzz_op_client_side(
        "relu", kernel, iterations=200, seed=5, dtypes=["float32"], value_distribution="normal",
        shapes={"B": [2], "S": [3], "H": [5, 7]}, layouts=["contiguous"],
        on_case=lambda *args: seen.append(args[-1].reason),
    )  # fmt: skip
    assert seen == ["", "overrun", "input_modified", "raised", "mismatch"] * 40
    assert (results.passed, results.failed) == (40, 160)


def test_a_case_that_runs_twice_gets_fresh_inputs(client: Client) -> None:
    """What the first execution did to its inputs is not there at the second."""
    with SharedFile() as shared:
        [case] = _fuzzing.fetch(client._connect(), {"op": "relu", "seed": "1", "count": 1}, shared)
        given: list[bytes] = []

        def kernel(inputs: dict[str, Any]) -> Any:
            x = inputs["input"]
            given.append(x.tobytes())
            y = np.maximum(x, 0)
            x[...] = 7
            return y

        done = Guard(arrays("numpy"), repeat=True).run(kernel, case)
        assert [f.kind for f in done.findings] == ["input_modified"]
        assert given == [_parts.array_of(case.inputs[0]).tobytes()] * 2
