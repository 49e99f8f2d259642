"""The published client's side of throughput.py, run by an interpreter that has gpuemu 0.1.0 installed.

published_side.py SOCKET COUNT SCHEMA prints the seconds that COUNT cases took, and how many of them passed.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

import gpuemu


def softmax(inputs: dict[str, np.ndarray]) -> np.ndarray:
    x = next(iter(inputs.values()))
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    out: np.ndarray = e / e.sum(axis=-1, keepdims=True)
    return out


def main() -> None:
    socket, count, schema = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    client = gpuemu.Client(socket_path=socket, timeout_ms=60_000)
    client.ping()
    start = time.perf_counter()
    results = client.fuzz_op_client_side(
        "softmax", run_op=softmax, iterations=count, seed=7, op_schema=schema, dtypes=["float32"]
    )
    seconds = time.perf_counter() - start
    why = "" if results.passed == count or not results.failures else str(results.failures[0])[:300]
    print(json.dumps({"seconds": seconds, "total": results.total, "passed": results.passed, "why": why}))


main()
