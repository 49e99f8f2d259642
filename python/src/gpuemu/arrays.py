"""Arrays of any framework: made from bytes with real strides, and brought back to numpy bit for bit.

`arrays(framework, device)` gives an `Arrays`: the only place that knows how numpy, PyTorch, CuPy, JAX and TensorFlow
differ. A buffer is a run of bytes on the device, aligned to 256; a view is an array in it. JAX and TensorFlow have
neither strides nor memory that can be written to: there `strided` is False and a view is a contiguous copy.

No framework is imported before it is asked for, and nothing here computes with values.
"""

from __future__ import annotations

import contextlib
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuemu._case import Failure, Finding
from gpuemu.results import ClientError

if TYPE_CHECKING:
    NDArray = np.ndarray[Any, Any]
    _NDArrayBase = np.ndarray[Any, Any]
else:
    NDArray = _NDArrayBase = np.ndarray

ALIGNMENT = 256  # bytes; what cudaMalloc promises, and the widest vector load of any device needs less

# dtype name: bytes of an element
ITEM_SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1,
}  # fmt: skip
_FROM_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
FRAMEWORKS = ("numpy", "torch", "jax", "cupy", "tensorflow")

_numpy_dtypes: dict[str, np.dtype[Any]] = {
    name: np.dtype(name).newbyteorder("<") for name in ITEM_SIZES if name not in _FROM_ML_DTYPES
}
_NO_SCOPE = contextlib.nullcontext()
_names: dict[np.dtype[Any], str | None] = {}  # dtype.name takes microseconds


class Refusal(ClientError):
    """A case that cannot be executed, or whose result is no output, with what to tell about it."""

    def __init__(self, reason: str, message: str, hint: str = "", trace: str = "") -> None:
        super().__init__(message, hint=hint)
        self.failure = Failure(reason, message, hint, trace)
        self.findings: list[Finding] = []  # what was seen in memory nevertheless


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of one of the engine's; a Refusal where it needs ml_dtypes and that is not installed."""
    dtype = _numpy_dtypes.get(name)
    if dtype is None:
        if name not in ITEM_SIZES:
            raise Refusal("unsupported", f"unknown dtype {name}", "known are " + ", ".join(ITEM_SIZES))
        try:
            import ml_dtypes
        except ImportError as exc:
            raise Refusal(
                "missing_package",
                f"{name} arrays need ml_dtypes, which {sys.executable} does not have ({exc})",
                f"{sys.executable} -m pip install ml_dtypes",
            ) from exc
        dtype = _numpy_dtypes[name] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def name_of(dtype: np.dtype[Any]) -> str | None:
    """The engine's name of a numpy dtype, None where it has none."""
    if dtype not in _names:
        _names[dtype] = dtype.name if dtype.name in ITEM_SIZES else None
    return _names[dtype]


def dtype_text(dtype: object) -> str:
    """The engine's name of a data type: given by name, or as numpy, torch, jax or tensorflow have it, or Python.

    What no engine has a name for stays as it is written, for the message that refuses it.
    """
    if isinstance(dtype, str):
        short = dtype.rpartition(".")[2]
        return short if short in ITEM_SIZES else dtype
    if isinstance(dtype, type):  # numpy.float32, jax.numpy.float32, ml_dtypes.bfloat16, float
        with contextlib.suppress(TypeError):
            name: str = np.dtype(dtype).name
            return name if name in ITEM_SIZES else str(dtype)
    inner = getattr(dtype, "dtype", dtype)
    text = str(getattr(inner, "name", None) or inner).rpartition(".")[2]
    return text if text in ITEM_SIZES else str(dtype)


def aligned_bytes(size: int) -> NDArray:
    """Fresh bytes on the host, not initialised, aligned to ALIGNMENT."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    shift = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw[shift : shift + size]


def to_numpy(value: object) -> NDArray:
    """Any array as a C-contiguous little-endian numpy array that shares no memory the kernel may still write to.

    bfloat16 and float8 keep their bits. An array of a device whose framework is not known here comes through DLPack.
    """
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if isinstance(value, np.ndarray):
        array = np.array(value, order="C", subok=False)
    elif torch is not None and isinstance(value, torch.Tensor):
        array = _torch_to_numpy(torch, value)
    elif cupy is not None and isinstance(value, cupy.ndarray):
        array = _cupy_to_numpy(cupy, value)
    elif type(value).__module__.partition(".")[0] in ("jax", "jaxlib"):
        array = np.asarray(value)  # of an immutable array: a copy is not needed
    elif type(value).__module__.partition(".")[0] == "tensorflow" and hasattr(value, "numpy"):
        array = np.array(value.numpy(), order="C")  # a variable can still be written to; a scalar is no array yet
    elif hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__"):
        array = _foreign_to_numpy(value)
    else:
        array = np.array(value, order="C")  # a copy: a buffer of any kind may be written to by the next execution
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    return array if array.flags.c_contiguous else array.copy(order="C")


def _torch_to_numpy(torch: Any, tensor: Any) -> NDArray:
    tensor = tensor.detach().resolve_neg()
    name = str(tensor.dtype)[len("torch.") :]
    on_host = tensor.device.type == "cpu"
    if name not in _FROM_ML_DTYPES:
        array: NDArray = tensor.cpu().numpy()
    else:
        dtype = numpy_dtype(name)
        bits = torch.int16 if dtype.itemsize == 2 else torch.uint8
        array = tensor.cpu().view(bits).numpy().view(dtype)
    return np.array(array, order="C") if on_host else array


def torch_from_numpy(torch: Any, array: NDArray) -> Any:
    """A tensor on the memory of the array."""
    if min(array.strides, default=0) < 0:
        array = array.copy()  # torch has no negative strides
    name = name_of(array.dtype)
    if name not in _FROM_ML_DTYPES:
        return torch.from_numpy(array.view(np.ndarray))
    bits = np.int16 if array.dtype.itemsize == 2 else np.uint8
    return torch.from_numpy(array.view(np.ndarray).view(bits)).view(_torch_dtype(torch, str(name)))


def _torch_dtype(torch: Any, name: str) -> Any:
    dtype = getattr(torch, name, None)
    if dtype is None:
        raise Refusal("unsupported", f"torch {torch.__version__} has no dtype {name}", "a newer torch may have it")
    return dtype


def _cupy_to_numpy(cupy: Any, value: Any) -> NDArray:
    """CuPy has no kernels for the types of ml_dtypes, also none that copy: their bits travel as integers."""
    dtype = value.dtype
    if name_of(dtype) in _FROM_ML_DTYPES:
        value = value.view(np.dtype(f"u{dtype.itemsize}"))
    array: NDArray = cupy.asnumpy(value, order="C")
    return array.view(dtype)


def _foreign_to_numpy(value: Any) -> NDArray:
    """An array of a framework that is not known here: through DLPack or the CUDA array interface."""
    on_host = hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) == 1  # kDLCPU
    if on_host:
        return np.array(np.from_dlpack(value), order="C")
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        if hasattr(value, "__dlpack__"):
            return _torch_to_numpy(torch, torch.from_dlpack(value))
        return _torch_to_numpy(torch, torch.as_tensor(value, device="cuda"))
    if "cupy" in sys.modules:
        cupy = sys.modules["cupy"]
        foreign = cupy.from_dlpack(value) if hasattr(value, "__dlpack__") else cupy.asarray(value)
        return _cupy_to_numpy(cupy, foreign)
    raise TypeError("an array on a device needs torch or cupy to be copied; import one of them")


class Arrays:
    """What a framework does with memory. The base class is complete for numpy, which lives on the host."""

    framework = "numpy"
    strided = True  # views have the strides and offsets asked for, and their memory can be written to
    on_host = True  # a buffer is memory that numpy sees, too: what upload was given

    def __init__(self, device: str | None = None) -> None:
        self.device = device or "cpu"
        if self.framework == "numpy" and self.device != "cpu":
            raise ValueError(f'numpy arrays have no device {self.device!r}: choose framework="torch" or "cupy"')

    def buffer(self, data: NDArray) -> Any:
        """A fresh buffer with these bytes."""
        copy = aligned_bytes(-(-max(data.size, 1) // ALIGNMENT) * ALIGNMENT)
        copy[: data.size] = data
        return self.upload(copy)

    def upload(self, data: NDArray) -> Any:
        """A buffer with these aligned bytes. On the host it is that very memory, which the caller gives away."""
        return data

    def clone(self, buffer: Any) -> Any:
        """A fresh buffer with the bytes of another one."""
        copy = aligned_bytes(buffer.size)
        copy[:] = buffer
        return copy

    def same(self, got: Any, want: Any) -> bool:
        """Whether two buffers of one length, a multiple of 8, have equal bytes; decided on the device."""
        return bool((got.view(np.int64) == want.view(np.int64)).all())

    def download(self, buffer: Any) -> NDArray:
        """The bytes of a buffer on the host."""
        array: NDArray = buffer
        return array

    def view(self, buffer: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        """An array in a buffer; strides and offset count elements. Where there are no strides: its elements, copied."""
        kind = numpy_dtype(dtype)
        size = kind.itemsize
        return array_class()(shape, kind, buffer, offset * size, [s * size for s in strides])

    def from_numpy(self, array: NDArray) -> Any:
        """A fresh contiguous array with these elements."""
        name = name_of(array.dtype)
        if name is None:
            raise TypeError(f"no array of dtype {array.dtype} can be made; known are {', '.join(ITEM_SIZES)}")
        data = np.empty(array.nbytes, np.uint8)
        np.ndarray(array.shape, numpy_dtype(name), data)[...] = array
        return self.view(self.buffer(data), name, array.shape, contiguous_strides(array.shape), 0)

    def to_numpy(self, value: object) -> NDArray:
        """See the function of this name."""
        return to_numpy(value)

    def dtype_name(self, value: object) -> str | None:
        """The engine's name for the dtype of an array, or for a dtype of any framework; None where it has none."""
        dtype = np.dtype(value) if isinstance(value, type) else getattr(value, "dtype", value)
        name = getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]
        return name if name in ITEM_SIZES else None

    def synchronise(self, result: object = None) -> None:
        """Waits for the device. An error of a launch that was not seen yet is raised here.

        result is what the kernel returned, for frameworks that wait for arrays rather than devices.
        """
        # A kernel on numpy arrays may use a device by itself: errors must not wait for the next case.
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        if "cupy" in sys.modules and sys.modules["cupy"].cuda.is_available():
            sys.modules["cupy"].cuda.runtime.deviceSynchronize()

    def scope(self) -> AbstractContextManager[object]:
        """Makes the device the current one while a kernel runs."""
        return _NO_SCOPE

    def probe(self) -> None:
        """Raises what the device raises at the least of work: after an error, whether it is still usable."""
        self.synchronise()
        self.to_numpy(self.from_numpy(np.zeros(1, np.uint8)))


class TorchArrays(Arrays):
    """PyTorch on any of its devices. On the CPU tensors lie in memory of numpy."""

    framework = "torch"

    def __init__(self, device: str | None = None) -> None:
        self.torch: Any = _import("torch", "pip install gpuemu[torch]")
        super().__init__(device or ("cuda" if self.torch.cuda.is_available() else "cpu"))
        try:
            self.torch.zeros(1, device=self.device)
        except Exception as exc:
            raise ValueError(f'torch cannot use the device {self.device!r}: {exc}; device="cpu" always works') from exc
        self._where = self.torch.device(self.device)
        self.on_host = self._where.type == "cpu"

    def _empty(self, size: int) -> Any:
        raw = self.torch.empty(size + ALIGNMENT, dtype=self.torch.uint8, device=self.device)
        shift = -raw.data_ptr() % ALIGNMENT
        return raw[shift : shift + size]

    def upload(self, data: NDArray) -> Any:
        host = self.torch.from_numpy(data)
        return host if self.on_host else self._empty(data.size).copy_(host)

    def clone(self, buffer: Any) -> Any:
        return self._empty(buffer.numel()).copy_(buffer)

    def same(self, got: Any, want: Any) -> bool:
        # As integers: NaN differs from itself.
        return bool(self.torch.equal(got.view(self.torch.int64), want.view(self.torch.int64)))

    def download(self, buffer: Any) -> NDArray:
        array: NDArray = buffer.cpu().numpy()
        return array

    def view(self, buffer: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        if min(strides, default=0) < 0:
            raise Refusal("unsupported", f"torch has no negative strides, the case asks for {list(strides)}")
        typed = buffer.view(_torch_dtype(self.torch, dtype))
        return typed.as_strided(shape, strides, typed.storage_offset() + offset)

    def synchronise(self, result: object = None) -> None:
        if self.on_host:
            super().synchronise(result)  # the kernel may use a device by itself
        else:
            module = getattr(self.torch, self._where.type)  # torch.cuda, torch.xpu, torch.mps
            module.synchronize()

    def scope(self) -> AbstractContextManager[object]:
        if self._where.type == "cuda":
            scope: AbstractContextManager[object] = self.torch.cuda.device(self._where)
            return scope
        return contextlib.nullcontext()


class CupyArrays(Arrays):
    """CuPy on an NVIDIA or AMD device."""

    framework = "cupy"
    on_host = False

    def __init__(self, device: str | None = None) -> None:
        super().__init__(device or "cuda")
        self.cupy: Any = _import("cupy", "pip install cupy-cuda12x, or that of your CUDA version")
        kind, _, index = self.device.partition(":")
        if kind not in ("cuda", "gpu") or not (index or "0").isdecimal():
            raise ValueError(f'cupy has no device {self.device!r}: give "cuda" or "cuda:N"')
        try:
            self._where = self.cupy.cuda.Device(int(index or 0))
            self._where.synchronize()
        except Exception as exc:
            raise ValueError(f"cupy cannot use the device {self.device!r}: {exc}") from exc

    def upload(self, data: NDArray) -> Any:
        with self._where:
            buffer = self.cupy.empty(data.size, np.uint8)  # pools of CuPy align to 512 bytes
            buffer.set(data)
        return buffer

    def clone(self, buffer: Any) -> Any:
        with self._where:
            return buffer.copy()

    def same(self, got: Any, want: Any) -> bool:
        with self._where:
            return bool((got.view(np.int64) == want.view(np.int64)).all())

    def download(self, buffer: Any) -> NDArray:
        array: NDArray = self.cupy.asnumpy(buffer)
        return array

    def view(self, buffer: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        size = ITEM_SIZES[dtype]
        try:
            where = buffer.data + offset * size
            return self.cupy.ndarray(shape, numpy_dtype(dtype), where, [s * size for s in strides])
        except (TypeError, ValueError) as exc:
            raise Refusal(
                "unsupported", f"cupy cannot make a {dtype} array: {exc}", 'framework="torch" has this dtype'
            ) from exc

    def synchronise(self, result: object = None) -> None:
        self._where.synchronize()

    def scope(self) -> AbstractContextManager[object]:
        scope: AbstractContextManager[object] = self._where
        return scope


class _ImmutableArrays(Arrays):
    """Arrays without strides that nobody can write to. A buffer is memory of the host; views are copies of it."""

    strided = False
    on_host = False

    def view(self, buffer: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        kind = numpy_dtype(dtype)
        size = kind.itemsize
        return self.from_numpy(np.ndarray(shape, kind, buffer, offset * size, [s * size for s in strides]))


class JaxArrays(_ImmutableArrays):
    """JAX."""

    framework = "jax"

    def __init__(self, device: str | None = None) -> None:
        self.jax: Any = _import("jax", "pip install gpuemu[jax]")
        kind, _, index = (device or "").partition(":")
        try:
            found = self.jax.devices(kind or None)
            self._where = found[int(index or 0)]
        except (RuntimeError, ValueError, IndexError) as exc:
            known = ", ".join(f"{d.platform}:{d.id}" for d in self.jax.devices())
            raise ValueError(f"jax has no device {device!r}: {exc}; it has {known}") from exc
        super().__init__(device or self._where.platform)

    def from_numpy(self, array: NDArray) -> Any:
        with self.jax.default_device(self._where):
            made = self.jax.numpy.array(array, copy=True)
        if made.dtype != array.dtype:
            raise Refusal(
                "unsupported",
                f"jax made {made.dtype} of {array.dtype}: types of 64 bits are switched off",
                'jax.config.update("jax_enable_x64", True)',
            )
        return made

    def synchronise(self, result: object = None) -> None:
        self.jax.block_until_ready(result)

    def scope(self) -> AbstractContextManager[object]:
        scope: AbstractContextManager[object] = self.jax.default_device(self._where)
        return scope


class TensorFlowArrays(_ImmutableArrays):
    """TensorFlow."""

    framework = "tensorflow"

    def __init__(self, device: str | None = None) -> None:
        self.tf: Any = _import("tensorflow", "pip install gpuemu[tensorflow]")
        super().__init__(device or ("GPU" if self.tf.config.list_physical_devices("GPU") else "CPU"))
        kind, _, index = self.device.upper().replace("CUDA", "GPU").partition(":")
        found = self.tf.config.list_physical_devices(kind)
        if not (index or "0").isdecimal() or int(index or 0) >= len(found):
            known = ", ".join(d.name for d in self.tf.config.list_physical_devices())
            raise ValueError(f"tensorflow has no device {device!r}; it has {known}")
        self._where = f"/{kind}:{index or 0}"

    def from_numpy(self, array: NDArray) -> Any:
        with self.scope():
            return self.tf.constant(array)

    def synchronise(self, result: object = None) -> None:
        if not self._where.startswith("/CPU"):
            self.tf.test.experimental.sync_devices()

    def scope(self) -> AbstractContextManager[object]:
        scope: AbstractContextManager[object] = self.tf.device(self._where)
        return scope


class _TorchReady(_NDArrayBase):
    """A numpy array that functions of torch take as a tensor on the same memory (protocol __torch_function__)."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*_as_tensors(args), **_as_tensors(kwargs or {}))


def array_class() -> type[NDArray]:
    """Of arrays that kernels get: functions of torch take them, too; a plain ndarray where nobody can call one."""
    return _TorchReady if "torch" in sys.modules else np.ndarray


def _as_tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch_from_numpy(sys.modules["torch"], value)
    if type(value) in (tuple, list):
        return type(value)(_as_tensors(v) for v in value)
    if type(value) is dict:
        return {k: _as_tensors(v) for k, v in value.items()}
    return value


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a row-major array, in elements."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return tuple(strides)


def _import(module: str, remedy: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as exc:
        raise ImportError(
            f"framework={module!r} needs {module}, which {sys.executable} cannot import ({exc}); {remedy}"
        ) from exc


def arrays(framework: str | None = None, device: str | None = None) -> Arrays:
    """The arrays of a framework: numpy (also None), torch, jax, cupy or tensorflow.

    device is the framework's own name for one; without it a GPU is used where the framework sees one.
    """
    name = {None: "numpy", "pytorch": "torch", "tf": "tensorflow"}.get(framework, framework)
    classes = (Arrays, TorchArrays, JaxArrays, CupyArrays, TensorFlowArrays)
    for cls in classes:
        if cls.framework == name:
            return cls(device)
    raise ValueError(f"unknown framework {framework!r}: known are {', '.join(FRAMEWORKS)}")
