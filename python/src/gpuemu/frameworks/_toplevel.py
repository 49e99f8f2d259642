"""The adapters as `gpuemu` itself exports them: without the fuzzing function that `gpuemu.frameworks` adds."""

from __future__ import annotations

from typing import Any

from gpuemu import frameworks


def get_pytorch_adapter() -> tuple[Any, ...]:
    """(PyTorchAdapter, validate_pytorch, check_autograd); ImportError without PyTorch."""
    return frameworks.get_pytorch_adapter()[:3]


def get_jax_adapter() -> tuple[Any, ...]:
    """(JAXAdapter, validate_jax, check_vmap_compatible, check_jit_safe); ImportError without JAX."""
    return frameworks.get_jax_adapter()[:4]


def get_tensorflow_adapter() -> tuple[Any, ...]:
    """(TensorFlowAdapter, validate_tensorflow, check_keras_layer); ImportError without TensorFlow."""
    return frameworks.get_tensorflow_adapter()[:3]
