"""Tests as a project with a GPU would have them; here they run anywhere."""

import math

import fake_gpu
import numpy as np
import pytest

VALUES = [1.0, -2.0, 3.5, 0.0, -0.25, 1e-3]


@pytest.mark.gpu_proof
def test_relu(gpu_proof_check):
    gpu_proof_check(
        name="relu",
        reference=lambda values: [v if v > 0 else 0.0 for v in values],
        candidate=fake_gpu.relu,
        args=(VALUES,),
        metadata={"kernel": "relu"},
    )


@pytest.mark.gpu_proof
@pytest.mark.parametrize("a", [0.5, -3.0])
def test_saxpy(gpu_proof_check, a):
    gpu_proof_check(
        name="saxpy",
        reference=lambda a, x, y: [a * u + v for u, v in zip(x, y)],
        candidate=fake_gpu.saxpy,
        args=(a, VALUES),
        kwargs={"y": VALUES[::-1]},
        metadata={"a": a},
    )


def close(want, got):
    """A comparison of one's own raises AssertionError, or returns False, where the results differ."""
    assert math.isclose(want, got, rel_tol=1e-6), f"{got} is not {want}"


@pytest.mark.gpu_equivalence
def test_total(gpu_proof_check):
    gpu_proof_check("total", math.fsum, fake_gpu.total, args=([v / 7 for v in range(100)],), compare=close)


def test_relu_on_cases_that_nobody_chose(gpu_proof_challenge):
    def kernel(inputs):
        x = inputs["input"]
        return np.array(fake_gpu.relu(x.ravel().tolist()), np.float32).reshape(x.shape)

    gpu_proof_challenge("relu", kernel, count=4)


def test_outside_of_the_proof():
    assert fake_gpu.rounded(1.0) == 1.0
