"""The custom call against JAX's own product, and on cases that follow from the code."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matmul import matmul

pytestmark = [pytest.mark.gpu_proof, pytest.mark.gpu_required]

SIZES = [(1, 1, 1), (16, 16, 16), (33, 65, 129), (128, 7, 256)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_matmul(gpu_proof_check, size):
    m, n, k = size
    keys = jax.random.split(jax.random.key(1))
    a, b = jax.random.normal(keys[0], (m, k)), jax.random.normal(keys[1], (k, n))
    gpu_proof_check(
        name="matmul",
        # In float32, and not in tf32, as JAX would choose by itself on some GPUs.
        reference=lambda a, b: jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST),
        candidate=matmul,
        args=(a, b),
        atol=4e-7 * k,  # a sum of k products of about 1, each rounded
        metadata={"m": m, "n": n, "k": k},
    )


def test_matmul_on_cases_that_nobody_chose(gpu_proof_challenge):
    def kernel(inputs):
        return np.asarray(matmul(jnp.asarray(inputs["a"]), jnp.asarray(inputs["b"])))

    gpu_proof_challenge("matmul", kernel, count=16)
