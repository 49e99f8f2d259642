"""The names of the published package's module gpuemu.validate.

The attribute gpuemu.validate is the function: `from gpuemu.validate import SeededFuzzer` finds this module.
"""

from __future__ import annotations

from .fuzz import (
    FuzzConfig,
    SeededFuzzer,
    fuzz_dtypes,
    fuzz_dtypes_seeded,
    fuzz_layouts,
    fuzz_layouts_seeded,
    fuzz_shapes,
    fuzz_shapes_seeded,
    generate_random_tensor,
)
from .validation import ValidationError, validate, validate_op

__all__ = [
    "FuzzConfig",
    "SeededFuzzer",
    "ValidationError",
    "fuzz_dtypes",
    "fuzz_dtypes_seeded",
    "fuzz_layouts",
    "fuzz_layouts_seeded",
    "fuzz_shapes",
    "fuzz_shapes_seeded",
    "generate_random_tensor",
    "validate",
    "validate_op",
]
