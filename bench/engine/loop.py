"""The loop one writes by hand: draw inputs, run the candidate, the reference in float64, allclose.

loop.py COUNT DIM... prints the seconds that COUNT cases took, the start of the interpreter left out.
"""
import sys
import time

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def main():
    count, *shape = map(int, sys.argv[1:])
    rng = np.random.default_rng(1)
    start = time.perf_counter()
    for _ in range(count):
        x = rng.standard_normal(shape).astype(np.float32)
        got = softmax(x)
        want = softmax(x.astype(np.float64))
        if not np.allclose(got, want, rtol=1e-5, atol=1e-5):
            sys.exit("the candidate is wrong")
    print(time.perf_counter() - start)


main()
