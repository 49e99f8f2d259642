"""Normal variates with the bits of the engine.

The logarithm, the sine and the cosine are those of the engine (internal/libm: log.go, circular.go), not those of the C
library, which differ between machines in their last bits. Every step below is one numpy operation, rounded by itself as
IEEE 754 says, in the order of the Go code; the tables are the same (_normal_tables_gen.py). Arguments that no uniform
variate can reach are left out: the logarithm is for normal numbers, the angle for [0, 2π).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from . import _normal_tables_gen as tables

Floats = npt.NDArray[np.float64]

# Pairs that are computed together: some thirty arrays of this size stay in the second-level cache.
_BLOCK = 4096

# Stands in for a first uniform of 0, whose logarithm would be infinite (RNG v1, section 7).
_LEAST_UNIFORM = 1e-300
_TWO_PI = 2 * math.pi
# Added to a number below 2^51 it leaves the nearest integer in the low bits.
_SHIFT = 1.5 * 2.0**52
# Up to here an angle is its own sine and its cosine is 1.
_TINY_ANGLE = 2.0**-30
# An angle that the multiple of π/2 leaves less of is reduced the long way.
_CANCELLED = 2.0**-12

_LOG_INV, _LOG_LN, _LOG_LN_LO = (np.array(column) for column in (tables.LOG_INV, tables.LOG_LN, tables.LOG_LN_LO))
_SIN, _SIN_LO, _COS, _COS_LO, _COS_LESS_1 = (
    np.array(column) for column in (tables.SIN, tables.SIN_LO, tables.COS, tables.COS_LO, tables.COS_LESS_1)
)
_LOG_OFFSET = np.uint64(tables.LOG_OFFSET)
_LOW_21 = np.uint64((1 << 21) - 1)
_EXPONENT = np.uint64(0xFFF << 52)


def log(x: Floats) -> Floats:
    """The natural logarithm of positive normal numbers."""
    # x = 2^k·z, and z·inv = 1 + r + rl. Both products and the difference are exact.
    ix = x.view(np.uint64)
    off = ix - _LOG_OFFSET
    row = ((off >> np.uint64(44)) & np.uint64(255)).view(np.int64)
    k = (off.view(np.int64) >> 52).astype(np.float64)
    iz = ix - (off & _EXPONENT)
    zh = (iz & ~_LOW_21).view(np.float64)
    inv = _LOG_INV[row]
    rh = zh * inv - 1
    rl = (iz.view(np.float64) - zh) * inv
    r = rh + rl
    rl += rh - r
    # k·ln2 + log(c) + r is hi + lo, the rest of log(1+r) is p.
    s = k * tables.LN2_HI + _LOG_LN[row]
    hi = s + r
    lo = s - hi + r + (rl + (k * tables.LN2_LO + _LOG_LN_LO[row]))
    r2 = r * r
    p = (r * tables.LOG_C0 + -0.5) + r2 * ((r * tables.LOG_C2 + tables.LOG_C1) + r2 * tables.LOG_C3)
    result: Floats = hi + (lo + r2 * p)
    return result


def _reduce_long(x: float) -> tuple[int, float, float]:
    """n and hi + lo = x - n·π/2 for 2^-10 < x < 7, with 192 binary digits of 2/π: the Go function reduceLong."""
    mantissa, exponent = math.frexp(x)
    m = int(mantissa * 2.0**53)
    first = exponent - 53 + 62  # index of the digit with weight 2 in x·(2/π)/m
    digits = tables.TWO_OVER_PI >> (tables.TWO_OVER_PI_BITS - 192 - first)
    product = m * digits % (1 << 192)  # two binary digits before the point, 190 behind it
    n = product >> 190
    fraction = product << 2 & (1 << 192) - 1
    negative = fraction >> 191 != 0  # the fraction is above 1/2: take the next n
    if negative:
        n += 1
        fraction = (1 << 192) - fraction
    # The fraction is f + fl: f has 32 bits, so that its product with the first 21 bits of π/2 is exact.
    scale = 192 - fraction.bit_length()
    fraction <<= scale
    p0, p1 = fraction >> 128, fraction >> 64 & (1 << 64) - 1
    f = math.ldexp(float(p0 >> 32 << 32), -64 - scale)
    fl = math.ldexp(float(p0 & (1 << 32) - 1), -64 - scale) + math.ldexp(float(p1), -128 - scale)
    a = f * tables.PI_HALF_21
    b = f * tables.PI_HALF_REST + fl * tables.PI_HALF
    hi = a + b
    lo = a - hi + b
    return (n, -hi, -lo) if negative else (n, hi, lo)


def _reduce(x: Floats) -> tuple[npt.NDArray[np.uint64], Floats, Floats]:
    """n and hi + lo = x - n·π/2 for angles in [0, 2π)."""
    z = x * tables.TWO_OVER_PI_ROUNDED + _SHIFT
    n = z.view(np.uint64) & np.uint64(7)
    z -= _SHIFT
    t = x - z * tables.PI_HALF_1
    w = z * tables.PI_HALF_2
    a = t - w
    b = t - a - w - z * tables.PI_HALF_3
    hi = a + b
    lo = a - hi + b
    for i in np.flatnonzero(np.abs(t) <= _CANCELLED):
        if n[i] == 0:
            hi[i], lo[i] = x[i], 0.0
        else:
            n[i], hi[i], lo[i] = _reduce_long(float(x[i]))
    return n, hi, lo


def sincos(x: Floats) -> tuple[Floats, Floats]:
    """The sine and the cosine of angles in [0, 2π)."""
    n, a, da = _reduce(x)
    # |a| = i/32 + d; the sine is sin(i/32)·cos(d) + cos(i/32)·sin(d), and the like.
    sign = a.view(np.uint64) & np.uint64(1 << 63)
    a = np.abs(a)
    da = (da.view(np.uint64) ^ sign).view(np.float64)
    z = a * 32 + _SHIFT
    row = (z.view(np.uint64) & np.uint64(31)).view(np.int64)
    sin, cos = _SIN[row], _COS[row]
    d = a - (z - _SHIFT) * (1.0 / 32)
    d2 = d * d
    sd = (d * d2) * ((d2 * tables.SIN_C1 + tables.SIN_C0) + (d2 * d2) * tables.SIN_C2)  # sin(d) - d
    cd = d2 * (d2 * (d2 * tables.COS_C1 + tables.COS_C0) + -0.5)  # cos(d) - 1
    h = sin + d
    rest = sin - h + d
    s = h + (rest + (_SIN_LO[row] + da + (_COS_LESS_1[row] * (d + da) + (sin * cd + cos * sd))))
    c = cos + (_COS_LO[row] + cos * cd - sin * (d + (da + sd)))
    # A turn by π/2 takes (sin, cos) to (cos, -sin).
    bs, bc = s.view(np.uint64) ^ sign, c.view(np.uint64)
    swap = (bs ^ bc) & (np.uint64(0) - (n & np.uint64(1)))
    bs = bs ^ swap ^ (n & np.uint64(2)) << np.uint64(62)
    bc = bc ^ swap ^ (n + np.uint64(1) & np.uint64(2)) << np.uint64(62)
    tiny = x <= _TINY_ANGLE
    return np.where(tiny, x, bs.view(np.float64)), np.where(tiny, 1.0, bc.view(np.float64))


def box_muller(values: Floats) -> None:
    """Turns pairs u, v of uniform variates into pairs of normal ones, in place. The length is even."""
    for first in range(0, len(values), 2 * _BLOCK):
        pairs = values[first : first + 2 * _BLOCK].reshape(-1, 2)
        radius = np.sqrt(-2 * log(np.maximum(pairs[:, 0], _LEAST_UNIFORM)))
        sin, cos = sincos(_TWO_PI * pairs[:, 1])
        pairs[:, 0] = radius * cos
        pairs[:, 1] = radius * sin
