"""softmax in tiles of 256 columns that forgets to mask the last, partial tile.

The columns behind the end of a row are read as 0 and counted in the sum. Hidden where the row length is a multiple of
256: (4, 16, 256) passes.
"""
import numpy as np

BLOCK_H = 256


def softmax(inputs):
    x = inputs["input"]
    columns = x.shape[-1]
    tiles = -(-columns // BLOCK_H)
    padded = np.zeros(x.shape[:-1] + (tiles * BLOCK_H,), np.float32)  # the fault: -inf would be right
    padded[..., :columns] = x
    with np.errstate(all="ignore"):
        e = np.exp(padded - padded.max(axis=-1, keepdims=True))
        y = e / e.sum(axis=-1, keepdims=True)
        return y[..., :columns].astype(x.dtype)
