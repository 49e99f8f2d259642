"""Results as people see them: true or false, a short text, HTML with the error map, and what makes a case again."""

from __future__ import annotations

import base64
import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu import Client, ClientError, FuzzConfig, SeededFuzzer, ValidationError
from gpuemu.results import (
    Comparison,
    FuzzResults,
    MinimizeResult,
    ReproduceResult,
    ReproductionInfo,
    ValidationResult,
    case_size,
)

Array = np.ndarray[Any, Any]
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
STRIDED: dict[str, Any] = {
    "iterations": 6, "seed": 1, "dtypes": ["float32"], "layouts": ["strided", "transposed", "sliced"],
    "value_distribution": "normal", "shapes": {"B": [2], "S": [3], "H": [5]},
}  # fmt: skip
PROJECT = '[[ops]]\nname = "relu"\ncandidate = "kernels.py:ignores_strides"\n'
KERNELS = """
import numpy as np

def ignores_strides(inputs):
    x = inputs["input"]
    if x.flags.c_contiguous:
        return np.maximum(x, 0)
    memory = x if x.base is None else x.base
    return np.maximum(np.resize(memory.view(x.dtype).ravel(), x.shape), 0)
"""


def ignores_strides(inputs: dict[str, Array]) -> Array:
    """A relu that reads the first elements of memory, whatever the strides are."""
    x = inputs["input"]
    lowest = np.lib.stride_tricks.as_strided(x, (x.size,), (x.itemsize,))
    result: Array = np.maximum(lowest, 0).reshape(x.shape)
    return result


@pytest.fixture
def failures(client: Client) -> FuzzResults:
    results = client.fuzz_op_client_side("relu", ignores_strides, **STRIDED)
    assert results.failed == 6, results
    return results


# ---- texts -----------------------------------------------------------------------------------------------------------


def test_repr_is_short(failures: FuzzResults, client: Client) -> None:
    one = failures.failures[0]
    lines = repr(one).splitlines()
    assert lines[0] == "relu: fail (mismatch)" and lines[1].startswith('  output "output": ')
    assert lines[-2] == f"  case: {one.case}" and lines[-1] == f"  replay: Client().replay({one.case!r}, run_op)"
    whole = repr(failures)
    assert whole.startswith("relu: 0/6 passed, 6 failed (seed 1)\n  mismatch: output")
    assert f"case: {one.case}" in whole and "replay: Client().replay(" in whole
    for thing in (failures, one, one.repro_info, client.reproduce(one.case), [one]):
        assert len(repr(thing)) < 1200, "no snapshot of inputs, no statistics"
    assert repr(one.repro_info) == (
        f"ReproductionInfo(seed={one.seed}, shape=(2, 3, 5), dtype='float32', layout={one.repro_info.layout!r}, "  # type: ignore[union-attr]
        f"case={one.case!r})"
    )


def test_repr_of_what_passed(client: Client) -> None:
    right = client.fuzz_op_client_side("relu", lambda i: np.maximum(i["input"], 0), **STRIDED)
    assert repr(right) == "6/6 passed, 0 failed (seed 1)"
    result = client.validate_op("relu", {"input": X}, np.maximum(X, 0), seed=5, store="none")
    assert repr(result) == "relu: pass (seed 5)"
    assert repr(client.compare(X, X)) == "compare: pass"


def test_the_smallest_failing_case_is_named(client: Client) -> None:
    options = {**STRIDED, "shapes": {"B": [1], "S": [1], "H": [2, 3, 65, 300]}, "layouts": None, "iterations": 12}
    results = client.fuzz_op_client_side("relu", lambda i: i["input"] + 9, **options)
    smallest = results.smallest
    assert smallest is not None
    sizes = [case_size(failure.case) for failure in results.failures]
    assert case_size(smallest.case) == min(sizes) < sizes[0], "the first is larger"
    assert f"smallest failing case: {smallest.case}\n  replay: {smallest.replay_command}" in repr(results)


@pytest.mark.parametrize(("case", "size"), [
    ("relu in=input:float32[2,3,4]:contiguous:normal seed=1", 24),
    ("matmul in=a:float32[2,3]:strided:normal in=b:float32[3,1]:contiguous:normal", 9),
    ("op in=x:float32[]:contiguous:normal", 1), ("", 0),
])  # fmt: skip
def test_case_size(case: str, size: int) -> None:
    assert case_size(case) == size


def test_check_raises_the_readable_text(failures: FuzzResults, client: Client) -> None:
    one = failures.failures[0]
    with pytest.raises(ValidationError) as error:
        one.check()
    text = str(error.value)
    assert error.value.result is one
    assert "output[" in text and ": got " in text and ", want " in text and " within " in text and "case: " in text
    with pytest.raises(ValidationError, match="0/6 passed, 6 failed"):
        failures.check()
    with pytest.raises(ValidationError, match=r"compare: fail: .*24 of 24 elements are wrong"):
        client.compare(X + 1, X).check()
    assert Comparison(passed=True).check()


def test_html_has_the_error_map(failures: FuzzResults, client: Client) -> None:
    one = failures.failures[0]
    page = one._repr_html_()
    assert page.startswith('<div class="gpuemu"><strong style="color:#cf222e">relu: fail (mismatch)</strong>')
    assert "<th>element</th><th>got</th><th>want</th><th>bound</th>" in page and "<td>output[" in page
    drawn = next(output["map"] for output in one.error_stats if output.get("map"))
    assert drawn.strip().splitlines()[-1] in page
    assert "wrong elements over the last two dimensions" in failures._repr_html_()
    result = client.validate_op("relu", {"input": X}, np.maximum(X, 0), store="none")
    assert "#1a7f37" in result._repr_html_() and "<table>" not in result._repr_html_()
    bad = ValidationResult(False, 1, "<script>", verdict="fail", message="\x1b[31m&")
    assert "<script>" not in bad._repr_html_() and "\x1b" not in bad._repr_html_() and "&amp;" in bad._repr_html_()


def test_truth_of_what_is_not_decided() -> None:
    for verdict in ("fail", "error", "not_run", "undecided"):
        assert not ValidationResult(False, 1, "relu", verdict=verdict)
    assert not FuzzResults(1, 0, 0, 0), "nothing ran"
    assert not FuzzResults(1, 10, 9, 0, not_run=1)
    assert not FuzzResults(1, 10, 8, 0, undecided=2)
    passed = ValidationResult(True, 1, "relu", verdict="pass")
    assert ReproduceResult(passed, {}) and not ReproduceResult(passed, {}, executable=False)
    assert not MinimizeResult(1, 1, (), ValidationResult(False, 1, "relu"))


# ---- what makes a case again -----------------------------------------------------------------------------------------


def complete(info: ReproductionInfo | None, inputs: dict[str, Array]) -> None:
    """The information is filled, and says what the inputs are."""
    assert info is not None
    first = next(iter(inputs.values()))
    assert info.strides == tuple(s // first.itemsize for s in first.strides)
    assert info.shape == first.shape and info.dtype == first.dtype.name
    assert isinstance(info.fuzz_config, FuzzConfig)
    assert info.fuzz_config.dtypes == [info.dtype] and info.layout in info.fuzz_config.layouts
    assert info.input_snapshot is not None and list(info.input_snapshot) == list(inputs)
    for name, shown in info.input_snapshot.items():
        assert shown["shape"] == list(inputs[name].shape) and shown["dtype"] == inputs[name].dtype.name
        assert base64.b64decode(shown["data"]) == inputs[name].tobytes()


def test_inputs_have_the_layout_of_the_case(failures: FuzzResults, client: Client) -> None:
    """A kernel that is wrong on strides alone fails on the inputs of reproduce, as it did in the run."""
    seen = set()
    for failure in failures.failures:
        again = client.reproduce(failure.case)
        x = again.inputs["input"]
        assert not x.flags.c_contiguous
        assert not client.compare(ignores_strides(again.inputs), np.maximum(x, 0)), failure.case
        complete(failure.repro_info, again.inputs)
        complete(again.result.repro_info, again.inputs)
        seen.add(failure.repro_info.layout)  # type: ignore[union-attr]
    assert len(seen) > 1


def test_stored_results_are_complete(failures: FuzzResults, client: Client) -> None:
    seed = failures.failures[0].seed
    again = client.reproduce(seed)
    stored = client.get_result(seed)
    assert stored is not None and not stored
    complete(stored.repro_info, again.inputs)
    for listed in (client.list_failures(limit=6), client.list_results(limit=6)):
        assert [failure.seed for failure in listed].count(seed) == 1
        for failure in listed:
            complete(failure.repro_info, client.reproduce(failure.case).inputs)


def test_results_of_the_engine_are_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpuemu.toml").write_text(PROJECT)
    (tmp_path / "kernels.py").write_text(KERNELS.replace("np.maximum(x, 0)", "x + 1"))
    monkeypatch.chdir(tmp_path)
    with Client() as client:
        results = client.fuzz_op("relu", seed=7, iterations=3, dtypes=["float32"], hidden_dims=[4], layouts=["sliced"],
                                 value_distribution="normal")  # fmt: skip
        assert results.failures and not results
        for failure in results.failures:
            again = client.reproduce(failure.case)
            assert again.executable and again.still_fails and not again
            complete(failure.repro_info, again.inputs)
            config = failure.repro_info.fuzz_config  # type: ignore[union-attr]
            assert config is not None and (config.seed, config.iterations, config.hidden_dims) == (7, 3, [4])
            assert config.options["values"] == "normal"
        simpler = client.minimize(results.failures[0].case, max_iters=5)
        complete(simpler.result.repro_info, client.reproduce(simpler.minimized_seed).inputs)


def test_given_inputs_are_complete(client: Client) -> None:
    turned = np.ascontiguousarray(X.transpose(0, 2, 1)).transpose(0, 2, 1)
    result = client.validate_op("relu", {"input": turned}, turned + 1, seed=70001)
    complete(result.repro_info, {"input": turned})
    assert result.repro_info is not None and result.repro_info.layout == "transposed"
    wrong = client.check_gradients("relu", {"input": X}, np.ones_like(X), {"input": X + 9})
    complete(wrong.repro_info, {"input": X})


def test_failures_of_a_seeded_fuzzer_are_complete(client: Client) -> None:
    config = FuzzConfig(max_dims=3, max_size=6, min_size=2, layouts=["strided", "transposed"], iterations=4)

    def raises(inputs: dict[str, Array]) -> Array:
        raise RuntimeError("no")

    for kernel in (lambda i: i["input"] + 1, raises):
        fuzzer = SeededFuzzer(3, config)
        cases = list(SeededFuzzer(3, config).iterator(4))
        results = fuzzer.run(kernel, reference=lambda i: i["input"], client=client, op="kernel", store="none")
        assert results.failed == 4
        for case, failure in zip(cases, results.failures):
            info = failure.repro_info
            assert info is not None and info.fuzz_config is config and info.layout == case.layout
            assert info.strides == tuple(s // 4 for s in case.inputs["input"].strides)
            assert info.input_snapshot is not None
            assert base64.b64decode(info.input_snapshot["input"]["data"]) == case.inputs["input"].tobytes()


def test_what_is_fetched_later_is_fetched_once() -> None:
    info, asked = ReproductionInfo(1, (2,), layout="contiguous"), []

    def load(info: ReproductionInfo) -> None:
        asked.append(info.seed)
        info.strides = (7,)

    info.defer(load)
    assert not asked
    assert info.strides == (7,) and info.input_snapshot is None and asked == [1]
    info.defer(load)
    assert pickle.loads(pickle.dumps(info)).strides == (7,), "a copy carries what was fetched"
    assert copy.deepcopy(info) == info


def test_a_case_that_is_nowhere_leaves_the_rest(client: Client) -> None:
    result = client.validate_op("relu", {"input": X}, X + 1, seed=70002)
    found = client.get_result(70002)
    assert found is not None and found.repro_info is not None
    found.repro_info.case = result.case.replace("relu", "nowhere")
    assert found.repro_info.strides == () and found.repro_info.input_snapshot is None


def test_store_none(client: Client) -> None:
    case = client.get_test_case("relu", seed=70003)
    client.validate_op("relu", {"input": X}, X + 1, seed=70003, store="none")
    client.submit_output("relu", {"input": X}, X + 1, 70003, store="none")
    client.submit_output("relu", case["inputs"], case["inputs"]["input"], case["seed"], store="none")
    assert client.get_result(70003) is None and client.get_result(case["seed"]) is None
    client.submit_output("relu", {"input": X}, np.maximum(X, 0), 70003, store="failures")
    assert client.get_result(70003) is None


def test_minimize_names_run_op(failures: FuzzResults, client: Client) -> None:
    case = failures.failures[0].case
    how = r"client\.minimize\('relu .*', run_op=KERNEL\) runs a kernel of this process"
    with pytest.raises(ClientError, match=how):
        client.minimize(case)


# ---- dicts of the published package ----------------------------------------------------------------------------------


def test_from_dict() -> None:
    info = {"seed": 3, "shape": [2, 3], "strides": [3, 1], "dtype": "Float32", "layout": "Contiguous"}
    failed = {"passed": False, "seed": 3, "op_name": "relu", "max_diff": 1.0, "failures": [{"message": "m"}],
              "repro_info": info}  # fmt: skip
    result = ValidationResult.from_dict(failed)
    assert not result and result.op_name == "relu" and result.repro_info == ReproductionInfo.from_dict(info)
    assert result.repro_info.shape == (2, 3) and result.repro_info.strides == (3, 1)  # type: ignore[union-attr]
    assert ValidationResult.from_dict({"passed": True})
    results = FuzzResults.from_dict({"seed": 1, "total": 2, "passed": 1, "failed": 1, "failures": [failed]})
    assert (results.total, results.failures[0].seed, bool(results)) == (2, 3, False)
    made = ReproduceResult.from_dict({"result": failed, "inputs": {"x": [1, 2]}}, np.asarray)
    assert made.inputs["x"].tolist() == [1, 2] and not made
    found = {"original_seed": 1, "minimized_seed": 2, "minimized_shape": [1], "result": failed}
    small = MinimizeResult.from_dict(found)
    assert (small.minimized_seed, small.minimized_shape) == (2, (1,))
