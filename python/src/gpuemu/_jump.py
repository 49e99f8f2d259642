"""Whole arrays of the random stream, by jumping ahead in it.

The state (s0, s1) of the generator moves by a map T that is linear over GF(2): shifts and exclusive ors. The states
T^L, T^2L, T^3L, ... of a state can therefore be computed without the draws between them, and from there the lanes step
together, one numpy operation for all. The output is the array that single draws would give, element by element.

T^(2^k) is kept as 16 tables of 256 entries, one table for each byte of the state, made when it is first needed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

# About so many lanes step together: their arrays stay in the cache, and a step costs more than the call of numpy.
_LANES = 4096
# Draws of one lane that are kept before they are written out: a row of the result is then written in pieces of 256
# bytes, four cache lines, instead of one element at a time.
_ROWS = 32

_S23, _S17, _S26 = np.uint64(23), np.uint64(17), np.uint64(26)


def _step(s0: Words, s1: Words, spare: Words, out: Words) -> tuple[Words, Words, Words]:
    """Moves all lanes by one draw, which goes to out. Returns the new s0 and s1 and an array that is free again.

    x ^ y ^ (y>>26) is the x of the specification, and s1 becomes x ^ y: the two y cancel, so y enters for the sum only.
    """
    np.left_shift(s0, _S23, out=spare)
    np.bitwise_xor(s0, spare, out=s0)
    np.right_shift(s0, _S17, out=spare)
    np.bitwise_xor(s0, spare, out=s0)
    np.right_shift(s1, _S26, out=spare)
    np.bitwise_xor(s0, spare, out=s0)
    np.bitwise_xor(s0, s1, out=spare)
    np.add(spare, s1, out=out)
    return s1, s0, spare


def _apply(table: Words, s0: Words, s1: Words) -> tuple[Words, Words]:
    """The image of all states under the map of the table."""
    r0, r1 = np.zeros_like(s0), np.zeros_like(s1)
    for word, first in ((s0, 0), (s1, 8)):
        for byte in range(8):
            index = (word >> np.uint64(8 * byte)) & np.uint64(255)
            entry = table[first + byte][index.view(np.int64)]
            r0 ^= entry[:, 0]
            r1 ^= entry[:, 1]
    return r0, r1


@cache
def _power(k: int) -> Words:
    """T^(2^k) as byte tables: [16 bytes of the state][256 values][the two words of the image]."""
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    zeros = np.zeros(64, np.uint64)
    s0, s1 = np.concatenate((bits, zeros)), np.concatenate((zeros, bits))  # the 128 states with one bit
    if k == 0:
        spare, out = np.empty_like(s0), np.empty_like(s0)
        s0, s1, _ = _step(s0, s1, spare, out)
    else:
        half = _power(k - 1)
        s0, s1 = _apply(half, *_apply(half, s0, s1))
    images = np.stack((s0, s1), axis=1).reshape(16, 8, 2)
    table = np.zeros((16, 256, 2), np.uint64)
    for bit in range(8):
        size = 1 << bit
        table[:, size : 2 * size] = table[:, :size] ^ images[:, bit : bit + 1]
    return table


def _lanes(s0: int, s1: int, count: int, log_length: int) -> tuple[Words, Words]:
    """The states 0, L, 2L, ... draws after (s0, s1), with L = 2^log_length: each jump doubles their number."""
    a, b = np.array([s0], np.uint64), np.array([s1], np.uint64)
    k = log_length
    while len(a) < count:
        c, d = _apply(_power(k), a[: count - len(a)], b[: count - len(b)])
        a, b = np.concatenate((a, c)), np.concatenate((b, d))
        k += 1
    return a, b


def draw(s0: int, s1: int, n: int) -> tuple[Words, int, int]:
    """The next n draws from the state (s0, s1), n > 0, and the state behind them.

    Lane i makes the draws i*L to (i+1)*L-1. The last lane may need fewer: its state after the last one that counts is
    the new state.
    """
    log_length = max((n - 1).bit_length() // 2, (-(-n // _LANES) - 1).bit_length())
    length = 1 << log_length
    count = -(-n // length)
    tail = n - (count - 1) * length  # draws of the last lane, 1 to length
    a, b = _lanes(s0, s1, count, log_length)
    result = np.empty(n, np.uint64)
    whole = result[: n - tail].reshape(count - 1, length)
    rows = np.empty((_ROWS, count), np.uint64)
    spare = np.empty_like(a)
    end = (0, 0)
    for first in range(0, length, _ROWS):
        used = min(_ROWS, length - first)
        for i in range(used):
            a, b, spare = _step(a, b, spare, rows[i])
            if first + i + 1 == tail:
                end = (int(a[-1]), int(b[-1]))
        whole[:, first : first + used] = rows[:used, :-1].T
        last: npt.NDArray[Any] = rows[: max(min(used, tail - first), 0), -1]
        result[n - tail + first : n - tail + first + len(last)] = last
    return result, end[0], end[1]
