"""Known answers in testdata/vectors, shared with the tests of the engine. An absent or empty set is an error."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def read(name: str, part: str) -> list[Any]:
    """The list called part in the vector file of that name."""
    entries = json.loads((ROOT / "testdata" / "vectors" / name).read_text())[part]
    assert isinstance(entries, list) and entries, f"{name}: {part} is empty"
    return entries


def f64(bits: str) -> float:
    """The float64 of a bit string such as 0x3ff0000000000000."""
    return float(struct.unpack("<d", int(bits, 16).to_bytes(8, "little"))[0])


def f32(bits: str) -> float:
    """The float32 of a bit string such as 0x3f800000."""
    return float(struct.unpack("<f", int(bits, 16).to_bytes(4, "little"))[0])
