"""Strategies of Hypothesis: examples are cases of the engine, and what fails shrinks to the smallest shape."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from gpuemu import Client, ClientError, ValidationError, strategies

hypothesis = pytest.importorskip("hypothesis", reason="Hypothesis is not installed")
given, settings = hypothesis.given, hypothesis.settings
QUICK: dict[str, Any] = {"max_examples": 40, "deadline": None, "database": None, "derandomize": True}


def judged(client: Client, op: str, case: dict[str, Any], output: Any) -> None:
    client.submit_output(op, case["inputs"], output, case["seed"], store="none").check()


def falsified(test: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        test()
    return caught.value


@pytest.mark.parametrize("op", ["relu", "matmul", "gqa_attention", "groupnorm", "conv2d", "embedding", "topk"])
def test_examples_are_cases(op: str, client: Client) -> None:
    seen: list[str] = []

    @settings(**QUICK)
    @given(case=strategies.cases(op, max_size=6, client=client))
    def test(case: dict[str, Any]) -> None:
        seen.append(repr(case))
        again = client.reproduce(case["case"]).inputs
        for name, array in case["inputs"].items():
            assert again[name].tobytes() == array.tobytes() and max(array.shape, default=0) <= 36

    test()
    assert len(set(seen)) > 10 and all(text.startswith(op + " dtype=") for text in seen)


def test_right_kernels_pass(client: Client) -> None:
    @settings(**QUICK)
    @given(case=strategies.cases("relu", client=client))
    def test(case: dict[str, Any]) -> None:
        judged(client, "relu", case, np.maximum(case["inputs"]["input"], 0))

    test()


def test_a_failure_shrinks_to_the_smallest_shape(client: Client) -> None:
    """Wrong from the sixth column on: no example with fewer columns fails, and one row is enough."""
    last: list[dict[str, Any]] = []

    @settings(**QUICK)
    @given(case=strategies.cases("relu", client=client, value_distribution="normal"))
    def test(case: dict[str, Any]) -> None:
        output = np.maximum(case["inputs"]["input"], 0)
        output[..., 5:] += 1
        last.append(case)
        judged(client, "relu", case, output)

    error = falsified(test)
    assert last[-1]["inputs"]["input"].shape == (1, 1, 6), last[-1]
    assert (last[-1]["dtype"], last[-1]["layout"]) == ("float32", "contiguous")
    assert "float32[1,1,6]" in str(error.result.case)


def test_a_failure_shrinks_in_each_dimension(client: Client) -> None:
    last: list[tuple[int, ...]] = []

    @settings(**QUICK)
    @given(case=strategies.cases("matmul", client=client, dtypes=["float32"], value_distribution="normal"))
    def test(case: dict[str, Any]) -> None:
        a, b = case["inputs"]["a"], case["inputs"]["b"]
        output = (a.astype(np.float64) @ b).astype(np.float32)
        if a.shape[1] > 16:  # the last tile of K is left out
            output = (a[:, :16].astype(np.float64) @ b[:16]).astype(np.float32)
        last.append((*a.shape, b.shape[1]))
        judged(client, "matmul", case, output)

    falsified(test)
    assert last[-1] == (1, 17, 1)


def test_arrays(client: Client) -> None:
    @settings(**QUICK)
    @given(inputs=strategies.arrays("matmul", client=client, dtypes=["float32"]),
           x=strategies.arrays("softmax", "input", client=client, dtypes=[np.float16], max_size=3))  # fmt: skip
    def test(inputs: dict[str, Any], x: Any) -> None:
        assert set(inputs) == {"a", "b"} and inputs["a"].shape[1] == inputs["b"].shape[0]
        assert x.dtype == np.float16 and max(x.shape) <= 3
        assert repr(inputs).startswith("inputs of matmul dtype=float32")

    test()


def test_an_op_of_the_callers(client: Client) -> None:
    schema = {"dims": [{"name": "N", "candidates": [1, 5]}], "inputs": [{"name": "x", "dims": ["N"]}],
              "output": {"name": "y", "dims": ["N"]}}  # fmt: skip

    @settings(**QUICK)
    @given(case=strategies.cases("own", op_schema=schema, client=client, dtypes=["float32"]))
    def test(case: dict[str, Any]) -> None:
        x = case["inputs"]["x"]
        expected = x.astype(np.float64) * 2
        found = client.submit_output("own", case["inputs"], x * 2, case["seed"], expected=expected, store="none")
        assert found.verdict in ("pass", "undecided"), found  # of one small number, zero would pass as well

    test()


def test_mistakes_are_errors(client: Client) -> None:
    def drawn(strategy: Any) -> None:
        settings(**QUICK)(given(strategy)(lambda case: None))()

    with pytest.raises(ClientError, match="sotfmax"):
        drawn(strategies.cases("sotfmax", client=client))
    with pytest.raises(ClientError, match="relu has no input 'x'"):
        drawn(strategies.arrays("relu", "x", client=client))
    with pytest.raises(ValueError, match="max_size is 0"):
        strategies.cases("relu", max_size=0)


def test_without_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ImportError, match=r"pip install gpuemu\[hypothesis\]"):
        strategies.cases("relu")
