"""attention without the factor 1/sqrt(D) on its scores.

The softmax is too sharp. Hidden where there is one key, as in the first step of decoding: the softmax of one score is 1
whatever the score, and (1, 2, 16, 64) with one key passes.
"""
import numpy as np


def attention(inputs):
    q, k, v = (inputs[name].astype(np.float32) for name in ("q", "k", "v"))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    with np.errstate(all="ignore"):
        scores = q @ k.swapaxes(-1, -2)  # the fault: / sqrt(D) is missing
        e = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        y = e / e.sum(axis=-1, keepdims=True) @ v
        return y.astype(inputs["q"].dtype)
