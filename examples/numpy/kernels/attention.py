"""attention in numpy.

gpuemu calls attention(inputs, **attributes) with a dict of numpy arrays, which have the strides of the case, and
judges the array it returns. "gpuemu ops attention" prints names, attributes and what an implementation may do.
"""
import math

import numpy as np


def attention(inputs, causal=False, scale=0.0):
    """softmax(scale q k^T) v; scale 0 stands for 1/sqrt(D). Several heads of q may share one of k and v."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    acc = np.promote_types(q.dtype, np.float32)
    group = q.shape[1] // k.shape[1]
    with np.errstate(all="ignore"):
        q32 = q.astype(acc)
        k32 = np.repeat(k, group, axis=1).astype(acc)
        v32 = np.repeat(v, group, axis=1).astype(acc)
        scores = q32 @ k32.swapaxes(-1, -2) * acc.type(scale or 1 / math.sqrt(q.shape[-1]))
        if causal:  # the last row sees the last key
            rows, keys = scores.shape[-2:]
            seen = np.tri(rows, keys, keys - rows, dtype=bool)
            scores = np.where(seen, scores, -np.inf)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        weights = e / e.sum(axis=-1, keepdims=True)
        return (weights @ v32).astype(q.dtype)
