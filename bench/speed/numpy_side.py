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

Array = np.ndarray[Any, np.dtype[Any]]
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

def buffers32(n: int) -> tuple[Array, Array]:
    """The same buffers as func buffers32 of the Go side."""
    u = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    u = (u ^ (u >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    u ^= u >> np.uint64(32)
    want = ((u >> np.uint64(40)).astype(np.int64) - (1 << 23)) * 2.0**-22
    got = want + want * (u.astype(np.uint16).astype(np.int16) * 2.0**-34)
    return got.astype(np.float32), want.astype(np.float32)


@snippet
def allclose(n: int, tol: float) -> Prepared:
    got, want = buffers32(n)
    if not np.allclose(got, want, rtol=tol, atol=tol):
        raise ValueError("buffers differ")
    largest = float(np.abs(got.astype("f8") - want).max())
    return lambda: np.allclose(got, want, rtol=tol, atol=tol), largest


def ordered(x: Array) -> Array:
    """The bits of float32s as integers in the order of the values, both zeros at 0."""
    i = x.view(np.int32).astype(np.int64)
    return np.where(i < 0, -(i & 0x7FFFFFFF), i)


def full_statistics(got: Array, want: Array, tol: float, chunk: int = 1 << 20) -> dict[str, Any]:
    """Mismatches, maxima and means of absolute, relative and ULP errors, and three percentiles, a chunk at a time."""
    n = got.size
    errors = np.empty(n)
    bad = rel_count = max_ulp = sum_ulp = 0
    max_abs = max_rel = sum_abs = sum_rel = 0.0
    for lo in range(0, n, chunk):
        g, w = got[lo : lo + chunk].astype("f8"), want[lo : lo + chunk].astype("f8")
        d, a = np.abs(g - w), np.abs(w)
        errors[lo : lo + chunk] = d
        bad += int(np.count_nonzero(~(d <= tol + tol * a)))
        nonzero = a != 0
        r = d[nonzero] / a[nonzero]
        ulp = np.abs(ordered(got[lo : lo + chunk]) - ordered(want[lo : lo + chunk]))
        rel_count += r.size
        max_abs, max_rel = max(max_abs, float(d.max())), max(max_rel, float(r.max(initial=0.0)))
        max_ulp = max(max_ulp, int(ulp.max()))
        sum_abs, sum_rel, sum_ulp = sum_abs + float(d.sum()), sum_rel + float(r.sum()), sum_ulp + int(ulp.sum())
    means = [sum_abs / n, sum_rel / max(rel_count, 1), sum_ulp / n]
    percentiles = [float(p) for p in np.percentile(errors, [50, 90, 99])]
    return {"bad": bad, "maxima": [max_abs, max_rel, max_ulp], "means": means, "percentiles": percentiles}


@snippet
def statistics(n: int, tol: float) -> Prepared:
    got, want = buffers32(n)
    s = full_statistics(got, want, tol)
    check = s["bad"] + sum(s["maxima"]) + sum(s["means"]) + sum(s["percentiles"])
    return lambda: full_statistics(got, want, tol), check


@snippet
def generate(values: str, n: int) -> Prepared:
    rng = np.random.default_rng(42)
    if values == "uniform":
        return lambda: rng.uniform(-10, 10, n).astype(np.float32), None
    return lambda: rng.standard_normal(n).astype(np.float32), None


def softmax_ref(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm_ref(x: Array, weight: Array, bias: Array) -> Array:
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * weight + bias


def gelu_tanh_ref(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))


@snippet
def whole_case(op: str, shape: list[int]) -> Prepared:
    """The loop one writes by hand: inputs, reference in float64, allclose. Every call is the same case again."""
    ref = {"softmax": softmax_ref, "layernorm": layernorm_ref, "gelu_tanh": gelu_tanh_ref}[op]
    shapes = [shape, shape[-1:], shape[-1:]] if op == "layernorm" else [shape]
    rng = np.random.default_rng(42)
    start = rng.bit_generator.state
    rows = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    candidate = ref(*(x.astype(np.float64) for x in rows)).astype(np.float32)

    def call() -> bool:
        rng.bit_generator.state = start
        inputs = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        want = ref(*(x.astype(np.float64) for x in inputs))
        return np.allclose(candidate, want, rtol=1e-5, atol=1e-5)

    return call, float(call())


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
            op = request["op"]
            if op == "facts":
                answer["facts"] = facts()
            elif op == "prepare":
                prepared[count], answer["check"] = SNIPPETS[request["name"]](**request["args"])
                answer["id"] = count
                count += 1
            elif op == "time":
                call, reps = prepared[request["id"]], range(request["reps"])
                start = time.perf_counter()
                for _ in reps:
                    call()
                answer["seconds"] = time.perf_counter() - start
            elif op == "release":
                del prepared[request["id"]]
            else:
                raise ValueError(f"unknown op {op!r}")
        except Exception as e:  # the Go side reports it and stops
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
