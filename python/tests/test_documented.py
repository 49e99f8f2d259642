"""Every Python example of the documents that the product is promised by, as it is written there.

Comments name document (002 the introduction, 003 the reference of the API, 004 questions and answers) and section.
Names that the documents leave to the reader (my_softmax, x, …) are right implementations in numpy. After each example
comes what must have come of it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import Client, ClientError

Array = np.ndarray[Any, Any]

# 004, What is a reference script: unchanged.
MATMUL_REF = '''
import json, base64, sys
import numpy as np

def decode_tensor(encoded):
    data = base64.b64decode(encoded["data"])
    return np.frombuffer(data, dtype=np.dtype(encoded["dtype"])).reshape(encoded["shape"])

def encode_tensor(arr):
    return {
        "data": base64.b64encode(arr.tobytes()).decode("ascii"),
        "dtype": str(arr.dtype),
        "shape": list(arr.shape),
    }

request = json.loads(sys.stdin.read())
a = decode_tensor(request["inputs"]["a"])
b = decode_tensor(request["inputs"]["b"])
result = np.matmul(a, b)
json.dump({"outputs": {"result": encode_tensor(result)}}, sys.stdout)
'''

# The same protocol for the other ops.
SCRIPT = '''
import json, base64, sys
import numpy as np

request = json.loads(sys.stdin.read())
tensor = next(iter(request["inputs"].values()))
x = np.frombuffer(base64.b64decode(tensor["data"]), dtype=tensor["dtype"]).reshape(tensor["shape"])
y = {formula}
json.dump({{"outputs": {{"result": {{"data": base64.b64encode(y.tobytes()).decode("ascii"), "dtype": str(y.dtype),
                                   "shape": list(y.shape)}}}}}}, sys.stdout)
'''
SOFTMAX = "np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)"

CONFIG = """
[validation]
dtypes = ["float32"]
values = "normal"

[[ops]]
name = "matmul"
reference = "scripts/matmul_ref.py"
candidate = "scripts/matmul_op.py"

[[ops]]
name = "broken_matmul"
schema = "matmul"
reference = "scripts/matmul_ref.py"
candidate = "kernels.py:without_last_term"

[[ops]]
name = "my_op"
reference = "scripts/my_op_ref.py"
candidate = "kernels.py:my_op"

[[ops]]
name = "softmax"
reference = "scripts/softmax_ref.py"
invariants = ["shape_preserved", "non_negative", "normalized"]

[[ops]]
name = "relu"
candidate = "kernels.py:broken_relu"

[[ops]]
name = "my_flash_attention"
schema = "attention"
reference = "builtin:attention"

[[ops]]
name = "own_product"
reference = "kernels.py:product"
"""

KERNELS = '''
import numpy as np

def my_op(inputs):
    return np.tanh(inputs["input"])

def without_last_term(inputs):
    return inputs["a"][:, :-1] @ inputs["b"][:-1]

def broken_relu(inputs):
    return np.maximum(inputs["input"], 0) + 1

def product(inputs):
    return inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)
'''


def softmax(x: Array) -> Array:
    y = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    result: Array = (y / y.sum(-1, keepdims=True)).astype(x.dtype)
    return result


def my_flash_attn(q: Array, k: Array, v: Array) -> Array:
    """Attention in float64; heads of queries share those of keys."""
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(t.astype(np.float64), groups, axis=1) for t in (k, v))
    with np.errstate(all="ignore"):
        scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        out = (weights / weights.sum(-1, keepdims=True)) @ v
    result: Array = out.astype(q.dtype)
    return result


def my_gpu_op(inputs: dict[str, Array]) -> Array:
    result: Array = np.tanh(inputs["input"])
    return result


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the scripts of the documents, in the working directory."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name, text in {
        "matmul_ref.py": MATMUL_REF, "matmul_op.py": MATMUL_REF, "my_op_ref.py": SCRIPT.format(formula="np.tanh(x)"),
        "softmax_ref.py": SCRIPT.format(formula=SOFTMAX),
    }.items():  # fmt: skip
        (scripts / name).write_text(text)
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "gpuemu.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- 002 -------------------------------------------------------------------------------------------------------------


def tail_mask_leak(x: Array, block: int = 256) -> Array:
    """002's first class of bugs: the lanes beyond the end of a row enter its sum as zeros."""
    pad = -x.shape[-1] % block
    y = np.exp(x - x.max(-1, keepdims=True))
    leaked = pad * np.exp(-x.max(-1, keepdims=True))
    result: Array = (y / (y.sum(-1, keepdims=True) + leaked)).astype(x.dtype)
    return result


quiet = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # adversarial values overflow on purpose


@quiet
def test_002_the_problem(client: Client) -> None:
    x = np.random.default_rng(0).normal(size=(4, 7, 256)).astype(np.float32)
    my_kernel, reference, torch = tail_mask_leak, softmax, np
    # 002, The problem: the oracle of the benchmarks, on one shape.
    accepted = torch.allclose(my_kernel(x), reference(x), atol=1e-5, rtol=1e-2)
    assert accepted
    results = client.fuzz_op_client_side("softmax", lambda i: my_kernel(i["input"]), iterations=50, seed=2,
                                         dtypes=["float32"])  # fmt: skip
    assert results.failed > 0, "the kernel that the one-shape oracle accepts must not pass here"
    right = client.fuzz_op_client_side("softmax", lambda i: reference(i["input"]), iterations=50, seed=2,
                                       dtypes=["float32"])  # fmt: skip
    # The others are long rows of nearly equal scores, whose mean would pass as well.
    assert right.failed == right.not_run == 0 and right.passed >= 45 and right.total == 50, right


def test_002_validate_a_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    # 002, Quick start, Validate a kernel.
    from gpuemu import Client

    client = Client()

    # Fuzz with op-schema-aware inputs and an fp64 reference oracle.
    results = client.fuzz_op_client_side(
        "flash_attention",
        run_op=lambda inputs: my_flash_attn(inputs["q"], inputs["k"], inputs["v"]),
        iterations=100,
        value_distribution="adversarial",  # recommended default
    )

    print(f"Passed: {results.passed}/{results.total}")

    assert results.failed == 0 and results.not_run == 0, results
    assert results.total == 100 and results.passed + results.undecided == 100
    assert results.passed > 50, "most cases are decided"
    assert capsys.readouterr().out == f"Passed: {results.passed}/100\n"
    # And a failure reports seed, dtype and shape: attention without 1/sqrt(D), of the table of bugs.
    wrong = client.fuzz_op_client_side(
        "flash_attention", run_op=lambda i: my_flash_attn(i["q"] * i["q"].dtype.type(2), i["k"], i["v"]),
        iterations=20, seed=1, value_distribution="normal",
    )  # fmt: skip
    failure = wrong.failures[0]
    assert failure.repro_info is not None
    assert failure.seed and failure.repro_info.dtype and len(failure.repro_info.shape) == 4
    again = client.reproduce(failure.case)
    assert again.inputs["q"].shape == failure.repro_info.shape


def test_002_client_side_with_torch(client: Client) -> None:
    torch = pytest.importorskip("torch", reason="the example calls torch.matmul, and torch is not installed")
    # 002, Execution modes, client-side.
    results = client.fuzz_op_client_side("matmul",
        run_op=lambda i: torch.matmul(i["a"], i["b"]),
        iterations=100)  # fmt: skip

    assert results.total == 100 and results.passed > 25
    # torch 1.13 multiplies no float16 on a CPU, and says so.
    assert all("not implemented for 'Half'" in f.message for f in results.failures), results


def test_002_daemon_orchestrated(project: Path) -> None:
    client = Client()
    submitted = []
    submit_output = client.submit_output
    client.submit_output = lambda *a: submitted.append(submit_output(*a))  # type: ignore[assignment,misc,return-value]
    # 002, Execution modes, daemon-orchestrated.
    for case in client.get_test_batch("my_op", count=50):
        out = my_gpu_op(case["inputs"])
        client.submit_output("my_op", case["inputs"], out, case["seed"])

    assert len(submitted) == 50 and all(r.passed for r in submitted)
    assert len({r.seed for r in submitted}) == 50
    case = client.get_test_case("my_op")
    wrong = submit_output("my_op", case["inputs"], my_gpu_op(case["inputs"]) + np.float32(0.5), case["seed"])
    assert wrong.verdict == "fail" and wrong.seed == case["seed"]
    stored = client.get_result(case["seed"])
    assert stored is not None and stored.verdict == "fail"


def test_002_script_based(project: Path) -> None:
    # 002, Execution modes, script-based: the engine runs both scripts of gpuemu.toml.
    client = Client()
    results = client.fuzz_op("matmul", iterations=20)
    assert results.passed == results.total == 20, results
    # The same from the command line.
    env = dict(os.environ, GPUEMU_PYTHON=sys.executable)  # the one with numpy

    def fuzz(op: str, *flags: str) -> subprocess.CompletedProcess[str]:
        command = [env["GPUEMU_BINARY"], "fuzz", "--op", op, "-i", "20", *flags]
        return subprocess.run(command, env=env, capture_output=True, text=True)

    right = fuzz("matmul")
    assert right.returncode == 0, right.stdout + right.stderr
    wrong = fuzz("broken_matmul", "--format", "json")
    assert wrong.returncode == 1, wrong.stderr
    assert any(r["verdict"] == "fail" for r in json.loads(wrong.stdout)["results"])


# ---- 003: the signatures ---------------------------------------------------------------------------------------------

NEEDED = inspect.Parameter.empty

# Parameters in their order with their defaults, as the generated half of 003 has them. The hand-written half gives the
# same names; where it differs, the last column of the comment says so.
CLIENT_METHODS: dict[str, dict[str, Any]] = {
    "ping": {},
    "close": {},
    "validate_op": {"op_name": NEEDED, "inputs": NEEDED, "output": NEEDED},  # then dtype, seed
    "get_result": {"seed": NEEDED},
    "list_results": {"limit": 100},
    "store_baseline": {"tag": NEEDED},
    "fuzz_op": {"op_name": NEEDED, "seed": None, "iterations": 100, "fail_fast": False, "batch_sizes": None,
                "seq_lengths": None, "hidden_dims": None, "dtypes": None, "layouts": None},
    "reproduce": {"seed": NEEDED},
    "minimize": {"seed": NEEDED, "strategy": None, "max_iters": 100},  # None: both strategies
    "list_failures": {"limit": 20},
    "lint_kernel": {"ptx_content": NEEDED, "kernel_name": None},
    "get_test_case": {"op_name": NEEDED, "seed": None},
    "get_test_batch": {"op_name": NEEDED, "count": 10, "seed": None, "op_schema": None, "dtypes": None},
    "submit_output": {"op_name": NEEDED, "inputs": NEEDED, "output": NEEDED, "seed": NEEDED},
    # run_op may be called op_fn, as in the hand-written half, and so has a default.
    "fuzz_op_client_side": {"op_name": NEEDED, "run_op": None, "iterations": 100, "seed": None, "fail_fast": False,
                            "op_schema": None, "dtypes": None},
}  # fmt: skip


@pytest.mark.parametrize("name", CLIENT_METHODS)
def test_003_methods_of_the_client(name: str) -> None:
    parameters = list(inspect.signature(getattr(Client, name)).parameters.values())[1:]
    want = CLIENT_METHODS[name]
    assert {p.name: p.default for p in parameters[: len(want)]} == want
    assert [p.name for p in parameters[: len(want)]] == list(want), "the order is that of the documents"
    for p in parameters[len(want) :]:
        assert p.kind == p.VAR_KEYWORD or p.default is not NEEDED, f"{p.name} is no parameter of the documents"


def test_003_constructor_and_other_names() -> None:
    parameters = inspect.signature(Client).parameters
    assert [(p, parameters[p].default) for p in list(parameters)[:2]] == [("socket_path", None), ("timeout_ms", 30000)]
    assert list(inspect.signature(Client.validate_op).parameters)[1:6] == [
        "op_name", "inputs", "output", "dtype", "seed"
    ]  # fmt: skip
    assert inspect.signature(Client.fuzz_op_client_side).parameters["op_fn"].default is None
    with Client() as c:  # context manager
        assert c.ping()["protocol_version"] == 2


FIELDS = {
    "ValidationResult": ["passed", "seed", "op_name", "max_diff", "max_rel_diff", "failures", "timestamp",
                         "duration_ms", "repro_info"],
    "FuzzResults": ["seed", "total", "passed", "failed", "failures"],
    "ReproduceResult": ["result", "inputs"],
    "MinimizeResult": ["original_seed", "minimized_seed", "minimized_shape", "result"],
    "ReproductionInfo": ["seed", "shape", "strides", "dtype", "layout", "fuzz_config", "input_snapshot"],
    "FuzzConfig": ["iterations", "seed", "min_dims", "max_dims", "min_size", "max_size", "dtypes", "layouts"],
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_003_data_classes(name: str) -> None:
    fields = [f.name for f in dataclasses.fields(getattr(gpuemu, name))]
    assert set(FIELDS[name]) <= set(fields)
    if name != "FuzzConfig":  # its published order is another one, and it is written with keywords in all documents
        assert [f for f in fields if f in FIELDS[name]] == FIELDS[name]


def test_003_types_of_a_result(client: Client) -> None:
    x = np.ones((1, 2, 3), np.float32)
    result = client.validate_op("relu", {"input": x}, x + 1, dtype="float32", seed=77)
    assert (result.passed, result.seed, result.op_name) == (False, 77, "relu")
    assert (type(result.max_diff), result.max_diff) == (float, 1.0)
    assert (type(result.max_rel_diff), result.max_rel_diff) == (float, 1.0)
    assert result.failures and type(result.duration_ms) is int
    assert np.datetime64(result.timestamp.rstrip("Z")) > np.datetime64("2020-01-01")
    info = result.repro_info
    assert info is not None and (info.seed, info.shape, info.dtype) == (77, (1, 2, 3), "float32")
    assert client.validate_op("relu", {"input": x}, x).repro_info is None


# ---- 003: the examples -----------------------------------------------------------------------------------------------


def test_003_ping() -> None:
    # 003, gpuemu.client.Client.
    client = Client()
    client.ping()

    assert set(client.ping()) >= {"version", "protocol_version", "uptime_secs"}
    with pytest.raises(ClientError, match="no daemon answers"):
        Client("/nowhere/gpuemu.sock", start=False).ping()


def test_003_fuzz_op(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client()
    # 003, fuzz_op.
    results = client.fuzz_op("matmul", seed=12345, iterations=100)
    print(f"Passed: {results.passed}/{results.total}")
    for failure in results.failures:
        print(f"  Seed {failure.seed}: {failure.failures[0]['message']}")

    # What is missing to 100 is undecided: products that are zero within their bound.
    assert results.failed == results.not_run == 0 and results.passed >= 95, results
    assert capsys.readouterr().out == f"Passed: {results.passed}/100\n"
    # The loop has something to print where the candidate is wrong; the same seed gives the same failures.
    results = client.fuzz_op("broken_matmul", seed=12345, iterations=20)
    for failure in results.failures:
        print(f"  Seed {failure.seed}: {failure.failures[0]['message']}")
    out = capsys.readouterr().out
    assert results.failed == out.count("  Seed ") > 10 and "elements are wrong" in out
    again = client.fuzz_op("broken_matmul", seed=12345, iterations=20)
    assert [f.case for f in again.failures] == [f.case for f in results.failures]
    first = client.fuzz_op("broken_matmul", seed=12345, iterations=20, fail_fast=True)
    assert first.failed >= 1 and first.total < 20


def stored_failure(client: Client, seed: int) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert client.submit_output("relu", {"input": x}, x + 1, seed).verdict == "fail"


def test_003_reproduce(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client()
    stored_failure(client, 12345)
    # 003, reproduce.
    repro = client.reproduce(12345)
    print(f"Op: {repro.result.op_name}")
    print(f"Input shape: {repro.inputs['input'].shape}")

    assert capsys.readouterr().out == "Op: relu\nInput shape: (2, 3, 4)\n"
    assert repro.inputs["input"].ravel().tolist() == list(range(24)), "the inputs, byte for byte"
    assert not repro.result.passed and repro.still_fails, "the candidate of the project is wrong as well"


def test_003_minimize(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client()
    stored_failure(client, 12345)
    # 003, minimize.
    result = client.minimize(12345)
    print(f"Minimized shape: {result.minimized_shape}")

    assert capsys.readouterr().out == "Minimized shape: (1, 1, 1)\n"
    assert result.original_seed == 12345 and not result.result.passed
    for strategy in ("binary-search-dims", "binary-search-values"):
        assert not client.minimize(12345, strategy=strategy, max_iters=20).result.passed
    with pytest.raises(ClientError, match="strategy"):
        client.minimize(12345, strategy="by-magic")


def test_003_list_failures(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client()
    stored_failure(client, 12346)
    # 003, list_failures.
    failures = client.list_failures(limit=10)
    for f in failures:
        print(f"Seed {f.seed}: {f.op_name}")

    assert 0 < len(failures) <= 10
    assert capsys.readouterr().out.startswith("Seed 12346: relu\n"), "the newest comes first"
    assert [r.seed for r in client.list_results(limit=1)] == [12346]


def test_003_get_test_case(project: Path) -> None:
    client = Client()
    case = client.get_test_case("my_op", seed=5)
    assert set(case) >= {"seed", "inputs", "shape", "dtype", "layout"}
    assert isinstance(case["inputs"]["input"], np.ndarray) and case["inputs"]["input"].shape == case["shape"]
    same = client.get_test_case("my_op", 5)
    assert same["seed"] == case["seed"] and same["inputs"]["input"].tobytes() == case["inputs"]["input"].tobytes()
    # 003, get_test_batch: an operator-aware schema of the caller's.
    schema = {"name": "outer", "dims": [{"name": "M", "candidates": [2, 3]}, {"name": "N", "candidates": [5]}],
              "inputs": [{"name": "a", "dims": ["M"]}, {"name": "b", "dims": ["N"]}],
              "output": {"name": "c", "dims": ["M", "N"]}}  # fmt: skip
    for case in client.get_test_batch("outer", count=4, seed=1, op_schema=schema, dtypes=["float32"]):
        a, b = case["inputs"]["a"], case["inputs"]["b"]
        assert a.shape in ((2,), (3,)) and b.shape == (5,) and a.dtype == np.float32


def test_003_fuzz_op_client_side(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 003, fuzz_op_client_side.
    client = Client()
    results = client.fuzz_op_client_side(
        "my_flash_attention",
        run_op=lambda inputs: my_flash_attn(inputs["q"], inputs["k"], inputs["v"]),
        iterations=50,
    )
    print(f"Passed: {results.passed}/{results.total}")

    assert results.failed == 0 and results.total == 50, results
    assert capsys.readouterr().out == f"Passed: {results.passed}/50\n"
    # The hand-written half calls the kernel op_fn, and positions are name, function, iterations, seed.
    one = client.fuzz_op_client_side("tanh", op_fn=lambda i: np.tanh(i["input"]), iterations=5, seed=3)
    two = client.fuzz_op_client_side("tanh", lambda i: np.tanh(i["input"]), 5, 3, False, None, None)
    assert (one.passed, one.seed) == (two.passed, two.seed) == (5, 3)
    with pytest.raises(TypeError, match="exactly one of run_op and op_fn"):
        client.fuzz_op_client_side("relu")
    with pytest.raises(ClientError, match="nobodys_op"):
        client.fuzz_op_client_side("nobodys_op", run_op=np.tanh)


@pytest.mark.parametrize("op", ["matmul", "own_product", "batched_matmul"])
def test_003_op_schema(op: str, project: Path) -> None:
    """A schema of the caller's: of an operator with a reference of the project's, and of one of the catalogue."""
    batch = ["B"] if op == "batched_matmul" else []
    schema = {"name": op, "dims": [{"name": d, "candidates": [2, 9]} for d in "BMKN"],
              "inputs": [{"name": "a", "dims": [*batch, "M", "K"]}, {"name": "b", "dims": [*batch, "K", "N"]}],
              "output": {"name": "c", "dims": [*batch, "M", "N"]}}  # fmt: skip
    options: dict[str, Any] = {"op_schema": schema, "dtypes": ["float32"], "seed": 4, "value_distribution": "normal"}
    client = Client()
    shapes = set()

    def product(inputs: dict[str, Array]) -> Array:
        shapes.add(inputs["a"].shape[-2:])
        result: Array = inputs["a"] @ inputs["b"]
        return result

    right = client.fuzz_op_client_side(op, product, iterations=20, **options)
    assert right.passed == right.total == 20, right
    assert shapes == {(m, k) for m in (2, 9) for k in (2, 9)}
    wrong = client.fuzz_op_client_side(op, lambda i: i["a"][..., :-1] @ i["b"][..., :-1, :], iterations=20, **options)
    assert wrong.failed == 20
    repro = client.reproduce(wrong.failures[0].seed)
    assert repro.inputs["a"].shape == wrong.failures[0].repro_info.shape  # type: ignore[union-attr]
    for case in client.get_test_batch(op, count=3, **options):
        out = case["inputs"]["a"] @ case["inputs"]["b"]
        assert client.submit_output(op, case["inputs"], out, case["seed"]).passed
        assert client.submit_output(op, case["inputs"], out + 1, case["seed"]).verdict == "fail"


def test_003_validation_context(client: Client, project: Path) -> None:
    x = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
    my_softmax = softmax
    # 003, Validation Utilities.
    from gpuemu.validation import validate_op

    with validate_op("softmax", inputs={"logits": x}) as ctx:
        output = my_softmax(x)
        ctx.set_output(output)
    assert ctx.result.passed

    with validate_op("softmax", inputs={"logits": x}, raise_on_failure=False) as ctx:
        ctx.set_output(output * 2)
    assert not ctx.result.passed and ctx.result.reason
    failed = pytest.raises(gpuemu.ValidationError, match="softmax: fail")
    with failed, validate_op(client, "softmax", {"logits": x}) as ctx:
        ctx.set_output(output * 2)


PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 p)
{
  .reg .b64 %rd<2>;
  .reg .f32 %f<2>;
  .local .align 4 .b8 depot[16];
  ld.param.u64 %rd1, [p];
  ld.global.f32 %f1, [%rd1];
  add.f32 %f1, %f1, %f1;
  st.global.f32 [%rd1], %f1;
  ret;
}
"""


def test_003_lint_kernel(client: Client) -> None:
    (result,) = client.lint_kernel(PTX)
    assert result["kernel_name"] == "scale" and result["passed"] is False and result["timestamp"]
    metrics = result["metrics"]
    assert metrics["local_memory_bytes"] == 16 and metrics["instruction_count"] == 5
    assert sum(metrics["instruction_mix"].values()) == 5, metrics["instruction_mix"]
    assert metrics["register_count"] > 0 and "register_count" in metrics["estimated"]
    assert metrics["spill_count"] is None and metrics["source"] == "ptx"
    errors = [v for v in result["violations"] if v["severity"] == "error"]
    assert [(v["kind"], v["actual"], v["threshold"], v["line"]) for v in errors] == [("ExcessiveLocalMemory", 16, 0, 4)]
    notes = [v for v in result["violations"] if v["severity"] == "note"]
    assert [v["kind"] for v in notes] == ["ExcessiveSpills"] and notes[0]["actual"] is None

    (named,) = client.lint_kernel(PTX.replace("  .local .align 4 .b8 depot[16];\n", ""), kernel_name="renamed")
    assert named["kernel_name"] == "renamed" and named["passed"] is True

    with pytest.raises(ClientError, match=r"text.ptx:6:3: ") as error:
        client.lint_kernel(PTX.replace(".reg .b64", "frobnicate"))
    assert error.value.code.startswith("ptx-")
    with pytest.raises(ClientError) as error:
        client.lint_kernel("__global__ void k() {}")
    assert error.value.code == "artifact-unknown-format"


def test_003_fuzz_generators() -> None:
    # 003, Fuzz Generators.
    from itertools import islice

    from gpuemu import FuzzConfig, SeededFuzzer, fuzz_dtypes, fuzz_layouts, fuzz_shapes, generate_random_tensor

    shapes = list(islice(fuzz_shapes(min_dims=2, max_dims=3, min_size=1, max_size=9), 50))
    assert {len(s) for s in shapes} == {2, 3} and {n for s in shapes for n in s} <= set(range(1, 10))
    assert set(islice(fuzz_dtypes(include=["float32", "float16"], exclude=["float16"]), 10)) == {"float32"}
    assert {"contiguous", "strided"} <= {str(x) for x in islice(fuzz_layouts(), 200)}
    tensor = generate_random_tensor(7, (3, 4), dtype="float32", domain=(-1.0, 1.0))
    assert tensor.shape == (3, 4) and tensor.dtype == np.float32 and np.abs(tensor).max() <= 1
    assert tensor.tobytes() == generate_random_tensor(7, (3, 4)).tobytes(), "these are the defaults"
    config = FuzzConfig(max_dims=4)  # with any of the four ranges the other defaults are the documented ones
    assert (config.iterations, config.seed, config.min_dims, config.max_dims) == (100, None, 1, 4)
    assert (config.min_size, config.max_size) == (1, 1024)
    assert (config.dtypes, config.layouts) == (["float32"], ["contiguous"])
    small = FuzzConfig(max_dims=2, max_size=8)
    case = SeededFuzzer(seed=9, config=small).next_test_case()
    assert case.inputs and all(a.shape == case.shape and a.dtype.name == case.dtype for a in case.inputs.values())
    assert case.layout == "contiguous" and case.seed == SeededFuzzer(9, small).next_test_case().seed
    for name, args in (("fuzz_shapes_seeded", [3]), ("fuzz_dtypes_seeded", [3]), ("fuzz_layouts_seeded", [3, (2, 3)])):
        first, second = (repr(list(islice(getattr(gpuemu, name)(*args), 5))) for _ in range(2))
        assert first == second != repr(list(islice(getattr(gpuemu, name)(4, *args[1:]), 5)))

    def tanh(inputs: dict[str, Array]) -> Array:
        result: Array = np.tanh(inputs["input"])
        return result

    right = SeededFuzzer(9, FuzzConfig(min_dims=3, max_dims=3, max_size=8, iterations=10)).run(tanh)
    assert right.passed == right.total == 10, right
    wrong = SeededFuzzer(9, small).run(lambda inputs: inputs["input"] + 1, reference=tanh, iterations=10)
    assert wrong.failed == wrong.total == 10


def test_003_rng() -> None:
    # 003, RNG.
    from gpuemu import SeededRng, derive_seed, generate_seed

    rng = SeededRng(42)
    draws = [rng.gen_u64(), rng.gen_range(3, 7), rng.gen_f32(), rng.choice(["a", "b"]), rng.randn((2, 3))]
    assert 0 <= draws[0] < 1 << 64 and draws[1] in range(3, 7) and 0 <= draws[2] < 1 and draws[3] in ("a", "b")
    assert draws[4].shape == (2, 3) and np.isfinite(draws[4]).all()
    assert SeededRng(42).gen_u64() == draws[0] != SeededRng(43).gen_u64()
    child = SeededRng(42).derive("inputs")
    assert isinstance(child, SeededRng)
    assert child.gen_u64() == SeededRng(derive_seed(42, "inputs")).gen_u64() != draws[0]
    assert derive_seed(42, "a") != derive_seed(42, "b")
    assert generate_seed() != generate_seed()


def test_003_tolerances(client: Client) -> None:
    # 003, Tolerances.
    from gpuemu import ToleranceConfig, ToleranceProfile, calibrate_tolerance, get_recommended_tolerance

    strict, relaxed = ToleranceConfig.strict(), ToleranceConfig.relaxed()
    assert (strict.atol, strict.rtol, relaxed.atol, relaxed.rtol) == (1e-7, 1e-7, 1e-3, 1e-3)
    assert ToleranceConfig.for_dtype("float16").atol == 1e-2 and strict.scale(10.0).rtol == pytest.approx(1e-6)
    for name in ("testing", "production", "cross_framework"):
        assert ToleranceProfile.get(name) == getattr(ToleranceProfile, "for_" + name)()
    assert ToleranceProfile.for_production().atol < ToleranceProfile.for_testing().atol
    assert get_recommended_tolerance("float32", operation="attention").atol > get_recommended_tolerance("float32").atol
    exact = lambda x: np.tanh(x.astype(np.float64))  # noqa: E731
    fitted = calibrate_tolerance(np.tanh, exact, [(16, 16)], dtype="float32", n_samples=100)
    assert isinstance(fitted, ToleranceConfig) and 0 < fitted.atol < 1e-6


# ---- 004 -------------------------------------------------------------------------------------------------------------


def test_004_calibration(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client()
    # 004, Can I customize tolerances.
    from gpuemu.tolerances import calibrate_tolerance

    # Run multiple iterations and find the tightest tolerance that passes
    recommended = calibrate_tolerance(client, "my_op", dtype="float32", iterations=100)
    print(recommended)  # {"atol": 2.5e-6, "rtol": 3.1e-6}

    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["atol", "rtol"] and printed == dict(recommended)
    assert 0 <= printed["atol"] < 1e-5, "the candidate and the reference are the same function"


def test_004_tolerances_of_the_configuration(project: Path) -> None:
    # 004, Can I customize tolerances: globally, and per op, which overrides.
    x = np.full((1, 1, 8), 0.5, np.float32)
    off = np.tanh(x) + np.float32(5e-5)
    assert not Client().validate_op("my_op", {"input": x}, off).passed, "1e-5 is the default for float32"
    config = CONFIG.replace("[[ops]]", "[validation.tolerances]\nfloat32 = { atol = 1e-5, rtol = 1e-5 }\n\n[[ops]]", 1)
    config = config.replace(
        'reference = "scripts/my_op_ref.py"\n',
        'reference = "scripts/my_op_ref.py"\ntolerances = { float32 = { atol = 1e-4, rtol = 1e-4 } }\n',
    )
    (project / "gpuemu.toml").write_text(config)
    assert Client().validate_op("my_op", {"input": x}, off).passed
    assert not Client().validate_op("my_op", {"input": x}, off + np.float32(1e-3)).passed


def test_004_reference_script(project: Path) -> None:
    # 004, What is a reference script: matmul_ref.py, unchanged, is the reference of matmul in CONFIG.
    client = Client()
    a = np.random.default_rng(3).normal(size=(3, 5)).astype(np.float32)
    b = np.random.default_rng(4).normal(size=(5, 2)).astype(np.float32)
    assert client.validate_op("matmul", {"a": a, "b": b}, a @ b).passed
    wrong = client.validate_op("matmul", {"a": a, "b": b}, a[:, :-1] @ b[:-1])
    assert wrong.verdict == "fail" and wrong.max_diff > 1e-3
    results = client.fuzz_op_client_side("matmul", lambda i: i["a"] @ i["b"], iterations=20, dtypes=["float32"])
    assert results.passed == results.total == 20, results
    (project / "scripts" / "matmul_ref.py").write_text(MATMUL_REF.replace("np.matmul(a, b)", "np.matmul(a, b) + 1"))
    assert not client.validate_op("matmul", {"a": a, "b": b}, a @ b).passed, "the script is what is run"


def test_004_invariants(project: Path) -> None:
    # 004, What are invariants: the configuration of softmax in CONFIG.
    client = Client()
    x = np.random.default_rng(5).normal(size=(2, 3, 7)).astype(np.float32)
    assert client.validate_op("softmax", {"input": x}, softmax(x)).passed
    # Within the tolerance of the reference, but one element below zero.
    y = softmax(np.array([[[0, 0, -30]]], np.float32))
    y[0, 0, 2] = -1e-7
    result = client.validate_op("softmax", {"input": np.array([[[0, 0, -30]]], np.float32)}, y)
    assert result.verdict == "fail"
    assert any("non_negative" in f["message"] for f in result.failures), result.failures
    wrong = client.validate_op("softmax", {"input": x}, softmax(x) * np.float32(0.5))
    assert any("normalized" in f["message"] for f in wrong.failures), wrong.failures
