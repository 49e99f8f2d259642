"""rmsnorm in numpy.

gpuemu calls rmsnorm(inputs, **attributes) with a dict of numpy arrays, which have the strides of the case, and
judges the array it returns. "gpuemu ops rmsnorm" prints names, attributes and what an implementation may do.
"""
import numpy as np


def rmsnorm(inputs, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    x, weight = inputs["input"], inputs["weight"]
    acc = np.promote_types(x.dtype, np.float32)
    with np.errstate(all="ignore"):
        x32 = x.astype(acc)
        mean_square = np.mean(x32 * x32, axis=-1, keepdims=True)
        y = x32 / np.sqrt(mean_square + acc.type(eps)) * weight.astype(acc)
        return y.astype(x.dtype)
