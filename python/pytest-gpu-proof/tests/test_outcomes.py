"""What the result file says of tests that pass, fail, crash, are skipped, run again or not run at all."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpu_proof.outcomes import Execution, arguments_without_secrets, without_secrets

MARKED = "pytestmark = pytest.mark.gpu_proof\n"

PHASES = (
    MARKED
    + """
@pytest.fixture
def broken():
    raise RuntimeError("CUDA_ERROR_NO_DEVICE")

@pytest.fixture
def late():
    yield
    raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")

def test_good():
    pass

def test_bad():
    assert 1 == 2

def test_setup(broken):
    pass

def test_teardown(late):
    pass

def test_both(late):
    assert 1 == 2

@pytest.mark.skip(reason="not here")
def test_skip():
    pass

def test_skip_inside():
    pytest.skip("no device")

@pytest.mark.xfail(reason="known")
def test_xfail():
    assert 1 == 2

@pytest.mark.xfail(reason="known", run=False)
def test_xfail_not_run():
    assert 1 == 2

@pytest.mark.xfail(reason="known")
def test_xpass():
    pass

@pytest.mark.xfail(reason="known", strict=True)
def test_xpass_strict():
    pass
"""
)
WANTED = {
    "test_good": ("passed", "call"),
    "test_bad": ("failed", "call"),
    "test_setup": ("error", "setup"),
    "test_teardown": ("error", "teardown"),
    "test_both": ("failed", "call"),
    "test_skip": ("skipped", "setup"),
    "test_skip_inside": ("skipped", "call"),
    "test_xfail": ("xfailed", "call"),
    "test_xfail_not_run": ("xfailed", "setup"),
    "test_xpass": ("xpassed", "call"),
    "test_xpass_strict": ("failed", "call"),
}


def test_row_a1_a2_every_phase_counts(repository: Any) -> None:
    result = repository.run(PHASES)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert repository.outcomes() == WANTED
    said = repository.results()
    reasons = {t["id"].rpartition("::")[2]: t["reason"] for t in said["tests"]}
    assert reasons["test_setup"] == "RuntimeError: CUDA_ERROR_NO_DEVICE"
    assert reasons["test_teardown"] == "RuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS"
    assert (reasons["test_skip"], reasons["test_skip_inside"]) == ("not here", "no device")
    assert reasons["test_xfail"] == "known" and reasons["test_good"] == ""
    assert (said["exit_status"], said["finished"]) == (1, True)
    assert said["collected"] == [t["id"] for t in said["tests"]]
    assert not repository.receipt.exists(), "a failed run is not signed"


def test_row_a5_a_skipped_test_that_uses_the_fixture_is_recorded(repository: Any) -> None:
    repository.run("""
@pytest.mark.skip
def test_fixture_alone(gpu_proof_check):
    pass

def test_neither():
    pass
""")
    assert repository.outcomes() == {"test_fixture_alone": ("skipped", "setup")}
    assert repository.results()["outside"] == {"passed": 1, "failed": 0, "errors": 0, "skipped": 0}


def test_row_a3_failures_outside_of_the_proof_are_counted(repository: Any) -> None:
    result = repository.run("""
@pytest.fixture
def broken():
    raise RuntimeError

@pytest.mark.gpu_proof
def test_in():
    pass

@pytest.mark.gpu_equivalence
def test_in_as_well():
    pass

def test_out():
    pass

def test_out_bad():
    assert False

def test_out_error(broken):
    pass

@pytest.mark.skip
def test_out_skip():
    pass
""")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert repository.outcomes() == {"test_in": ("passed", "call"), "test_in_as_well": ("passed", "call")}
    said = repository.results()
    assert said["outside"] == {"passed": 1, "failed": 1, "errors": 1, "skipped": 1}
    assert said["exit_status"] == 1 and not repository.receipt.exists()


STOPS = {
    "interrupt": "raise KeyboardInterrupt",
    "exit": "pytest.exit('enough')",
    "exit-0": "pytest.exit('enough', returncode=0)",
}


@pytest.mark.parametrize("stop", STOPS)
def test_row_a3_a_run_that_was_stopped_is_not_finished(repository: Any, stop: str) -> None:
    result = repository.run_apart(MARKED + f"""
def test_first():
    pass

def test_second():
    {STOPS[stop]}

def test_third():
    pass
""")
    said = repository.results()
    assert said["finished"] is False and said["exit_status"] == (0 if stop == "exit-0" else 2)
    assert said["tests"][0]["outcome"] == "passed" and "test_third" not in repository.outcomes()
    assert len(said["collected"]) == 3
    assert result.ret != 0 and not repository.receipt.exists()


def test_row_a3_a_run_that_was_stopped_behind_its_last_test(repository: Any) -> None:
    repository.write(
        "conftest.py", "import pytest\ndef pytest_runtest_logfinish():\n    pytest.exit('enough', returncode=0)\n"
    )
    result = repository.run(MARKED + "def test_only():\n    pass\n")
    said = repository.results()
    assert (said["finished"], said["exit_status"]) == (False, 0) and repository.outcomes() == {
        "test_only": ("passed", "call")
    }
    assert result.ret == pytest.ExitCode.TESTS_FAILED and not repository.receipt.exists()


@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_row_a3_maxfail_leaves_a_run_unfinished(repository: Any, option: str) -> None:
    repository.run(MARKED + "def test_1():\n    assert 0\n\ndef test_2():\n    pass\n", option)
    said = repository.results()
    assert (said["finished"], said["exit_status"]) == (False, 1)
    assert list(repository.outcomes()) == ["test_1"]


CHOICE = (
    MARKED
    + """
def test_relu():
    pass

def test_gelu():
    pass

@pytest.mark.slow
def test_tanh():
    pass
"""
)


@pytest.mark.parametrize(
    "options", [("-k", "relu"), ("--deselect", "tests/test_kernel.py::test_gelu"), ("-m", "not slow")]
)
def test_row_a4_what_was_deselected_is_told(repository: Any, options: tuple[str, ...]) -> None:
    left = {"-k": ["test_gelu", "test_tanh"], "--deselect": ["test_gelu"], "-m": ["test_tanh"]}[options[0]]
    repository.write("pytest.ini", "[pytest]\nmarkers = slow\n")
    repository.run(CHOICE, *options)
    said = repository.results()
    assert [n.rpartition("::")[2] for n in said["deselected"]] == left
    assert len(said["collected"]) == 3 and len(said["tests"]) == 3 - len(left)
    assert said["finished"] is True


def test_row_a4_modules_that_skip_themselves_or_break_are_told(repository: Any) -> None:
    repository.write("tests/test_skips.py", "import pytest\npytest.importorskip('a_package_that_is_nowhere')\n")
    repository.write("tests/test_breaks.py", "import a_package_that_is_nowhere\n")
    result = repository.run(MARKED + "def test_good():\n    pass\n", "--continue-on-collection-errors")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert repository.outcomes() == {
        "test_good": ("passed", "call"),
        "tests/test_skips.py": ("skipped", "collect"),
        "tests/test_breaks.py": ("error", "collect"),
    }
    reasons = {t["id"]: t["reason"] for t in repository.results()["tests"]}
    assert "could not import 'a_package_that_is_nowhere'" in reasons["tests/test_skips.py"]
    assert "No module named 'a_package_that_is_nowhere'" in reasons["tests/test_breaks.py"]
    assert {t["id"] for t in repository.results()["tests"]} == set(repository.results()["collected"])


def test_a_collection_error_ends_the_run(repository: Any) -> None:
    repository.write("tests/test_breaks.py", "import a_package_that_is_nowhere\n")
    result = repository.run(MARKED + "def test_good():\n    pass\n")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    said = repository.results()
    assert said["finished"] is False and not repository.receipt.exists()


def test_tests_that_run_again_are_told_apart(repository: Any) -> None:
    pytest.importorskip("pytest_rerunfailures")
    repository.run(
        MARKED
        + """
CALLS = []

def test_flaky(gpu_proof_check):
    CALLS.append(1)
    gpu_proof_check("twice", lambda: 2, lambda: len(CALLS))

def test_good():
    pass
""",
        "-p", "pytest_rerunfailures", "--reruns=3",
    )  # fmt: skip
    flaky, good = repository.results()["tests"]
    assert (flaky["outcome"], flaky["reruns"], good["reruns"]) == ("passed", 1, 0)
    assert flaky["checks"] == [{"name": "twice", "outcome": "passed", "metadata": {}}], "of the last attempt alone"


def report(when: str, outcome: str = "passed") -> Any:
    return SimpleNamespace(when=when, outcome=outcome, duration=0.5, longrepr="why" if outcome == "failed" else None)


def test_an_attempt_that_is_made_again_leaves_no_phases() -> None:
    run = Execution()
    for given in (report("setup"), report("call"), report("teardown", "rerun"), report("setup")):
        run.add(given)
    assert not run.finished and run.outcome() == ("error", "setup", "it did not come to its end")
    run.add(report("call"))
    run.add(report("teardown"))
    assert run.outcome() == ("passed", "call", "") and run.reruns == 1


def test_a_later_report_of_a_phase_makes_no_failure_good() -> None:
    run = Execution()  # as pytest-subtests reports a test before pytest 9
    for given in (report("setup"), report("call", "failed"), report("call"), report("teardown")):
        run.add(given)
    assert run.outcome() == ("failed", "call", "why")


def test_failures_of_subtests_count(repository: Any) -> None:
    if int(pytest.__version__.partition(".")[0]) < 9:
        pytest.skip("pytest has subtests since 9.0")
    repository.run(MARKED + """
def test_parts(subtests):
    for i in range(3):
        with subtests.test(i=i):
            assert i != 1
""")
    assert repository.outcomes() == {"test_parts": ("failed", "call")}


def test_the_session_is_described(repository: Any) -> None:
    result = repository.run(MARKED + "def test_good():\n    pass\n", "--gpu-proof-mode=ci-gpu", "-v")
    assert result.ret == 0
    said = repository.results()
    assert said["format"] == "gpu-proof-results/1" and said["mode"] == "ci-gpu" and said["root"] == "."
    assert said["runner"]["name"] == "pytest" and said["runner"]["version"] == pytest.__version__
    assert re.fullmatch(r"Python 3\.\d+\.\d+\S*", said["runner"]["language"])
    times = said["started_at"], said["ended_at"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", t) for t in times) and times[0] <= times[1]
    assert "-v" in said["arguments"] and said["challenges"] == []
    code = said["code"]
    assert code["scope"] == ["src", "tests"] and code["exclude"] == ["gpu-proof.json"] and code["outputs"] == []
    assert re.fullmatch(r"[0-9a-f]{64}", code["start"]) and code["start"] == code["end"]


def test_ids_begin_at_the_root_directory(repository: Any) -> None:
    repository.write("parts/fast/pytest.ini", "[pytest]\n")
    repository.run(
        MARKED + "def test_good():\n    pass\n", "--rootdir=parts/fast", "--gpu-proof-fingerprint-paths=src,parts",
        "parts/fast", name="parts/fast/tests/test_kernel.py",
    )  # fmt: skip
    said = repository.results()
    assert said["root"] == "parts/fast" and said["collected"] == ["tests/test_kernel.py::test_good"]


SECRETS = [
    ("https://x-access-token:ghp_abc@github.com/a/b", "https://github.com/a/b"),
    ("git+ssh://git@host/x", "git+ssh://host/x"),
    ("--api-token=abc", "--api-token=…"),
    ("--db-password=a=b", "--db-password=…"),
    ("AWS_SECRET_ACCESS_KEY=abc", "AWS_SECRET_ACCESS_KEY=…"),
    ("tests/test_tokens.py::test_x", "tests/test_tokens.py::test_x"),
    ("-k=relu", "-k=relu"),
]


@pytest.mark.parametrize(("text", "clean"), SECRETS)
def test_row_a15_secrets_are_stripped(text: str, clean: str) -> None:
    assert without_secrets(text) == clean


def test_row_a15_secrets_in_an_argument_of_their_own() -> None:
    given = ["--api-token", "abc", "tests", "--password", "-v"]
    assert arguments_without_secrets(given) == ["--api-token", "…", "tests", "--password", "-v"]


def test_row_a15_arguments_of_the_run(repository: Any) -> None:
    repository.write("conftest.py", "def pytest_addoption(parser):\n    parser.addoption('--hub-token')\n")
    repository.run(MARKED + "def test_good():\n    pytest.skip('see https://me:pw@host/x')\n", "--hub-token=abc123")
    text = json.dumps(repository.results(), ensure_ascii=False)
    assert "--hub-token=…" in text and "abc123" not in text
    assert "see https://host/x" in text and "pw" not in repository.results()["tests"][0]["reason"]
