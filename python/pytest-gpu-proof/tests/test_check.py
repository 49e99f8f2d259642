"""The fixture gpu_proof_check: what is equal, what is not, and what the receipt says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu import Client
from pytest_gpu_proof import comparison
from pytest_gpu_proof.comparison import CheckError, CheckFailed, frozen, metadata_text

f16, f32, f64 = np.float16, np.float32, np.float64
NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module")
def client(private_home: Path) -> Iterator[Callable[[], Client]]:
    with Client() as c:
        yield lambda: c


def check(client: Callable[[], Client], want: Any, got: Any, **tolerance: float) -> None:
    pair = tolerance.get("atol"), tolerance.get("rtol")
    comparison.compare(client, frozen(want), frozen(got), pair)


EQUAL = {
    "lists": ([1.0, 0.0, 3.0], [1.0, 0.0, 3.0]),
    "list and tuple": ([1.0, 2.0], (1.0, 2.0)),
    "float32 seen as floats": ([0.1, 0.2], [float(f32(0.1)), float(f32(0.2))]),
    "scalars": (1.5, 1.5),
    "scalar and 0-d array": (1.5, np.array(1.5, f32)),
    "integers": ([1, 2, 3], np.array([1, 2, 3], np.int32)),
    "integers and floats of Python": ([1, 2], [1.0, 2.0]),
    "truth values": ([True, False], np.array([True, False])),
    "list and float32": ([0.1, 0.2], np.array([0.1, 0.2], f32)),
    "float32 and list": (np.array([0.1, 0.2], f32), [0.1, 0.2]),
    "reference in float64": (np.array([0.1, 0.2]), np.array([0.1, 0.2], f16)),
    "empty and empty": (np.zeros((0, 3), f32), np.zeros((0, 3), f32)),
    "empty lists": ([], np.zeros(0, f32)),
    "not finite": (np.array([NAN, INF, -INF], f32), np.array([NAN, INF, -INF], f32)),
    "nested": ({"y": (np.ones(2, f32), 3)}, {"y": [np.ones(2, f32), 3]}),
    "ragged": ([[1.0], [1.0, 2.0]], [[1.0], [1.0, 2.0]]),
    "numbers beside arrays": ([1.0, 2.0], (np.array(1.0, f32), np.array(2.0, f32))),
    "complex": (np.array([1 + 2j], np.complex64), np.array([1 + 2j], np.complex64)),
    "complex of Python": ([1 + 2j], np.array([1 + 2j], np.complex64)),
    "texts and None": (["a", None, b"c"], ["a", None, b"c"]),
    "near zero beside larger ones": (np.array([0.0, 1.0], f32), np.array([1e-6, 1.0], f32)),
    "large integers": (np.array([2**63 - 1], np.int64), [2**63 - 1]),
    "numpy scalars": (f32(2), f32(2)),
    "a count beside a mean": ((10**6, 0.1), (10**6, float(f32(0.1)))),
    "integers among floats of one side": ([0, 2.5, True], [1e-6, 2.5, True]),
    "integers of all sizes": ([[2**63 + 1, -1]], [[2**63 + 1, -1]]),
    "mixed numbers beside arrays": ([1, 2.0], (np.array(1, np.int32), np.array(2.0, f32))),
}
UNEQUAL = {
    "values": ([1.0, 2.0], [1.0, 2.1], "1 of 2 elements"),
    "row A13: empty candidate": ([1.0], np.zeros(0, f32), r"shape \[0\], want \[1\]"),
    "row A13: empty list": ([1.0], [], r"shape \[0\], want \[1\]"),
    "row A13: scalar": (np.ones(3, f32), f32(1), r"shape \[\], want \[3\]"),
    "row A13: broadcasting": (np.ones((3, 1), f32), np.ones((1, 3), f32), r"shape \[1, 3\], want \[3, 1\]"),
    "row A13: small values": (np.array([1e-9, 2e-9]), np.array([2e-9, 1e-9]), "2 of 2 elements"),
    "row A13: small values of Python": ([1e-9], [2e-9], "1 of 1 elements"),
    "row A13: small values in float32": (np.array([1e-9], f32), np.array([2e-9], f32), "1 of 1 elements"),
    "row A13: zeros": (np.zeros(2, f32), np.full(2, 1e-9, f32), "2 of 2 elements"),
    "row A13: integers are exact": (np.array([10**9]), np.array([10**9 + 1]), "1 of 1 elements"),
    "integers of Python are exact": ([10**9], [10**9 + 1], "1 of 1 elements"),
    "integers beside floats are exact": ((10**6, 0.5), (10**6 + 1, 0.5), r"output\[0\]: got 1000001, want 1000000"),
    "integers of all sizes are exact": ([[2**63, -1]], [[2**63 + 1, -1]], r"output\[0, 0\]: got 9223372036854775809"),
    "truth values beside floats": ((True, 0.5), (1, 0.5), r"output\[0\]: got 1, want True"),
    "truth values and floats": ((2, False), (2, 0.0), r"output\[1\]: got 0.0, want False"),
    "small values beside a count": ((1e-7, 100), (9e-6, 100), "1 of 2 elements"),
    "data types": (np.ones(2, f32), np.ones(2, f16), "data type float16, want float32"),
    "a candidate in float64": (np.ones(2, f32), np.ones(2), "data type float64, want float32"),
    "integers and floats": (np.ones(2, np.int32), np.ones(2, f32), "data type float32, want int32"),
    "floats of Python and integers": ([1.0], np.ones(1, np.int32), "float64 of Python, the other int32"),
    "truth values and numbers": ([True], [1], "truth values"),
    "truth values and an array": ([1], np.array([True]), "int64 of Python, the other bool"),
    "what does not fit": ([300], np.array([44], np.uint8), "do not fit into uint8"),
    "NaN": (np.array([1.0], f32), np.array([NAN], f32), "1 of 1 elements"),
    "NaN wanted": (np.array([NAN], f32), np.array([1.0], f32), "1 of 1 elements"),
    "infinity": (np.array([1.0], f32), np.array([INF], f32), "1 of 1 elements"),
    "the imaginary part": ([1 + 2j], [1 + 3j], r"output\.imag: 1 of 1"),
    "one array of two": ([np.ones(2, f32)] * 2, [np.ones(2, f32), np.zeros(2, f32)], r"output\[1\]: 2 of 2"),
    "fewer arrays": ((np.ones(2, f32),) * 2, (np.ones(2, f32),), "got 1 values, want 2"),
    "keys": ({"a": 1.0}, {"b": 1.0}, r"keys \['b'\], want \['a'\]"),
    "in a dict": ({"a": 1.0}, {"a": 2.0}, r"output\['a'\]"),
    "a dict and an array": ({"a": 1.0}, np.ones(1), "got an array of float64"),
    "texts": ("a", "b", "got 'b', want 'a'"),
    "nothing": (np.ones(1, f32), None, "got None"),
    "text and number": ("1", 1, "want '1'"),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal(client: Any, name: str) -> None:
    check(client, *EQUAL[name])


@pytest.mark.parametrize("name", UNEQUAL)
def test_unequal(client: Any, name: str) -> None:
    want, got, message = UNEQUAL[name]
    with pytest.raises(CheckFailed, match=message):
        check(client, want, got)


def test_tolerances_of_the_caller(client: Any) -> None:
    check(client, [1.0], [1.05], rtol=0.1)
    check(client, np.zeros(1, f32), np.full(1, 0.05, f32), atol=0.1)
    with pytest.raises(CheckFailed):
        check(client, np.ones(1, f32), np.full(1, 1.000001, f32), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array(["a"]), np.array([object()])])
def test_what_cannot_be_compared(value: Any) -> None:
    with pytest.raises(CheckError, match="cannot be compared"):
        frozen(value)


def test_frameworks(client: Any) -> None:
    jax = pytest.importorskip("jax")
    check(client, np.arange(3, dtype=f32), jax.numpy.arange(3, dtype="float32"))
    check(client, np.array([0.1, 0.2]), jax.numpy.array([0.1, 0.2], "bfloat16"))
    with pytest.raises(CheckFailed):
        check(client, jax.numpy.arange(3), jax.numpy.arange(3) + 1)


def test_torch(client: Any) -> None:
    torch = pytest.importorskip("torch")
    check(client, torch.arange(3, dtype=torch.float32), torch.arange(3, dtype=torch.float32))
    check(client, np.array([0.1, 0.2]), torch.tensor([0.1, 0.2], dtype=torch.bfloat16))
    with pytest.raises(CheckFailed, match="data type"):
        check(client, torch.ones(3), torch.ones(3, dtype=torch.float16))


def test_metadata_is_json() -> None:
    given = {"robot": "go2", "sizes": (1, 2.5), "deep": {"x": [None, True]}}
    assert metadata_text(given) == {"robot": "go2", "sizes": [1, 2.5], "deep": {"x": [None, True]}}
    assert metadata_text(None) == {}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [({9: 1}, r"metadata has the key 9, which is a int"), ({"a": {10: 1}}, r"metadata\['a'\] has the key 10"),
     ({"a": np.float32(1)}, r"metadata\['a'\] is a numpy.float32"), ({"a": [NAN]}, r"metadata\['a'\]\[0\] is nan"),
     ({"a": object()}, "builtins.object"), ("text", "want a dict"), ({"a": "\ud800"}, "no Unicode"),
     ({"a": "x" * 70000}, "at most 65536")],
)  # fmt: skip
def test_metadata_that_json_has_no_place_for(metadata: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        metadata_text(metadata)


def test_metadata_that_is_too_deep() -> None:
    deep: dict[str, Any] = {}
    for _ in range(50):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="more than 32 deep"):
        metadata_text(deep)


FIXTURE = """
import numpy as np

def test_good(gpu_proof_check):
    gpu_proof_check("sum", sum, lambda v: v[0] + v[1], args=([1.0, 2.0],), metadata={"n": 2})
    gpu_proof_check(name="scaled", reference=lambda x, by: x * by, candidate=lambda x, by: by * x, args=(3,),
                    kwargs={"by": 2}, compare=lambda want, got: want == got)

def test_bad(gpu_proof_check):
    gpu_proof_check("sum", sum, lambda v: v[0], args=([1.0, 2.0],))

def test_swallowed(gpu_proof_check):
    try:
        gpu_proof_check("swallowed", lambda: 1, lambda: 2)
    except BaseException:
        pass

def test_skipped_over(gpu_proof_check):
    try:
        gpu_proof_check("swallowed", lambda: 1, lambda: 2)
    except BaseException:
        pytest.skip("never mind")

@pytest.mark.xfail
def test_expected(gpu_proof_check):
    gpu_proof_check("expected", lambda: 1, lambda: 2)

def test_false(gpu_proof_check):
    gpu_proof_check("false", lambda: 1, lambda: 2, compare=lambda want, got: np.bool_(False))

def test_silly(gpu_proof_check):
    gpu_proof_check("array", lambda: np.ones(2), lambda: np.zeros(2), compare=np.isclose)

def test_raising_compare(gpu_proof_check):
    gpu_proof_check("raising", lambda: 1, lambda: 2, compare=lambda want, got: {}["x"])

def test_reference(gpu_proof_check):
    gpu_proof_check("reference", lambda: 1 / 0, lambda: 1)

def test_candidate(gpu_proof_check):
    gpu_proof_check("candidate", lambda: 1, lambda: 1 / 0)

def test_same_memory(gpu_proof_check):
    buffer = np.zeros(2, np.float32)
    def reference():
        buffer[:] = 1
        return buffer
    def candidate():
        buffer[:] = 2
        return buffer
    gpu_proof_check("buffer", reference, candidate)

def test_metadata(gpu_proof_check):
    gpu_proof_check("metadata", lambda: 1, lambda: 1, metadata={9: "x"})

def test_name(gpu_proof_check):
    gpu_proof_check(1, lambda: 1, lambda: 1)
"""


def test_row_a14_checks_in_the_result_file(repository: Any) -> None:
    result = repository.run(FIXTURE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert repository.outcomes() == {
        "test_good": ("passed", "call"), "test_bad": ("failed", "call"), "test_swallowed": ("error", "teardown"),
        "test_skipped_over": ("error", "teardown"), "test_expected": ("xfailed", "call"),
        "test_false": ("failed", "call"), "test_silly": ("failed", "call"), "test_raising_compare": ("failed", "call"),
        "test_reference": ("failed", "call"), "test_candidate": ("failed", "call"),
        "test_same_memory": ("failed", "call"), "test_metadata": ("failed", "call"), "test_name": ("failed", "call"),
    }  # fmt: skip
    checks = {t["id"].rpartition("::")[2]: t["checks"] for t in repository.results()["tests"]}
    assert checks["test_good"] == [
        {"name": "sum", "outcome": "passed", "metadata": {"n": 2}},
        {"name": "scaled", "outcome": "passed", "metadata": {}},
    ]
    outcomes = {name: [c["outcome"] for c in found] for name, found in checks.items()}
    assert outcomes["test_bad"] == outcomes["test_swallowed"] == outcomes["test_false"] == ["failed"]
    assert outcomes["test_silly"] == outcomes["test_reference"] == outcomes["test_candidate"] == ["error"]
    assert outcomes["test_metadata"] == [] and outcomes["test_name"] == []
    for line in ("*'sum': output: 1 of 1 elements are wrong*", "*the checks 'swallowed' did not pass, *",
                 "*compare returned False*", "*compare returned a ndarray, want None, a bool*",
                 "*the reference raised ZeroDivisionError: division by zero*",
                 "*the candidate raised ZeroDivisionError*", "*metadata has the key 9, which is a int*"):  # fmt: skip
        result.stdout.fnmatch_lines([line], consecutive=False)


def test_the_fixture_works_without_a_receipt(repository: Any) -> None:
    repository.write("test_kernel.py", "import pytest\n" + FIXTURE)
    result = repository.pytester.runpytest_inprocess("-p", "pytest_gpu_proof.plugin", "-k", "good or swallowed or bad")
    result.assert_outcomes(passed=2, failed=1, errors=1, deselected=10)
    assert not repository.receipt.exists()
