"""TensorFlow: conversion, GradientTape, Keras layers, and whether tf.function and XLA leave values as they are."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from gpuemu.arrays import to_numpy
from gpuemu.frameworks._consistency import Consistency, Pair, bind
from gpuemu.frameworks._gradients import Differences, gradient_report, make_upstream
from gpuemu.frameworks._reports import Array, CheckReport, CheckResults, engine, leaves, verdict_of
from gpuemu.frameworks._sessions import Fuzzing, OpGradients, output_of, require_pass, snapshot, tolerance_option
from gpuemu.frameworks.base import FrameworkAdapter, framework_module
from gpuemu.validation import ValidationError

if TYPE_CHECKING:
    from gpuemu.client import Client

__all__ = [
    "TensorFlowAdapter",
    "ValidationError",
    "check_keras_layer",
    "check_keras_layer_report",
    "check_tf_function_safe",
    "check_tf_function_safe_report",
    "check_xla_compatible",
    "check_xla_compatible_report",
    "fuzz_tensorflow_op",
    "validate_custom_gradient",
    "validate_tensorflow",
]


class TensorFlowAdapter(FrameworkAdapter):
    """Tensors and gradients of TensorFlow."""

    def __init__(self) -> None:
        self.tf = framework_module("tensorflow", "TensorFlow", "tensorflow")

    def to_numpy(self, tensor: Any) -> Array:
        """The values in host memory, bit for bit; slices of a gradient (tf.IndexedSlices) as the whole array."""
        if isinstance(tensor, self.tf.IndexedSlices):
            tensor = self.tf.convert_to_tensor(tensor)
        # Variables are of several modules, Keras has its own: numpy() is what they share.
        return to_numpy(tensor.numpy() if hasattr(tensor, "numpy") else tensor)

    def from_numpy(self, arr: Array, like: Any | None = None) -> Any:
        """A new tensor; with like, of its dtype and on its device."""
        if like is None:
            return self.tf.constant(arr)
        return self.tf.cast(self.place(arr, like), like.dtype)

    def get_dtype_name(self, tensor: Any) -> str:
        return str(self.tf.as_dtype(tensor.dtype).name)

    def requires_grad(self, tensor: Any) -> bool:
        """Whether a tape watches tensor by itself: trainable variables."""
        return isinstance(tensor, self.tf.Variable) and bool(tensor.trainable)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, (self.tf.Tensor, self.tf.Variable, np.ndarray))

    def place(self, arr: Array, like: Any) -> Any:
        with self.tf.device(getattr(like, "device", None)):
            return self.tf.constant(arr)

    def compute_gradient(
        self, tape: Any, output: Any, inputs: dict[str, Any], grad_output: Any | None = None
    ) -> dict[str, Any]:
        """Gradients of output by what the tape saw, for the variables among inputs; grad_output None means ones.

        A variable without influence on the output gets zeros.
        """
        wanted = {name: value for name, value in inputs.items() if self.requires_grad(value)}
        return self.gradients(tape, [output], wanted, None if grad_output is None else [grad_output])

    def gradients(
        self, tape: Any, outputs: list[Any], wanted: Mapping[str, Any], upstream: list[Any] | None
    ) -> dict[str, Any]:
        """Gradients of sum(upstream * outputs) by name; zeros where there is no influence."""
        if not wanted:
            return {}
        zero = self.tf.UnconnectedGradients.ZERO
        found = tape.gradient(
            outputs, list(wanted.values()), output_gradients=upstream, unconnected_gradients=zero
        )
        return {name: self.tf.convert_to_tensor(grad) for name, grad in zip(wanted, found)}

    def value_and_vjp(
        self,
        func: Callable[..., Any],
        inputs: dict[str, Any],
        names: Sequence[str],
        upstream: Callable[[list[Any]], list[Any]],
    ) -> tuple[list[Any], dict[str, Any]]:
        wanted = {name: self.tf.convert_to_tensor(inputs[name]) for name in names}
        with self.tf.GradientTape() as tape:
            for tensor in wanted.values():
                tape.watch(tensor)
            outputs = self.floating_leaves(func(**{**inputs, **wanted}))
        return outputs, self.gradients(tape, outputs, wanted, upstream(outputs))

    def get_framework_name(self) -> str:
        return "tensorflow"


def _by_place(func: Callable[..., Any]) -> Callable[..., Any]:
    """func, called with its inputs by name, which it gets by place.

    tf.custom_gradient passes its gradient by for arguments that are given by name: the tape sees through the function,
    and whatever its gradient says, the result looks right.
    """
    try:
        parameters = inspect.signature(func).parameters.values()
    except (TypeError, ValueError):
        return func  # a function written in C that does not say
    places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:  # a function of a dict gets that alone by place
        leading = list(itertools.takewhile(lambda name: name in kwargs, places[len(args) :]))
        values = [kwargs.pop(name) for name in leading]
        return func(*args, *values, **kwargs)

    return call


class _Tape:
    """A GradientTape that records for the whole context, and may be entered once more inside it, which does nothing."""

    def __init__(self, tape: Any) -> None:
        self._tape = tape

    def __enter__(self) -> Any:
        return self._tape

    def __exit__(self, *_: object) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)


@contextmanager
def validate_tensorflow(
    client: Client,
    op_name: str,
    inputs: dict[str, Any],
    check_gradient: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    **kwargs: Any,
) -> Iterator[dict[str, Any]]:
    """Judges the op that runs inside the context, and with check_gradient its gradients.

    Set ctx["output"] inside; afterwards ctx["result"], ctx["grads"] and ctx["grad_result"] have what was found. With
    check_gradient a tape, ctx["tape"], records all that runs inside.

    Args:
        client: the engine.
        op_name: operator of gpuemu.toml or of the catalogue.
        inputs: tensors or variables by the operator's names.
        check_gradient: also judge the gradients with respect to all inputs of floating dtype, for a random upstream
            gradient.
        atol, rtol: tolerance instead of the engine's bound.
        **kwargs: attributes of the operator.

    Raises:
        ValidationError: the output or a gradient is wrong.

    Example:
        >>> x = tf.constant([-1.0, 2.0])
        >>> with validate_tensorflow(client, "relu", {"input": x}, check_gradient=True) as ctx:
        ...     ctx["output"] = my_relu(x)
    """
    adapter = TensorFlowAdapter()
    before = snapshot({name: adapter.to_numpy(value) for name, value in inputs.items()})
    ctx: dict[str, Any] = {"output": None, "tape": None, "grads": None, "result": None, "grad_result": None}
    wanted = {
        name: value
        for name, value in inputs.items()
        if isinstance(value, (adapter.tf.Tensor, adapter.tf.Variable)) and adapter.is_floating(value)
    }
    if not check_gradient:
        yield ctx
    elif not wanted:
        raise ValueError("check_gradient: no input is a tensor of floating dtype; there is nothing to differentiate")
    else:
        with adapter.tf.GradientTape(persistent=True) as tape:
            for value in wanted.values():
                tape.watch(value)
            ctx["tape"] = _Tape(tape)
            yield ctx
    output = output_of(ctx)
    option = tolerance_option(atol, rtol)
    judged = {name: adapter.to_numpy(leaf) for name, leaf in _by_name(output).items()}
    ctx["result"] = client.validate_op(op_name, before, judged, **option, **kwargs)
    require_pass(ctx["result"])
    if not check_gradient:
        return
    outputs = adapter.floating_leaves(output)
    upstream = make_upstream(adapter, 0)(outputs)
    ctx["grads"] = adapter.gradients(tape, outputs, wanted, upstream)
    grad_outputs = upstream[0] if len(upstream) == 1 else upstream
    ctx["grad_result"] = client.check_gradients(op_name, before, grad_outputs, ctx["grads"], **option, **kwargs)
    require_pass(ctx["grad_result"])


def _by_name(output: Any) -> dict[str, Any]:
    """Outputs by name, one as "output", several by place, as the client names them."""
    if isinstance(output, Mapping):
        return dict(output)
    found = leaves(output)
    return {"output": found[0]} if len(found) == 1 else {f"output{i}": leaf for i, leaf in enumerate(found)}


def check_keras_layer_report(
    layer: Any,
    input_shape: Sequence[int],
    client: Client,
    op_name: str,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    input_name: str = "input",
    extra_inputs: Callable[[Any], Mapping[str, Any]] | None = None,
    dtype: str = "float32",
    seed: int = 0,
    **kwargs: Any,
) -> CheckReport:
    """What `check_keras_layer` found, in words."""
    adapter = TensorFlowAdapter()
    rng = np.random.default_rng(seed)
    x = adapter.tf.cast(adapter.tf.constant(rng.standard_normal(tuple(input_shape))), dtype)
    layer(x)  # builds its variables, which extra_inputs may name
    named = extra_inputs(layer) if extra_inputs else {}
    extra = {name: adapter.tf.convert_to_tensor(value) for name, value in named.items()}
    with adapter.tf.GradientTape() as tape:
        tape.watch(x)
        output = layer(x)
    inputs = {input_name: x, **extra}
    option = tolerance_option(atol, rtol)
    result = client.validate_op(op_name, snapshot(inputs), adapter.to_numpy(output), **option, **kwargs)
    if not result.passed:
        return CheckReport("keras layer", passed=False, detail=f"forward: {result}")
    upstream = make_upstream(adapter, seed)([output])
    grads = adapter.gradients(tape, [output], {input_name: x}, upstream)
    result = client.check_gradients(op_name, snapshot(inputs), upstream[0], grads, **option, **kwargs)
    detail = "" if result.passed else f"gradient: {result}"
    return CheckReport("keras layer", result.passed, result.verdict not in ("not_run", "undecided"), detail)


def check_keras_layer(
    layer: Any,
    input_shape: Sequence[int],
    client: Client,
    op_name: str,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    input_name: str = "input",
    extra_inputs: Callable[[Any], Mapping[str, Any]] | None = None,
    dtype: str = "float32",
    seed: int = 0,
    **kwargs: Any,
) -> bool:
    """Whether a Keras layer's output, and its gradient with respect to its input, are those of an operator.

    Args:
        layer: the layer; it is called with one tensor.
        input_shape: shape of that tensor, with the batch.
        client: the engine.
        op_name: operator of gpuemu.toml or of the catalogue.
        atol, rtol: tolerance instead of the engine's bound.
        input_name: the operator's name for the tensor.
        extra_inputs: gives, for the built layer, further inputs of the operator by name, as its weights.
        dtype: of the tensor.
        seed: of its values and of the upstream gradient.
        **kwargs: attributes of the operator.

    Example:
        >>> check_keras_layer(tf.keras.layers.ReLU(), (32, 128), client, "relu")
        True
    """
    report = check_keras_layer_report(
        layer, input_shape, client, op_name, atol, rtol,
        input_name=input_name, extra_inputs=extra_inputs, dtype=dtype, seed=seed, **kwargs,
    )  # fmt: skip
    return verdict_of(report)


def _graph_report(
    check: str,
    op: Callable[..., Any],
    inputs: dict[str, Any],
    options: Mapping[str, Any],
    rtol: float | None,
    atol: float | None,
    client: Client | None,
) -> CheckReport:
    adapter = TensorFlowAdapter()
    # Of a function that is decorated already, what is under the decoration is the plain one.
    plain_op = getattr(op, "python_function", op)
    tensors, (plain,) = bind(adapter, inputs, _by_place(plain_op))
    notes = tuple(
        f"{name} is a Python number, a constant here; as an argument of a tf.function each new value is traced anew"
        for name, value in inputs.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    )
    traces = 0

    def counted(**kwargs: Any) -> Any:
        nonlocal traces
        traces += 1  # runs while tracing only
        return plain(**kwargs)

    graph = adapter.tf.function(counted, **options)
    first_traces: list[int] = []

    def transformed(**kwargs: Any) -> Any:
        found = graph(**kwargs)
        first_traces.append(traces)
        return found

    pair = Pair(plain, transformed, "eager", check)
    report = Consistency(adapter, check, pair, atol, rtol).report(tensors, client, notes)
    if report.passed and first_traces[-1] > first_traces[0]:
        detail = f"traced {first_traces[-1]} times for inputs of one shape and dtype, {first_traces[0]} for the first"
        return replace(report, passed=False, detail=detail)
    return report


def check_tf_function_safe_report(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
    *,
    client: Client | None = None,
) -> CheckReport:
    """What `check_tf_function_safe` found, in words."""
    return _graph_report("tf.function", op, inputs, {}, rtol, atol, client)


def check_tf_function_safe(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
    *,
    client: Client | None = None,
) -> bool:
    """Whether tf.function(op) does what op does, on inputs and on others of the same shapes, traced once.

    Args:
        op: takes the inputs by name; if it is a tf.function already, the function under it is the plain one.
        inputs: tensors by name, and settings (numbers, strings), which stay constants.
        rtol, atol: tolerances; default: those of the dtype of each output.
        client: the engine; default: one is started.
    """
    return verdict_of(check_tf_function_safe_report(op, inputs, rtol, atol, client=client))


def check_xla_compatible_report(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
    *,
    client: Client | None = None,
) -> CheckReport:
    """What `check_xla_compatible` found, in words."""
    return _graph_report("XLA", op, inputs, {"jit_compile": True}, rtol, atol, client)


def check_xla_compatible(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
    *,
    client: Client | None = None,
) -> bool:
    """Whether XLA can compile op, and the result does what op does; arguments as of check_tf_function_safe."""
    return verdict_of(check_xla_compatible_report(op, inputs, rtol, atol, client=client))


def validate_custom_gradient(
    func: Callable[..., Any],
    gradient_func: Callable[..., Any] | None,
    inputs: dict[str, Any],
    eps: float = 1e-4,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    seed: int = 0,
    client: Client | None = None,
) -> CheckResults:
    """Whether gradients are those of func's values, by differences in float64: the tape's, and gradient_func's.

    Args:
        func: takes the inputs by name; as a rule a tf.custom_gradient.
        gradient_func: called as gradient_func(*inputs, dy), gives the gradient of each input of floating dtype in
            order; None: the tape's alone are checked.
        inputs: tensors by name, and settings.
        eps: largest step of the differences.
        atol, rtol: tolerances; default: those of the dtype of each input.
        seed: of the random upstream gradient dy.
        client: the engine; default: one is started.

    Returns:
        A dict with gradient_ok, details (a list of sentences), max_diff (the largest difference seen) and reports. It
        is true if the gradients are right; its check() raises otherwise.
    """
    settings = Differences(eps=eps, atol=atol, rtol=rtol, seed=seed)
    adapters: list[tuple[str, TensorFlowAdapter]] = [("gradient of the tape", TensorFlowAdapter())]
    if gradient_func is not None:
        adapters.append(("gradient_func", _GivenGradient(gradient_func, inputs)))
    with engine(client) as judge:
        reports = [
            gradient_report(adapter, _by_place(func), inputs, None, settings, judge, name) for name, adapter in adapters
        ]
    worst = [out["max_abs"] for report in reports for answer in report.comparisons for out in answer["outputs"]]
    members = {
        "gradient_ok": all(report.passed for report in reports),
        "details": [str(report) for report in reports if not report.passed],
        "max_diff": max((float(value) for value in worst), default=0.0),
        "reports": reports,
    }
    return CheckResults(members, members["gradient_ok"] is True, "\n".join(map(str, reports)))


class _GivenGradient(TensorFlowAdapter):
    """Takes gradients from a function of the user's instead of a tape."""

    def __init__(self, gradient_func: Callable[..., Any], inputs: Mapping[str, Any]) -> None:
        super().__init__()
        self.gradient_func = gradient_func
        self.all_inputs = inputs

    def value_and_vjp(
        self,
        func: Callable[..., Any],
        inputs: dict[str, Any],
        names: Sequence[str],
        upstream: Callable[[list[Any]], list[Any]],
    ) -> tuple[list[Any], dict[str, Any]]:
        outputs = self.floating_leaves(func(**inputs))
        found = leaves(self.gradient_func(*{**self.all_inputs, **inputs}.values(), *upstream(outputs)))
        if len(found) != len(names):
            raise ValueError(f"{len(found)} gradients for {len(names)} inputs of floating dtype: {', '.join(names)}")
        return outputs, dict(zip(names, found))


def fuzz_tensorflow_op(
    client: Client,
    op_name: str,
    run_op: Callable[..., Any],
    iterations: int = 100,
    seed: int | None = None,
    fail_fast: bool = False,
    check_gradient: bool = False,
    check_xla: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    device: str | None = None,
    **options: Any,
) -> CheckResults:
    """Fuzzes a TensorFlow op: the engine makes the cases and judges; the op runs here.

    Args:
        client: the engine.
        op_name: operator of gpuemu.toml or of the catalogue.
        run_op: takes the inputs by name (and attributes it has parameters for), or a dict of them; returns a tensor.
        iterations: number of cases.
        seed: master seed; default: a fresh one.
        fail_fast: end at the first wrong output.
        check_gradient: also judge the gradients of every case.
        check_xla: also check every case compiled by XLA.
        atol, rtol: tolerance instead of the engine's bound.
        device: as "GPU:0"; default: a GPU if there is one.
        **options: of Client.fuzz_op_client_side, as dtypes or layouts.

    Returns:
        A dict with total, passed, failed, forward_failures, gradient_failures, xla_failures, for each check also what
        was not run (gradient_not_run, …), not_run, undecided and seed. It is true if the run is green, checks
        included; its check() raises otherwise.
    """
    adapter = TensorFlowAdapter()
    option = tolerance_option(atol, rtol)
    fuzzing = Fuzzing(adapter, "tensorflow", _by_place(run_op), by_name=True)
    if check_gradient:
        own = options.get("reference") is not None
        fuzzing.checks["gradient"] = OpGradients(
            adapter, client, op_name, "gradient", option, own=own, store=options.get("store", "failures")
        )
    if check_xla:
        fuzzing.checks["xla"] = lambda func, inputs, _: check_xla_compatible_report(
            func, inputs, rtol, atol, client=client
        )
    settings = {"iterations": iterations, "seed": seed, "fail_fast": fail_fast, "device": device, **option, **options}
    return fuzzing.run(client, op_name, settings, "gradient", "xla")
