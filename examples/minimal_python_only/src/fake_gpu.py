"""What a GPU might compute, in Python: every operation is rounded to float32, and sums are taken in another order."""

import struct


def rounded(value):
    """The nearest float32."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def relu(values):
    """max(x, 0) of each value."""
    return [max(rounded(v), 0.0) for v in values]


def saxpy(a, x, y):
    """a*x + y in float32."""
    return [rounded(rounded(rounded(a) * rounded(u)) + rounded(v)) for u, v in zip(x, y)]


def total(values):
    """The sum, by halves, as threads of a block add up."""
    values = [rounded(v) for v in values]
    while len(values) > 1:
        half = (len(values) + 1) // 2
        pairs = zip(values[:half], [*values[half:], 0.0])
        values = [rounded(u + v) for u, v in pairs]
    return values[0] if values else 0.0
