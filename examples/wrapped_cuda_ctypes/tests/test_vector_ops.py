"""The wrapped functions against plain Python."""

import pytest
import vector_ops

pytestmark = pytest.mark.gpu_proof

X = [0.1 * i - 1 for i in range(33)]
Y = [(-1) ** i * 0.7 for i in range(33)]


def test_vector_add(gpu_proof_check):
    gpu_proof_check(
        name="vector_add",
        reference=lambda x, y: [u + v for u, v in zip(x, y)],
        candidate=vector_ops.vector_add,
        args=(X, Y),
        metadata={"n": len(X)},
    )


@pytest.mark.parametrize("factor", [0.0, 2.5, -1e-3])
def test_vector_scale(gpu_proof_check, factor):
    gpu_proof_check(
        name="vector_scale",
        reference=lambda x, factor: [v * factor for v in x],
        candidate=vector_ops.vector_scale,
        args=(X,),
        kwargs={"factor": factor},
        metadata={"factor": factor},
    )


def test_lengths_that_differ():
    with pytest.raises(ValueError, match="x has 1 elements, y has 2"):
        vector_ops.vector_add([1.0], [1.0, 2.0])
