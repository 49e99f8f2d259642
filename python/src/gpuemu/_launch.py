"""Launches on arrays of this process: their memory goes to the emulator, and what the kernel wrote comes back.

Arrays that overlap are one piece of memory: a kernel sees through one what it wrote through the other. What no array
covers is out of bounds, also within the storage that the arrays are views of, and between the rows of a view;
bounds="storage" allows all of that. The emulator keeps addresses modulo 256: what is aligned here is aligned there.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _parts
from ._http import Transport
from .arrays import name_of
from .emulation import EmulationResult, parse_emulation
from .results import ClientError, ConnectionFailed

if TYPE_CHECKING:
    from ._shared import SharedFile
    from .client import Client

Image = dict[str, tuple[str, tuple[int, ...], memoryview]]  # data type, shape and bytes of tensors by name

LAUNCH_TYPE = "application/vnd.gpuemu.launch"
RESIDUES = 256  # of addresses that are told apart
INLINE = 1 << 18  # bytes of tensors that go through the socket: a shared file costs more to make
MAX_PARTS = 4096  # pieces of memory of one array that are told apart
SILENCE = 600.0  # seconds that a launch may take at least; the daemon says nothing meanwhile


class ArrayPointer:
    """A numpy array as Triton takes it: with data_ptr() and dtype."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.dtype = array.dtype
        self.shape = array.shape

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.array.__array_interface__["data"][0])


@dataclass
class Memory:
    """What an argument may reach: bytes low to high, and the pointer that is passed."""

    pointer: int
    low: int
    high: int
    item: int  # bytes of an element
    parts: list[tuple[int, int]]  # of it that elements lie in, each its first byte and the one behind its last
    writeable: bool = True


@dataclass
class Region:
    """A piece of memory of this process that arguments point into."""

    low: int
    high: int
    names: list[str]
    writeable: bool
    parts: list[tuple[int, int]]

    def valid(self) -> list[tuple[int, int]]:
        """Parts that an argument covers, each where it begins and how many bytes it has; none: all of it."""
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(self.parts):
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        return [(begin - self.low, end - begin) for begin, end in merged] if len(merged) > 1 else []

    def bytes(self) -> np.ndarray[Any, Any]:
        """The memory itself."""
        size = self.high - self.low
        if size == 0:
            return np.empty(0, np.uint8)
        memory: Any = (ctypes.c_ubyte * size).from_address(self.low)
        return np.frombuffer(memory, np.uint8)


def memory_of(value: Any, bounds: str) -> Memory | None:
    """The memory of an array of numpy or a tensor of torch on the CPU; None for anything else."""
    if isinstance(value, ArrayPointer):
        value = value.array
    if isinstance(value, np.ndarray):
        return _numpy_memory(value, bounds)
    if callable(getattr(value, "data_ptr", None)):
        return _tensor_memory(value, bounds)
    return None


def _extent(pointer: int, shape: Sequence[int], strides: Sequence[int], item: int) -> tuple[int, int]:
    """The first byte of an array and the one behind its last; strides are bytes."""
    if 0 in shape:
        return pointer, pointer
    steps = [(n - 1) * s for n, s in zip(shape, strides)]
    return pointer + sum(s for s in steps if s < 0), pointer + sum(s for s in steps if s > 0) + item


def _parts_of(pointer: int, shape: Sequence[int], strides: Sequence[int], item: int) -> list[tuple[int, int]]:
    """The memory of an array in pieces without gaps. Of more than MAX_PARTS the smallest gaps count as covered."""
    if 0 in shape:
        return []
    dims = sorted((abs(s), n) for n, s in zip(shape, strides) if n > 1)
    size = item
    while dims and (dims[0][0] <= size or math.prod(n for _, n in dims) > MAX_PARTS):
        stride, n = dims.pop(0)
        size += (n - 1) * stride
    begins = [_extent(pointer, shape, strides, item)[0]]
    for stride, n in dims:
        begins = [begin + i * stride for i in range(n) for begin in begins]
    return [(begin, begin + size) for begin in begins]


def _numpy_memory(array: np.ndarray[Any, Any], bounds: str) -> Memory:
    if array.dtype.hasobject:
        raise ClientError(f"an array has the dtype {array.dtype}", hint="references to Python objects are no numbers")
    pointer = int(array.__array_interface__["data"][0])
    low, high = _extent(pointer, array.shape, array.strides, array.itemsize)
    parts = _parts_of(pointer, array.shape, array.strides, array.itemsize)
    if bounds == "storage":
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        low, high = _extent(int(root.__array_interface__["data"][0]), root.shape, root.strides, root.itemsize)
        parts = [(low, high)]
    return Memory(pointer, low, high, array.itemsize, parts, bool(array.flags.writeable))


def _tensor_memory(tensor: Any, bounds: str) -> Memory:
    base = getattr(tensor, "base", None)  # triton.reinterpret: the same memory with another type
    if callable(getattr(base, "data_ptr", None)):
        tensor = base
    device = getattr(getattr(tensor, "device", None), "type", "cpu")
    if device != "cpu":
        raise ClientError(f"a tensor is on {device}", hint="emulated kernels take tensors on the CPU")
    pointer, item = int(tensor.data_ptr()), int(tensor.element_size())
    shape, strides = tuple(tensor.shape), [int(s) * item for s in tensor.stride()]
    low, high = _extent(pointer, shape, strides, item)
    parts = _parts_of(pointer, shape, strides, item)
    if bounds == "storage" and low != high:
        untyped = getattr(tensor, "untyped_storage", None)  # since torch 2.0
        storage = untyped() if untyped is not None else tensor.storage()
        low = int(storage.data_ptr())
        high = low + int(storage.nbytes())
        parts = [(low, high)]
    return Memory(pointer, low, high, item, parts)


def _array_of_tensor(tensor: Any) -> np.ndarray[Any, Any]:
    """A tensor of torch as an array on the same memory; formats that numpy does not have as whole numbers."""
    tensor = tensor.detach()
    if str(tensor.dtype) == "torch.bfloat16" or "float8" in str(tensor.dtype):
        import torch

        tensor = tensor.view(torch.int16 if tensor.element_size() == 2 else torch.uint8)
    array: np.ndarray[Any, Any] = tensor.numpy()
    return array


def regions(memories: Sequence[tuple[str, Memory]]) -> list[Region]:
    """Pieces of memory that arguments point into: arguments that overlap have one together."""
    out: list[Region] = []
    for name, m in sorted(memories, key=lambda pair: (pair[1].low, pair[1].high)):
        last = out[-1] if out else None
        same = last is not None and (m.low, m.high) == (last.low, last.high)
        if last is not None and (m.low < last.high or same):
            last.high = max(last.high, m.high)
            last.names.append(name)
            last.writeable = last.writeable and m.writeable
            last.parts += m.parts
        else:
            out.append(Region(m.low, m.high, [name], m.writeable, list(m.parts)))
    return out


class Contents:
    """What arrays hold, kept to be put back; anything else among the values, and what is read only, is left alone."""

    def __init__(self, values: Iterable[Any]) -> None:
        memories = [memory_of(v, "view") for v in _flat(values)]
        pieces = regions([("", m) for m in memories if m is not None])
        self._kept = [(piece, piece.bytes().copy()) for piece in pieces if piece.writeable]

    def restore(self) -> None:
        """Makes the arrays hold it again."""
        for piece, data in self._kept:
            np.copyto(piece.bytes(), data)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flat(value)
        else:
            yield value


def scalar(value: Any) -> dict[str, str] | None:
    """A number as an argument: one of numpy has its dtype, one of Python that of its parameter. None: no number."""
    if isinstance(value, np.generic):
        dtype = name_of(value.dtype)
        if dtype is None:
            return None
        bits = int.from_bytes(value.tobytes(), "little")
        return {"dtype": f"uint{8 * value.dtype.itemsize}", "value": str(bits)}
    if isinstance(value, bool):
        return {"dtype": "uint8", "value": str(int(value))}
    if isinstance(value, int):
        return {"value": str(value)}
    if isinstance(value, float):
        return {"value": repr(value)}
    return None


class Launch:
    """One launch: what is sent, and where what comes back belongs."""

    def __init__(
        self, module: Mapping[str, Any], grid: Sequence[int], block: Sequence[int], bounds: str = "view"
    ) -> None:
        if bounds not in ("view", "storage"):
            raise ClientError(f"bounds is {bounds!r}", hint='use "view" or "storage"')
        self.header: dict[str, Any] = {**module, "grid": list(grid), "block": list(block), "args": []}
        self.bounds = bounds
        self._memories: list[tuple[str, Memory]] = []
        self._fresh: dict[str, np.ndarray[Any, Any]] = {}
        self._outputs: list[tuple[str, Memory]] = []  # the memory of those

    def _name(self, name: str | None) -> str:
        return name or f"arg{len(self.header['args']) + 1}"

    def add(self, value: Any, name: str | None = None) -> None:
        """Adds an argument: an array, a number, or None for a null pointer."""
        name = self._name(name)
        memory = memory_of(value, self.bounds)
        if memory is not None:
            self._memories.append((name, memory))
            self.header["args"].append({"kind": "tensor", "name": name, "dtype": f"uint{8 * min(memory.item, 8)}",
                                        "memory": memory})  # fmt: skip
            return
        number = {"dtype": "uint64", "value": "0"} if value is None else scalar(value)
        if number is None:
            raise ClientError(f"argument {name} is a {type(value).__name__}",
                              hint="pass arrays, tensors on the CPU, numbers or None")  # fmt: skip
        self.header["args"].append({"kind": "scalar", "name": name, **number})

    def add_output(self, array: Any, name: str | None = None) -> None:
        """Adds an array that the kernel is to write as a whole, and must not read before."""
        name = self._name(name)
        view = array.array if isinstance(array, ArrayPointer) else array
        if not isinstance(view, np.ndarray):
            view = _array_of_tensor(view)
        dtype = name_of(view.dtype)
        if dtype is None or not view.flags.c_contiguous or not view.flags.writeable:
            raise ClientError(f"output {name} is {view.dtype} with strides {view.strides}",
                              hint="outputs are contiguous arrays; pass others as arguments alone")  # fmt: skip
        memory = _numpy_memory(view, "view")
        self._fresh[name] = view
        self._outputs.append((name, memory))
        self.header["args"].append({"kind": "tensor", "name": name, "dtype": dtype, "role": "out",
                                    "shape": list(view.shape), "address": memory.low % RESIDUES})  # fmt: skip

    def add_scratch(self, size: int, name: str) -> None:
        """Adds memory with nothing in it, which nobody wants back."""
        self.header["args"].append({"kind": "tensor", "name": name, "dtype": "uint8", "role": "inout", "shape": [size]})

    def _check_outputs(self) -> None:
        """An output has memory of its own in the emulator: what it shares here would not be shared there."""
        others = list(self._memories)
        for name, memory in self._outputs:
            for other, m in others:
                if m.low < memory.high and memory.low < m.high:
                    raise ClientError(f"output {name} shares memory with {other}", hint="pass it as an argument alone")
            others.append((name, memory))

    def run(self, client: Client) -> EmulationResult:
        """Executes the launch, and writes what the kernel wrote to the arrays."""
        self._check_outputs()
        pieces = {f"m{i}": piece for i, piece in enumerate(regions(self._memories))}
        known: set[str] = set()  # pieces that an argument before has
        for arg in self.header["args"]:
            memory = arg.pop("memory", None)
            if memory is not None:
                key, piece = _region_of(pieces, memory)
                arg.update(storage=key, offset=memory.pointer - piece.low, address=piece.low % RESIDUES)
                arg["name"] = "/".join(piece.names)  # what findings call it
                arg["role"] = "inout" if piece.writeable else "in"
                if key not in known and (valid := piece.valid()):
                    arg.update(dtype="uint8", valid=valid)  # in bytes
                known.add(key)
        with client._launched(self.header, {key: piece.bytes() for key, piece in pieces.items()}) as (reply, image):
            result = parse_emulation(reply["emulation"])
            for key, (_, _, data) in image.items():
                self._write_back(pieces, key, data)
        return result

    def _write_back(self, pieces: Mapping[str, Region], key: str, data: memoryview) -> None:
        """Writes what the kernel wrote to the array it belongs to."""
        if key in self._fresh:
            target = self._fresh[key].reshape(-1).view(np.uint8)
        elif key in pieces:
            target = pieces[key].bytes()
        else:
            return  # scratch
        np.copyto(target, np.frombuffer(data, np.uint8))


def _region_of(pieces: Mapping[str, Region], memory: Memory) -> tuple[str, Region]:
    for key, piece in pieces.items():
        if piece.low <= memory.low and memory.high <= piece.high and (piece.low < piece.high) == (
            memory.low < memory.high
        ):
            return key, piece
    raise AssertionError("every memory is in a region")


def module_of(ptx: str | os.PathLike[str], name: str | None = None) -> dict[str, str]:
    """What a launch says of its module: a text, or the path of a file."""
    if not isinstance(ptx, str) or (ptx.endswith(".ptx") and "\n" not in ptx):
        return {"file": os.path.abspath(os.fspath(ptx))}
    return {"ptx": ptx, **({"name": name} if name else {})}


def source_of(source: str | os.PathLike[str]) -> dict[str, str]:
    """What a compilation says of its source: a text, or the path of a file."""
    if not isinstance(source, str) or (source.endswith((".cu", ".cuh")) and "\n" not in source):
        return {"file": os.path.abspath(os.fspath(source))}
    return {"source": source}


def sizes(size: Any) -> list[int]:
    """A grid or a block as a list. A fraction is refused: what is cut off would be blocks that are missing."""
    try:
        return [operator.index(n) for n in (size if isinstance(size, (tuple, list)) else [size])]
    except TypeError:
        hint = "pass whole numbers, one to three: -(-n // 128) rounds up"
        raise ClientError(f"a grid or block is {size!r}", hint=hint) from None


def emulate(
    client: Client, ptx: str | os.PathLike[str], options: Mapping[str, Any], grid: Any, block: Any,
    args: Sequence[Any] | Mapping[str, Any], outputs: Sequence[Any], bounds: str,
) -> EmulationResult:  # fmt: skip
    """Client.emulate: options are members of the request, those that are None are left out."""
    module = {**module_of(ptx), **{k: v for k, v in options.items() if v is not None}}
    if "memory" in module:
        module["memory"] = str(module["memory"])
    launch = Launch(module, sizes(grid), sizes(block), bounds)
    named: Mapping[Any, Any] = args if isinstance(args, Mapping) else dict(enumerate(args))
    unknown = [name for name in outputs if name not in named]
    if unknown:
        hint = "name arguments of args, or number them from 0"
        raise ClientError(f"outputs has {unknown[0]!r}, which args has not", hint=hint)
    for name, value in named.items():
        add = launch.add_output if name in outputs else launch.add
        add(value, name if isinstance(name, str) else None)
    return launch.run(client)


@contextlib.contextmanager
def exchange(
    client: Client, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray[Any, Any]]
) -> Iterator[tuple[Any, Image]]:
    """Sends a launch: the answer, and the tensors that came with it, whose memory is there as long as the context."""
    client._connect()
    transport = client._machine
    head, size = _parts.image_head(tensors)
    if len(head) + size <= INLINE:
        whole = _parts.part_head(header, len(head) + size) + head
        whole += b"".join(_parts.flat_bytes(a) for a in tensors.values())
        yield _answer(transport, _post(client, transport, whole), None)
        return
    with client._files.file() as shared:
        view = shared.view(len(head) + size)
        at = len(head)
        view[:at] = np.frombuffer(head, np.uint8)
        for a in tensors.values():
            view[at : at + a.nbytes] = a
            at += a.nbytes
        own = dict(header, shared=shared.path, bytes=[0, at])
        yield _answer(transport, _post(client, transport, _parts.part_head(own, 0)), shared)


def _post(client: Client, transport: Transport, body: bytes) -> Any:
    try:
        return transport.request("POST", "/v1/emulate", body, LAUNCH_TYPE)
    except ConnectionFailed as exc:
        if exc.code != "daemon-unreachable":
            raise
        client._fresh()
        return transport.request("POST", "/v1/emulate", body, LAUNCH_TYPE)


def _answer(transport: Transport, response: Any, shared: SharedFile | None) -> tuple[Any, Image]:
    reply, image = _parts.split_part(transport.read(response))
    if shared is not None and "bytes" in reply:
        begin, end = reply["bytes"]
        image = memoryview(shared.view(end)[begin:])  # type: ignore[arg-type]
    return reply, _parts.parse_image(image) if len(image) > 0 else {}
