"""validate and validate_op: what is computed inside the context is judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu import Client, ClientError, ValidationError, validate, validate_op

Array = np.ndarray[Any, Any]
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)


def exact_tanh(x: Array) -> Array:
    result: Array = np.tanh(x.astype(np.float64))
    return result


def test_validate_judges_every_call(client: Client) -> None:
    calls = []

    def model(x: Array, offset: float = 0.0) -> Array:
        calls.append(offset)
        result: Array = np.tanh(x) + np.float32(offset)
        return result

    def reference(x: Array, offset: float = 0.0) -> Array:
        return exact_tanh(x)

    with validate(client, model, reference) as checked:
        assert checked(X).tobytes() == np.tanh(X).tobytes(), "the output of the model comes back"
        with pytest.raises(ValidationError, match=r"24 of 24 elements are wrong; worst at \["):
            checked(X, offset=0.01)
        checked(X)
    assert calls == [0.0, 0.01, 0.0]


def test_validate_takes_options(client: Client) -> None:
    def off(x: Array) -> Array:
        result: Array = np.tanh(x) + np.float32(1e-3)
        return result

    with validate(client, off, exact_tanh, tolerance={"atol": 1e-2, "rtol": 0.0}) as checked:
        checked(X)
    with validate(client, off, exact_tanh, raise_on_failure=False) as checked:
        checked(X)
    wrong = pytest.raises(ValidationError, match="output is float32, not float16")
    with validate(client, off, exact_tanh, dtype="float16") as checked, wrong:
        checked(X)


def test_validate_needs_a_reference(client: Client) -> None:
    with pytest.raises(ClientError, match="there is no reference 'cpu' for a ufunc"), validate(client, np.tanh):
        pass


def test_validate_of_a_module(client: Client) -> None:
    torch = pytest.importorskip("torch", reason="the copy in float64 is of torch modules, and torch is not installed")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x = torch.randn(3, 8)
    with validate(client, model) as checked:
        checked(x)
    assert next(model.parameters()).dtype == torch.float32, "the model itself stays as it is"
    with validate(client, model) as checked:
        with torch.no_grad():
            model[2].bias += 1  # after the copy was made
        with pytest.raises(ValidationError, match="12 of 12 elements are wrong"):
            checked(x)


def test_validate_op_needs_an_output(client: Client) -> None:
    with pytest.raises(ValidationError, match="there is no output to judge"), validate_op(client, "tanh", {"input": X}):
        pass


def test_validate_op_by_name_and_by_call(client: Client) -> None:
    with validate_op(client, "tanh", {"input": X}) as ctx:
        ctx["output"] = np.tanh(X)
    assert ctx.result.passed
    with validate_op("tanh", inputs={"input": X}) as ctx:  # the form without a client tells, and does not raise
        ctx.set_output(X)
    assert ctx.result.verdict == "fail"
    with pytest.raises(ValidationError) as error, validate_op(client, "tanh", {"input": X}) as ctx:
        ctx.set_output(X)
    assert error.value.result is not None and error.value.result.verdict == "fail"


def test_validate_op_lets_exceptions_through(client: Client) -> None:
    with pytest.raises(ZeroDivisionError), validate_op(client, "tanh", {"input": X}):
        _ = 1 / 0


@pytest.mark.parametrize(
    ("args", "message"),
    [(("tanh",), "needs the name of an operator and its inputs"), (("tanh", "relu", {}), "got two operators")],
)
def test_validate_op_wrong_use(args: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message), validate_op(*args):
        pass
