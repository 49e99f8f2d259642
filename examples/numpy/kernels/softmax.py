"""softmax in numpy.

gpuemu calls softmax(inputs, **attributes) with a dict of numpy arrays, which have the strides of the case, and
judges the array it returns. "gpuemu ops softmax" prints names, attributes and what an implementation may do.
"""
import numpy as np


def softmax(inputs):
    """exp(x - m) / sum(exp(x - m)) over the last axis, m the row maximum."""
    x = inputs["input"]
    acc = np.promote_types(x.dtype, np.float32)  # float16 is computed in float32, float64 in itself
    with np.errstate(all="ignore"):  # infinities, NaN and overflow are part of the test
        x32 = x.astype(acc)
        e = np.exp(x32 - x32.max(axis=-1, keepdims=True))
        y = e / e.sum(axis=-1, keepdims=True)
        return y.astype(x.dtype)
