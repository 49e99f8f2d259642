"""What callers write in more than one way: lists of names, data types, tolerances, sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .arrays import dtype_text
from .results import ClientError


def listed(names: Any) -> Sequence[Any]:
    """A list of names; one name alone is a list of one."""
    return list(names) if isinstance(names, Iterable) and not isinstance(names, (str, type)) else [names]


def dtype_names(dtypes: Any) -> list[str] | None:
    """The engine's names of data types, of which one alone is a list of one; None stays None."""
    return None if dtypes is None else [dtype_text(d) for d in listed(dtypes)]


def tolerance_of(value: Any) -> dict[str, float]:
    """atol and rtol of an object or a dict; one that is missing is 0."""
    pair = value if isinstance(value, Mapping) else vars_of(value)
    if not pair or set(pair) - {"atol", "rtol"}:
        raise ClientError(f"tolerance is {value!r}", hint='pass {"atol": 1e-5, "rtol": 1e-5} or a ToleranceConfig')
    return {"atol": float(pair.get("atol", 0.0)), "rtol": float(pair.get("rtol", 0.0))}


def vars_of(value: Any) -> dict[str, float]:
    """atol and rtol of an object that has them, else nothing."""
    return {name: getattr(value, name) for name in ("atol", "rtol") if hasattr(value, name)}
