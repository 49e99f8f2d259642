"""The seeded random stream: every seed in a report means the same numbers here and in the engine, bit for bit.

>>> rng = SeededRng(42)
>>> rng.gen_u64()
14921385303349856026
>>> rng.random_u64(2)
array([ 836881716698787820, 2679325795615653720], dtype=uint64)

The generator is a variant of xorshift128+ (RNG v1). It is for test inputs, not for cryptography, and its bounded draws
have the small bias of a plain modulo. Single draws and whole arrays can be mixed: an array of n elements is what n
single draws give, and moves the stream as far.

Normal variates are identical with the engine's on every machine, as both bring their own logarithm, sine and cosine.
Compared with a computation by the C library they may differ in the last bit of a float64.
"""

from __future__ import annotations

import hashlib
import math
import operator
import os
import time
from collections.abc import MutableSequence, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from . import _jump, _normal

__all__ = ["SeededRng", "derive_seed", "generate_seed", "splitmix64"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

_MASK = (1 << 64) - 1
# Below this number of draws a loop over single draws takes less time than the jumps.
_FEW = 1500


class _Options(Protocol[_T_co]):
    """What choice can take from: lists, tuples, ranges, strings, arrays."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> _T_co: ...


def splitmix64(seed: int) -> int:
    """One step of the generator of Steele, Lea and Flood from that state."""
    z = (seed + 0x9E3779B97F4A7C15) & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


def derive_seed(seed: int, domain: str) -> int:
    """The seed of the stream called domain below seed: Blake2b of 8 bytes over the little-endian seed and the name.

    Example:
        >>> derive_seed(42, "inputs") == derive_seed(42, "inputs")
        True
    """
    data = (operator.index(seed) & _MASK).to_bytes(8, "little") + domain.encode("utf-8")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def generate_seed() -> int:
    """A new seed: the time in nanoseconds since 1970, as in the engine.

    Example:
        >>> 0 <= generate_seed() < 2**64
        True
    """
    return time.time_ns() & _MASK


def default_seed() -> int:
    """The seed of a call that names none: GPUEMU_SEED where set, so that runs can be repeated, else a new one."""
    text = os.environ.get("GPUEMU_SEED", "")
    if not text:
        return generate_seed()
    if not (text.isascii() and text.isdigit() and int(text) <= _MASK):
        raise ValueError(f"GPUEMU_SEED={text!r} is no seed: set it to a whole number from 0 to 2^64-1, or unset it")
    return int(text)


class SeededRng:
    """One stream. Seeds are taken modulo 2^64.

    Not safe for use by several threads: give each its own stream with derive, which depends on the seed alone and
    never on how much was drawn.

    Example:
        >>> rng = SeededRng(42)
        >>> rng.gen_range(0, 10) in range(10)
        True
    """

    def __init__(self, seed: int) -> None:
        self._seed = operator.index(seed) & _MASK
        self._s0 = splitmix64(self._seed)
        self._s1 = splitmix64(self._seed + 1 & _MASK)
        if self._s0 == 0 and self._s1 == 0:
            self._s0 = 1  # the state of zeros would return zeros for ever

    def __repr__(self) -> str:
        return f"SeededRng({self._seed})"

    @property
    def seed(self) -> int:
        """The seed that the stream was made from."""
        return self._seed

    def derive(self, domain: str) -> SeededRng:
        """The stream called domain below this one. What was drawn from this one does not matter."""
        return SeededRng(derive_seed(self._seed, domain))

    def gen_u64(self) -> int:
        """The next 64 bits."""
        x, y = self._s0, self._s1
        x ^= x << 23 & _MASK
        x ^= x >> 17
        x ^= y ^ y >> 26
        self._s0, self._s1 = y, x ^ y
        return x + y & _MASK

    def gen_f64(self) -> float:
        """A multiple of 2^-53 in [0, 1)."""
        return (self.gen_u64() >> 11) * 2.0**-53

    def gen_f32(self) -> float:
        """A multiple of 2^-24 in [0, 1): exact as a float32."""
        return (self.gen_u64() >> 40) * 2.0**-24

    def gen_bool(self, probability: float = 0.5) -> bool:
        """True with that probability."""
        return self.gen_f64() < probability

    def gen_range(self, low: int, high: int) -> int:
        """An integer in [low, high)."""
        width = _width(low, high)
        return low + self.gen_u64() % width

    def choice_index(self, length: int) -> int:
        """An integer in [0, length)."""
        if length <= 0:
            raise ValueError(f"choice_index({length}): there is nothing to choose from")
        return self.gen_u64() % length

    def choice(self, options: _Options[_T]) -> _T:
        """One element of a list or another sequence."""
        if len(options) == 0:
            raise ValueError("choice: there is nothing to choose from, the sequence is empty")
        return options[self.choice_index(len(options))]

    def shuffle(self, sequence: MutableSequence[Any]) -> None:
        """Permutes a list in place, from its last element down (Fisher and Yates)."""
        for i in range(len(sequence) - 1, 0, -1):
            j = self.choice_index(i + 1)
            sequence[i], sequence[j] = sequence[j], sequence[i]

    def fill_bytes(self, buffer: Any) -> None:
        """Sets a writable buffer (bytearray, memoryview, array) to the little-endian bytes of successive draws.

        A tail shorter than eight bytes takes the low bytes of one more draw.
        """
        try:
            view = memoryview(buffer).cast("B")
        except TypeError as err:
            raise TypeError(f"fill_bytes needs a contiguous buffer, for example bytearray(16): {err}") from err
        if view.readonly:
            raise TypeError("fill_bytes needs a writable buffer, for example bytearray(16); this one is read-only")
        words = self.random_u64(-(-len(view) // 8)).astype("<u8", copy=False)
        view[:] = words.tobytes()[: len(view)]

    def random_u64(self, n: int) -> npt.NDArray[np.uint64]:
        """The next n draws as an array."""
        n = operator.index(n)
        if n < 0:
            raise ValueError(f"a number of draws cannot be negative: {n}")
        if n < _FEW:
            return np.fromiter((self.gen_u64() for _ in range(n)), np.uint64, n)
        draws, self._s0, self._s1 = _jump.draw(self._s0, self._s1, n)
        return draws

    def random_f64(self, n: int) -> npt.NDArray[np.float64]:
        """What n calls of gen_f64 return."""
        return _unit(self.random_u64(n), 11)

    def random_f32(self, n: int) -> npt.NDArray[np.float32]:
        """What n calls of gen_f32 return."""
        return _unit(self.random_u64(n), 40).astype(np.float32)

    def random_range(self, low: int, high: int, n: int) -> npt.NDArray[Any]:
        """What n calls of gen_range return: int64, or uint64 where a value may exceed it."""
        width = _width(low, high)
        if low < -(1 << 63) or high > 1 << 64 or (low < 0 and high > 1 << 63):
            raise ValueError(f"random_range({low}, {high}): no 64-bit integer type holds these numbers")
        draws = self.random_u64(n)
        if width < 1 << 64:
            draws %= np.uint64(width)
        draws += np.uint64(low & _MASK)  # modulo 2^64, which is two's complement for a negative low
        return draws if high > 1 << 63 else draws.view(np.int64)

    def randn(self, *shape: int | Sequence[int]) -> npt.NDArray[np.float32]:
        """Standard normal variates as float32: randn((2, 3)) or randn(2, 3).

        They are computed in float64 and rounded once. They come in pairs (Box and Muller): an odd number of them
        drops the second one of the last pair.
        """
        return self._normals(_shape(shape)).astype(np.float32)

    def randn_f64(self, *shape: int | Sequence[int]) -> npt.NDArray[np.float64]:
        """Standard normal variates as float64: randn_f64((2, 3)) or randn_f64(2, 3)."""
        return self._normals(_shape(shape))

    def _normals(self, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        n = math.prod(shape)
        values = self.random_f64(n + n % 2)
        _normal.box_muller(values)
        return values[:n].reshape(shape)


def _unit(draws: npt.NDArray[np.uint64], shift: int) -> npt.NDArray[np.float64]:
    """The upper 64 - shift bits of draws, which it overwrites, as fractions of 1: exact for 53 bits and fewer."""
    draws >>= np.uint64(shift)
    values = draws.view(np.int64).astype(np.float64)  # faster than from uint64, and the sign bit is clear
    values *= 2.0 ** (shift - 64)
    return values


def _width(low: int, high: int) -> int:
    width = operator.index(high) - operator.index(low)
    if not 0 < width <= 1 << 64:
        raise ValueError(f"the range [{low}, {high}) " + ("is empty" if width <= 0 else "has more than 2^64 numbers"))
    return width


def _shape(args: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """The shape of randn((2, 3)) and of randn(2, 3)."""
    dims: Any = args[0] if len(args) == 1 and not isinstance(args[0], (int, np.integer)) else args
    shape = tuple(operator.index(d) for d in dims)
    if any(d < 0 for d in shape):
        raise ValueError(f"a shape cannot have negative dimensions: {shape}")
    return shape
