"""PyTorch: adapter, gradients of autograd and of custom functions, torch.compile, validation and fuzzing."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import gpuemu  # noqa: E402
from gpuemu import Client, ValidationError  # noqa: E402
from gpuemu.frameworks import get_pytorch_adapter  # noqa: E402
from gpuemu.frameworks.pytorch import (  # noqa: E402
    PyTorchAdapter,
    check_autograd,
    check_autograd_report,
    check_compile_consistent,
    check_compile_consistent_report,
    fuzz_pytorch_op,
    validate_custom_autograd_function,
    validate_pytorch,
)

TOLERANCE = "tolerance" in inspect.signature(Client.fuzz_op_client_side).parameters


def randn(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).to(dtype)


class Scale(torch.autograd.Function):
    """x * w, with a backward that `wrong` spoils."""

    wrong = ""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        if Scale.wrong == "transposed":
            return (grad * w).t(), grad * x
        if Scale.wrong == "dropped":
            return grad * w, None
        if Scale.wrong == "raises":
            raise RuntimeError("no backward here")
        return grad * w, grad * x


def test_names() -> None:
    assert get_pytorch_adapter() == (PyTorchAdapter, validate_pytorch, check_autograd, fuzz_pytorch_op)
    assert gpuemu.get_pytorch_adapter() == (PyTorchAdapter, validate_pytorch, check_autograd)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "bool"])
def test_round_trip(dtype: str) -> None:
    adapter = PyTorchAdapter()
    x = (10 * randn(3, 5)).to(getattr(torch, dtype)).t().requires_grad_("float" in dtype)
    assert adapter.get_dtype_name(x) == dtype
    assert adapter.requires_grad(x) is ("float" in dtype)
    back = adapter.from_numpy(adapter.to_numpy(x), like=x)
    assert back.dtype == x.dtype and torch.equal(back, x.detach())
    assert adapter.get_framework_name() == "pytorch" and adapter.is_available()


def test_compute_gradient() -> None:
    adapter = PyTorchAdapter()
    x, y, z = randn(3).requires_grad_(), randn(3).requires_grad_(), randn(3)
    grads = adapter.compute_gradient(x * x, {"x": x, "y": y, "z": z})
    assert torch.equal(grads["x"], 2 * x.detach())
    assert torch.equal(grads["y"], torch.zeros(3))  # no influence: zeros, not absent
    assert "z" not in grads
    above = randn(3)
    assert torch.equal(adapter.compute_gradient(x * x, {"x": x}, above)["x"], above * 2 * x.detach())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_autograd_right(client: Client, dtype: Any) -> None:
    inputs = {"x": randn(4, 3, dtype=dtype), "w": randn(3, 2, dtype=dtype)}

    def op(x: Any, w: Any) -> Any:
        if dtype == torch.float16 and x.dtype == dtype:  # torch 1.13 has no float16 product of matrices on a CPU
            return torch.tanh((x.float() @ w.float()).to(dtype).float()).to(dtype)
        return torch.tanh(x @ w)

    report = check_autograd_report(op, inputs, client=client)
    assert report.passed, report
    assert check_autograd(op, inputs, client=client) is True


def test_autograd_several_outputs_and_settings(client: Client) -> None:
    x = randn(4, 3).requires_grad_()
    assert check_autograd(lambda x, dim: torch.max(x, dim=dim), {"x": x, "dim": 1}, client=client)
    assert check_autograd(lambda x, i: {"a": x[i], "b": (x * x,)}, {"x": x, "i": torch.tensor([2, 0])}, client=client)


def test_autograd_wrong(client: Client) -> None:
    x = randn(3, 3)
    for op, detail in [
        (lambda x: x * x.detach(), "gradient of x: "),
        (lambda x: (x * x).detach(), "gradient of x: "),
        (lambda x: x.mul_(2), "RuntimeError"),  # a leaf that requires a gradient
        (lambda x: x.detach().mul_(2) + x, "the function changes its input x in place"),
    ]:
        report = check_autograd_report(op, {"x": x}, client=client)
        assert not report.passed and report.ran
        assert detail in report.detail, report
        assert check_autograd(op, {"x": x}, client=client) is False


def test_check_inputs(client: Client) -> None:
    """The wrong gradient of w is seen unless only x is asked for."""
    inputs = {"x": randn(3), "w": randn(3)}

    def op(x: Any, w: Any) -> Any:
        return x * w + w.detach()

    assert not check_autograd(op, inputs, client=client)
    assert check_autograd(op, inputs, check_inputs=["x"], client=client)
    assert check_autograd(op, {**inputs, "x": inputs["x"].clone().requires_grad_()}, client=client)


@pytest.mark.parametrize(("wrong", "detail"), [("transposed", "gradient of x"), ("dropped", "gradient of w"),
                                               ("raises", "no backward here")])  # fmt: skip
def test_custom_function(client: Client, monkeypatch: pytest.MonkeyPatch, wrong: str, detail: str) -> None:
    inputs = {"x": randn(3, 3), "w": 2 + randn(3, 3)}
    found = validate_custom_autograd_function(Scale, inputs, client=client)
    assert found["forward_ok"] and found["backward_ok"], found
    monkeypatch.setattr(Scale, "wrong", wrong)
    found = validate_custom_autograd_function(Scale, inputs, client=client)
    assert found["forward_ok"] and not found["backward_ok"]
    assert detail in found["details"][0]


def test_custom_function_whose_forward_raises(client: Client) -> None:
    found = validate_custom_autograd_function(Scale, {"x": randn(3), "w": randn(2)}, client=client)
    assert not found["forward_ok"] and not found["backward_ok"]
    assert found["details"][0].startswith("forward raised RuntimeError")


@pytest.mark.skipif(hasattr(torch, "compile"), reason="this torch has torch.compile")
def test_compile_absent(client: Client) -> None:
    with pytest.warns(RuntimeWarning, match=r"torch.compile was not run: torch .* has no torch.compile"):
        assert check_compile_consistent(torch.sin, {"input": randn(3)}, client=client) is False
    assert check_compile_consistent_report(torch.sin, {"input": randn(3)}, client=client).ran is False


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="torch.compile came with torch 2.0")
def test_compile(client: Client) -> None:
    calls: list[int] = []

    def counts(x: Any) -> Any:
        calls.append(1)
        return x + len(calls)

    def branches(x: Any) -> Any:
        return x if x.sum() > 0 else x * x

    for op, passed in [(lambda x: torch.sin(x) + 1, True), (branches, True), (counts, False), (torch.relu_, False)]:
        report = check_compile_consistent_report(
            lambda x, f=op: f(x), {"x": randn(3)}, backend="aot_eager", client=client
        )
        assert report.ran and report.passed is passed, report


def test_compile_that_fixes_values(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that keeps the first call's maximum as a constant is caught by the second set of inputs."""

    def compiled(op: Any, backend: str) -> Any:
        peaks: list[Any] = []

        def call(x: Any) -> Any:
            peaks.append(x.max())
            return x / peaks[0]

        return call

    monkeypatch.setattr(torch, "compile", compiled, raising=False)
    report = check_compile_consistent_report(lambda x: x / x.max(), {"x": randn(4)}, client=client)
    assert not report.passed and report.ran
    assert report.detail.startswith("compiled against eager on negated and scaled inputs: ")
    monkeypatch.setattr(torch, "compile", lambda op, backend: op)
    assert check_compile_consistent(lambda x: x / x.max(), {"x": randn(4)}, client=client) is True


def test_validate(client: Client) -> None:
    x = randn(4, 6).requires_grad_()
    with validate_pytorch(client, "relu", {"input": x}, check_backward=True) as ctx:
        ctx["output"] = torch.relu(x)
    assert ctx["result"].passed and ctx["grad_result"].passed
    assert set(ctx["grad_inputs"]) == {"input"}
    with pytest.raises(ValidationError), validate_pytorch(client, "relu", {"input": x}) as ctx:
        ctx["output"] = torch.nn.functional.leaky_relu(x, 0.1)
    with pytest.raises(ValidationError), validate_pytorch(client, "relu", {"input": x}, check_backward=True) as ctx:
        ctx["output"] = torch.relu(x.detach()) + 0 * x  # right values, no gradient


def test_validate_in_place(client: Client) -> None:
    """The op is judged by what it was given, not by what it made of it."""
    x = randn(4)
    with pytest.raises(ValidationError), validate_pytorch(client, "relu", {"input": x}) as ctx:
        x.neg_()
        ctx["output"] = torch.relu(x)


def test_validate_wrong_use(client: Client) -> None:
    with pytest.raises(ValueError, match=r'set ctx\["output"\]'), validate_pytorch(client, "relu", {"input": randn(2)}):
        pass
    context = validate_pytorch(client, "relu", {"input": randn(2)}, check_backward=True)
    with pytest.raises(ValueError, match="no input has requires_grad"), context:
        pass


class WrongRelu(torch.autograd.Function):
    """The right value, and a gradient that forgets where the input is negative."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.relu(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def test_fuzz(client: Client) -> None:
    options = {"iterations": 20, "seed": 5, "dtypes": ["float32"], "device": "cpu"}
    found = fuzz_pytorch_op(client, "relu", lambda i: torch.relu(i["input"]), check_backward=True, **options)
    assert (found["total"], found["passed"], found["failed"]) == (20, 20, 0), found
    assert found["backward_failures"] == [] and len(found["backward_not_run"]) < 10
    found = fuzz_pytorch_op(client, "relu", lambda i: WrongRelu.apply(i["input"]), check_backward=True, **options)
    assert found["failed"] == 0 and found["backward_failures"]
    assert set(found["backward_failures"][0]) == {"seed", "case", "message"}
    found = fuzz_pytorch_op(client, "relu", lambda i: i["input"], fail_fast=True, **options)
    assert found["failed"] == 1 and not found["forward_failures"][0].passed


CUBE = """
def cube(inputs):
    return inputs["input"] ** 3
"""
CUBE_CONFIG = """
[project]
name = "cubes"
[[ops]]
name = "cube"
reference = "cube.py:cube"
tolerances = { float32 = 1e-3 }
[ops.schema]
name = "cube"
dims = [{ name = "N", candidates = [102] }]
inputs = [{ name = "input", dims = ["N"] }]
outputs = [{ name = "output", dims = ["N"] }]
"""


class WrongCube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2 * ctx.saved_tensors[0] ** 2


def test_fuzz_gradients_that_the_engine_does_not_know(client: Client, tmp_path: Path) -> None:
    """An op with a reference of the user's has no gradient in the catalogue: differences take its place."""
    (tmp_path / "cube.py").write_text(CUBE)
    (tmp_path / "gpuemu.toml").write_text(CUBE_CONFIG)
    options = {"iterations": 3, "seed": 5, "dtypes": ["float32"], "device": "cpu", "value_distribution": "normal"}
    with Client(config=str(tmp_path / "gpuemu.toml")) as own:
        found = fuzz_pytorch_op(own, "cube", lambda i: i["input"] ** 3, check_backward=True, **options)
        assert (found["passed"], found["backward_failures"], found["backward_not_run"]) == (3, [], []), found
        found = fuzz_pytorch_op(own, "cube", lambda i: WrongCube.apply(i["input"]), check_backward=True, **options)
        assert found["passed"] == 3 and len(found["backward_failures"]) == 3
        assert "102 elements in 32 random directions" in found["backward_failures"][0]["message"]


@pytest.mark.skipif(not TOLERANCE, reason="Client.fuzz_op_client_side takes no tolerance")
def test_tolerance(client: Client) -> None:
    x = randn(4, 6)
    with validate_pytorch(client, "relu", {"input": x}, atol=1.0, rtol=0.0) as ctx:
        ctx["output"] = torch.nn.functional.leaky_relu(x, 0.1)

    def off(inputs: dict[str, Any]) -> Any:
        return torch.relu(inputs["input"]) + 0.25

    options = {"iterations": 5, "seed": 5, "dtypes": ["float32"], "device": "cpu", "value_distribution": "normal"}
    assert fuzz_pytorch_op(client, "relu", off, **options)["failed"] == 5
    assert fuzz_pytorch_op(client, "relu", off, atol=0.3, **options)["failed"] == 0


def test_numpy_is_not_needed_by_the_user(client: Client) -> None:
    """Values given as numpy arrays are no tensors: a clear error, not a strange one from torch."""
    with pytest.raises(ValueError, match="inputs has no array"):
        check_autograd(lambda x: x, {"x": np.ones(3)}, client=client)


def test_a_function_that_raises_is_an_error(client: Client) -> None:
    """`assert not check_autograd(...)` does not pass for a typo."""
    def typo(x: Any) -> Any:
        return x.sinn()

    report = check_autograd_report(typo, {"x": randn(3)}, client=client)
    assert isinstance(report.error, AttributeError) and not report and report.ran
    assert str(report).startswith("autograd: error: the function raised AttributeError: ")
    with pytest.raises(ValidationError, match="autograd: error: the function raised AttributeError") as error:
        check_autograd(typo, {"x": randn(3)}, client=client)
    assert isinstance(error.value.__cause__, AttributeError)


def test_wrong_gradients_are_shown_by_element(client: Client) -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            g = g * 2
            g[1, 2] += 5
            return g

    report = check_autograd_report(lambda x: Scaled.apply(x), {"x": randn(2, 3)}, client=client)
    element = r"gradient of x: 1 of 6 wrong\n +gradient of x\[1,2\]: got [0-9.e+-]+, want [0-9.e+-]+ within [0-9.e+-]+$"
    assert re.search(element, report.detail), report.detail
    big = check_autograd_report(lambda x: Scaled.apply(x), {"x": randn(40, 40)}, client=client)
    assert re.search(r"gradient of x, random direction \d+: got", big.detail), big.detail
    found = validate_custom_autograd_function(Scaled, {"x": randn(2, 3)}, client=client)
    assert not found and "gradient of x[1,2]: got" in repr(found)
    with pytest.raises(ValidationError, match=r"gradient of x\[1,2\]: got"):
        found.check()


def test_fuzzed_gradients_are_shown_by_element(client: Client) -> None:
    class Relu(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    options: dict[str, Any] = {"iterations": 2, "seed": 1, "dtypes": ["float32"], "value_distribution": "normal"}
    found = fuzz_pytorch_op(client, "relu", lambda i: Relu.apply(i["input"]), check_backward=True, **options)
    assert found["failed"] == 0 and found["backward_failures"] and not found
    message = found["backward_failures"][0]["message"]
    assert "grad/input[" in message and ": got " in message and ", want " in message, message
    with pytest.raises(ValidationError, match=r"2 backward_failures, the first: backward: failed"):
        found.check()
    right = fuzz_pytorch_op(client, "relu", lambda i: i["input"].relu(), check_backward=True, **options)
    assert right and right.check() is right
