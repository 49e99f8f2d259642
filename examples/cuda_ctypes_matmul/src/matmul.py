"""The CUDA library behind ctypes; build.sh builds it."""

import ctypes
from pathlib import Path

import numpy as np

LIBRARY = ctypes.CDLL(str(Path(__file__).resolve().parents[1] / "build" / "libmatmul.so"))
_ARRAY = np.ctypeslib.ndpointer(np.float32, ndim=2, flags="C_CONTIGUOUS")
LIBRARY.matmul_f32.argtypes = [_ARRAY, _ARRAY, _ARRAY, ctypes.c_int, ctypes.c_int, ctypes.c_int]
LIBRARY.matmul_error.restype = ctypes.c_char_p


def matmul(a, b):
    """A·B of two float32 matrices, on the GPU."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a is {a.shape}, b is {b.shape}")
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    status = LIBRARY.matmul_f32(a, b, out, a.shape[0], b.shape[1], a.shape[1])
    if status != 0:
        raise RuntimeError(LIBRARY.matmul_error(status).decode())
    return out
