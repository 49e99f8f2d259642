"""TensorFlow: adapter, gradients of tapes and custom functions, Keras layers, tf.function, XLA, validation, fuzzing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import gpuemu  # noqa: E402
from gpuemu import Client, ValidationError  # noqa: E402
from gpuemu.frameworks import get_tensorflow_adapter  # noqa: E402
from gpuemu.frameworks.tensorflow import (  # noqa: E402
    TensorFlowAdapter,
    check_keras_layer,
    check_keras_layer_report,
    check_tf_function_safe,
    check_tf_function_safe_report,
    check_xla_compatible,
    check_xla_compatible_report,
    fuzz_tensorflow_op,
    validate_custom_gradient,
    validate_tensorflow,
)


def randn(*shape: int, dtype: Any = "float32") -> Any:
    return tf.cast(tf.constant(np.random.default_rng(3).standard_normal(shape)), dtype)


@tf.custom_gradient
def square(x: Any) -> Any:
    return x * x, lambda dy: 2 * dy * x


@tf.custom_gradient
def wrong_square(x: Any) -> Any:
    return x * x, lambda dy: dy * x


@tf.custom_gradient
def wrong_relu(x: Any) -> Any:
    return tf.nn.relu(x), lambda dy: dy


@tf.custom_gradient
def wrong_relu_of(input: Any) -> Any:
    """As an op of the catalogue calls its input; given by name, TensorFlow would pass its gradient by."""
    return tf.nn.relu(input), lambda dy: dy


def test_names() -> None:
    expected = (TensorFlowAdapter, validate_tensorflow, check_keras_layer, fuzz_tensorflow_op)
    assert get_tensorflow_adapter() == expected
    assert gpuemu.get_tensorflow_adapter() == expected[:3]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "bool"])
def test_round_trip(dtype: str) -> None:
    adapter = TensorFlowAdapter()
    x = tf.cast(10 * randn(3, 5), dtype)
    assert adapter.get_dtype_name(x) == dtype
    assert adapter.requires_grad(x) is False and adapter.requires_grad(tf.Variable(x)) is True
    for given in (x, tf.Variable(x)):
        back = adapter.from_numpy(adapter.to_numpy(given), like=given)
        assert back.dtype == x.dtype and bool(tf.reduce_all(back == x))
    assert adapter.get_framework_name() == "tensorflow" and adapter.is_available()


def test_compute_gradient() -> None:
    adapter = TensorFlowAdapter()
    x, y, z = tf.Variable(randn(3)), tf.Variable(randn(3)), randn(3)
    with tf.GradientTape(persistent=True) as tape:
        output = x * x
    grads = adapter.compute_gradient(tape, output, {"x": x, "y": y, "z": z})
    assert set(grads) == {"x", "y"}
    assert bool(tf.reduce_all(grads["x"] == 2 * x)) and bool(tf.reduce_all(grads["y"] == 0))
    above = randn(3) + 1
    assert bool(tf.reduce_all(adapter.compute_gradient(tape, output, {"x": x}, above)["x"] == 2 * above * x))
    with tf.GradientTape() as tape:
        output = tf.gather(x, [2, 2])
    assert list(adapter.to_numpy(adapter.compute_gradient(tape, output, {"x": x})["x"])) == [0, 0, 2]


def test_custom_gradient(client: Client) -> None:
    inputs = {"x": randn(3, 4)}
    found = validate_custom_gradient(square, lambda x, dy: 2 * dy * x, inputs, client=client)
    assert found["gradient_ok"] and found["details"] == [], found
    assert 0 <= found["max_diff"] < 1e-4
    found = validate_custom_gradient(wrong_square, None, inputs, client=client)
    assert not found["gradient_ok"] and found["max_diff"] > 0.01
    assert found["details"][0].startswith("gradient of the tape: failed: gradient of x: ")
    found = validate_custom_gradient(square, lambda x, dy: dy * x, inputs, client=client)
    assert not found["gradient_ok"]
    assert found["details"][0].startswith("gradient_func: failed: gradient of x: ")
    found = validate_custom_gradient(square, lambda x, dy: (dy, dy), inputs, client=client)
    assert "2 gradients for 1 inputs of floating dtype: x" in found["details"][0]


def test_custom_gradient_in_half_precision(client: Client) -> None:
    inputs = {"x": randn(3, 4, dtype="bfloat16")}
    assert validate_custom_gradient(square, None, inputs, client=client)["gradient_ok"]
    assert not validate_custom_gradient(wrong_square, None, inputs, client=client)["gradient_ok"]


def test_tf_function(client: Client) -> None:
    x = randn(4)
    state: dict[str, Any] = {"calls": 0}

    def counts(x: Any) -> Any:
        state["calls"] += 1
        return x + state["calls"]

    def numpy_inside(x: Any) -> Any:
        return tf.constant(np.sin(x.numpy()))

    assert check_tf_function_safe(lambda x: tf.sin(x), {"x": x}, client=client) is True
    assert check_tf_function_safe(tf.function(lambda x: tf.sin(x)), {"x": tf.Variable(x)}, client=client) is True
    report = check_tf_function_safe_report(lambda x, axis: tf.reduce_sum(x, axis), {"x": x, "axis": 0}, client=client)
    assert report.passed and report.notes[0].startswith("axis is a Python number, a constant here")
    for op, detail in [
        (counts, "tf.function against eager"),
        (tf.function(counts), "tf.function against eager"),
        (numpy_inside, "AttributeError"),
    ]:
        report = check_tf_function_safe_report(op, {"x": x}, client=client)
        assert not report.passed and report.ran
        assert detail in report.detail, report
        assert check_tf_function_safe(op, {"x": x}, client=client) is False


def test_tf_function_value_fixed_by_the_first_call(client: Client) -> None:
    """Right on the inputs it was traced with, wrong on all others."""
    seen: list[Any] = []

    def op(x: Any) -> Any:
        if not tf.executing_eagerly():
            return x / seen[0]
        if not seen:
            seen.append(tf.reduce_max(x).numpy())
        return x / tf.reduce_max(x)

    report = check_tf_function_safe_report(op, {"x": randn(5)}, client=client)
    assert not report.passed
    assert report.detail.startswith("tf.function against eager on negated and scaled inputs: "), report


def test_tf_function_traced_anew(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is traced for every call is no use, though its values are right."""
    real = tf.function
    monkeypatch.setattr(tf, "function", lambda op, **options: lambda **kwargs: real(op, **options)(**kwargs))
    report = check_tf_function_safe_report(lambda x: tf.sin(x), {"x": randn(3)}, client=client)
    assert not report.passed
    assert report.detail == "traced 3 times for inputs of one shape and dtype, 1 for the first"


def test_xla(client: Client) -> None:
    x = randn(4)
    assert check_xla_compatible(lambda x: tf.sin(x) * 2, {"x": x}, client=client) is True
    report = check_xla_compatible_report(lambda x: tf.strings.length(tf.strings.as_string(x)), {"x": x}, client=client)
    assert not report.passed and report.ran
    assert "XLA on the given inputs raised" in report.detail, report
    calls: list[int] = []

    def counts(x: Any) -> Any:
        calls.append(1)
        return x + len(calls)

    assert check_xla_compatible(counts, {"x": x}, client=client) is False


def test_keras_layer(client: Client) -> None:
    report = check_keras_layer_report(tf.keras.layers.ReLU(), (4, 6), client, "relu")
    assert report.passed, report
    assert check_keras_layer(tf.keras.layers.ReLU(), (4, 6), client, "relu") is True
    assert check_keras_layer(tf.keras.layers.LeakyReLU(), (4, 6), client, "relu") is False

    class WrongGradient(tf.keras.layers.Layer):  # type: ignore[misc, name-defined, unused-ignore]
        def call(self, x: Any) -> Any:
            return wrong_relu(x)

    report = check_keras_layer_report(WrongGradient(), (4, 6), client, "relu")
    assert not report.passed and report.detail.startswith("gradient: ")


def test_validate(client: Client) -> None:
    x = tf.Variable(randn(4, 6))
    with validate_tensorflow(client, "relu", {"input": x}, check_gradient=True) as ctx:
        ctx["output"] = tf.nn.relu(x)
    assert ctx["result"].passed and ctx["grad_result"].passed and set(ctx["grads"]) == {"input"}
    y = randn(3)
    with validate_tensorflow(client, "relu", {"input": y}, check_gradient=True) as ctx, ctx["tape"]:
        ctx["output"] = tf.nn.relu(y)  # a tape that was entered again, and a tensor that is no variable
    assert ctx["grad_result"].passed
    with pytest.raises(ValidationError), validate_tensorflow(client, "relu", {"input": x}) as ctx:
        ctx["output"] = x + 1
    with pytest.raises(ValidationError), validate_tensorflow(client, "relu", {"input": x}, check_gradient=True) as ctx:
        ctx["output"] = wrong_relu(x)
    assert ctx["result"].passed and not ctx["grad_result"].passed


def test_validate_variable_that_changes(client: Client) -> None:
    """The op is judged by what it was given, not by what it made of it."""
    x = tf.Variable(randn(4))
    with pytest.raises(ValidationError), validate_tensorflow(client, "relu", {"input": x}) as ctx:
        x.assign(-x)
        ctx["output"] = tf.nn.relu(x)


def test_validate_wrong_use(client: Client) -> None:
    context = validate_tensorflow(client, "relu", {"input": randn(2)})
    with pytest.raises(ValueError, match=r'set ctx\["output"\]'), context:
        pass
    context = validate_tensorflow(client, "relu", {"input": np.ones(3)}, check_gradient=True)
    with pytest.raises(ValueError, match="no input is a tensor of floating dtype"), context:
        pass


def test_fuzz(client: Client) -> None:
    # Normal values: TensorFlow on a CPU may take subnormal inputs for zero, where the gradient of relu jumps.
    options: dict[str, Any] = {"iterations": 10, "seed": 5, "dtypes": ["float32"], "value_distribution": "normal"}
    checks = {"check_gradient": True, "check_xla": True}
    found = fuzz_tensorflow_op(client, "relu", lambda input: tf.nn.relu(input), **checks, **options)
    assert (found["total"], found["passed"], found["failed"]) == (10, 10, 0), found
    assert found["gradient_failures"] == found["xla_failures"] == [], found
    found = fuzz_tensorflow_op(client, "relu", wrong_relu_of, check_gradient=True, **options)
    assert found["failed"] == 0 and found["gradient_failures"]

    def numpy_inside(input: Any) -> Any:
        return tf.numpy_function(lambda x: np.maximum(x, 0), [input], input.dtype)

    found = fuzz_tensorflow_op(client, "relu", numpy_inside, check_xla=True, **options)
    assert found["failed"] == 0 and len(found["xla_failures"]) == 10
    found = fuzz_tensorflow_op(client, "relu", lambda input: input, **options)
    assert found["failed"] > 0 and not found["forward_failures"][0].passed
