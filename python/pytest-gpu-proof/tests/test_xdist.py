"""With pytest-xdist: the workers test, the controller writes."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest.importorskip("xdist")

TWO = ("-p", "xdist.plugin", "-p", "xdist.looponfail", "-n", "2")

TESTS = """
import os
pytestmark = pytest.mark.gpu_proof

@pytest.fixture
def broken():
    raise RuntimeError("CUDA_ERROR_NO_DEVICE")

@pytest.fixture
def late():
    yield
    raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")

@pytest.mark.parametrize("i", range(6))
def test_good(gpu_proof_check, i):
    gpu_proof_check("same", lambda: i, lambda: i, metadata={"i": i, "worker": os.environ["PYTEST_XDIST_WORKER"]})

def test_bad():
    assert 1 == 2

def test_setup(broken):
    pass

def test_teardown(late):
    pass

@pytest.mark.skip(reason="not here")
def test_skip():
    pass
"""


def test_row_a6_one_writer_has_the_tests_of_all_workers(repository: Any) -> None:
    repository.write("tests/test_outside.py", "def test_out():\n    pass\n\ndef test_out_bad():\n    assert 0\n")
    repository.write("tests/test_skips.py", "import pytest\npytest.importorskip('a_package_that_is_nowhere')\n")
    result = repository.run_apart(TESTS, *TWO)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    good = {f"test_good[{i}]": ("passed", "call") for i in range(6)}
    assert repository.outcomes() == {
        **good, "test_bad": ("failed", "call"), "test_setup": ("error", "setup"),
        "test_teardown": ("error", "teardown"), "test_skip": ("skipped", "setup"),
        "tests/test_skips.py": ("skipped", "collect"),
    }  # fmt: skip
    said = repository.results()
    assert said["outside"] == {"passed": 1, "failed": 1, "errors": 0, "skipped": 0}
    assert said["finished"] is True and said["exit_status"] == 1
    assert said["collected"] == [t["id"] for t in said["tests"]], "in the order of the files"
    checks = [t["checks"][0] for t in said["tests"][:6]]
    assert [c["metadata"]["i"] for c in checks] == list(range(6))
    assert {c["metadata"]["worker"] for c in checks} == {"gw0", "gw1"}
    assert not repository.receipt.exists()


def test_row_a6_a_run_of_two_workers_is_signed(repository: Any) -> None:
    result = repository.run_apart(
        "@pytest.mark.parametrize('i', range(4))\ndef test_good(gpu_proof_check, i):\n"
        "    gpu_proof_check('same', lambda: i, lambda: i)\n", *TWO, "-k", "not 3",
    )  # fmt: skip
    assert result.ret == 0 and repository.receipt.exists()
    said = repository.results()
    assert len(said["tests"]) == 3 and said["deselected"] == ["tests/test_kernel.py::test_good[3]"]


def test_row_a6_a_worker_that_dies(repository: Any) -> None:
    result = repository.run_apart("""
import os
pytestmark = pytest.mark.gpu_proof

def test_good():
    pass

def test_dies():
    os._exit(11)

def test_after():
    pass
""", *TWO)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert repository.outcomes() == {
        "test_good": ("passed", "call"), "test_dies": ("error", "crash"), "test_after": ("passed", "call")
    }  # fmt: skip
    assert "crashed while running" in repository.results()["tests"][1]["reason"]
    assert not repository.receipt.exists()


def test_a_worker_that_dies_and_is_not_replaced_leaves_the_run_unfinished(repository: Any) -> None:
    repository.run_apart("""
import os
pytestmark = pytest.mark.gpu_proof

@pytest.mark.parametrize("i", range(4))
def test_dies(i):
    os._exit(11)
""", *TWO, "--max-worker-restart=0")
    said = repository.results()
    assert said["finished"] is False and len(said["collected"]) == 4
    assert {t["outcome"] for t in said["tests"]} == {"error"}


def test_each_test_by_each_worker_has_the_worst_outcome(repository: Any) -> None:
    repository.run_apart("""
import os
@pytest.mark.gpu_proof
def test_one_fails():
    assert os.environ["PYTEST_XDIST_WORKER"] == "gw0"
""", "-p", "xdist.plugin", "-p", "xdist.looponfail", "--dist=each", "--tx=2*popen")
    assert repository.outcomes() == {"test_one_fails": ("failed", "call")}


def test_reruns_of_workers(repository: Any) -> None:
    pytest.importorskip("pytest_rerunfailures")
    repository.run_apart("""
CALLS = []

@pytest.mark.gpu_proof
def test_flaky():
    CALLS.append(1)
    assert len(CALLS) > 1
""", *TWO, "-p", "pytest_rerunfailures", "--reruns=2")
    [test] = repository.results()["tests"]
    assert (test["outcome"], test["reruns"]) == ("passed", 1)


def test_nothing_is_left_behind(
    repository: Any, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(place))
    result = repository.run_apart("@pytest.mark.gpu_proof\ndef test_good():\n    pass\n", *TWO)
    assert result.ret == 0
    assert [name for name in os.listdir(place) if name.startswith("gpu-proof")] == []
