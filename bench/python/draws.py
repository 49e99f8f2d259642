"""Draws a second of the random stream: python draws.py [MILLIONS]. It needs numpy and gpuemu on PYTHONPATH."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable

from gpuemu.rng import SeededRng

ROUNDS = 5


def best(call: Callable[[], Any]) -> float:
    """The shortest of a few calls, in seconds; one more before them makes the tables of the jumps."""
    call()
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    n = round(float(sys.argv[1] if len(sys.argv) > 1 else "10") * 1e6)
    rng = SeededRng(1)
    calls: dict[str, Callable[[], Any]] = {
        "random_u64": lambda: rng.random_u64(n),
        "random_f64": lambda: rng.random_f64(n),
        "random_f32": lambda: rng.random_f32(n),
        "random_range": lambda: rng.random_range(0, 200, n),
        "randn_f64": lambda: rng.randn_f64(n),
        "randn": lambda: rng.randn(n),
    }
    print(f"{n} elements, best of {ROUNDS}, million a second")
    for name, call in calls.items():
        print(f"{name:14}{n / best(call) / 1e6:8.1f}")


if __name__ == "__main__":
    main()
