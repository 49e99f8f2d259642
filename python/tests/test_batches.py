"""Batches: cases in columns, inputs laid out by the engine as the guard wants them, outputs and the rest apart."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import pytest

from gpuemu import Client, _fuzzing, _parts
from gpuemu._shared import SharedFile
from gpuemu.arrays import arrays
from gpuemu.guard import Guard, _Inputs, _Memory

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
            assert got.block.tobytes() == _Inputs(arrays("numpy"), want, _Memory())._image()


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


@pytest.mark.parametrize("watched", [False, True])
def test_a_kernel_may_return_the_same_memory_each_time(client: Client, watched: bool) -> None:
    """Outputs are copied before anything else runs, and whoever wants to see them gets those of the case."""
    buffer = np.empty((2, 3, 5), np.float32)
    seen: list[bool] = []

    def kernel(inputs: dict[str, Any]) -> Any:
        np.maximum(inputs["input"], 0, out=buffer)
        return buffer

    def look(_case: Any, inputs: Any, outputs: Any, _result: Any) -> None:
        seen.append(np.array_equal(outputs["output"], np.maximum(inputs["input"], 0)))

    results = client.fuzz_op_client_side(
        "relu", kernel, iterations=100, seed=5, dtypes=["float32"], value_distribution="normal",
        shapes={"B": [2], "S": [3], "H": [5]}, layouts=["contiguous"], on_case=look if watched else None,
    )  # fmt: skip
    assert results.passed == 100 and seen == [True] * (100 * watched)


@pytest.mark.parametrize("kind", [">f4", "strided"])
def test_outputs_are_sent_as_the_engine_reads_them(client: Client, kind: str) -> None:
    """Little-endian and in C order, whatever the kernel returns."""

    def kernel(inputs: dict[str, Any]) -> Any:
        y = np.maximum(inputs["input"], 0)
        return y.astype(kind) if kind == ">f4" else np.repeat(y, 2, axis=-1)[..., ::2]

    results = client.fuzz_op_client_side("relu", kernel, iterations=20, seed=5, dtypes=["float32"])
    assert results.passed == 20


def test_an_output_may_have_another_type_in_each_case(client: Client) -> None:
    """Also where cases have one form: each is judged by what it returned."""
    number = iter(range(10**6))

    def kernel(inputs: dict[str, Any]) -> Any:
        return np.maximum(inputs["input"], 0).astype("float32" if next(number) % 2 == 0 else "float16")

    results = client.fuzz_op_client_side(
        "relu", kernel, iterations=40, seed=5, dtypes=["float32"], value_distribution="normal",
        shapes={"B": [2], "S": [3], "H": [5]}, layouts=["contiguous"],
    )  # fmt: skip
    assert (results.passed, results.failed) == (20, 20)
    assert {r.reason for r in results.failures} == {"wrong_dtype"}


def relu(inputs: dict[str, Any]) -> Any:
    return np.maximum(inputs["input"], 0)


def test_the_next_run_uses_the_files_of_the_last(client: Client) -> None:
    client.fuzz_op_client_side("relu", relu, iterations=5, seed=5)
    kept = {file.path for file in client._files._files}
    assert len(kept) == 7 and all(os.path.exists(path) for path in kept)
    client.fuzz_op_client_side("relu", relu, iterations=5, seed=6)
    assert {file.path for file in client._files._files} == kept
    client.close()
    assert not any(os.path.exists(path) for path in kept)
    assert client.fuzz_op_client_side("relu", relu, iterations=5, seed=7).passed == 5


def test_files_that_the_daemon_may_still_write_to_are_not_used_again(client: Client) -> None:
    """A run that ends early does not wait for what it has asked for."""
    client.fuzz_op_client_side("relu", lambda i: i["input"] + 1, iterations=50, seed=5, fail_fast=True)
    assert client._files._files == []
    with pytest.raises(KeyboardInterrupt):
        client.fuzz_op_client_side("relu", interrupted, iterations=5, seed=5)
    assert client._files._files == []


def interrupted(_inputs: dict[str, Any]) -> Any:
    raise KeyboardInterrupt


def test_executions_in_the_same_memory_are_compared(client: Client) -> None:
    """The second does not overwrite the outputs of the first."""
    buffer = np.empty((2, 3, 5), np.float32)
    number = iter(range(10**6))

    def kernel(inputs: dict[str, Any]) -> Any:
        np.maximum(inputs["input"], 0, out=buffer)
        buffer[0, 0, 0] += next(number) * 2**-20
        return buffer

    results = client.fuzz_op_client_side(
        "relu", kernel, iterations=5, seed=5, dtypes=["float32"], value_distribution="normal", repeat=True,
        shapes={"B": [2], "S": [3], "H": [5]}, layouts=["contiguous"],
    )  # fmt: skip
    assert {r.reason for r in results.failures} == {"nondeterministic"} and results.failed == 5


def test_memory_is_never_handed_out_twice() -> None:
    """Pieces that are still in use keep their bytes, whatever their sizes."""
    memory = _Memory()
    pieces = []
    for i in range(500):
        piece = memory.take(i * 97 % 9000 + (100_000 if i % 50 == 0 else 0))
        assert piece.__array_interface__["data"][0] % 256 == 0
        piece[:] = i % 251
        pieces.append(piece)
    assert all((piece == i % 251).all() for i, piece in enumerate(pieces))
