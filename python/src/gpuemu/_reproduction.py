"""What a failed result carries to make its case again: strides, inputs, and the configuration that has the case. What
the engine says of a case that it made again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _fuzzing, _parts
from ._case import Case
from .arrays import numpy_dtype, to_numpy
from .fuzz import FuzzConfig
from .results import (
    ClientError,
    ReproduceResult,
    ReproductionInfo,
    ValidationResult,
    parse_result,
    reproduction_info,
)

if TYPE_CHECKING:
    from .client import Client

DIMS = {"B": "batch_sizes", "S": "seq_lengths", "H": "hidden_dims"}
NOT_OPTIONS = ("config", "env", "python", "dir", "attached", "kind", "start", "count", "shared", "max_bytes")


def config_of(info: ReproductionInfo, request: Mapping[str, Any] | None = None, iterations: int = 1) -> FuzzConfig:
    """The configuration of a run of the engine, from its request; without one, that of the case alone.

    What a FuzzConfig has no field for, such as attributes, is in its options. Data types and layouts that were not
    asked for are those of the case.
    """
    asked = request or {}
    dims = dict(asked.get("dims") or {})
    sizes: dict[str, Any] = {DIMS[name]: list(dims[name]) for name in DIMS if name in dims}
    rank = len(info.shape)
    if not sizes:
        sizes = {"min_dims": rank, "max_dims": rank, "min_size": min(info.shape, default=1),
                 "max_size": max(info.shape, default=1), "max_elements": 1 << 62}  # fmt: skip
    config = FuzzConfig(
        seed=int(asked.get("seed", info.seed)), iterations=int(asked.get("iterations", iterations)),
        dtypes=list(asked.get("dtypes") or [info.dtype]),
        options={k: v for k, v in asked.items() if k not in (*NOT_OPTIONS, "seed", "iterations", "dtypes", "layouts")},
        **sizes,
    )  # fmt: skip
    config.layouts = list(asked.get("layouts") or [info.layout])  # the engine has more than this package draws
    return config


def fill(result: ValidationResult, case: Case, request: Mapping[str, Any] | None = None, iterations: int = 1) -> None:
    """Adds what a case that is in hand says."""
    info = result.repro_info
    if info is not None:
        info.fuzz_config = config_of(info, request, iterations)
        _take(info, case)


def _take(info: ReproductionInfo, case: Case) -> None:
    if case.inputs:
        info.strides = case.inputs[0].strides
    if sum(v.storage.size for v in case.inputs) <= _fuzzing.MAX_SNAPSHOT:
        info.input_snapshot = {v.name: _fuzzing.snapshot(v) for v in case.inputs}


def fill_arrays(result: ValidationResult, inputs: Mapping[str, Any], config: FuzzConfig | None = None) -> None:
    """Adds what the arrays say that were judged on."""
    info = result.repro_info
    if info is None:
        return
    arrays = {name: to_numpy(value) for name, value in inputs.items()}
    names = [word[3:].partition(":")[0] for word in info.case.split() if word.startswith("in=")]
    first = next((name for name in (*names, *arrays) if name in arrays), None)
    if first is not None:
        info.shape = info.shape or arrays[first].shape
        info.strides = _strides(inputs[first], arrays[first])
        if info.layout == "contiguous" and info.strides != _strides(arrays[first], arrays[first]):
            info.layout = "transposed" if 1 in info.strides else "strided"
    info.fuzz_config = config or config_of(info)
    if sum(a.nbytes for a in arrays.values()) <= _fuzzing.MAX_SNAPSHOT:
        info.input_snapshot = {name: _fuzzing.snapshot_of(a) for name, a in arrays.items()}


def _strides(given: Any, array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Strides in elements of what was given: of NumPy and torch as they are, else those of the contiguous array."""
    if callable(getattr(given, "stride", None)):
        return tuple(int(s) for s in given.stride())
    of = given if isinstance(given, np.ndarray) else array
    return tuple(s // of.itemsize for s in of.strides)


def defer(
    results: Sequence[ValidationResult], fetch: Callable[[str], Case], request: Mapping[str, Any] | None = None
) -> None:
    """Has strides and inputs of results of the engine fetched when they are first read."""

    def load(info: ReproductionInfo) -> None:
        try:
            _take(info, fetch(info.case))
        except ClientError:  # stored by another project, or pruned since: there is nothing to read
            return

    for result in results:
        info = result.repro_info
        if info is not None and info.case:
            info.fuzz_config = config_of(info, request)
            info.defer(load)


def stored(client: Client, request: Mapping[str, Any], reply: Mapping[str, Any]) -> ReproduceResult:
    """The reply to a request to reproduce a case, with its inputs."""
    try:
        case: Case | None = client._case(reply["case"])
    except ClientError:  # of a schema of the caller's: the store alone has its inputs
        case = None
    inputs = stored_values(client, request) if case is None else values_of(case)
    before = parse_result(reply["stored"]) if reply.get("stored") else None
    result = parse_result(reply["result"]) if reply.get("result") else before
    result = not_run(reply["case"]) if result is None else result
    for found in (result, before):
        if found is not None and case is not None:
            fill(found, case)
        elif found is not None:
            fill_arrays(found, inputs)
    return ReproduceResult(result, inputs, before, reply["still_fails"], reply["executable"])


def stored_values(client: Client, request: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs of a stored case, contiguous."""
    transport = client._connect()
    image = transport.read(transport.request("POST", "/v1/tensors", json.dumps(request).encode()))
    return {
        name: np.frombuffer(data, numpy_dtype(dtype)).reshape(shape).copy()
        for name, (dtype, shape, data) in _parts.parse_image(memoryview(image)).items()
    }


def case_text(client: Client, seed: int, op_name: str | None) -> str:
    """The text of the newest stored case with a seed."""
    body = {"seed": str(seed), "limit": 1, **({"op": op_name} if op_name else {})}
    found = client._json("POST", "/v1/results", body)["results"]
    if not found:
        raise ClientError(f"no case with seed {seed} is stored", hint="pass the case in one line, as results have it")
    return str(found[0]["case"])


def values_of(case: Case) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs of a case as they lie in memory."""
    return {v.name: _parts.array_of(v) for v in case.inputs}


def not_run(case: str) -> ValidationResult:
    """The verdict on a case that nobody has executed."""
    result = ValidationResult(False, 0, case.partition(" ")[0], verdict="not_run", case=case,
                              message="only the client can execute this operator")  # fmt: skip
    result.repro_info = reproduction_info(result)
    return result


def drop_unknown(client: Client, request: dict[str, Any], op_name: str, given: Collection[str]) -> None:
    """Leaves the published sizes of dimensions that an operator has not out of a request, and says so.

    given: dimensions that the caller named himself; one that the operator has not is an error of the engine.
    """
    dims: dict[str, Any] = request.get("dims") or {}
    names = [name for name in DIMS if name in dims and name not in given]
    if not names:
        return
    text = client.get_test_case(op_name, 1)["case"]
    word = next((w for w in text.split() if w.startswith("dims=")), "dims=")
    known = [dim.partition(":")[0] for dim in word[len("dims=") :].split(",")]
    for name in [n for n in names if n not in known]:
        del dims[name]
        warnings.warn(
            f"{op_name} has no dimension {name}, {DIMS[name]} is ignored; it has {', '.join(known)}: "
            f"shapes={{{known[0]!r}: [...]}} gives their sizes", stacklevel=4,
        )  # fmt: skip
    if not dims:
        del request["dims"]
