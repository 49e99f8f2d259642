"""gpu_proof_check: what a candidate returns is compared with what a reference returns, by the engine.

Shapes must agree, nothing is broadcast; integers, booleans and texts are exact. Data types must agree, too, but that a
reference may be float64, and that Python's own numbers, which have no type, take the one of the other side.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gpuemu import Client, ToleranceConfig
from gpuemu.arrays import name_of, to_numpy
from gpuemu.results import ClientError

MAX_METADATA = 65536  # bytes of JSON per check: metadata is a remark, not a store
MAX_DEPTH = 32  # of metadata

# Python's floats say nothing of the precision that a kernel computed in: they are held to that of float32.
PLAIN_FLOAT = "float32"


class CheckFailed(Exception):
    """What is compared differs."""


class CheckError(Exception):
    """It cannot be compared."""


class Plain:
    """A number or a nested list of numbers of Python: values without a data type.

    An array has one type, and makes floats of integers that stand beside floats, and integers of truth values. There
    values has the numbers as they were: a count must be exact even if it comes with a mean.
    """

    def __init__(self, array: np.ndarray[Any, Any], values: np.ndarray[Any, Any] | None = None) -> None:
        self.array = array
        self.values = values

    def parts(self) -> list[Any]:
        """The elements of a list, each with the type that it has by itself."""
        return [frozen(part) for part in (self.array if self.values is None else self.values).tolist()]


def metadata_text(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata as it will be in the receipt. TypeError or ValueError where JSON has no place for it."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is a {type(metadata).__name__}, want a dict")
    out = _json(metadata, "metadata", 0)
    size = len(json.dumps(out))
    if size > MAX_METADATA:
        raise ValueError(f"metadata has {size} bytes as JSON, at most {MAX_METADATA} are kept")
    assert isinstance(out, dict)
    return out


def _json(value: Any, place: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"{place[:80]}… is nested more than {MAX_DEPTH} deep")
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise ValueError(f"{place} is {value}, which JSON does not have: write it as a text")
        return value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise ValueError(f"{place} is {value!r}, which is no Unicode text") from exc
        return str(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{place} has the key {key!r}, which is a {type(key).__name__}: keys must be texts")
        return {str(_json(k, place, depth)): _json(v, f"{place}[{k!r}]", depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(v, f"{place}[{i}]", depth + 1) for i, v in enumerate(value)]
    raise TypeError(
        f"{place} is a {type(value).__module__}.{type(value).__qualname__}: pass a number, a text, a bool, None, or "
        "lists and dicts of them"
    )


def frozen(value: Any) -> Any:
    """A copy of a result that later writes do not reach: dicts, lists, Plain, numpy arrays, and what is not numeric."""
    if isinstance(value, Mapping):
        return {k: frozen(v) for k, v in value.items()}
    if _is_number(value):
        return Plain(np.array(value))
    if isinstance(value, (list, tuple)):
        kinds = _kinds(value)
        if "" not in kinds:
            try:
                array = np.array(value) if len(value) else np.zeros(0)
            except (ValueError, OverflowError):  # ragged, or too large for 64 bits
                return [frozen(v) for v in value]
            if array.dtype.kind in "biufc":
                # Integers of which one needs the sign and another all 64 bits become floats as well.
                lossy = len(kinds) > 1 or (kinds == {"int"} and array.dtype.kind == "f")
                return Plain(array, np.array(value, dtype=object) if lossy else None)
        return [frozen(v) for v in value]
    if value is None or isinstance(value, (str, bytes)):
        return value
    array = to_numpy(value)
    if array.dtype.kind in "OSUmM":
        raise CheckError(
            f"a {type(value).__name__} cannot be compared: return numbers, arrays, texts, or tuples, lists and dicts "
            "of them, or pass compare="
        )
    return array


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic)


def _kinds(value: Any) -> set[str]:
    """The types of the numbers of Python in nested lists; "" for what is none."""
    if isinstance(value, (list, tuple)):
        return set().union(*map(_kinds, value))
    if not _is_number(value):
        return {""}
    return {next(kind.__name__ for kind in (bool, int, float, complex) if isinstance(value, kind))}


def compare(client: Callable[[], Client], want: Any, got: Any, tolerance: tuple[float | None, float | None]) -> None:
    """Compares two frozen results. CheckFailed says what differs, CheckError what cannot be compared."""
    for place, want_leaf, got_leaf in _leaves("output", want, got):
        if isinstance(want_leaf, (Plain, np.ndarray)) and isinstance(got_leaf, (Plain, np.ndarray)):
            _compare_arrays(client, place, want_leaf, got_leaf, tolerance)
        elif type(want_leaf) is not type(got_leaf) or want_leaf != got_leaf:
            raise CheckFailed(f"{place}: got {_shown(got_leaf)}, want {_shown(want_leaf)}")


def _leaves(place: str, want: Any, got: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(want, dict) and isinstance(got, dict):
        if set(want) != set(got):
            raise CheckFailed(f"{place}: got the keys {sorted(map(str, got))}, want {sorted(map(str, want))}")
        for key in want:
            yield from _leaves(f"{place}[{key!r}]", want[key], got[key])
    elif isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            raise CheckFailed(f"{place}: got {len(got)} values, want {len(want)}")
        for i, (want_leaf, got_leaf) in enumerate(zip(want, got)):
            yield from _leaves(f"{place}[{i}]", want_leaf, got_leaf)
    elif isinstance(want, list) and isinstance(got, Plain) and got.array.ndim:
        # A list of numbers is one array; beside a list of arrays it is a list of numbers again.
        yield from _leaves(place, want, got.parts())
    elif isinstance(got, list) and isinstance(want, Plain) and want.array.ndim:
        yield from _leaves(place, want.parts(), got)
    elif isinstance(want, (dict, list)) or isinstance(got, (dict, list)):
        raise CheckFailed(f"{place}: got {_shown(got)}, want {_shown(want)}")
    else:
        yield place, want, got


def _shown(value: Any) -> str:
    if isinstance(value, Plain):
        return f"numbers of shape {list(value.array.shape)}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} and shape {list(value.shape)}"
    if isinstance(value, (dict, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value)[:200]


def _compare_arrays(
    client: Callable[[], Client], place: str, want: Any, got: Any, tolerance: tuple[float | None, float | None]
) -> None:
    plain = isinstance(want, Plain) and isinstance(got, Plain)
    if plain and want.array.shape == got.array.shape and not (want.values is None and got.values is None):
        want, got = _without_exact(place, want, got)
    want_array, got_array = _typed(place, want, got)
    if want_array.shape != got_array.shape:
        raise CheckFailed(f"{place}: got the shape {list(got_array.shape)}, want {list(want_array.shape)}")
    if got_array.dtype.kind == "c":
        for part in ("real", "imag"):
            _ask(client, f"{place}.{part}", getattr(want_array, part), getattr(got_array, part), plain, tolerance)
    else:
        _ask(client, place, want_array, got_array, plain, tolerance)


def _without_exact(place: str, want: Plain, got: Plain) -> tuple[Plain, Plain]:
    """Compares the integers and truth values of a mixed list. What is left has zeros for them: their size says nothing
    of the floats beside them."""
    left = want.array.copy(), got.array.copy()
    want_values, got_values = (p.array.astype(object) if p.values is None else p.values for p in (want, got))
    for index in np.ndindex(want.array.shape):
        want_value, got_value = want_values[index], got_values[index]
        exact = isinstance(want_value, int) and isinstance(got_value, int)
        if isinstance(want_value, bool) != isinstance(got_value, bool) or (exact and want_value != got_value):
            raise CheckFailed(f"{place}{list(index)}: got {got_value!r}, want {want_value!r}")
        if exact:
            left[0][index] = left[1][index] = 0
    return Plain(left[0]), Plain(left[1])


def _typed(place: str, want: Any, got: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Both sides with data types that may be compared."""
    if isinstance(want, Plain) and isinstance(got, Plain):
        kinds = want.array.dtype.kind + got.array.dtype.kind
        if "b" in kinds and kinds != "bb" and want.array.size and got.array.size:
            raise CheckFailed(f"{place}: got {got.array.dtype}, want {want.array.dtype}: truth values are no numbers")
        both = np.result_type(want.array, got.array)
        return want.array.astype(both), got.array.astype(both)
    if isinstance(want, Plain):
        return _as_type(place, want.array, got, wide=True), got
    if isinstance(got, Plain):
        return want, _as_type(place, got.array, want, wide=False)
    same = want.dtype == got.dtype
    wider = (want.dtype.name, got.dtype.kind) in (("float64", "f"), ("complex128", "c")) or (
        want.dtype.name == "float64" and name_of(got.dtype) in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    )
    if not same and not wider:
        raise CheckFailed(
            f"{place}: got the data type {got.dtype}, want {want.dtype}; only a reference in float64 may differ"
        )
    return want, got


def _as_type(
    place: str, plain: np.ndarray[Any, Any], other: np.ndarray[Any, Any], wide: bool
) -> np.ndarray[Any, Any]:
    """Numbers of Python in the data type of the other side, or wide as a reference may be; they must be of its kind."""
    kind = other.dtype.kind
    if plain.size == 0:
        return plain.astype(other.dtype)
    floats = kind in "fcV" or name_of(other.dtype) in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    if (plain.dtype.kind == "b") != (kind == "b") or (plain.dtype.kind in "fc" and not floats):
        raise CheckFailed(f"{place}: one side has {plain.dtype.name} of Python, the other {other.dtype}")
    if plain.dtype.kind == "c" and kind != "c":
        raise CheckFailed(f"{place}: one side is complex, the other {other.dtype}")
    if wide and floats:
        return plain.astype(np.complex128 if kind == "c" else np.float64)
    with np.errstate(over="ignore"):  # what becomes infinite is not equal to what is finite
        converted = plain.astype(other.dtype)
    if kind in "iu" and not np.array_equal(converted.astype(object), plain.astype(object)):
        raise CheckFailed(f"{place}: numbers of Python do not fit into {other.dtype}")
    return converted


def _ask(
    client: Callable[[], Client], place: str, want: np.ndarray[Any, Any], got: np.ndarray[Any, Any], plain: bool,
    tolerance: tuple[float | None, float | None],
) -> None:  # fmt: skip
    name = name_of(got.dtype)
    if name is None or name_of(want.dtype) is None:
        raise CheckError(f"{place}: arrays of {got.dtype} cannot be compared: convert them, or pass compare=")
    pair = None
    if "float" in name:
        # The absolute part is for elements near zero beside larger ones. Where all values are small it must be, too: a
        # fixed one would accept anything.
        default = ToleranceConfig.for_dtype(PLAIN_FLOAT if plain else name)
        finite = np.abs(want.astype(np.float64))[np.isfinite(want.astype(np.float64))]
        scale = float(finite.max()) if finite.size else 0.0
        atol, rtol = tolerance
        rtol = default.rtol if rtol is None else rtol
        pair = {"atol": min(default.atol, rtol * scale) if atol is None else atol, "rtol": rtol}
    try:
        reply = client().compare({"output": got}, {"output": want}, tolerance=pair)
    except ClientError as exc:
        raise CheckError(f"{place}: the engine could not compare: {exc}") from exc
    if not reply["passed"]:
        message = str(reply.get("message") or reply.get("verdict") or "differs")
        raise CheckFailed(place + ": " + message.removeprefix('output "output": '))
