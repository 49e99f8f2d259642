"""Kernels of our own for a GPU, correct ones and the same with planted bugs: what planted.py runs.

Every file has one family and a list KERNELS. Importing one needs torch and triton; raw.py needs CuPy to run.
No planted bug reads or writes further than 256 bytes outside of its tensors: the error that a wild access raises
would end the process, and with it the other kernels.
"""

from __future__ import annotations

from . import attention, composed, elementwise, indexed, norms, products, raw, rows
from .spec import Bug, Kernel

ALL: list[Kernel] = [
    kernel
    for module in (elementwise, rows, norms, products, attention, indexed, raw, composed)
    for kernel in module.KERNELS
]

__all__ = ["ALL", "Bug", "Kernel"]
