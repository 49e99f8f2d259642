"""fuzz_op and what becomes of its results: sizes that an operator has not, baselines, what is stored."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu import Client, ClientError

FEW: dict[str, Any] = {"iterations": 3, "dtypes": ["float32"]}
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a project whose candidates are right."""
    (tmp_path / "gpuemu.toml").write_text(
        '[[ops]]\nname = "matmul"\ncandidate = "k.py:mm"\n[[ops]]\nname = "relu"\ncandidate = "k.py:relu"\n'
    )
    (tmp_path / "k.py").write_text(
        'import numpy as np\n\n'
        'def mm(inputs):\n    return (inputs["a"].astype(np.float64) @ inputs["b"]).astype("f4")\n\n'
        'def relu(inputs):\n    return np.maximum(inputs["input"], 0)\n'
    )
    monkeypatch.chdir(tmp_path)
    with Client() as client:
        yield client


def test_a_number_by_place_is_not_taken_for_a_seed(project: Client) -> None:
    with pytest.raises(ClientError, match=r"fuzz_op\('matmul', 50\) may mean a seed or a number of cases") as caught:
        project.fuzz_op("matmul", 50)
    assert caught.value.hint == "write seed=50 or iterations=50"
    large = 0xC0FFEE_00000000
    assert project.fuzz_op("matmul", large, 2, dtypes=["float32"]).seed == large
    assert project.fuzz_op("matmul", 50, 2, dtypes=["float32"]).seed == 50, "with both the published order holds"
    assert project.fuzz_op("matmul", seed=50, **FEW).seed == 50


def test_published_sizes_that_an_operator_has_not(project: Client) -> None:
    with pytest.warns(UserWarning, match="matmul has no dimension B, batch_sizes is ignored; it has M, K, N") as noted:
        found = project.fuzz_op("matmul", seed=1, batch_sizes=[1, 2], **FEW)
    assert found.passed == 3 and Path(noted[0].filename).name == "test_fuzz_op.py"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = project.fuzz_op("relu", seed=1, batch_sizes=[3], hidden_dims=[5], **FEW)
    assert found.passed == 3
    with pytest.raises(ClientError, match='no dimension "B"'):
        project.fuzz_op("matmul", seed=1, shapes={"B": [1]}, **FEW)


def test_a_baseline_of_what_was_just_judged(project: Client) -> None:
    with pytest.raises(ClientError, match="no finished test or ci campaign"):
        project.store_baseline("nothing")
    project.validate_op("relu", {"input": X}, np.maximum(X, 0))
    assert project.store_baseline("validated")["results"] == 1
    project.fuzz_op("matmul", seed=1, **FEW)
    assert project.store_baseline("fuzzed")["results"] == 4
    project.fuzz_op_client_side("relu", lambda i: np.maximum(i["input"], 0), seed=2, **FEW)
    assert project.store_baseline("client")["results"] == 7
    with Client() as other, pytest.raises(ClientError, match="no finished test or ci campaign"):
        other.store_baseline("other")
    with Client() as other:
        assert other.store_baseline("other", stored=True)["results"] == 7


def test_nothing_is_stored_where_that_is_asked_for(project: Client) -> None:
    inputs = {"input": X}
    project.validate_op("relu", inputs, X, store="none")
    project.check_gradients("relu", inputs, np.ones_like(X), {"input": X}, store="none")
    project.fuzz_op_client_side("relu", lambda i: i["input"], seed=1, store="none", **FEW)
    case = project.get_test_case("relu", seed=1)
    project.submit_output("relu", case["inputs"], case["inputs"]["input"], case["seed"], store="none")
    project.replay(case["case"], lambda i: i["input"], store="none")
    project.minimize(case["case"], run_op=lambda i: i["input"] + 1, max_iters=3, store="none")
    with pytest.raises(ClientError, match="no campaign"):
        project.store_baseline("nothing", stored=True)
    with pytest.raises(ClientError, match='store is "nothing"'):
        project.check_gradients("relu", inputs, np.ones_like(X), {"input": X}, store="nothing")
