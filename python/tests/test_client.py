"""The client against a real daemon."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu import Client, ClientError, ConnectionFailed, FuzzConfig, FuzzResults, _daemon, _fuzzing, _http, arrays
from gpuemu._shared import SharedFile

SEED = 2**63 + 12345  # no double holds it


def softmax(inputs: dict[str, Any]) -> Any:
    x = inputs["input"].astype(np.float64)
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
        return (e / e.sum(-1, keepdims=True)).astype(inputs["input"].dtype)


def doubled(inputs: dict[str, Any]) -> Any:
    return (softmax(inputs) * 2).astype(inputs["input"].dtype)


def test_ping(client: Client) -> None:
    reply = client.ping()
    assert reply["protocol_version"] == 2
    assert reply["uptime_secs"] >= 0
    assert reply["version"]


def test_right_kernel_passes(client: Client) -> None:
    results = client.fuzz_op_client_side("softmax", softmax, iterations=150, seed=SEED)
    assert (results.seed, results.total, results.failed, results.not_run) == (SEED, 150, 0, 0)
    assert results.passed + results.undecided == 150
    assert results.passed > 130
    assert results.ok


MINE = {
    "dims": [{"name": "rows", "candidates": [4]}, {"name": "n", "candidates": [6]}],
    "inputs": [{"name": "x", "dims": ["rows", "n"]}],
    "output": {"name": "y", "dims": ["rows", "n"]},
}


def mine(inputs: dict[str, Any]) -> Any:
    return inputs["x"] * 2


def wrong_mine(inputs: dict[str, Any]) -> Any:
    return inputs["x"] * 2 + 1


@pytest.fixture()
def elsewhere(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of another machine: with a home of its own, and nothing in its store."""
    client.ping()  # its daemon is started in its own home
    monkeypatch.setenv("GPUEMU_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.delenv("GPUEMU_SOCKET", raising=False)
    with Client() as other:
        other.ping()
        yield other
    binary = str(_daemon.find_binary())
    subprocess.run([binary, "daemon", "stop"], check=False, capture_output=True, timeout=60)


def test_op_of_the_caller_alone_is_replayed_elsewhere(client: Client, elsewhere: Client) -> None:
    results = client.fuzz_op_client_side(
        "mine", wrong_mine, iterations=2, seed=1, op_schema=MINE, reference=mine, value_distribution="normal",
        layouts=["strided"],
    )  # fmt: skip
    first = results.failures[0]
    assert ":strided:normal seed=" in first.case
    call = f"Client().replay({first.case!r}, run_op, op_schema=op_schema, reference=reference)"
    assert first.replay_command == call and "replay: " + call in repr(first)

    names = {"Client": lambda: elsewhere, "op_schema": MINE, "reference": mine, "run_op": wrong_mine}
    again = eval(call, names)  # what was printed, as a user would type it
    assert (again.verdict, again.case, again.message) == ("fail", first.case, first.message)
    assert eval(call, {**names, "run_op": mine}).passed

    made = elsewhere.reproduce(first.case, op_schema=MINE)
    assert made.inputs["x"].shape == (4, 6) and not made.executable and made.stored is None
    with pytest.raises(ClientError, match="no case with seed"):
        elsewhere.reproduce(first.seed, op_schema=MINE)
    assert first.repro_info is not None and first.repro_info.strides == tuple(s // 2 for s in made.inputs["x"].strides)
    made = elsewhere.reproduce(first.case, op_schema=MINE, run_op=wrong_mine, reference=mine)
    assert made.still_fails and not made
    np.testing.assert_array_equal(made.inputs["x"], client.reproduce(first.case).inputs["x"])

    small = elsewhere.minimize(first.case, op_schema=MINE, run_op=wrong_mine, reference=mine)
    assert small.executed > 0 and small.result.verdict == "fail" and not small.unchanged
    assert small.result.replay_command.endswith("run_op, op_schema=op_schema, reference=reference)")
    with pytest.raises(ClientError, match="op_schema=op_schema, reference=reference"):
        elsewhere.reproduce(first.case)


def test_sizes_of_the_caller_are_replayed_elsewhere(client: Client, elsewhere: Client) -> None:
    schema = dict(MINE, inputs=[{"name": "input", "dims": ["rows", "n"]}])
    results = client.fuzz_op_client_side("softmax", doubled, iterations=3, seed=1, op_schema=schema,
                                         value_distribution="normal")  # fmt: skip
    first = results.failures[0]
    assert "dims=rows:4,n:6" in first.case
    assert first.replay_command == f"Client().replay({first.case!r}, run_op, op_schema=op_schema)"
    again = elsewhere.replay(first.case, doubled, op_schema=schema)
    assert (again.verdict, again.message, again.raw["reference"]) == ("fail", first.message, "builtin:softmax")
    assert elsewhere.replay(first.case, softmax, op_schema=schema).passed
    batch = client.get_test_batch("softmax", 2, 1, schema, value_distribution="normal")
    assert [client.submit_output("softmax", c["inputs"], c["inputs"]["input"], c["seed"]).case for c in batch] == [
        c["case"] for c in batch
    ]


def test_given_inputs_are_in_the_store_alone(client: Client, tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = client.validate_op("softmax", {"input": x}, x, seed=4711)
    export = tmp_path / "inputs.safetensors"
    note = "this store alone has the inputs: gpuemu reproduce 4711 --op softmax --export FILE.safetensors"
    assert note in repr(result) and ":stored" in result.case
    assert client.replay(result.case, softmax).passed
    command = [str(_daemon.find_binary()), "reproduce", "4711", "--op", "softmax", "--export", str(export)]
    subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert x.tobytes() in export.read_bytes()
    own = client.submit_output("mine", {"x": x}, x + 1, 4712, expected=x)
    call = f"Client().replay({own.case!r}, run_op, reference=reference)"
    again = client.replay(own.case, lambda i: i["x"] + 1, reference=lambda i: i["x"])
    assert own.replay_command == call == again.replay_command and again.verdict == "fail"
    with pytest.raises(ClientError, match="neither"):
        client.replay(own.case.replace(":stored", ":normal"), softmax)
    small = client.minimize(own.case, run_op=lambda i: i["x"] + 1, reference=lambda i: i["x"])
    assert small.unchanged and small.case == own.case
    lost = client.validate_op("softmax", {"input": x}, x, store="none")
    assert "does not give its inputs, and they are not stored" in repr(lost)


def test_wrong_kernel_fails(client: Client) -> None:
    results = client.fuzz_op_client_side("softmax", doubled, iterations=20, seed=1, value_distribution="normal")
    assert results.failed == 20 and not results.ok
    first = results.failures[0]
    assert first.reason == "mismatch"
    assert "scaled by 2.000" in str(results)
    assert first.case in first.replay_command
    again = client.replay(first.case, doubled)
    assert (again.verdict, again.case, again.message) == ("fail", first.case, first.message)
    assert client.replay(first.case, softmax).passed
    assert first.repro_info is not None and first.repro_info.shape == (8, 7, 64)
    assert first.repro_info.layout == "contiguous"


def test_same_seed_same_cases(client: Client) -> None:
    def cases(**options: Any) -> list[str]:
        seen: list[str] = []
        client.fuzz_op_client_side(
            "relu",
            lambda i: np.maximum(i["input"], 0),
            iterations=40,
            on_case=lambda c, *_: seen.append(c.text),
            **options,
        )
        return seen

    one = cases(seed=7)
    assert one == cases(seed=7)
    assert one != cases(seed=8)
    assert one == [c["case"] for c in client.get_test_batch("relu", 40, seed=7)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 100])
def test_every_case_is_judged_once(client: Client, count: int) -> None:
    seen: list[int] = []
    results = client.fuzz_op_client_side(
        "relu", lambda i: np.maximum(i["input"], 0), iterations=count, seed=1,
        on_case=lambda case, inputs, outputs, result: seen.append(case.index),
    )  # fmt: skip
    assert seen == list(range(count))
    assert results.total == count


def test_small_batches_of_bytes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fuzzing, "BATCH_BYTES", 1)  # one case a batch
    results = client.fuzz_op_client_side("softmax", softmax, iterations=5, seed=1)
    assert results.total == 5 and results.failed == 0


def test_hook_gets_fresh_inputs(client: Client) -> None:
    def greedy(inputs: dict[str, Any]) -> Any:
        out = np.maximum(inputs["input"], 0)
        inputs["input"][...] = 7
        return out

    def look(case: Any, inputs: dict[str, Any], outputs: Any, result: Any) -> None:
        assert np.array_equal(outputs["output"], np.maximum(inputs["input"], 0), equal_nan=True)
        assert result.reason == "input_modified"

    sizes = {"B": [2], "S": [1, 7], "H": [64, 257]}  # never empty: nothing can be modified there
    results = client.fuzz_op_client_side(
        "relu", greedy, iterations=60, seed=1, dtypes=["float32"], shapes=sizes, on_case=look
    )
    assert results.failed == 60


def test_fail_fast_ends_at_the_first_failure(client: Client) -> None:
    calls: list[int] = []

    def sometimes(inputs: dict[str, Any]) -> Any:
        calls.append(1)
        return softmax(inputs) if len(calls) < 5 else doubled(inputs)

    results = client.fuzz_op_client_side(
        "softmax", sometimes, iterations=1000, seed=1, fail_fast=True, value_distribution="normal"
    )
    assert (results.total, results.failed) == (5, 1)
    assert len(calls) < 200


def test_exception_of_the_kernel(client: Client) -> None:
    def raises(inputs: dict[str, Any]) -> Any:
        raise ValueError("no such tile")

    results = client.fuzz_op_client_side("softmax", raises, iterations=3, seed=1)
    assert results.failed == 3
    assert results.failures[0].verdict == "error" and results.failures[0].reason == "raised"
    assert "ValueError: no such tile" in results.failures[0].message
    assert "raise ValueError" in results.failures[0].raw["stderr"]


def test_keyboard_interrupt_ends_the_run(client: Client) -> None:
    def interrupted(inputs: dict[str, Any]) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.fuzz_op_client_side("softmax", interrupted, iterations=1000, seed=1)
    assert client.ping()  # and the client still works


def test_no_file_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SharedFile] = []  # other processes have files in the same directory

    class Recorded(SharedFile):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr("gpuemu._shared.SharedFile", Recorded)
    with Client() as client:
        client.fuzz_op_client_side("softmax", softmax, iterations=20, seed=1)
        assert made and all(os.path.exists(file.path) for file in made), "they are kept for the next run"
    assert not [file.path for file in made if os.path.exists(file.path)]


def test_options_select_cases(client: Client) -> None:
    batch = client.get_test_batch(
        "layernorm", 20, seed=3, dtypes=["float16"], layouts=["transposed"], value_distribution="uniform",
        shapes={"H": [33]}, attrs={"eps": 0.5},
    )  # fmt: skip
    texts = [case["case"] for case in batch]
    assert len(texts) == 20
    for text in texts:
        assert "dtype=float16" in text and "H:33" in text and "eps:0.5" in text
        assert "input:float16" in text and ":transposed:uniform" in text


def test_layouts_are_real(client: Client) -> None:
    strides = set()
    for case in client.get_test_batch(
        "relu", 30, seed=1, dtypes=["float32"], layouts=["strided"], shapes={"B": [2], "S": [3], "H": [5]}
    ):
        x = case["inputs"]["input"]
        strides.add(x.strides)
        assert x.shape == (2, 3, 5)
        result = client.submit_output("relu", case["inputs"], np.maximum(x, 0), case["seed"])
        assert result.passed, result
    assert any(s[-1] != 4 for s in strides)


def test_submitted_inputs_may_differ_from_the_case(client: Client) -> None:
    case = client.get_test_case("relu", seed=5, dtypes=["float32"], value_distribution="normal", shapes={"B": [2]})
    case["inputs"]["input"] += 1
    result = client.submit_output("relu", case["inputs"], np.maximum(case["inputs"]["input"], 0), case["seed"])
    assert result.passed
    assert result.case != case["case"]


def test_batch_is_a_sequence(client: Client) -> None:
    batch = client.get_test_batch("relu", 5, seed=9)
    assert len(batch) == 5 and batch.seed == 9
    whole = [c["case"] for c in batch]
    assert batch[0]["case"] == whole[0] and batch[-1]["case"] == whole[-1]
    assert [c["case"] for c in batch[1:3]] == whole[1:3]
    with pytest.raises(IndexError):
        batch[5]
    with pytest.raises(ClientError, match="at least one"):
        client.get_test_batch("relu", 0)


def test_leaving_a_stream_early(client: Client) -> None:
    for _ in client.get_test_batch("softmax", 1000, seed=1):
        break
    assert client.ping()


def test_own_schema(client: Client) -> None:
    schema = {
        "name": "scale", "dims": [{"name": "N", "candidates": [1, 7, 64]}], "inputs": [{"name": "x", "dims": ["N"]}],
        "output": {"name": "y", "dims": ["N"]},
    }  # fmt: skip
    for case in client.get_test_batch(
        "scale", 10, seed=1, op_schema=schema, dtypes=["float32"], value_distribution="normal"
    ):
        x = case["inputs"]["x"]
        right = client.submit_output("scale", case["inputs"], x * 2, case["seed"], expected=x.astype(np.float64) * 2)
        wrong = client.submit_output("scale", case["inputs"], x * 2.01, case["seed"], expected=x.astype(np.float64) * 2)
        assert right.passed, right
        assert wrong.reason == "mismatch"


def test_validate_op(client: Client) -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert client.validate_op("matmul", {"a": a, "b": b}, a @ b).passed
    wrong = client.validate_op("matmul", {"a": a, "b": b}, a @ b + 1, seed=77)
    assert not wrong.passed and wrong.seed == 77
    assert wrong.max_diff == pytest.approx(1)
    assert wrong.failures[0]["kind"] == "mismatch"
    stored = client.get_result(77)
    assert stored is not None and stored.message == wrong.message
    assert client.get_result(78) is None
    with pytest.raises(ClientError, match="float32, not float16"):
        client.validate_op("matmul", {"a": a, "b": b}, a @ b, dtype="float16")
    narrow = {"a": a.astype(np.int8), "b": b.astype(np.int8)}
    narrow |= {"scale_a": np.ones(2, np.float32), "scale_b": np.ones(4, np.float32)}
    for wanted, got, passed in (("float16", "float16", True), ("float32", "float16", False), (None, "float16", True)):
        assert client.validate_op("int8_matmul", narrow, (a @ b).astype(got), dtype=wanted).passed == passed
    for got, passed in (("int32", True), ("int64", True), ("float32", False)):
        index = np.argmax(a[None], axis=-1).astype(got)
        assert client.validate_op("argmax", {"input": a[None]}, index).passed == passed
    assert wrong.seed in [r.seed for r in client.list_failures(limit=50)]
    assert wrong.seed in [r.seed for r in client.list_results(limit=50)]
    assert len(client.list_results(limit=1)) == 1


def test_attributes(client: Client) -> None:
    x = np.array([[-2.0, 4.0]], np.float32)
    inputs = {"input": x.reshape(1, 1, 2)}
    assert client.validate_op("leaky_relu", inputs, np.where(x > 0, x, 0.25 * x).reshape(1, 1, 2), alpha=0.25).passed
    assert not client.validate_op("leaky_relu", inputs, np.where(x > 0, x, 0.25 * x).reshape(1, 1, 2)).passed
    with pytest.raises(ClientError, match="alhpa"):
        client.validate_op("leaky_relu", inputs, x.reshape(1, 1, 2), alhpa=0.25)
    with pytest.raises(ClientError, match="'alpha' is a list"):
        client.validate_op("leaky_relu", inputs, x.reshape(1, 1, 2), alpha=[1])


def test_unknown_operator(client: Client) -> None:
    with pytest.raises(ClientError) as caught:
        client.fuzz_op_client_side("sofmax", softmax)
    assert "softmax" in str(caught.value) and caught.value.code


def test_large_output_goes_through(client: Client) -> None:
    x = np.ones((64, 64, 1024), np.float32)  # 16 MiB: more than one write
    assert client.validate_op("relu", {"input": x}, x).passed


def test_compare(client: Client) -> None:
    a = np.array([1.0, 4.0], np.float32)
    assert client.compare(a, a)["passed"]
    reply = client.compare(a, a + np.float32(0.5), atol=0.1, rtol=0)
    assert not reply["passed"] and reply["outputs"][0]["max_abs"] == pytest.approx(0.5)
    assert client.compare(a, a + np.float32(0.5), atol=0.6)["passed"]
    assert not client.compare(a, np.array([1.0, np.nan], np.float32), atol=1e9)["passed"]


def test_fit_tolerance(client: Client) -> None:
    samples = [{"max_abs": i / 1000, "max_want": 1.0} for i in range(100)]
    reply = client.fit_tolerance("float32", samples)
    assert reply["atol"] == pytest.approx(1.5 * 0.094, rel=0.05) and "misses" not in reply
    bins = [{"want": 2.0**-k, "max_abs": 2.0**-k / 1000, "count": 5} for k in range(8)]
    reply = client.fit_tolerance("float32", [{**sample, "bins": bins} for sample in samples])
    assert 0.001 < reply["rtol"] < 0.003 and reply["atol"] < 1e-5 and reply["false_alarms"] == 0
    assert [(miss["error"], miss["share"]) for miss in reply["misses"]] == [
        ("zeros", 0), ("10 % off", 0), ("1 % off", 0), ("0.1 % off", 1)
    ]  # fmt: skip
    with pytest.raises(ClientError, match="would accept zeros for 100 % of them"):
        client.fit_tolerance("float32", [{"max_abs": 1.0, "max_want": 1.0}] * 40)


def test_check_gradients(client: Client) -> None:
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=(1, 4, 7)).astype(np.float32), rng.normal(size=(1, 4, 7)).astype(np.float32)
    y = softmax({"input": x}).astype(np.float64)
    grad = (y * (g - (g * y).sum(-1, keepdims=True))).astype(np.float32)
    assert client.check_gradients("softmax", {"input": x}, g, {"input": grad}).passed
    wrong = client.check_gradients("softmax", {"input": x}, g, {"input": (y * g).astype(np.float32)})
    assert wrong.verdict == "fail"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(
        "import numpy as np\ndef double(inputs):\n    return np.maximum(inputs['input'], 0) * 2\n"
    )
    config = tmp_path / "gpuemu.toml"
    config.write_text('[project]\nname = "t"\n[[ops]]\nname = "relu"\ncandidate = "kernels.py:double"\n')
    return config


def test_configured_candidate(project: Path) -> None:
    with Client(config=str(project)) as client:
        results = client.fuzz_op(
            "relu", seed=3, iterations=20, batch_sizes=[2], seq_lengths=[3], hidden_dims=[17], dtypes=["float32"]
        )
        assert isinstance(results, FuzzResults)
        assert results.failed > 0 and results.total >= results.failed
        failure = results.failures[0]
        assert failure.repro_info is not None and failure.repro_info.shape == (2, 3, 17)
        again = client.reproduce(failure.seed)
        assert again.still_fails and again.executable
        assert again.inputs["input"].shape == (2, 3, 17)
        assert client.reproduce(failure.case).result.message == again.result.message
        small = client.minimize(failure.seed)
        assert np.prod(small.minimized_shape) < np.prod((2, 3, 17))
        assert small.original_seed == failure.seed and not small.unchanged


def test_bad_configuration_says_where(tmp_path: Path) -> None:
    config = tmp_path / "gpuemu.toml"
    config.write_text('[[ops]]\nname = "relu"\ncadidate = "x.py:f"\n')
    with Client(config=str(config)) as client, pytest.raises(ClientError) as caught:
        client.fuzz_op("relu")
    assert "gpuemu.toml:3" in caught.value.position and "candidate" in caught.value.hint


def test_daemon_that_was_stopped_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUEMU_HOME", str(tmp_path))
    binary = _daemon.find_binary()
    assert binary is not None
    with Client() as client:
        first = client.ping()["pid"]
        subprocess.run([binary, "daemon", "stop"], check=True, capture_output=True)
        assert client.list_results() == []
        assert client.ping()["pid"] != first
        subprocess.run([binary, "daemon", "stop"], check=True, capture_output=True)


def test_no_daemon_is_an_error_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a second, where the machine is not too busy: nobody waits, and to connect may take no longer."""

    def waits(seconds: float) -> None:
        raise AssertionError(f"somebody waits for {seconds} s")

    monkeypatch.setattr(time, "sleep", waits)
    assert _http.CONNECT_TIMEOUT <= 1
    with pytest.raises(ConnectionFailed, match="no daemon answers"):
        Client(str(tmp_path / "none.sock"), start=False).ping()
    monkeypatch.setenv("GPUEMU_BINARY", str(tmp_path / "nothing"))
    with pytest.raises(ConnectionFailed, match="nothing"):
        Client(str(tmp_path / "none.sock")).ping()
    monkeypatch.delenv("GPUEMU_BINARY")
    monkeypatch.setattr(_daemon, "find_binary", lambda: None)
    with pytest.raises(ConnectionFailed, match="no gpuemu binary"):
        Client(str(tmp_path / "none.sock")).ping()


def test_one_of_two_names_for_the_kernel(client: Client) -> None:
    assert (
        client.fuzz_op_client_side("relu", op_fn=lambda i: np.maximum(i["input"], 0), iterations=3, seed=1).passed == 3
    )
    with pytest.raises(TypeError, match="exactly one"):
        client.fuzz_op_client_side("relu")
    with pytest.raises(TypeError, match="exactly one"):
        client.fuzz_op_client_side("relu", softmax, op_fn=softmax)


def test_tolerance_replaces_the_bound(client: Client) -> None:
    x = {"input": np.ones((1, 1, 4), np.float32)}
    off = np.full((1, 1, 4), 1.001, np.float32)
    assert not client.validate_op("relu", x, off).passed
    assert client.validate_op("relu", x, off, tolerance={"atol": 0.01, "rtol": 0}).passed
    options: dict[str, Any] = {"iterations": 10, "seed": 1, "dtypes": ["float32"], "value_distribution": "normal"}

    def near(inputs: dict[str, Any]) -> Any:
        return np.maximum(inputs["input"], 0) * np.float32(1.001)

    assert client.fuzz_op_client_side("relu", near, **options).failed > 5
    assert client.fuzz_op_client_side("relu", near, tolerance={"atol": 0, "rtol": 0.01}, **options).passed == 10


def test_reference_of_the_caller(client: Client) -> None:
    schema = {
        "name": "axpy", "dims": [{"name": "N", "candidates": [1, 7, 64]}],
        "inputs": [{"name": "x", "dims": ["N"]}, {"name": "y", "dims": ["N"]}], "output": {"name": "z", "dims": ["N"]},
    }  # fmt: skip

    def reference(inputs: dict[str, Any]) -> Any:
        assert inputs["x"].dtype == np.float64
        return inputs["x"] * 3 + inputs["y"]

    options: dict[str, Any] = {"op_schema": schema, "reference": reference, "iterations": 20, "seed": 1,
                               "dtypes": ["float32"], "value_distribution": "normal"}  # fmt: skip
    right = client.fuzz_op_client_side("axpy", lambda i: i["x"] * np.float32(3) + i["y"], **options)
    assert (right.passed, right.failed) == (20, 0)
    wrong = client.fuzz_op_client_side("axpy", lambda i: i["x"] * np.float32(3.01) + i["y"], **options)
    assert wrong.failed == 20


def test_failures_can_be_made_again_from_what_they_carry(client: Client) -> None:
    options: dict[str, Any] = {"iterations": 1, "dtypes": ["float32"], "value_distribution": "normal"}
    sizes = {"B": [2], "S": [3], "H": [5]}
    results = client.fuzz_op_client_side("softmax", doubled, seed=4, shapes=sizes, layouts=["transposed"], **options)
    info = results.failures[0].repro_info
    assert info is not None and info.input_snapshot is not None
    raw = base64.b64decode(info.input_snapshot["input"]["data"])
    array = np.frombuffer(raw, np.float32).reshape(info.input_snapshot["input"]["shape"])
    assert np.array_equal(array, client.reproduce(info.case).inputs["input"])
    assert len(info.strides) == 3 and info.strides[-1] != 1
    config = info.fuzz_config
    assert isinstance(config, FuzzConfig)
    assert (config.seed, config.iterations, config.dtypes, config.layouts) == (4, 1, ["float32"], ["transposed"])
    assert (config.batch_sizes, config.seq_lengths, config.hidden_dims) == ([2], [3], [5])
    assert config.options["values"] == "normal"


def test_minimize_a_kernel_of_this_process(client: Client) -> None:
    def tail(inputs: dict[str, Any]) -> Any:
        out = softmax(inputs)
        out[..., 32:] = 0  # wrong where a row is longer than a tile
        return out

    results = client.fuzz_op_client_side("softmax", tail, iterations=20, seed=1, value_distribution="normal")
    found = client.minimize(results.failures[0].seed, run_op=tail)
    assert found.minimized_shape == (1, 1, 33), found
    assert found.executed > 0 and not found.unchanged
    again = client.minimize(found.case, run_op=tail)
    assert again.unchanged and again.case == found.case
    with pytest.raises(ClientError, match="does not fail now"):
        client.minimize(found.case, run_op=softmax)
    with pytest.raises(ClientError, match="no case with seed 99"):
        client.minimize(99, run_op=tail)


def test_own_op_without_a_reference(client: Client) -> None:
    with pytest.raises(ClientError, match="reference=") as caught:
        client.fuzz_op_client_side("axpy", softmax)
    assert caught.value.code == "campaign-unknown-op"


def test_findings_of_the_first_run_stay_where_the_second_raises(client: Client) -> None:
    calls: list[int] = []

    def once(inputs: dict[str, Any]) -> Any:
        calls.append(1)
        if len(calls) % 2 == 0:
            raise ValueError("only once")
        inputs["input"][...] = 7
        return np.zeros_like(inputs["input"])

    options: dict[str, Any] = {"iterations": 1, "seed": 1, "shapes": {"B": [2]}}
    results = client.fuzz_op_client_side("relu", once, repeat=True, **options)
    assert results.failures[0].reason in ("raised", "input_modified")
    assert [f["kind"] for f in results.failures[0].findings] == ["input_modified"]


def test_mistakes_of_the_caller_are_named(client: Client) -> None:
    x = {"input": np.ones((1, 1, 2), np.float32)}
    for wrong in (1e-3, {"abs": 1}, {}):
        with pytest.raises(ClientError, match="tolerance is"):
            client.validate_op("relu", x, x["input"], tolerance=wrong)
    assert client.validate_op("relu", x, x["input"], tolerance={"atol": 0.1}).passed
    with pytest.raises(ClientError, match="0 iterations"):
        client.fuzz_op_client_side("relu", softmax, iterations=0)
    one = client.fuzz_op_client_side("softmax", softmax, iterations=2, seed=1, dtypes="float32", layouts="strided")
    assert one.passed == 2
    options: dict[str, Any] = {"iterations": 2, "seed": 1, "dtypes": ["float32"]}
    for bad, words in ((lambda i: None, "None"), (lambda i: i["input"] * 1j, "complex"), (lambda i: 1.0, "shape")):
        with pytest.raises(ClientError, match=f"the reference returned.*{words}"):
            client.fuzz_op_client_side("softmax", softmax, reference=bad, **options)


def test_slow_kernels_and_references_get_small_batches(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = _fuzzing.fetch

    def fetch(transport: Any, request: dict[str, Any], shared: Any) -> Any:
        sizes.append(request["count"])
        return original(transport, request, shared)

    monkeypatch.setattr(_fuzzing, "fetch", fetch)

    def slow(inputs: dict[str, Any]) -> Any:
        time.sleep(0.05)
        return softmax(inputs)

    assert client.fuzz_op_client_side("softmax", slow, iterations=20, seed=1).total == 20
    assert max(sizes) <= 5, sizes  # 0.25 s of 0.05 s each
    sizes.clear()
    monkeypatch.setattr(_fuzzing, "BATCH_SECONDS", 1e9)  # fast is what takes less, however busy the machine is
    options: dict[str, Any] = {"shapes": {"B": [1], "S": [1], "H": [3]}, "dtypes": ["float32"]}
    assert client.fuzz_op_client_side("softmax", softmax, iterations=600, seed=1, **options).total == 600
    assert sizes[:3] == [1, 1, 1] and max(sizes) > 16, sizes


def test_types_without_ml_dtypes_are_not_run_and_say_why(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.delitem(arrays._numpy_dtypes, "bfloat16", raising=False)
    options: dict[str, Any] = {"iterations": 3, "seed": 1, "dtypes": ["bfloat16"]}
    results = client.fuzz_op_client_side("relu", lambda i: np.maximum(i["input"], 0), **options)
    assert (results.total, results.not_run, results.passed, results.failed) == (3, 3, 0, 0)
    assert not results.ok
    assert results.unjudged[0].reason == "missing_package"
    assert "ml_dtypes" in results.unjudged[0].message and "pip install ml_dtypes" in results.unjudged[0].hint


def test_the_environment_is_that_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """References run with the variables of the request, whatever the daemon was started with."""
    (tmp_path / "gpuemu.toml").write_text(
        '[[ops]]\nname = "scaled"\nreference = "ref.py:scaled"\ntolerances = { float32 = 1e-6 }\n'
    )
    (tmp_path / "ref.py").write_text(
        "import os\n\ndef scaled(inputs):\n"
        "    assert 'GPUEMU_A_SECRET' not in os.environ and 'SOME_TOKEN' not in os.environ\n"
        "    return inputs['input'].astype('float64') * float(os.environ['TRITON_FACTOR'])\n"
    )
    monkeypatch.setenv("GPUEMU_A_SECRET", "1")
    monkeypatch.setenv("SOME_TOKEN", "1")
    array = np.array([1.0, 2.0], dtype=np.float32)
    with Client(config=str(tmp_path)) as own:
        for factor in (2, 3, 2):
            monkeypatch.setenv("TRITON_FACTOR", str(factor))
            result = own.validate_op("scaled", {"input": array}, array * np.float32(factor))
            assert result.passed, result


def test_nobodys_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gpuemu.toml above the working directory counts inside a repository, and not where anybody may have put it."""
    (tmp_path / "gpuemu.toml").write_text('[[ops]]\nname = "softmax"\ntolerances = { float32 = 1e9 }\n')
    here = tmp_path / "project" / "tests"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)

    def wrong(inputs: dict[str, Any]) -> Any:
        return softmax(inputs) + np.float32(0.25)

    with Client() as own:
        assert own.fuzz_op_client_side("softmax", wrong, iterations=10, dtypes=["float32"]).failed > 5
    with Client(config=str(tmp_path)) as own:
        assert own.fuzz_op_client_side("softmax", wrong, iterations=10, dtypes=["float32"]).failed == 0
    (tmp_path / ".git").mkdir()
    with Client() as own:
        assert own.fuzz_op_client_side("softmax", wrong, iterations=10, dtypes=["float32"]).failed == 0
    (here / "gpuemu.toml").write_text("not = [")
    with Client() as own, pytest.raises(ClientError, match=r"tests/gpuemu\.toml:1:"):
        own.fuzz_op_client_side("softmax", wrong, iterations=10)


def test_what_a_client_was_made_with(private_home: Path) -> None:
    assert Client("/nowhere/gpuemu.sock", 1500).socket_path == "/nowhere/gpuemu.sock"
    assert Client("/nowhere/gpuemu.sock", 1500).timeout_ms == 1500
    assert Client(daemon=True).socket_path == str(private_home / "gpuemu.sock") and Client().timeout_ms == 30000
