"""The CUDA kernel as a JAX function; build.sh builds the library."""

import ctypes
from pathlib import Path

import jax
import jax.numpy as jnp

LIBRARY = ctypes.CDLL(str(Path(__file__).resolve().parents[1] / "build" / "libmatmul_ffi.so"))
jax.ffi.register_ffi_target("example_matmul_f32", jax.ffi.pycapsule(LIBRARY.MatmulF32), platform="CUDA")


@jax.jit
def matmul(a, b):
    """A·B of two float32 matrices, on the GPU."""
    shape = jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), jnp.float32)
    return jax.ffi.ffi_call("example_matmul_f32", shape)(a, b)
