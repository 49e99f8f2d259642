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
    with torch.no_grad():
        model[2].bias -= 1
    kind = type(model)
    with validate(client, model) as checked:
        model(x)
    assert checked and type(model) is kind
    with pytest.raises(ValidationError, match="no call of the Sequential was checked"), validate(client, model):
        pass


def test_validate_op_needs_an_output(client: Client) -> None:
    with pytest.raises(ValidationError, match="there is no output to judge"), validate_op(client, "tanh", {"input": X}):
        pass


def test_validate_op_by_name_and_by_call(client: Client) -> None:
    with validate_op(client, "tanh", {"input": X}) as ctx:
        ctx["output"] = np.tanh(X)
    assert ctx.result.passed
    with validate_op("tanh", inputs={"input": X}, raise_on_failure=False) as ctx:
        ctx.set_output(X)
    assert ctx.result.verdict == "fail" and ctx["result"] is ctx.result and ctx["inputs"]["input"] is X
    for form in ((client, "tanh", {"input": X}), ("tanh", None, {"input": X})):
        wrong = pytest.raises(ValidationError, match=r"output\[0,0,0\]: got -3, want -0\.99")
        with wrong as error, validate_op(*form) as ctx:
            ctx.set_output(X)
        assert error.value.result is ctx.result


def test_validate_op_names_of_its_context(client: Client) -> None:
    with validate_op(client, "tanh", {"input": X}, raise_on_failure=False, store="none") as ctx:
        ctx["result"] = np.tanh(X)  # an output of that name, as reference scripts call theirs
    assert ctx["result"] is not ctx.result
    with pytest.raises(KeyError):
        ctx["anything"]


class Tanh:
    """A module: an object whose class defines __call__."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = np.float32(factor)

    def __call__(self, x: Array, *, offset: float = 0.0) -> Array:
        result: Array = np.tanh(x) * self.factor + np.float32(offset)
        return result


def test_validate_hooks_the_module_itself(client: Client) -> None:
    module = Tanh()

    def reference(x: Array, *, offset: float = 0.0) -> Array:
        return exact_tanh(x) + offset

    with validate(client, module, reference) as checked:
        assert isinstance(module, Tanh) and module.factor == 1, "it stays what it is"
        module(X, offset=0.5)
        checked(X)
    assert checked and [bool(found) for found in checked.results] == [True, True]
    assert type(module) is Tanh
    wrong = Tanh(1.01)
    with pytest.raises(ValidationError, match="elements are wrong"), validate(client, wrong, exact_tanh):
        wrong(X)
    assert type(wrong) is Tanh, "after an error, too"
    with validate(client, wrong, exact_tanh, raise_on_failure=False) as checked:
        wrong(X)
    assert not checked
    with pytest.raises(ValidationError, match=r"validate: 0/1 calls passed\n  call 0: .* elements are wrong"):
        checked.check()


def test_validate_without_a_checked_call_raises(client: Client) -> None:
    module = Tanh()
    how = r"no call of the Tanh was checked inside validate\(\); call the module"
    with pytest.raises(ValidationError, match=how), validate(client, module, exact_tanh):
        pass
    how = r"no call of the ufunc was checked inside validate\(\); call what validate\(\) yields"
    with pytest.raises(ValidationError, match=how), validate(client, np.tanh, exact_tanh):
        np.tanh(X)  # a function cannot be intercepted


def test_validate_of_a_module_that_calls_itself(client: Client) -> None:
    class Halves(Tanh):
        def __call__(self, x: Array, *, offset: float = 0.0) -> Array:
            if len(x) > 1:
                return np.concatenate([self(x[:1]), self(x[1:])])
            return super().__call__(x, offset=offset)

    module = Halves()
    with validate(client, module, lambda x: module(x).astype(np.float64)) as checked:
        module(X)
    assert len(checked.results) == 1, "calls inside a call, and of the reference, are part of it"


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
