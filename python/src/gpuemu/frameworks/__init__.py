"""Adapters of PyTorch, JAX and TensorFlow: conversion, gradients, consistency of compiled and plain functions.

Importing this package, or a module of it, imports no framework; making an adapter does.

Example:
    >>> from gpuemu.frameworks.pytorch import check_autograd, fuzz_pytorch_op, validate_pytorch
"""

from __future__ import annotations

from typing import Any

from gpuemu.frameworks._reports import CheckReport
from gpuemu.frameworks.base import FrameworkAdapter, GradientChecker, framework_module

__all__ = [
    "CheckReport",
    "FrameworkAdapter",
    "GradientChecker",
    "get_jax_adapter",
    "get_pytorch_adapter",
    "get_tensorflow_adapter",
]


def get_pytorch_adapter() -> tuple[Any, ...]:
    """(PyTorchAdapter, validate_pytorch, check_autograd, fuzz_pytorch_op); ImportError without PyTorch."""
    from gpuemu.frameworks import pytorch

    framework_module("torch", "PyTorch", "torch")
    return pytorch.PyTorchAdapter, pytorch.validate_pytorch, pytorch.check_autograd, pytorch.fuzz_pytorch_op


def get_jax_adapter() -> tuple[Any, ...]:
    """(JAXAdapter, validate_jax, check_vmap_compatible, check_jit_safe, fuzz_jax_op); ImportError without JAX."""
    from gpuemu.frameworks import jax

    framework_module("jax", "JAX", "jax")
    return jax.JAXAdapter, jax.validate_jax, jax.check_vmap_compatible, jax.check_jit_safe, jax.fuzz_jax_op


def get_tensorflow_adapter() -> tuple[Any, ...]:
    """(TensorFlowAdapter, validate_tensorflow, check_keras_layer, fuzz_tensorflow_op); ImportError without it."""
    from gpuemu.frameworks import tensorflow

    framework_module("tensorflow", "TensorFlow", "tensorflow")
    return (
        tensorflow.TensorFlowAdapter,
        tensorflow.validate_tensorflow,
        tensorflow.check_keras_layer,
        tensorflow.fuzz_tensorflow_op,
    )
