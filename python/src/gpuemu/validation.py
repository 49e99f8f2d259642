"""Validation as a context: run the op inside it, and it is judged when the context ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Union

from .client import Client, named
from .results import ClientError, ValidationResult


class ValidationError(AssertionError):
    """An output that is wrong, or could not be judged. The result has the details.

    Attributes:
        result: the verdict, or None where there was nothing to judge.
    """

    def __init__(self, message: str | ValidationResult, result: ValidationResult | None = None) -> None:
        super().__init__(str(message))
        self.result = message if isinstance(message, ValidationResult) else result


class ValidationContext(dict[str, Any]):
    """Takes the output: ctx.set_output(y), or ctx["output"] = y, or further outputs by their names."""

    def __init__(self, judge: Callable[[Any], ValidationResult]) -> None:
        super().__init__()
        self._judge = judge
        self._result: ValidationResult | None = None

    def set_output(self, output: Any) -> None:
        """Says what the op returned: an array, a tuple or a dict by name."""
        self["output"] = output

    @property
    def result(self) -> ValidationResult:
        """The verdict on the output. Asked for inside the block, it is that on what has been set so far."""
        if self._result is None:
            output = self.get("output") if set(self) == {"output"} else dict(self)
            if output is None or (isinstance(output, dict) and not output):
                raise ValidationError("there is no output to judge; use ctx.set_output(y)")
            self._result = self._judge(output)
        return self._result

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._result = None  # an earlier verdict was on something else


Target = Union[Client, str, None]


@contextmanager
def validate_op(
    client: Target, op_name: str | None = None, inputs: Mapping[str, Any] | None = None,
    raise_on_failure: bool | None = None, **kwargs: Any,
) -> Iterator[ValidationContext]:  # fmt: skip
    """Validates what is computed inside the context.

    Args:
        client: a Client; it may be left out, so that the first argument is the operator.
        op_name: operator of gpuemu.toml or of the catalogue.
        inputs: the inputs by name.
        raise_on_failure: whether a verdict other than pass raises ValidationError. Default: only with a client given,
            as in the two forms that are documented.
        **kwargs: attributes of the operator, or arguments of the reference.

    Example:
        >>> with validate_op("softmax", inputs={"logits": x}) as ctx:
        ...     ctx.set_output(my_softmax(x))
        >>> assert ctx.result.passed
    """
    if isinstance(client, str):
        if op_name is not None:
            raise TypeError("validate_op() got two operators")
        op_name, client = client, None
    if op_name is None or inputs is None:
        raise TypeError("validate_op() needs the name of an operator and its inputs")
    raises = client is not None if raise_on_failure is None else raise_on_failure
    judge = client or Client()
    ctx = ValidationContext(lambda output: judge.validate_op(op_name, inputs, output, **kwargs))
    try:
        yield ctx
        result = ctx.result
    finally:
        if client is None:
            judge.close()
    if raises and not result.passed:
        raise ValidationError(result)


@contextmanager
def validate(
    client: Client, model: Any, reference: str | Callable[..., Any] = "cpu", dtype: str | None = None,
    reference_dtype: str | None = None, raise_on_failure: bool = True, tolerance: Any | None = None,
) -> Iterator[Callable[..., Any]]:  # fmt: skip
    """Validates every call of a model inside the context against a reference that gets the same arguments.

    Args:
        client: a Client.
        model: the function or module under test; a torch module is copied to the CPU and to float64 for the reference.
        reference: "cpu" for that copy, or a function that computes the right result.
        dtype: data type that outputs must have.
        reference_dtype: data type of the copy, float64 by default.
        raise_on_failure: whether a wrong output raises ValidationError.
        tolerance: an object or dict with atol and rtol; default: those of the data type.

    Yields:
        What to call instead of the model. A torch module may be called itself, too.
    """
    right = _reference_of(model, reference, reference_dtype)

    def checked(*args: Any, **kw: Any) -> Any:
        output = model(*args, **kw)
        got = named(output, "output")
        for name, array in got.items():
            if dtype is not None and array.dtype.name != dtype:
                raise ValidationError(f"{name} is {array.dtype.name}, not {dtype}")
        reply = client.compare(got, named(right(*args, **kw), "output"), tolerance=tolerance)
        if raise_on_failure and not reply["passed"]:
            raise ValidationError(reply["message"])
        return output

    yield checked


def _reference_of(model: Any, reference: str | Callable[..., Any], dtype: str | None) -> Callable[..., Any]:
    if callable(reference):
        return reference
    if reference != "cpu" or not (hasattr(model, "parameters") and hasattr(model, "double")):
        raise ClientError(
            f"there is no reference {reference!r} for a {type(model).__name__}",
            hint='pass reference=FUNCTION; "cpu" is for torch modules',
        )
    import copy

    import torch

    wanted = getattr(torch, dtype or "float64")
    twin = copy.deepcopy(model).to("cpu", wanted)

    def moved(value: Any) -> Any:
        if not hasattr(value, "detach"):
            return value
        value = value.detach().cpu()
        return value.to(wanted) if value.is_floating_point() else value

    def run(*args: Any, **kw: Any) -> Any:
        with torch.no_grad():
            return twin(*map(moved, args), **{k: moved(v) for k, v in kw.items()})

    return run
