"""The numpy side of the speed table: executes named snippets on request and says how long they took.

One JSON object per line on stdin and stdout. Requests:
    {"op": "facts"}                                       -> {"facts": {...}}
    {"op": "prepare", "name": "matmul", "args": {...}}    -> {"id": 0, "check": 1.25}
    {"op": "time", "id": 0, "reps": 3}                    -> {"seconds": 0.12}
    {"op": "release", "id": 0}                            -> {}
An error is answered with {"error": "..."}.

To add a snippet, write a function under @snippet: it gets the arguments, makes its inputs, and returns the call to be
timed and a number that the Go side can compare with its own result (None: nothing to compare).
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Prepared = tuple[Callable[[], object], float | None]
SNIPPETS: dict[str, Callable[..., Prepared]] = {}


def snippet(f: Callable[..., Prepared]) -> Callable[..., Prepared]:
    SNIPPETS[f.__name__] = f
    return f


def pattern(n: int, salt: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The same inputs as func pattern of the Go side: multiples of 2^-10 in [-0.5, 0.5)."""
    i = np.arange(n, dtype=np.uint64)
    return ((i * np.uint64(2654435761) + np.uint64(salt)) >> np.uint64(7)) % np.uint64(1024) / 1024.0 - 0.5


@snippet
def matmul(m: int, n: int, k: int, trans_b: bool = False) -> Prepared:
    a, b = pattern(m * k, 1).reshape(m, k), pattern(k * n, 2)
    b = b.reshape(n, k).T if trans_b else b.reshape(k, n)
    out = np.empty((m, n))
    return lambda: np.matmul(a, b, out=out), float(np.abs(a @ b).sum())


@snippet
def matmul_abs(m: int, n: int, k: int) -> Prepared:
    a, b = pattern(m * k, 1).reshape(m, k), pattern(k * n, 2).reshape(k, n)
    out, bound = np.empty((m, n)), np.empty((m, n))

    def call() -> None:
        np.matmul(a, b, out=out)
        np.matmul(np.abs(a), np.abs(b), out=bound)

    return call, float((np.abs(a) @ np.abs(b)).sum())


def facts() -> dict[str, str]:
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": f"{blas['name']} {blas['version']}",
    }


def main() -> None:
    prepared: dict[int, Callable[[], object]] = {}
    count = 0
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer: dict[str, Any] = {}
            match request["op"]:
                case "facts":
                    answer["facts"] = facts()
                case "prepare":
                    prepared[count], answer["check"] = SNIPPETS[request["name"]](**request["args"])
                    answer["id"] = count
                    count += 1
                case "time":
                    call, reps = prepared[request["id"]], range(request["reps"])
                    start = time.perf_counter()
                    for _ in reps:
                        call()
                    answer["seconds"] = time.perf_counter() - start
                case "release":
                    del prepared[request["id"]]
                case other:
                    raise ValueError(f"unknown op {other!r}")
        except Exception as e:  # the Go side reports it and stops
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
