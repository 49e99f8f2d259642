"""The CUDA kernel against numpy in float64, and on cases that follow from the code."""

import numpy as np
import pytest
from matmul import matmul

pytestmark = [pytest.mark.gpu_proof, pytest.mark.gpu_required]

SIZES = [(1, 1, 1), (16, 16, 16), (33, 65, 129), (128, 7, 256)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_matmul(gpu_proof_check, size):
    m, n, k = size
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    gpu_proof_check(
        name="matmul",
        reference=lambda a, b: a.astype(np.float64) @ b.astype(np.float64),
        candidate=matmul,
        args=(a, b),
        atol=4e-7 * k,  # a sum of k products of about 1, each rounded
        metadata={"m": m, "n": n, "k": k},
    )


def test_matmul_on_cases_that_nobody_chose(gpu_proof_challenge):
    gpu_proof_challenge("matmul", lambda inputs: matmul(inputs["a"], inputs["b"]), count=16)
