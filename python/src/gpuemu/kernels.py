"""Kernels that write into memory they are given, as functions kernel(inputs, outputs, **attrs) for the guard.

    kernel = triton_kernel(softmax_rows, grid=("x.shape[0]",), args=["x", "y", "x.stride(0)", "x.shape[1]"], BLOCK=1024)
    kernel = ctypes_kernel(library.softmax, args=["x", "y", "x.shape[0]", "x.shape[1]"])

An entry of args is

    "NAME"            an input, an output or an attribute of that name
    "NAME.shape[0]"   a dimension; "NAME.stride(0)" a stride in elements; "NAME.numel" the number of elements
    "NAME:float32"    any of these as a scalar of that dtype: a C function cannot tell a float from a double
    a function        called with (inputs, outputs, attrs); what it returns is passed
    anything else     passed as it is

Kernels get the arrays of the case as they are. One that takes no strides misreads an input that is not contiguous and
fails for it: pass the strides, or ask for contiguous cases (layouts=["contiguous"]).
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable

import numpy as np

from gpuemu.arrays import ITEM_SIZES, name_of, numpy_dtype

Kernel = Callable[..., None]
_TEXT = re.compile(r"(\w+)(?:\.(?:(shape)\[(-?\d+)\]|(stride)\((-?\d+)\)|(numel)(?:\(\))?))?(?::(\w+))?")


def triton_kernel(fn: Any, grid: Any, args: Sequence[Any], **launch: Any) -> Kernel:
    """A launch fn[grid](*args, **launch) of a function under @triton.jit (or autotuned).

    grid is a tuple whose entries are like those of args, a function of (inputs, outputs, attrs), or Triton's own kind,
    a function of one argument, the constants. launch has constants and options (BLOCK=128, num_warps=4); functions
    among its values are called like those of args, texts are passed as they are.
    """
    resolve = _resolver(args)
    shape = grid if _own_function(grid, 1) else _grid(grid)

    def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
        where = shape if shape is grid else shape(inputs, outputs, attrs)
        options = {k: v(inputs, outputs, attrs) if _own_function(v, 3) else v for k, v in launch.items()}
        fn[where](*resolve(inputs, outputs, attrs), **options)

    return _kernel(run, fn)


def raw_kernel(fn: Any, grid: Any, block: Any, args: Sequence[Any], shared_mem: int = 0) -> Kernel:
    """A launch fn(grid, block, args) of a cupy.RawKernel, on arrays of CuPy or CUDA tensors of torch.

    Or of a cuda_kernel, on arrays of numpy or CPU tensors of torch.

    grid and block are tuples whose entries are like those of args, or functions of (inputs, outputs, attrs). Integers
    are passed as 64 bits, of which a parameter of 32 bits takes the lower half; a float needs its dtype.
    """
    resolve = _resolver(args)
    blocks, threads = _grid(grid), _grid(block)
    passed = _as_it_is if getattr(fn, "gpuemu_takes_arrays", False) else _raw_argument

    def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
        values = tuple(passed(v) for v in resolve(inputs, outputs, attrs))
        where = blocks(inputs, outputs, attrs), threads(inputs, outputs, attrs)
        if 0 in where[0]:
            return  # nothing to do; the driver refuses an empty grid
        fn(*where, values, shared_mem=shared_mem)

    return _kernel(run, fn)


def ctypes_kernel(cfunc: Any, args: Sequence[Any]) -> Kernel:
    """A call of a function of a shared library, on arrays of numpy or tensors of torch: arrays are passed as pointers.

    Without cfunc.argtypes integers are passed as 64 bits, of which a parameter of 32 bits takes the lower half; a float
    then needs its dtype. The return value is ignored; cfunc.errcheck can look at it.
    """
    resolve = _resolver(args)

    def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
        values = resolve(inputs, outputs, attrs)
        types = cfunc.argtypes if cfunc.argtypes is not None else [None] * len(values)
        if len(types) != len(values):
            raise TypeError(f"{len(values)} arguments for a function whose argtypes are {len(types)}")
        cfunc(*[_c_argument(value, c_type) for value, c_type in zip(values, types)])

    return _kernel(run, cfunc)


def pybind_kernel(fn: Callable[..., Any], args: Sequence[Any]) -> Kernel:
    """A call of any function that takes arrays as such (pybind11, nanobind, Cython, torch extensions; by DLPack or as
    buffers) and writes into them. The return value is ignored.
    """
    resolve = _resolver(args)

    def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
        fn(*resolve(inputs, outputs, attrs))

    return _kernel(run, fn)


def _kernel(run: Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], None], fn: Any) -> Kernel:
    def kernel(inputs: Mapping[str, Any], outputs: Mapping[str, Any], **attrs: Any) -> None:
        run(inputs, outputs, attrs)

    kernel.__name__ = str(getattr(fn, "__name__", None) or getattr(fn, "name", None) or type(fn).__name__)
    kernel.gpuemu_outputs = "allocated"  # type: ignore[attr-defined]
    return kernel


def _own_function(value: Any, parameters: int) -> bool:
    """Whether a value is a plain Python function of so many arguments. A function under @triton.jit is not."""
    if not (inspect.isroutine(value) or isinstance(value, functools.partial)):
        return False
    try:
        inspect.signature(value).bind(*[None] * parameters)
    except (TypeError, ValueError):
        return False
    return True


def _grid(grid: Any) -> Callable[..., tuple[int, ...]]:
    if _own_function(grid, 3):

        def called(*case: Mapping[str, Any]) -> tuple[int, ...]:
            made = grid(*case)
            return tuple(int(n) for n in made) if isinstance(made, (tuple, list)) else (int(made),)

        return called
    if callable(grid):
        raise TypeError(f"the grid {grid!r} must take three arguments: inputs, outputs and attrs")
    resolve = _resolver(grid if isinstance(grid, (tuple, list)) else (grid,))
    return lambda *case: tuple(int(n) for n in resolve(*case))


def _resolver(args: Sequence[Any]) -> Callable[..., list[Any]]:
    """What turns the entries of args into values, for the inputs, outputs and attributes of a case."""
    if isinstance(args, str):
        raise TypeError(f"args is the text {args!r}, want a list of arguments")
    steps = [_step(entry) for entry in args]
    return lambda inputs, outputs, attrs: [step(inputs, outputs, attrs) for step in steps]


def _step(entry: Any) -> Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], Any]:
    if _own_function(entry, 3):
        step: Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], Any] = entry
        return step
    if not isinstance(entry, str):
        return lambda inputs, outputs, attrs: entry
    match = _TEXT.fullmatch(entry)
    if match is None or (match[7] is not None and match[7] not in ITEM_SIZES):
        raise ValueError(
            f"argument {entry!r}: want NAME, NAME.shape[0], NAME.stride(0) or NAME.numel, and :DTYPE after it if "
            "needed; a text that is to be passed as such comes from a function"
        )
    name, dtype = match[1], match[7]

    def look_up(inputs: Mapping[str, Any], outputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> Any:
        value = _named(name, entry, inputs, outputs, attrs)
        if match[2]:
            value = int(value.shape[int(match[3])])
        elif match[4]:
            value = _stride(value, int(match[5]))
        elif match[6]:
            value = math.prod(value.shape)
        return value if dtype is None else numpy_dtype(dtype).type(value)

    return look_up


def _named(name: str, entry: str, *places: Mapping[str, Any]) -> Any:
    found = [place[name] for place in places if name in place]
    if len(found) == 1:
        return found[0]
    if not found:
        known = ", ".join(n for place in places for n in place)
        raise KeyError(f"argument {entry!r}: no input, output or attribute is named {name}; there are {known}")
    raise KeyError(f"argument {entry!r}: both an input and an output or attribute have this name; use a function")


def _stride(array: Any, axis: int) -> int:
    """A stride in elements."""
    if callable(getattr(array, "stride", None)):  # torch
        return int(array.stride(axis))
    return int(array.strides[axis]) // int(array.itemsize)


def _pointer(value: Any) -> int | None:
    """The address of the first element of an array; None for anything else."""
    if isinstance(value, np.ndarray):
        return int(value.__array_interface__["data"][0])
    if callable(getattr(value, "data_ptr", None)):  # torch
        return int(value.data_ptr())
    if hasattr(value, "__cuda_array_interface__"):  # cupy, numba
        return int(value.__cuda_array_interface__["data"][0])
    return None


def _as_it_is(value: Any) -> Any:
    return value


def _raw_argument(value: Any) -> Any:
    pointer = _pointer(value)
    if pointer is not None:
        return np.uint64(pointer)
    if isinstance(value, float):
        raise TypeError(f"the float {value} needs a dtype: write it as NAME:float32, or pass numpy.float32({value})")
    return value


_C_TYPES: dict[str, Any] = {
    "float32": ctypes.c_float, "float64": ctypes.c_double, "bool": ctypes.c_bool,
    **{f"{sign}int{bits}": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def _c_argument(value: Any, c_type: Any) -> Any:
    """A value as ctypes passes it to a parameter of this type; None: the function does not say."""
    pointer = _pointer(value)
    if pointer is not None:
        if hasattr(c_type, "_dtype_"):  # numpy.ctypeslib.ndpointer: takes the array and checks it
            return value
        if hasattr(c_type, "contents"):  # ctypes.POINTER(...)
            return ctypes.cast(pointer, c_type)
        return ctypes.c_void_p(pointer)
    if isinstance(value, np.generic):
        if c_type is not None:
            return value.item()
        c_type = _C_TYPES.get(str(name_of(value.dtype)))
        if c_type is None:
            raise TypeError(f"C has no type for a scalar of dtype {value.dtype}: pass its bits as an integer")
        return c_type(value.item())
    if c_type is not None or not isinstance(value, (int, float)):
        return value
    if isinstance(value, float):
        raise TypeError(f"the float {value} needs a dtype: set argtypes of the function, or write it as NAME:float32")
    return ctypes.c_int64(value)
