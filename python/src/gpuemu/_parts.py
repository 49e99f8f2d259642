"""Parts and images: what tensors travel in (docs/formats/http.md, "Execution by the client").

A part is u32 length, JSON header, u64 length, safetensors image; all little-endian.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ._case import View
from .arrays import name_of, numpy_dtype
from .results import ClientError

Array = np.ndarray[Any, Any]

# name of a data type: its name in a safetensors header
FORMATS = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8",
    "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL",
}  # fmt: skip
NAMES = {code: name for name, code in FORMATS.items()}

dumps = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps makes an encoder for each call


def dtype_name(dt: np.dtype[Any]) -> str:
    """The name of a numpy dtype. ClientError where the engine has no such type."""
    name = name_of(dt)
    if name is None:
        raise ClientError(f"arrays of {dt.name} cannot be compared", hint="known types are " + ", ".join(FORMATS))
    return name


def image_head(tensors: Mapping[str, Array]) -> tuple[bytes, int]:
    """The header of an image, with its length before it, and the number of bytes of data after it."""
    return _image_head(tuple((name, dtype_name(a.dtype), a.shape, a.nbytes) for name, a in tensors.items()))


@lru_cache(maxsize=1024)  # thousands of cases have outputs of a few forms
def _image_head(forms: tuple[tuple[str, str, tuple[int, ...], int], ...]) -> tuple[bytes, int]:
    header: dict[str, Any] = {}
    at = 0
    for name, dtype, shape, size in forms:
        header[name] = {"dtype": FORMATS[dtype], "shape": shape, "data_offsets": (at, at + size)}
        at += size
    text = dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, at


def flat_bytes(array: Array) -> memoryview:
    """The bytes of an array in C order and little-endian."""
    return flat_array(array).data


def flat_array(array: Array) -> Array:
    """flat_bytes as an array, which numpy copies faster."""
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def part_head(header: Mapping[str, Any], image: int) -> bytes:
    """What stands before the image of a part."""
    return part_text(dumps(header), image)


def part_text(header: str, image: int) -> bytes:
    """part_head of a header that is text already."""
    text = header.encode()
    return struct.pack("<I", len(text)) + text + struct.pack("<Q", image)


def split_part(part: bytes) -> tuple[Any, memoryview]:
    """The header and the image of a part."""
    (length,) = struct.unpack_from("<I", part)
    return json.loads(part[4 : 4 + length]), memoryview(part)[4 + length + 8 :]


def storages(image: Array) -> dict[str, Array]:
    """The bytes of the tensors of an image, by name; they are parts of its memory."""
    start = 8 + struct.unpack_from("<Q", image.data)[0]
    entries = _parse_head(image[8:start].tobytes())
    return {name: image[start + begin : start + end] for name, _, _, begin, end in entries}


def parse_image(image: memoryview) -> dict[str, tuple[str, tuple[int, ...], memoryview]]:
    """The tensors of an image: data type, shape and bytes by name."""
    (length,) = struct.unpack_from("<Q", image)
    data = image[8 + length :]
    return {
        name: (dtype, shape, data[begin:end])
        for name, dtype, shape, begin, end in _parse_head(bytes(image[8 : 8 + length]))
    }


@lru_cache(maxsize=1024)
def _parse_head(text: bytes) -> tuple[tuple[str, str, tuple[int, ...], int, int], ...]:
    """Name, data type, shape, begin and end of the tensors of an image."""
    out = []
    for name, entry in json.loads(text).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            out.append((name, NAMES[entry["dtype"]], tuple(entry["shape"]), begin, end))
    return tuple(out)


def array_of(view: View) -> Array:
    """A fresh numpy array with the strides and the offset of an input."""
    dt = numpy_dtype(view.dtype)
    storage = np.array(view.storage)  # the memory it is a view of is used again for the next batch
    if storage.size == 0 or 0 in view.shape:
        return np.empty(view.shape, dt)
    strides = tuple(s * dt.itemsize for s in view.strides)
    array: Array = np.ndarray(view.shape, dt, storage, view.offset * dt.itemsize, strides)
    return array


def texts(attrs: Mapping[str, Any]) -> dict[str, str]:
    """Attributes as the text that the engine reads."""
    out = {}
    for name, value in attrs.items():
        if isinstance(value, (bool, np.bool_)):
            out[name] = "true" if value else "false"
        elif isinstance(value, (int, np.integer)):
            out[name] = str(int(value))
        elif isinstance(value, (float, np.floating)):
            out[name] = repr(float(value))
        elif isinstance(value, str):
            out[name] = value
        else:
            kind = type(value).__name__
            raise ClientError(f"argument {name!r} is a {kind}", hint="pass a number, a bool or a string")
    return out
