"""gelu in numpy.

gpuemu calls gelu(inputs, **attributes) with a dict of numpy arrays, which have the strides of the case, and
judges the array it returns. "gpuemu ops gelu" prints names, attributes and what an implementation may do.
"""
import math

import numpy as np


erf = np.frompyfunc(math.erf, 1, 1)  # numpy has none; scipy.special.erf is faster


def gelu(inputs):
    """0.5 x (1 + erf(x / sqrt(2))), without the tanh approximation."""
    x = inputs["input"]
    acc = np.promote_types(x.dtype, np.float32)
    with np.errstate(all="ignore"):
        x32 = x.astype(acc)
        y = acc.type(0.5) * x32 * (1 + erf(x32 * acc.type(math.sqrt(0.5))).astype(acc))
        return y.astype(x.dtype)
