"""What the checks of all frameworks share, on functions in numpy: differences, tolerances, reports."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Callable

import numpy as np
import pytest

from gpuemu import Client
from gpuemu.frameworks import FrameworkAdapter, GradientChecker, _consistency, _gradients

FRAMEWORKS = [("pytorch", "torch", "torch"), ("jax", "jax", "jax"), ("tensorflow", "tensorflow", "tensorflow")]


IMPORT_WITHOUT = """
import importlib, sys
module, framework = sys.argv[1:]
sys.modules[framework] = None  # as if it were not installed
importlib.import_module("gpuemu.frameworks." + module)
try:
    getattr(importlib.import_module("gpuemu.frameworks"), "get_" + module + "_adapter")()
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(("module", "framework", "extra"), FRAMEWORKS)
def test_import_without_the_framework(module: str, framework: str, extra: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT, module, framework],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip().endswith(f"; pip install gpuemu[{extra}]")


class Numpy(FrameworkAdapter):
    """A framework whose backward pass is a function of the test's: (inputs, upstream) to gradients by name."""

    def __init__(self, backward: Callable[..., dict[str, Any]]) -> None:
        self.backward = backward

    def to_numpy(self, tensor: Any) -> Any:
        return np.asarray(tensor)

    def from_numpy(self, arr: Any, like: Any = None) -> Any:
        return arr.copy() if like is None else np.array(arr, dtype=like.dtype)

    def get_dtype_name(self, tensor: Any) -> str:
        return str(tensor.dtype)

    def requires_grad(self, tensor: Any) -> bool:
        return False

    def compute_gradient(self, output: Any, inputs: dict[str, Any], grad_output: Any = None) -> dict[str, Any]:
        return self.backward(inputs, grad_output)


def check(
    client: Client, func: Callable[..., Any], backward: Callable[..., Any], inputs: dict[str, Any], **options: Any
) -> Any:
    return GradientChecker(Numpy(backward), client=client, **options).report(func, inputs)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


def test_gradient_right_and_wrong(client: Client) -> None:
    x = normal(3, 4)
    right = check(client, lambda x: np.sin(x), lambda i, g: {"x": g * np.cos(i["x"])}, {"x": x})
    assert right.passed, right
    assert "x: atol 1e-05, rtol 0.001 against differences in float64" in right.notes
    wrong = check(client, lambda x: np.sin(x), lambda i, g: {"x": g * np.cos(i["x"]) * np.float32(1.01)}, {"x": x})
    assert not wrong.passed and wrong.ran
    assert wrong.detail.startswith("gradient of x: ")


def test_upstream_is_not_ones(client: Client) -> None:
    """With ones above, a backward pass that transposes its upstream gradient looks right."""
    x = normal(4, 4)
    assert not check(client, lambda x: 2 * x, lambda i, g: {"x": 2 * g.T}, {"x": x}).passed


def test_every_input_is_checked(client: Client) -> None:
    inputs = {"x": normal(3), "y": 2 + normal(3)}
    report = check(client, lambda x, y: x * y, lambda i, g: {"x": g * i["y"], "y": g * i["y"]}, inputs)
    assert not report.passed
    assert "gradient of y" in report.detail and "gradient of x" not in report.detail


@pytest.mark.parametrize(("slope", "passed"), [(-1.0, True), (0.0, True), (1.0, True), (1.5, False), (np.nan, False)])
def test_kink(client: Client, slope: float, passed: bool) -> None:
    """Of |x|, every slope from -1 to 1 is a gradient at 0; any other is wrong."""
    x = np.array([0.0, 2.0, -3.0])

    def backward(inputs: dict[str, Any], upstream: Any) -> dict[str, Any]:
        return {"x": upstream * np.where(inputs["x"] == 0, slope, np.sign(inputs["x"]))}

    report = check(client, lambda x: np.abs(x), backward, {"x": x})
    assert report.passed is passed, report
    assert "x: 1 elements on a kink; a value between its slopes is right" in report.notes


def test_kink_and_pole_within_a_step(client: Client) -> None:
    x = np.array([3e-5, 2e-6, 0.7], np.float32)
    assert check(client, lambda x: np.abs(x), lambda i, g: {"x": g * np.sign(i["x"])}, {"x": x}).passed
    assert check(client, lambda x: np.log(x), lambda i, g: {"x": g / i["x"]}, {"x": x}).passed
    assert not check(client, lambda x: np.abs(x), lambda i, g: {"x": -g * np.sign(i["x"])}, {"x": x}).passed


def test_large_input_in_directions(client: Client) -> None:
    x = normal(40, 50)
    wrong_at = np.zeros((40, 50), np.float32)
    wrong_at[17, 3] = 1
    right = check(client, lambda x: x**3, lambda i, g: {"x": g * 3 * i["x"] ** 2}, {"x": x})
    assert right.passed, right
    assert "x: 2000 elements in 512 random directions" in right.notes
    wrong = check(client, lambda x: x**3, lambda i, g: {"x": g * 3 * i["x"] ** 2 + wrong_at}, {"x": x})
    assert not wrong.passed


def test_directions_take_every_element_once() -> None:
    rng = np.random.default_rng(1)
    settings = _gradients.Differences(max_directions=8)
    directions = list(_gradients._directions(np.zeros((5, 7)), settings, "float64", rng))
    assert len(directions) == 8
    assert sorted(np.concatenate([d.elements for d in directions])) == list(range(35))
    assert {float(w) for d in directions for w in d.weights} == {-1.0, 1.0}


def only_float32(x: Any) -> Any:
    if x.dtype != np.float32:
        raise TypeError(f"float32 only, not {x.dtype}")
    return np.tanh(x)


def inside_float32(x: Any) -> Any:
    return np.tanh(x.astype(np.float32)).astype(x.dtype)


@pytest.mark.parametrize(
    ("func", "note"),
    [
        (only_float32, "in float64 the function raised TypeError: float32 only, not float64"),
        (inside_float32, "differences in float64 do not settle for x"),
    ],
)
def test_function_of_float32(client: Client, func: Callable[..., Any], note: str) -> None:
    x = normal(20)
    right = check(client, func, lambda i, g: {"x": g * (1 - np.tanh(i["x"]) ** 2)}, {"x": x})
    assert right.passed, right
    assert note in right.notes
    assert "x: atol 0.002, rtol 0.02 against differences in float32" in right.notes
    wrong = check(client, func, lambda i, g: {"x": g * (1 - np.tanh(i["x"]))}, {"x": x})
    assert not wrong.passed and wrong.ran


def test_function_of_float16_only(client: Client) -> None:
    def func(x: Any) -> Any:
        if x.dtype != np.float16:
            raise TypeError("float16 only")
        return x * x

    report = check(client, func, lambda i, g: {"x": 2 * g * i["x"]}, {"x": normal(4, dtype=np.float16)})
    assert not report.passed and not report.ran
    assert len(report.notes) == 2
    with pytest.warns(RuntimeWarning, match="gradients was not run: no derivative could be taken"):
        checker = GradientChecker(Numpy(lambda i, g: {"x": 2 * g * i["x"]}), client=client)
        assert checker.check(func, {"x": normal(4, dtype=np.float16)}) is False


def test_function_without_a_derivative(client: Client) -> None:
    x = normal(4)
    rng = np.random.default_rng(0)
    for func, backward, detail in [
        (lambda x: x + rng.random(4), lambda i, g: {"x": g}, "the function gives different values for the same inputs"),
        (lambda x: x / 0, lambda i, g: {"x": g}, "the function is not finite at these inputs"),
        (lambda x: x.sum(dtype=int), lambda i, g: {"x": g}, "0 floating outputs"),
        (lambda x: 2 * x, lambda i, g: {"x": 2 * g[:2]}, "gradient of x has shape (2,), x has (4,)"),
        (lambda x: x.__imul__(2), lambda i, g: {"x": 2 * g}, "the function changes its input x in place"),
        (lambda x: x[9], lambda i, g: {"x": g}, "raised IndexError"),
    ]:
        with np.errstate(all="ignore"):
            report = check(client, func, backward, {"x": x})
        assert not report.passed and report.ran
        assert detail in report.detail, report


@pytest.mark.parametrize(
    ("options", "inputs", "names", "message"),
    [
        ({"eps": 0.0}, {"x": normal(2)}, None, "eps is 0.0"),
        ({"atol": -1.0}, {"x": normal(2)}, None, "atol is -1.0"),
        ({}, {"x": normal(2)}, ["y"], "'y' is not an input; inputs of floating dtype are: x"),
        ({}, {"x": normal(2)}, [], "check_inputs is empty"),
        ({}, {"x": np.arange(2)}, None, "no input is of floating dtype"),
        ({}, {"axis": 2}, None, "inputs has no array"),
    ],
)
def test_wrong_arguments(client: Client, options: Any, inputs: Any, names: Any, message: str) -> None:
    checker = GradientChecker(Numpy(lambda i, g: {"x": g}), client=client, **options)
    with pytest.raises(ValueError, match=message):
        checker.report(lambda x: x, inputs, names)


def test_variants_keep_shapes_dtypes_and_indices() -> None:
    host = {"x": normal(3), "index": np.array([0, 1, 5])}
    titles, sets = zip(*_consistency.variants(host))
    assert len(titles) == 3
    assert (sets[0]["x"] == host["x"]).all()
    assert (sets[1]["x"] == -0.75 * host["x"]).all() and sets[1]["x"].dtype == np.float32
    assert (sets[2]["x"] == 1.25 * host["x"]).all()
    assert sorted(sets[1]["index"]) == [0, 1, 5] and list(sets[1]["index"]) != [0, 1, 5]


def consistency(client: Client, plain: Callable[..., Any], other: Callable[..., Any], **inputs: Any) -> Any:
    pair = _consistency.Pair(plain, other, "eager", "other")
    return _consistency.Consistency(Numpy(lambda i, g: {}), "pair", pair).report(inputs, client)


def clips(x: Any) -> Any:
    """Writes to its input where that is negative: nothing to be seen of it where all is positive."""
    return np.maximum(x, 0, out=x)


def test_consistency(client: Client) -> None:
    x = np.abs(normal(5))
    fixed: list[Any] = []

    def traced(x: Any) -> Any:
        fixed.append(x.max())
        return x / fixed[0]

    for plain, other, detail in [
        (np.sin, np.sin, ""),
        (lambda x: x / x.max(), traced, "other against eager on negated and scaled inputs: "),
        (np.sin, np.cos, "other against eager on the given inputs: "),
        (np.sin, lambda x: np.sin(x)[:3], "float32[3], not float32[5]"),
        (np.sin, lambda x: np.sin(x).astype(float), "float64[5], not float32[5]"),
        (np.sin, lambda x: (x, x), "2 outputs, not 1"),
        (np.sin, lambda x: x.__imul__(2), "other on the given inputs changes its input x in place"),
        (lambda x: x.__imul__(2), np.sin, "eager on the given inputs changes its input x in place"),
        (clips, clips, "eager on negated and scaled inputs changes its input x in place"),
        (np.sin, lambda x: None, "other on the given inputs returns no array"),
    ]:
        report = consistency(client, lambda x, f=plain: f(x), lambda x, f=other: f(x), x=x)
        assert report.passed == (not detail), report
        assert detail in report.detail


def test_consistency_leaves_nothing_behind(client: Client) -> None:
    calls: list[str] = []

    def plain(x: Any) -> Any:
        return x + len(calls)

    def other(x: Any) -> Any:
        found = plain(x)
        calls.append("traced") if len(calls) == 0 and x[0] == 1.25 else None
        return found

    report = consistency(client, plain, other, x=np.ones(2, np.float32))
    assert not report.passed
    assert report.detail.startswith("eager after other against eager before on the given inputs: ")


def test_consistency_of_a_function_for_positive_values(client: Client) -> None:
    def plain(x: Any) -> Any:
        if (x < 0).any():
            raise ValueError("negative")
        return np.sqrt(x)

    report = consistency(client, plain, plain, x=np.ones(2, np.float32))
    assert report.passed
    assert "eager on negated and scaled inputs raised ValueError: negative; not compared" in report.notes
