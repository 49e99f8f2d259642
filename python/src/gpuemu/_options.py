"""What callers write in more than one way: lists of names, data types, tolerances, sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from .arrays import dtype_text
from .results import ClientError

LIKELY_ITERATIONS = 100_000  # below this a number without a name is as likely a number of cases as a seed
Method = TypeVar("Method", bound=Callable[..., Any])


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


def seed_by_name(method: Method) -> Method:
    """A method (self, op_name, seed, iterations, …) that refuses a small seed by place without iterations.

    The published order has the seed before the iterations, and fuzz_op_client_side has them the other way round:
    fuzz_op("matmul", 50) would silently run 100 cases of seed 50.
    """

    @functools.wraps(method)
    def call(*args: Any, **kw: Any) -> Any:
        if len(args) == 3 and "iterations" not in kw and isinstance(args[2], int) and 0 <= args[2] < LIKELY_ITERATIONS:
            what = f"{method.__name__}({args[1]!r}, {args[2]})"
            raise ClientError(
                f"{what} may mean a seed or a number of cases", hint=f"write seed={args[2]} or iterations={args[2]}"
            )
        return method(*args, **kw)

    return cast("Method", call)
