"""A C library of vector functions behind ctypes; where it is not built, a fake with the same C functions.

The library of a project has, in C, with pointers to host memory and a cudaError_t as the result:

    int vector_add(const float *x, const float *y, float *out, int n);
    int vector_scale(const float *x, float factor, float *out, int n);
"""

import ctypes
import os

FLOATS = ctypes.POINTER(ctypes.c_float)
ADD = ctypes.CFUNCTYPE(ctypes.c_int, FLOATS, FLOATS, FLOATS, ctypes.c_int)
SCALE = ctypes.CFUNCTYPE(ctypes.c_int, FLOATS, ctypes.c_float, FLOATS, ctypes.c_int)
INVALID_VALUE = 1  # cudaErrorInvalidValue


class FakeLibrary:
    """The functions of the library as C functions that run Python: arguments travel as they would to C."""

    def __init__(self):
        self.vector_add = ADD(self._add)
        self.vector_scale = SCALE(self._scale)

    @staticmethod
    def _add(x, y, out, n):
        if n < 0:
            return INVALID_VALUE
        for i in range(n):
            out[i] = x[i] + y[i]
        return 0

    @staticmethod
    def _scale(x, factor, out, n):
        if n < 0:
            return INVALID_VALUE
        for i in range(n):
            out[i] = x[i] * factor
        return 0


def load():
    """The library that VECTOR_LIBRARY names, or the fake."""
    path = os.environ.get("VECTOR_LIBRARY")
    if path is None:
        return FakeLibrary()
    library = ctypes.CDLL(path)
    library.vector_add.argtypes, library.vector_add.restype = [FLOATS, FLOATS, FLOATS, ctypes.c_int], ctypes.c_int
    library.vector_scale.argtypes = [FLOATS, ctypes.c_float, FLOATS, ctypes.c_int]
    return library


LIBRARY = load()


def _check(status):
    if status != 0:
        raise RuntimeError(f"the library says CUDA error {status}")


def vector_add(x, y):
    """x + y in float32."""
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} elements, y has {len(y)}")
    n = len(x)
    out = (ctypes.c_float * n)()
    _check(LIBRARY.vector_add((ctypes.c_float * n)(*x), (ctypes.c_float * n)(*y), out, n))
    return list(out)


def vector_scale(x, factor):
    """x * factor in float32."""
    n = len(x)
    out = (ctypes.c_float * n)()
    _check(LIBRARY.vector_scale((ctypes.c_float * n)(*x), factor, out, n))
    return list(out)
