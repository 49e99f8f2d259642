"""The fixture gpu_proof_challenge: cases that follow from the code, and what the receipt has of them."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

SOFTMAX = """
import numpy as np

def softmax(x):
    with np.errstate(all="ignore"):
        e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)).astype(x.dtype)

def relu(x, scale=1):
    return np.maximum(x, 0) * x.dtype.type(scale)
"""
GOOD = (
    SOFTMAX
    + """
def test_softmax(gpu_proof_challenge):
    gpu_proof_challenge("softmax", lambda inputs: softmax(inputs["input"]), count=4)
"""
)


def test_outputs_are_recorded_and_checked_again(repository: Any) -> None:
    result = repository.run(GOOD)
    assert result.ret == 0, result.stdout.str()
    [challenge] = repository.results()["challenges"]
    assert (challenge["op"], challenge["dtype"], challenge["count"]) == ("softmax", "float32", 4)
    assert [case["index"] for case in challenge["cases"]] == [0, 1, 2, 3]
    outputs = [o for case in challenge["cases"] for o in case["outputs"].values() if "data" in o]
    assert outputs, "none of the outputs is kept"
    for output in outputs:
        values = np.frombuffer(base64.b64decode(output["data"]), np.float32)
        assert values.size == np.prod(output["shape"])
    [test] = repository.results()["tests"]
    assert test["checks"] == [{"name": "challenge softmax float32", "outcome": "passed", "metadata": {}}]
    repository.commit()
    said = repository.verify("--recheck")
    assert said.returncode == 0, said.stdout + said.stderr


def test_other_code_has_other_cases_and_so_has_a_nonce(repository: Any) -> None:
    seeds = []
    for change, nonce in (("", ()), ("# more\n", ()), ("# more\n", ("--gpu-proof-nonce=abc",))):
        repository.run(change + GOOD, *nonce)
        seeds.append(repository.results()["challenges"][0]["seed"])
    assert len(set(seeds)) == 3
    assert repository.results()["challenges"][0]["nonce"] == "abc"


def test_a_wrong_kernel_fails(repository: Any) -> None:
    result = repository.run(SOFTMAX + """
def test_softmax(gpu_proof_challenge):
    gpu_proof_challenge("softmax", lambda inputs: softmax(inputs["input"]) * np.float32(1.01))

def test_raises(gpu_proof_challenge):
    gpu_proof_challenge("softmax", lambda inputs: inputs["nowhere"])

def test_unknown(gpu_proof_challenge):
    gpu_proof_challenge("sotfmax", lambda inputs: inputs)

def test_swallowed(gpu_proof_challenge):
    try:
        gpu_proof_challenge("softmax", lambda inputs: inputs["input"])
    except BaseException:
        pass
""")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert repository.outcomes() == {
        "test_softmax": ("failed", "call"), "test_raises": ("failed", "call"), "test_unknown": ("failed", "call"),
        "test_swallowed": ("error", "teardown"),
    }  # fmt: skip
    result.stdout.fnmatch_lines(["*gpu_proof_challenge softmax: softmax: fail*"])
    result.stdout.fnmatch_lines(["*the catalogue has no operator \"sotfmax\"*"])
    assert repository.results()["challenges"] == []


def test_attributes_and_the_compiled_kernel(repository: Any) -> None:
    result = repository.run(SOFTMAX + """
def test_leaky(gpu_proof_challenge):
    gpu_proof_challenge(
        "leaky_relu", lambda inputs, alpha: np.where(inputs["input"] >= 0, inputs["input"],
                                                     inputs["input"] * inputs["input"].dtype.type(alpha)),
        dtype="float16", count=2, attributes={"alpha": 0.25},
        compiled={"ptx": "src/leaky.ptx", "entry": "leaky", "grid": [1], "block": [256], "args": ["input", "output"]},
    )

def test_typing_error(gpu_proof_challenge):
    gpu_proof_challenge("relu", relu, compiled={"ptx": "x", "gird": [1]})
""")
    result.stdout.fnmatch_lines(["*compiled has [[]'gird'[]]*"])
    [challenge] = repository.results()["challenges"]
    assert challenge["attributes"] == {"alpha": "0.25"} and challenge["dtype"] == "float16"
    assert challenge["kernel"]["ptx"] == "src/leaky.ptx" and challenge["kernel"]["block"] == ["256"]
    assert all("alpha:0.25" in case["case"] for case in challenge["cases"])


def test_without_a_receipt_the_cases_are_judged_all_the_same(repository: Any) -> None:
    repository.write("test_kernel.py", GOOD)
    result = repository.pytester.runpytest_inprocess("-p", "pytest_gpu_proof.plugin")
    result.assert_outcomes(passed=1)


def test_challenges_of_workers(repository: Any) -> None:
    pytest.importorskip("xdist")
    result = repository.run_apart(
        GOOD.replace("count=4", "count=12")  # so that some are small enough to be recorded
        + """
def test_relu(gpu_proof_challenge):
    gpu_proof_challenge("relu", lambda inputs: relu(inputs["input"]), count=2)
""",
        "-p", "xdist.plugin", "-p", "xdist.looponfail", "-n", "2",
    )  # fmt: skip
    assert result.ret == 0, result.stdout.str()
    said = repository.results()
    assert [c["op"] for c in said["challenges"]] == ["softmax", "relu"], "in the order of the tests"
    repository.commit()
    checked = repository.verify("--recheck")
    assert checked.returncode == 0, checked.stdout + checked.stderr
