"""matmul in tiles of 64 along K that assigns to its accumulator instead of adding to it.

Only the last tile of K counts. Hidden where K is at most one tile: (128, 64) @ (64, 128) passes.
"""
import numpy as np

BLOCK_K = 64


def matmul(inputs):
    a, b = (inputs[name].astype(np.float32) for name in ("a", "b"))
    acc = np.zeros((a.shape[0], b.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, a.shape[1], BLOCK_K):
            tile = slice(start, start + BLOCK_K)
            acc = a[:, tile] @ b[tile]  # the fault: += would be right
        return acc.astype(inputs["a"].dtype)
