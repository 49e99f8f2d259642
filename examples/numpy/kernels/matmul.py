"""matmul in numpy.

gpuemu calls matmul(inputs, **attributes) with a dict of numpy arrays, which have the strides of the case, and
judges the array it returns. "gpuemu ops matmul" prints names, attributes and what an implementation may do.
"""
import numpy as np


def matmul(inputs):
    """a @ b, accumulated in float32."""
    a, b = inputs["a"], inputs["b"]
    acc = np.promote_types(a.dtype, np.float32)
    with np.errstate(all="ignore"):
        return (a.astype(acc) @ b.astype(acc)).astype(a.dtype)
