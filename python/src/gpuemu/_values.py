"""Random arrays from a seed, and their memory layouts. No judgement: the engine's cases come from the engine."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _parts
from .arrays import dtype_text, numpy_dtype
from .rng import SeededRng

Array = np.ndarray[Any, Any]

LAYOUTS = ("contiguous", "strided", "transposed", "channels_last")
DTYPES = tuple(_parts.FORMATS)


def check_dtype(dtype: Any) -> str:
    """The name of a data type given by name, or as a framework has it. ValueError where there is no such type."""
    name = dtype_text(dtype)
    if name not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}: known are {', '.join(DTYPES)}")
    return name


def check_layout(layout: str) -> str:
    """The layout, if there is one of that name."""
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r}: known are {', '.join(LAYOUTS)}")
    return layout


def check_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of integers that are not negative; one integer is a shape of one dimension."""
    dims = (shape,) if isinstance(shape, (int, np.integer)) else shape
    result = tuple(operator.index(d) for d in dims)
    if any(d < 0 for d in result):
        raise ValueError(f"a shape cannot have negative dimensions: {result}")
    return result


def published(rng: SeededRng, shape: tuple[int, ...], dtype: str) -> Array:
    """Values as the published generator draws them: ten times a normal variate.

    float32 and float64 are ten times the float32 variate, float16 is multiplied after rounding. Integers and bool,
    which that generator does not have, are drawn as the published daemon does: [-100, 100), the low bits of a draw for
    unsigned types, even odds for bool. bfloat16 and float8 are rounded from the float32 product.
    """
    target = numpy_dtype(dtype)
    n = math.prod(shape)
    if dtype == "bool":
        return (rng.random_f64(n) < 0.5).reshape(shape)
    if target.kind == "i":
        return rng.random_range(-100, 100, n).astype(target).reshape(shape)
    if target.kind == "u":
        return rng.random_u64(n).astype(target).reshape(shape)  # astype keeps the low bits
    normals = rng.randn(shape)
    early = dtype in ("float16", "float64")
    values: Array = normals.astype(target) * target.type(10.0) if early else (normals * np.float32(10.0)).astype(target)
    return values


def uniform(rng: SeededRng, shape: tuple[int, ...], dtype: str, low: float, high: float) -> Array:
    """Uniform values in [low, high], both ends included where the type has them. One draw for each element."""
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"domain ({low}, {high}): two finite numbers are needed, the lower one first")
    target = numpy_dtype(dtype)
    if dtype == "bool" or target.kind in "iu":
        return _uniform_integers(rng, shape, dtype, low, high)
    # Each end times its weight: unlike low + u·(high-low) this cannot overflow.
    u = rng.random_f64(math.prod(shape))
    exact = low * (1 - u) + high * u
    with np.errstate(over="ignore"):
        values = exact.astype(target)
    back = values.astype(np.float64)
    if not np.isfinite(back).all():
        raise ValueError(f"domain ({low}, {high}) has values that {dtype} cannot hold")
    # Rounding to the type may step over an end, and then the neighbour inside is taken.
    over, under = back > high, back < low
    values[over] = np.nextafter(values[over], np.array(low).astype(target))
    values[under] = np.nextafter(values[under], np.array(high).astype(target))
    back = values.astype(np.float64)
    if not ((back >= low) & (back <= high)).all():
        raise ValueError(f"domain ({low}, {high}) has no {dtype} value")
    return values.reshape(shape)


def _uniform_integers(rng: SeededRng, shape: tuple[int, ...], dtype: str, low: float, high: float) -> Array:
    target = numpy_dtype(dtype)
    least, most = (0, 1) if dtype == "bool" else (int(np.iinfo(target).min), int(np.iinfo(target).max))
    first, last = max(math.ceil(low), least), min(math.floor(high), most)
    if first > last:
        raise ValueError(f"domain ({low}, {high}) has no {dtype} value")
    return rng.random_range(first, last + 1, math.prod(shape)).astype(target).reshape(shape)


def strides(shape: Sequence[int], layout: str = "contiguous") -> tuple[int, ...]:
    """Strides in elements, as the published fuzzer writes them beside a layout.

    For "transposed" those are the strides of the shape with its last two dimensions swapped; the array itself has them
    in the order of its shape.
    """
    shape = tuple(shape)
    if layout == "transposed" and len(shape) >= 2:
        return strides((*shape[:-2], shape[-1], shape[-2]))
    if layout == "channels_last" and len(shape) >= 3:
        inner = strides((shape[0], *shape[2:], shape[1]))
        return (inner[0], inner[-1], *inner[1:-1])
    out, step = [], 2 if layout == "strided" else 1
    for size in reversed(shape):
        out.append(step)
        step *= size
    return tuple(reversed(out))


def lay_out(values: Array, layout: str) -> Array:
    """A fresh copy of a C-contiguous array with that memory layout, for real.

    strided: every other element of a storage twice as large, with ones between. transposed: the last two dimensions are
    stored swapped. channels_last: the second dimension is stored last. Where the shape has too few dimensions for it,
    the array is contiguous.
    """
    if layout == "strided" and values.ndim:
        storage = np.ones((*values.shape, 2), values.dtype)
        view: Array = storage[..., 0]
        view[...] = values
        return view
    if layout == "transposed" and values.ndim >= 2:
        return np.swapaxes(np.swapaxes(values, -1, -2).copy(order="C"), -1, -2)
    if layout == "channels_last" and values.ndim >= 3:
        return np.moveaxis(np.moveaxis(values, 1, -1).copy(order="C"), -1, 1)
    return np.array(values, order="C")
