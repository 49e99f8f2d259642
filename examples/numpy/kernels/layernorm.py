"""layernorm in numpy.

gpuemu calls layernorm(inputs, **attributes) with a dict of numpy arrays, which have the strides of the case, and
judges the array it returns. "gpuemu ops layernorm" prints names, attributes and what an implementation may do.
"""
import numpy as np


def layernorm(inputs, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axis, in two passes."""
    x, weight, bias = inputs["input"], inputs["weight"], inputs["bias"]
    acc = np.promote_types(x.dtype, np.float32)
    with np.errstate(all="ignore"):
        x32 = x.astype(acc)
        centred = x32 - np.mean(x32, axis=-1, keepdims=True)
        var = np.mean(centred * centred, axis=-1, keepdims=True)
        y = centred / np.sqrt(var + acc.type(eps)) * weight.astype(acc) + bias.astype(acc)
        return y.astype(x.dtype)
