"""Cases as the engine would hand them out, for tests of arrays, guard and kernels; and frameworks to run them with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu._case import Case, OutputSpec, View
from gpuemu.arrays import ITEM_SIZES, Arrays, arrays, contiguous_strides, name_of

WHERE = ["numpy", "torch:cpu", "jax:cpu", "tensorflow:cpu", "torch:cuda", "cupy:cuda", "jax:cuda"]


def on(where: str) -> Arrays:
    """The arrays of "framework:device"; a skip says what is not there."""
    framework, _, device = where.partition(":")
    try:
        return arrays(framework, device or None)
    except ImportError as exc:
        pytest.skip(str(exc))
    except ValueError as exc:
        if device != "cuda":
            raise
        pytest.skip(str(exc))


def storage_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    storage = np.frombuffer(array.tobytes(), np.uint8)
    assert not storage.flags.writeable
    return storage


def contiguous(name: str, array: np.ndarray[Any, Any]) -> View:
    dtype = name_of(array.dtype)
    assert dtype is not None
    return View(name, dtype, array.shape, contiguous_strides(array.shape), 0, storage_of(array))


def random_bits(dtype: str, count: int) -> np.ndarray[Any, Any]:
    """Bytes of so many elements: every bit pattern, NaN with payloads among them; 0 and 1 for bool."""
    data = np.random.default_rng(count).integers(0, 256, count * ITEM_SIZES[dtype], np.uint8)
    if dtype == "bool":
        data &= 1
    data.flags.writeable = False
    return data


def case(*inputs: View, outputs: list[OutputSpec] | None = None, attrs: dict[str, Any] | None = None) -> Case:
    return Case(0, "op", "op float32 seed=7", 7, "float32", attrs or {}, list(inputs), outputs)
