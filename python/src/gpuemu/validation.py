"""Validation as a context: what runs inside it is judged, and leaving it without a judgement raises."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Union

from ._judged import Judged
from ._outputs import named
from .arrays import dtype_text
from .client import Client
from .results import ClientError, Comparison, ValidationError, ValidationResult

__all__ = ["ValidationContext", "ValidationError", "validate", "validate_op"]


class ValidationContext(dict[str, Any]):
    """Takes the output: ctx.set_output(y), or ctx["output"] = y, or further outputs by their names.

    ctx["result"] is ctx.result, and ctx["inputs"] has the inputs, unless outputs have these names.
    """

    def __init__(self, judge: Callable[[Any], ValidationResult], inputs: Mapping[str, Any]) -> None:
        super().__init__()
        self._judge = judge
        self._inputs = inputs
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

    def __missing__(self, name: str) -> Any:
        if name == "result":
            return self.result
        if name == "inputs":
            return self._inputs
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._result = None  # an earlier verdict was on something else


Target = Union[Client, str, None]


@contextmanager
def validate_op(
    client: Target, op_name: str | None = None, inputs: Mapping[str, Any] | None = None,
    raise_on_failure: bool = True, **kwargs: Any,
) -> Iterator[ValidationContext]:  # fmt: skip
    """Validates what is computed inside the context.

    Args:
        client: a Client; it may be left out, so that the first argument is the operator.
        op_name: operator of gpuemu.toml or of the catalogue.
        inputs: the inputs by name.
        raise_on_failure: whether a verdict other than pass raises ValidationError when the block ends. With False look
            at ctx.result.
        **kwargs: attributes of the operator, or arguments of the reference; tolerance, dtype, seed and store as of
            Client.validate_op.

    Raises:
        ValidationError: the output is wrong, could not be judged, or was never set.

    Example:
        >>> with validate_op("softmax", inputs={"input": x}) as ctx:
        ...     ctx.set_output(my_softmax(x))
        >>> assert ctx.result.passed
    """
    if isinstance(client, str):
        if op_name is not None:
            raise TypeError("validate_op() got two operators")
        op_name, client = client, None
    if op_name is None or inputs is None:
        raise TypeError("validate_op() needs the name of an operator and its inputs")
    judge = client or Client()
    ctx = ValidationContext(lambda output: judge.validate_op(op_name, inputs, output, **kwargs), inputs)
    try:
        yield ctx
        result = ctx.result
    finally:
        if client is None:
            judge.close()
    if raise_on_failure:
        result.check()


class Validation(Judged):
    """What validate yields: called, it runs the model and checks the output. True if there were calls and all passed.

    Attributes:
        results: the comparison of each checked call, in their order.
    """

    def __init__(self, run: Callable[..., Any], check: Callable[..., Comparison], raises: bool) -> None:
        self.results: list[Comparison] = []
        self._run = run
        self._compare = check
        self._raises = raises
        self._inside = threading.local()  # a model that calls itself, or whose reference calls it, is checked once

    def __call__(self, *args: Any, **kw: Any) -> Any:
        if getattr(self._inside, "busy", False):
            return self._run(*args, **kw)
        self._inside.busy = True
        try:
            output = self._run(*args, **kw)
            found = self._compare(output, args, kw)
        finally:
            self._inside.busy = False
        self.results.append(found)
        if self._raises and not found:
            raise ValidationError(found["message"], found)
        return output

    def _green(self) -> bool:
        return bool(self.results) and all(self.results)

    def _text(self) -> str:
        if not self.results:
            return "validate: no call was checked"
        wrong = [f"call {i}: {found['message']}" for i, found in enumerate(self.results) if not found]
        return "\n  ".join([f"validate: {len(self.results) - len(wrong)}/{len(self.results)} calls passed", *wrong])


@contextmanager
def validate(
    client: Client, model: Any, reference: str | Callable[..., Any] = "cpu", dtype: Any | None = None,
    reference_dtype: Any | None = None, raise_on_failure: bool = True, tolerance: Any | None = None,
) -> Iterator[Validation]:  # fmt: skip
    """Validates every call of a model inside the context against a reference that gets the same arguments.

    A module, or another object whose class defines __call__, is called as usual: its class is replaced while the block
    runs. A plain function cannot be intercepted: call what the context yields instead.

    Args:
        client: a Client.
        model: the function or module under test; a torch module is copied to the CPU and to float64 for the reference.
        reference: "cpu" for that copy, or a function that computes the right result.
        dtype: data type that outputs must have.
        reference_dtype: data type of the copy, float64 by default.
        raise_on_failure: whether a wrong output raises ValidationError. With False look at what the context yields: it
            is true if all calls passed, and check() raises otherwise.
        tolerance: an object or dict with atol and rtol; default: those of the data type.

    Yields:
        A Validation: what to call instead of a function, with the results of all checked calls.

    Raises:
        ValidationError: an output is wrong, or no call was checked inside the block.

    Example:
        >>> with validate(client, my_tanh, lambda x: np.tanh(x.astype(np.float64))) as checked:
        ...     output = checked(x)
    """
    wanted = None if dtype is None else dtype_text(dtype)
    right = _reference_of(model, reference, None if reference_dtype is None else dtype_text(reference_dtype))
    kind = type(model)

    def compare(output: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> Comparison:
        got = named(output, "output")
        for name, array in got.items():
            if wanted is not None and array.dtype.name != wanted:
                message = f"{name} is {array.dtype.name}, not {wanted}"
                return Comparison(passed=False, verdict="fail", message=message, outputs=[])
        return client.compare(got, named(right(*args, **kw), "output"), tolerance=tolerance)

    def run(*args: Any, **kw: Any) -> Any:
        return kind.__call__(model, *args, **kw)

    checked = Validation(run, compare, raise_on_failure)
    hooked = _hook(model, checked)
    try:
        yield checked
    finally:
        if hooked:
            model.__class__ = kind
    if not checked.results:
        how = "call the module" if hooked else "call what validate() yields: with validate(...) as checked: checked(x)"
        raise ValidationError(f"no call of the {kind.__name__} was checked inside validate(); {how}", checked)


def _hook(model: Any, checked: Validation) -> bool:
    """Gives the model a subclass of its class whose calls are checked. False where there can be none: of a function."""
    kind = type(model)
    if "__call__" not in vars(kind) and not any("__call__" in vars(base) for base in kind.__mro__[1:-1]):
        return False
    members = {
        "__call__": lambda self, *args, **kw: checked(*args, **kw), "__module__": kind.__module__,
        "__qualname__": kind.__qualname__, "__doc__": kind.__doc__,
    }  # fmt: skip
    metaclass: Any = type(kind)
    try:
        model.__class__ = metaclass(kind.__name__, (kind,), members)
    except TypeError:  # functions, NumPy's ufuncs, other classes of C
        return False
    return True


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
