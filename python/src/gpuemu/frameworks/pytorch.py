"""PyTorch: conversion, autograd, custom autograd functions, torch.compile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable

from gpuemu.arrays import Arrays, arrays, to_numpy
from gpuemu.frameworks._consistency import Consistency, Pair, bind
from gpuemu.frameworks._gradients import Differences, gradient_report, make_upstream
from gpuemu.frameworks._reports import Array, CheckReport, CheckResults, leaves, not_run, raised, verdict_of
from gpuemu.frameworks._sessions import Fuzzing, OpGradients, output_of, require_pass, snapshot, tolerance_option
from gpuemu.frameworks.base import FrameworkAdapter, framework_module
from gpuemu.validation import ValidationError

if TYPE_CHECKING:
    from gpuemu.client import Client

__all__ = [
    "PyTorchAdapter",
    "ValidationError",
    "check_autograd",
    "check_autograd_report",
    "check_compile_consistent",
    "check_compile_consistent_report",
    "fuzz_pytorch_op",
    "validate_custom_autograd_function",
    "validate_pytorch",
]


class PyTorchAdapter(FrameworkAdapter):
    """Tensors and autograd of PyTorch."""

    def __init__(self) -> None:
        self.torch = framework_module("torch", "PyTorch", "torch")
        self._arrays: dict[str, Arrays] = {}  # by device

    def to_numpy(self, tensor: Any) -> Array:
        """The values in host memory, bit for bit; bfloat16 and float8 as dtypes of ml_dtypes."""
        return to_numpy(tensor)

    def from_numpy(self, arr: Array, like: Any | None = None) -> Any:
        """A new tensor; with like, of its dtype and on its device."""
        if like is None:
            return self._on("cpu", arr)
        return self._on(str(like.device), arr).to(like.dtype)

    def get_dtype_name(self, tensor: Any) -> str:
        return str(tensor.dtype).rpartition(".")[2]

    def requires_grad(self, tensor: Any) -> bool:
        return bool(getattr(tensor, "requires_grad", False))

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.torch.Tensor)

    def place(self, arr: Array, like: Any) -> Any:
        return self._on(str(like.device), arr)

    def _on(self, device: str, arr: Array) -> Any:
        if device not in self._arrays:
            self._arrays[device] = arrays("torch", device)
        return self._arrays[device].from_numpy(arr)

    def compute_gradient(
        self, output: Any, inputs: dict[str, Any], grad_output: Any | None = None
    ) -> dict[str, Any]:
        """Gradients by torch.autograd.grad for the inputs that require one; an input without influence gets zeros."""
        wanted = {name: tensor for name, tensor in inputs.items() if self.requires_grad(tensor)}
        upstream = self.torch.ones_like(output) if grad_output is None else grad_output
        return self.gradients([output], wanted, [upstream])

    def value_and_vjp(
        self,
        func: Callable[..., Any],
        inputs: dict[str, Any],
        names: Sequence[str],
        upstream: Callable[[list[Any]], list[Any]],
    ) -> tuple[list[Any], dict[str, Any]]:
        wanted = {name: inputs[name].detach().requires_grad_(True) for name in names}
        outputs = self.floating_leaves(func(**{**inputs, **wanted}))
        return outputs, self.gradients(outputs, wanted, upstream(outputs))

    def gradients(self, outputs: list[Any], wanted: dict[str, Any], upstream: list[Any]) -> dict[str, Any]:
        """Gradients of sum(upstream * outputs); an input without influence gets zeros."""
        attached = [(out, up) for out, up in zip(outputs, upstream) if out.requires_grad]
        found = [None] * len(wanted)
        if attached and wanted:
            found = self.torch.autograd.grad(
                [out for out, _ in attached],
                list(wanted.values()),
                grad_outputs=[up for _, up in attached],
                retain_graph=True,
                allow_unused=True,
            )
        # No gradient means no influence: zeros, which are compared like any other.
        return {
            name: self.torch.zeros_like(tensor) if grad is None else grad
            for (name, tensor), grad in zip(wanted.items(), found)
        }

    def is_available(self) -> bool:
        return True

    def get_framework_name(self) -> str:
        return "pytorch"


@contextmanager
def validate_pytorch(
    client: Client,
    op_name: str,
    inputs: dict[str, Any],
    check_backward: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    **kwargs: Any,
) -> Iterator[dict[str, Any]]:
    """Judges the op that runs inside the context, and with check_backward its gradients.

    Set ctx["output"] inside; afterwards ctx["result"], ctx["grad_inputs"] and ctx["grad_result"] have what was found.

    Args:
        client: the engine.
        op_name: operator of gpuemu.toml or of the catalogue.
        inputs: tensors by the operator's names; those with requires_grad are differentiated.
        check_backward: also judge the gradients, for a random upstream gradient.
        atol, rtol: tolerance instead of the engine's bound.
        **kwargs: attributes of the operator.

    Raises:
        ValidationError: the output or a gradient is wrong.

    Example:
        >>> x = torch.randn(3, 4, requires_grad=True)
        >>> with validate_pytorch(client, "relu", {"input": x}, check_backward=True) as ctx:
        ...     ctx["output"] = my_relu(x)
    """
    adapter = PyTorchAdapter()
    if check_backward and not any(adapter.requires_grad(value) for value in inputs.values()):
        raise ValueError("check_backward: no input has requires_grad; call requires_grad_() on those to differentiate")
    before = snapshot(inputs)
    ctx: dict[str, Any] = {"output": None, "grad_inputs": None, "result": None, "grad_result": None}
    yield ctx
    output = output_of(ctx)
    option = tolerance_option(atol, rtol)
    ctx["result"] = client.validate_op(op_name, before, output, **option, **kwargs)
    require_pass(ctx["result"])
    if not check_backward:
        return
    outputs = adapter.floating_leaves(output)
    upstream = make_upstream(adapter, 0)(outputs)
    wanted = {name: value for name, value in inputs.items() if adapter.requires_grad(value)}
    ctx["grad_inputs"] = adapter.gradients(outputs, wanted, upstream)
    grad_outputs = upstream[0] if len(upstream) == 1 else upstream
    ctx["grad_result"] = client.check_gradients(
        op_name, before, grad_outputs, ctx["grad_inputs"], **option, **kwargs
    )
    require_pass(ctx["grad_result"])


def check_autograd_report(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    eps: float = 1e-4,
    atol: float | None = None,
    rtol: float | None = None,
    check_inputs: Sequence[str] | None = None,
    *,
    seed: int = 0,
    client: Client | None = None,
) -> CheckReport:
    """What `check_autograd` found, in words."""
    settings = Differences(eps=eps, atol=atol, rtol=rtol, seed=seed)
    return gradient_report(PyTorchAdapter(), op, inputs, check_inputs, settings, client, "autograd")


def check_autograd(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    eps: float = 1e-4,
    atol: float | None = None,
    rtol: float | None = None,
    check_inputs: Sequence[str] | None = None,
    *,
    seed: int = 0,
    client: Client | None = None,
) -> bool:
    """Whether autograd's gradients of op(**inputs) are those of its values, by differences in float64.

    Args:
        op: takes the inputs by name, returns a tensor or several.
        inputs: tensors by name, and settings such as an axis; small ones suffice.
        eps: largest step of the differences.
        atol, rtol: tolerances; default: those of the dtype of each input.
        check_inputs: inputs to differentiate; default: those with requires_grad, or else all of floating dtype.
        seed: of the random upstream gradient.
        client: the engine; default: one is started.

    Raises:
        ValidationError: op raises; there are no gradients to check.

    Example:
        >>> check_autograd(lambda x: x * x, {"x": torch.randn(10)})
        True
    """
    return verdict_of(check_autograd_report(op, inputs, eps, atol, rtol, check_inputs, seed=seed, client=client))


def validate_custom_autograd_function(
    func_class: Any,
    inputs: dict[str, Any],
    eps: float = 1e-4,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    seed: int = 0,
    client: Client | None = None,
) -> CheckResults:
    """Whether forward of a torch.autograd.Function runs and its backward is right.

    Args:
        func_class: the class; its apply is called with the values of inputs in their order.
        inputs: tensors and settings; all tensors of floating dtype are differentiated.
        eps, atol, rtol, seed, client: as of check_autograd.

    Returns:
        A dict with forward_ok, backward_ok, details (a list of sentences) and report (of the gradients, or None). It is
        true if both are right; its check() raises otherwise.
    """
    adapter = PyTorchAdapter()
    order = list(inputs)
    tensors = {name: value for name, value in inputs.items() if adapter.is_array(value)}

    def apply(**kwargs: Any) -> Any:
        return func_class.apply(*(kwargs[name] for name in order))

    def results(forward: bool, backward: bool, details: list[str], report: CheckReport | None) -> CheckResults:
        members = {"forward_ok": forward, "backward_ok": backward, "details": details, "report": report}
        return CheckResults(members, forward and backward, "\n  ".join([func_class.__name__, *details]))

    try:
        copies = {name: value.detach().clone() for name, value in tensors.items()}
        outputs = leaves(apply(**{**inputs, **copies}))
    except Exception as error:
        return results(False, False, [raised("forward", error)], None)
    if not outputs:
        return results(False, False, ["forward returns no tensor"], None)
    floating = [name for name, value in tensors.items() if adapter.is_floating(value)]
    settings = Differences(eps=eps, atol=atol, rtol=rtol, seed=seed)
    report = gradient_report(adapter, apply, inputs, floating, settings, client, "backward")
    details = ([] if report.passed else [report.detail]) + list(report.notes)
    return results(True, report.passed, details, report)


def check_compile_consistent_report(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
    *,
    backend: str = "inductor",
    client: Client | None = None,
) -> CheckReport:
    """What `check_compile_consistent` found, in words."""
    adapter = PyTorchAdapter()
    check = "torch.compile"
    torch_compile = getattr(adapter.torch, "compile", None)
    if torch_compile is None:
        return not_run(check, f"torch {adapter.torch.__version__} has no torch.compile; it came with torch 2.0")
    tensors, (plain,) = bind(adapter, inputs, op)
    pair = Pair(plain, torch_compile(plain, backend=backend), "eager", "compiled")
    return Consistency(adapter, check, pair, atol, rtol).report(tensors, client)


def check_compile_consistent(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
    *,
    backend: str = "inductor",
    client: Client | None = None,
) -> bool:
    """Whether torch.compile(op) does what op does, on inputs and on others of the same shapes.

    Args:
        op: a function that is not compiled yet; takes the inputs by name.
        inputs: tensors by name, and settings.
        rtol, atol: tolerances; default: those of the dtype of each output.
        backend: of torch.compile.
        client: the engine; default: one is started.
    """
    return verdict_of(check_compile_consistent_report(op, inputs, rtol, atol, backend=backend, client=client))


def fuzz_pytorch_op(
    client: Client,
    op_name: str,
    run_op: Callable[..., Any],
    iterations: int = 100,
    seed: int | None = None,
    fail_fast: bool = False,
    check_backward: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    device: str | None = None,
    **options: Any,
) -> CheckResults:
    """Fuzzes a PyTorch op: the engine makes the cases and judges; the op runs here.

    Args:
        client: the engine.
        op_name: operator of gpuemu.toml or of the catalogue.
        run_op: takes a dict of tensors by name, or has a parameter for each of them; returns a tensor.
        iterations: number of cases.
        seed: master seed; default: a fresh one.
        fail_fast: end at the first wrong output.
        check_backward: also judge the gradients of every case.
        atol, rtol: tolerance instead of the engine's bound.
        device: as "cuda:1"; default: a GPU if there is one.
        **options: of Client.fuzz_op_client_side, as dtypes or layouts.

    Returns:
        A dict with total, passed, failed, forward_failures, backward_failures, backward_not_run, not_run, undecided
        and seed. It is true if the run is green, backward passes included; its check() raises otherwise.

    Example:
        >>> bool(fuzz_pytorch_op(client, "relu", lambda input: input.relu(), 5, dtypes=["float32"]))
        True
    """
    adapter = PyTorchAdapter()
    option = tolerance_option(atol, rtol)
    fuzzing = Fuzzing(adapter, "torch", run_op, by_name=False)
    if check_backward:
        own = options.get("reference") is not None
        fuzzing.checks["backward"] = OpGradients(
            adapter, client, op_name, "backward", option, own=own, store=options.get("store", "failures")
        )
    settings = {"iterations": iterations, "seed": seed, "fail_fast": fail_fast, "device": device, **option, **options}
    found = fuzzing.run(client, op_name, settings, "backward")
    found.setdefault("backward_not_run", [])
    return found
