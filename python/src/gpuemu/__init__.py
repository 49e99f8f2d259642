"""gpuemu: is this GPU kernel right?

The engine (one Go binary, in this package's wheel) generates cases, computes expected values in fp64 with error bounds,
and judges. This package runs your kernel on the cases, guards its memory, and shows what the engine says.

Example:
    >>> from gpuemu import Client
    >>> results = Client().fuzz_op_client_side("softmax", run_op=lambda i: my_softmax(i["input"]))
    >>> print(f"Passed: {results.passed}/{results.total}")
"""

from __future__ import annotations

from . import strategies
from ._cuda import CudaKernel, cuda_kernel
from ._triton import emulated_triton
from ._version import __version__
from .aio import AsyncClient
from .client import Client
from .emulation import EmulationError, EmulationFinding, EmulationResult
from .frameworks._toplevel import get_jax_adapter, get_pytorch_adapter, get_tensorflow_adapter
from .fuzz import (
    FuzzConfig,
    SeededFuzzer,
    TestCase,
    fuzz_dtypes,
    fuzz_dtypes_seeded,
    fuzz_layouts,
    fuzz_layouts_seeded,
    fuzz_shapes,
    fuzz_shapes_seeded,
    generate_random_tensor,
)
from .kernels import ctypes_kernel, raw_kernel, triton_kernel
from .pytest_plugin import op
from .results import (
    ClientError,
    ConnectionFailed,
    FuzzResults,
    MinimizeResult,
    ReproduceResult,
    ReproductionInfo,
    ValidationResult,
)
from .rng import SeededRng, derive_seed, generate_seed
from .tolerances import ToleranceConfig, ToleranceProfile, calibrate_tolerance, get_recommended_tolerance
from .validate import ValidationError, validate, validate_op  # the module first: its name becomes the function

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "ConnectionFailed",
    "CudaKernel",
    "EmulationError",
    "EmulationFinding",
    "EmulationResult",
    "FuzzConfig",
    "FuzzResults",
    "MinimizeResult",
    "ReproduceResult",
    "ReproductionInfo",
    "SeededFuzzer",
    "SeededRng",
    "TestCase",
    "ToleranceConfig",
    "ToleranceProfile",
    "ValidationError",
    "ValidationResult",
    "__version__",
    "calibrate_tolerance",
    "ctypes_kernel",
    "cuda_kernel",
    "derive_seed",
    "emulated_triton",
    "fuzz_dtypes",
    "fuzz_dtypes_seeded",
    "fuzz_layouts",
    "fuzz_layouts_seeded",
    "fuzz_shapes",
    "fuzz_shapes_seeded",
    "generate_random_tensor",
    "generate_seed",
    "get_jax_adapter",
    "get_pytorch_adapter",
    "get_recommended_tolerance",
    "get_tensorflow_adapter",
    "op",
    "raw_kernel",
    "strategies",
    "triton_kernel",
    "validate",
    "validate_op",
]
