"""JAX: conversion, gradients, and whether jit, vmap and pmap leave a function's values as they are."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from gpuemu.arrays import to_numpy
from gpuemu.frameworks._consistency import CONSISTENCY_TOLERANCES, Consistency, Pair, bind, variants
from gpuemu.frameworks._gradients import Differences, gradient_report
from gpuemu.frameworks._reports import (
    Array,
    CheckReport,
    CheckResults,
    agree,
    engine,
    leaves,
    not_run,
    raised,
    tolerance_for,
    verdict_of,
)
from gpuemu.frameworks._sessions import Fuzzing, OpGradients, output_of, require_pass, snapshot, tolerance_option
from gpuemu.frameworks._tangents import tangent_report
from gpuemu.frameworks.base import FrameworkAdapter, framework_module
from gpuemu.validation import ValidationError

if TYPE_CHECKING:
    from gpuemu.client import Client

__all__ = [
    "JAXAdapter",
    "ValidationError",
    "check_grad_safe",
    "check_grad_safe_report",
    "check_jit_safe",
    "check_jit_safe_report",
    "check_pmap_compatible",
    "check_pmap_compatible_report",
    "check_vmap_compatible",
    "check_vmap_compatible_report",
    "fuzz_jax_op",
    "validate_jax",
    "validate_jax_primitive",
]


class JAXAdapter(FrameworkAdapter):
    """Arrays and gradients of JAX."""

    def __init__(self) -> None:
        self.jax = framework_module("jax", "JAX", "jax")
        self.jnp = importlib.import_module("jax.numpy")

    def to_numpy(self, tensor: Any) -> Array:
        """The values in host memory, bit for bit."""
        return to_numpy(tensor)

    def from_numpy(self, arr: Array, like: Any | None = None) -> Any:
        """A new array; with like, of its dtype and on its device. Without it JAX may narrow, as jnp.array does."""
        if like is None:
            return self.jnp.array(arr)
        return self.place(np.asarray(arr).astype(like.dtype), like)

    def get_dtype_name(self, tensor: Any) -> str:
        return str(np.dtype(tensor.dtype))

    def requires_grad(self, tensor: Any) -> bool:
        """JAX differentiates functions: any array of floating dtype can ask for a gradient."""
        return bool(self.jnp.issubdtype(tensor.dtype, self.jnp.floating))

    def is_array(self, value: Any) -> bool:
        return isinstance(value, (self.jax.Array, np.ndarray))

    def place(self, arr: Array, like: Any) -> Any:
        device = next(iter(like.devices())) if isinstance(like, self.jax.Array) else None
        # device_put may keep the memory of a numpy array; it is used again.
        return self.jax.device_put(arr.copy(), device)

    def double_precision(self) -> AbstractContextManager[Any]:
        if hasattr(self.jax, "enable_x64"):
            context: AbstractContextManager[Any] = self.jax.enable_x64(True)
        else:
            context = importlib.import_module("jax.experimental").enable_x64(True)
        return context

    def compute_gradient(
        self,
        output_fn: Callable[..., Any],
        inputs: dict[str, Any],
        argnums: int | tuple[int, ...] | None = None,
        grad_output: Any | None = None,
    ) -> dict[str, Any]:
        """Gradients of output_fn(**inputs), for the inputs at argnums or all of floating dtype.

        grad_output None means ones.
        """
        order = list(inputs)
        if argnums is None:
            names = [name for name in order if self.requires_grad(inputs[name])]
        else:
            names = _names_at(order, argnums)
        if not names:
            return {}

        def upstream(outputs: list[Any]) -> list[Any]:
            return [self.jnp.ones_like(out) for out in outputs] if grad_output is None else [grad_output]

        return self.value_and_vjp(output_fn, inputs, names, upstream)[1]

    def value_and_vjp(
        self,
        func: Callable[..., Any],
        inputs: dict[str, Any],
        names: Sequence[str],
        upstream: Callable[[list[Any]], list[Any]],
    ) -> tuple[list[Any], dict[str, Any]]:
        def positional(*args: Any) -> list[Any]:
            return self.floating_leaves(func(**{**inputs, **dict(zip(names, args))}))

        outputs, pull_back = self.jax.vjp(positional, *(inputs[name] for name in names))
        return outputs, dict(zip(names, pull_back(upstream(outputs))))

    def get_framework_name(self) -> str:
        return "jax"


def _names_at(order: Sequence[str], argnums: int | Sequence[int]) -> list[str]:
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for number in numbers:
        if not -len(order) <= number < len(order):
            raise ValueError(f"argnums has {number}; there are {len(order)} inputs: {', '.join(order)}")
    return [order[number] for number in numbers]


@contextmanager
def validate_jax(
    client: Client,
    op_name: str,
    inputs: dict[str, Any],
    atol: float | None = None,
    rtol: float | None = None,
    **kwargs: Any,
) -> Iterator[dict[str, Any]]:
    """Judges the op that runs inside the context.

    Set ctx["output"] inside; afterwards ctx["result"] has the verdict. Where ctx["grads"], gradients by input, and
    ctx["grad_output"], the upstream gradient they were taken for, are set as well, the gradients are judged, too.

    Args:
        client: the engine.
        op_name: operator of gpuemu.toml or of the catalogue.
        inputs: arrays by the operator's names.
        atol, rtol: tolerance instead of the engine's bound.
        **kwargs: attributes of the operator.

    Raises:
        ValidationError: the output or a gradient is wrong.

    Example:
        >>> with validate_jax(client, "relu", {"input": x}) as ctx:
        ...     ctx["output"] = my_relu(x)
    """
    JAXAdapter()
    before = snapshot(inputs)
    ctx: dict[str, Any] = {"output": None, "grads": None, "grad_output": None, "result": None, "grad_result": None}
    yield ctx
    option = tolerance_option(atol, rtol)
    ctx["result"] = client.validate_op(op_name, before, output_of(ctx), **option, **kwargs)
    require_pass(ctx["result"])
    if ctx["grads"] is None:
        return
    if ctx["grad_output"] is None:
        raise ValueError('ctx["grads"] is set and ctx["grad_output"] is not: set the upstream gradient they belong to')
    ctx["grad_result"] = client.check_gradients(op_name, before, ctx["grad_output"], ctx["grads"], **option, **kwargs)
    require_pass(ctx["grad_result"])


def _plain(op: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function under jax.jit: the decorated one would be compared with itself."""
    under = getattr(op, "__wrapped__", None)
    return under if under is not None and hasattr(op, "lower") else op


def check_jit_safe_report(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
    *,
    client: Client | None = None,
) -> CheckReport:
    """What `check_jit_safe` found, in words."""
    adapter = JAXAdapter()
    under = _plain(op)
    arrays, (plain, given) = bind(adapter, inputs, under, op)
    # A function that is jitted already may have static arguments: it is run as its author made it.
    jitted = given if under is not op else adapter.jax.jit(plain)
    return Consistency(adapter, "jit", Pair(plain, jitted, "eager", "jit"), atol, rtol).report(arrays, client)


def check_jit_safe(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    rtol: float | None = None,
    atol: float | None = None,
    *,
    client: Client | None = None,
) -> bool:
    """Whether jax.jit(op) does what op does, on inputs and on others of the same shapes.

    Args:
        op: takes the inputs by name; if it is jitted already, the function under it is the plain one.
        inputs: arrays by name, and settings (numbers, strings), which stay constants.
        rtol, atol: tolerances; default: those of the dtype of each output.
        client: the engine; default: one is started.

    Example:
        >>> check_jit_safe(lambda x: x * 2, {"x": jax.numpy.ones(3)}, client=client)
        True
    """
    return verdict_of(check_jit_safe_report(op, inputs, rtol, atol, client=client))


def _stacked(adapter: JAXAdapter, outputs: Sequence[Any]) -> list[Any]:
    """Results of single runs, each a list of leaves, stacked leaf by leaf."""
    return [adapter.jnp.stack(column) for column in zip(*(leaves(out) for out in outputs))]


def check_vmap_compatible_report(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    batch_axis: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    client: Client | None = None,
) -> CheckReport:
    """What `check_vmap_compatible` found, in words."""
    adapter = JAXAdapter()
    arrays, (plain,) = bind(adapter, inputs, op)
    sizes = {}
    for name, value in arrays.items():
        if not -value.ndim <= batch_axis < value.ndim:
            raise ValueError(f"{name} has shape {value.shape} and no axis {batch_axis} to batch over")
        sizes[name] = value.shape[batch_axis]
    if len(set(sizes.values())) > 1:
        raise ValueError(f"batch sizes differ along axis {batch_axis}: {sizes}; vmap needs one for all inputs")
    batch = next(iter(sizes.values()))
    if batch == 0:
        return not_run("vmap", f"the batch along axis {batch_axis} is empty; give one of two elements or more")
    order = list(arrays)

    def one_by_one(**values: Any) -> list[Any]:
        rows = [{n: adapter.jnp.take(v, i, axis=batch_axis) for n, v in values.items()} for i in range(batch)]
        return _stacked(adapter, [plain(**row) for row in rows])

    def mapped(**values: Any) -> list[Any]:
        run = adapter.jax.vmap(lambda *args: leaves(plain(**dict(zip(order, args)))), in_axes=batch_axis)
        found: list[Any] = run(*(values[name] for name in order))
        return found

    notes = ("the batch has one element: rows that mix cannot be seen",) if batch == 1 else ()
    pair = Pair(one_by_one, mapped, "element by element", "vmap")
    return Consistency(adapter, "vmap", pair, atol, rtol).report(arrays, client, notes)


def check_vmap_compatible(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    batch_axis: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    client: Client | None = None,
) -> bool:
    """Whether jax.vmap(op) gives for a batch what op gives for each element.

    Args:
        op: takes one element of each input by name.
        inputs: arrays by name, all with the batch along batch_axis, and settings.
        batch_axis: the axis of the batch.
        rtol, atol: tolerances; default: those of the dtype of each output.
        client: the engine; default: one is started.

    Example:
        >>> check_vmap_compatible(lambda x: x * 2, {"x": jax.numpy.ones((2, 3))}, client=client)
        True
    """
    return verdict_of(check_vmap_compatible_report(op, inputs, batch_axis, rtol, atol, client=client))


def _batch_of_variants(adapter: JAXAdapter, arrays: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """count different sets of inputs of the given shapes: variants in turn, from the second round on shifted."""
    host = {name: adapter.to_numpy(value) for name, value in arrays.items()}
    sets = [values for _, values in variants(host)]
    rows = []
    for i in range(count):
        values = sets[i % len(sets)]
        turned = {name: np.roll(value, i // len(sets)) for name, value in values.items()}
        rows.append({name: adapter.from_numpy(turned[name], like=arrays[name]) for name in arrays})
    return rows


def _batched_report(
    adapter: JAXAdapter,
    op: Callable[..., Any],
    inputs: dict[str, Any],
    rtol: float | None,
    atol: float | None,
    client: Client | None,
) -> CheckReport:
    """vmap over a new axis: a batch of variants of the inputs against each by itself. It fits any op."""
    arrays, (plain,) = bind(adapter, inputs, op)
    rows = _batch_of_variants(adapter, arrays, 3)
    batch = {name: adapter.jnp.stack([row[name] for row in rows]) for name in arrays}
    return check_vmap_compatible_report(plain, batch, 0, rtol, atol, client=client)


def check_pmap_compatible_report(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    axis_name: str = "batch",
    *,
    rtol: float | None = None,
    atol: float | None = None,
    client: Client | None = None,
) -> CheckReport:
    """What `check_pmap_compatible` found, in words."""
    adapter = JAXAdapter()
    jax = adapter.jax
    count = jax.local_device_count()
    if count < 2:
        remedy = "on a CPU, XLA_FLAGS=--xla_force_host_platform_device_count=2 makes two"
        return not_run("pmap", f"there is {count} device and pmap needs two or more; {remedy}")
    arrays, (plain,) = bind(adapter, inputs, op)
    order = list(arrays)
    rows = _batch_of_variants(adapter, arrays, count)
    # On the host: pmap places arrays itself, and refuses those that lie on a device already.
    batch = [np.stack([adapter.to_numpy(row[name]) for row in rows]) for name in order]
    notes: list[str] = []

    def positional(*args: Any) -> list[Any]:
        return leaves(plain(**dict(zip(order, args))))

    try:
        want = _stacked(adapter, [positional(*(row[name] for name in order)) for row in rows])
    except NameError:
        # Collectives have no axis outside a map. vmap gives them one, on a single device.
        notes.append("op uses a collective; the reference is vmap with the same axis name")
        want = jax.vmap(positional, axis_name=axis_name)(*batch)
    except Exception as error:
        return CheckReport("pmap", passed=False, detail=raised("op on one device", error))
    try:
        got = jax.pmap(positional, axis_name=axis_name)(*batch)
    except Exception as error:
        return CheckReport("pmap", passed=False, detail=raised("pmap", error), notes=tuple(notes))
    comparisons, problems = [], []
    with engine(client) as judge:
        for i, (one, other) in enumerate(zip(got, want)):
            expected = adapter.to_numpy(other)
            allowed = tolerance_for(CONSISTENCY_TOLERANCES, str(expected.dtype), atol, rtol)
            what = f"pmap on {count} devices against one device, output {i}"
            answer, problem = agree(judge, what, adapter.to_numpy(one), expected, allowed)
            comparisons.append(answer)
            problems += [problem] if problem else []
    return CheckReport("pmap", not problems, True, "; ".join(problems), tuple(notes), tuple(comparisons))


def check_pmap_compatible(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    axis_name: str = "batch",
    *,
    rtol: float | None = None,
    atol: float | None = None,
    client: Client | None = None,
) -> bool:
    """Whether jax.pmap(op) gives on every device what op gives for that device's inputs.

    With a single device there is nothing to see: the check is not run, warns, and returns False.

    Args:
        op: takes the inputs of one device by name; collectives use axis_name.
        inputs: arrays by name; the devices get these and variants of them.
        axis_name: of the mapped axis.
        rtol, atol: tolerances; default: those of the dtype of each output.
        client: the engine; default: one is started.
    """
    return verdict_of(check_pmap_compatible_report(op, inputs, axis_name, rtol=rtol, atol=atol, client=client))


def check_grad_safe_report(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    eps: float = 1e-4,
    atol: float | None = None,
    rtol: float | None = None,
    seed: int = 0,
    client: Client | None = None,
) -> CheckReport:
    """What `check_grad_safe` found, in words."""
    settings = Differences(eps=eps, atol=atol, rtol=rtol, seed=seed)
    return gradient_report(JAXAdapter(), op, inputs, _names_at(list(inputs), argnums), settings, client, "grad")


def check_grad_safe(
    op: Callable[..., Any],
    inputs: dict[str, Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    eps: float = 1e-4,
    atol: float | None = None,
    rtol: float | None = None,
    seed: int = 0,
    client: Client | None = None,
) -> bool:
    """Whether op can be differentiated and its gradients are those of its values, by differences in float64.

    Args:
        op: takes the inputs by name, returns an array or several.
        inputs: arrays by name, and settings.
        argnums: which inputs to differentiate, by their place in inputs.
        eps: largest step of the differences.
        atol, rtol: tolerances; default: those of the dtype of each input.
        seed: of the random upstream gradient.
        client: the engine; default: one is started.

    Example:
        >>> check_grad_safe(lambda x: x * x, {"x": jax.numpy.ones(3)}, client=client)
        True
    """
    report = check_grad_safe_report(op, inputs, argnums, eps=eps, atol=atol, rtol=rtol, seed=seed, client=client)
    return verdict_of(report)


def validate_jax_primitive(
    primitive_name: str,
    impl: Callable[..., Any],
    inputs: dict[str, Any],
    expected_output: Any,
    check_jvp: bool = True,
    check_vmap: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    client: Client | None = None,
) -> CheckResults:
    """Checks the value of a primitive, its JVP rule against differences, and its batching rule against a loop.

    Args:
        primitive_name: how messages call it.
        impl: takes the inputs by name.
        inputs: arrays by name, and settings.
        expected_output: what impl(**inputs) should be.
        check_jvp, check_vmap: which rules to check.
        rtol, atol: tolerances; default: those of the dtype.
        client: the engine; default: one is started.

    Returns:
        A dict with forward_ok, jvp_ok and vmap_ok (None: not asked for) and details (a list of sentences). It is true
        if all that was asked for is right; its check() raises otherwise.
    """
    adapter = JAXAdapter()
    reports = []
    with engine(client) as judge:
        reports.append(_forward_report(adapter, impl, inputs, expected_output, rtol, atol, judge))
        if check_jvp:
            arrays, (plain,) = bind(adapter, inputs, impl)
            reports.append(tangent_report(adapter, plain, arrays, Differences(atol=atol, rtol=rtol), judge))
        if check_vmap:
            reports.append(_batched_report(adapter, impl, inputs, rtol, atol, judge))
    found = {report.name: report.passed for report in reports}
    members = {
        "forward_ok": found["forward"],
        "jvp_ok": found.get("jvp"),
        "vmap_ok": found.get("vmap"),
        "details": [f"{primitive_name}: {report}" for report in reports if not report.passed or report.notes],
    }
    text = "\n".join(f"{primitive_name}: {report}" for report in reports)
    return CheckResults(members, all(found.values()), text)


def _forward_report(
    adapter: JAXAdapter,
    impl: Callable[..., Any],
    inputs: dict[str, Any],
    expected: Any,
    rtol: float | None,
    atol: float | None,
    judge: Client,
) -> CheckReport:
    try:
        got = [adapter.to_numpy(leaf) for leaf in leaves(impl(**inputs))]
    except Exception as error:
        return CheckReport("forward", passed=False, detail=raised("impl", error))
    want = [adapter.to_numpy(leaf) for leaf in leaves(expected)]
    if len(got) != len(want):
        return CheckReport("forward", passed=False, detail=f"{len(got)} outputs, {len(want)} expected")
    comparisons, problems = [], []
    for i, (one, other) in enumerate(zip(got, want)):
        allowed = tolerance_for(CONSISTENCY_TOLERANCES, str(one.dtype), atol, rtol)
        answer, problem = agree(judge, f"output {i}", one, other, allowed)
        comparisons.append(answer)
        problems += [problem] if problem else []
    return CheckReport("forward", not problems, True, "; ".join(problems), (), tuple(comparisons))


def fuzz_jax_op(
    client: Client,
    op_name: str,
    run_op: Callable[..., Any],
    iterations: int = 100,
    seed: int | None = None,
    fail_fast: bool = False,
    check_vmap: bool = False,
    check_jit: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    check_grad: bool = False,
    device: str | None = None,
    **options: Any,
) -> CheckResults:
    """Fuzzes a JAX op: the engine makes the cases and judges; the op runs here.

    Args:
        client: the engine.
        op_name: operator of gpuemu.toml or of the catalogue.
        run_op: takes the inputs by name (and attributes it has parameters for), or a dict of them; returns an array.
        iterations: number of cases.
        seed: master seed; default: a fresh one.
        fail_fast: end at the first wrong output.
        check_vmap: also check every case batched along a new axis.
        check_jit: also check every case jitted.
        atol, rtol: tolerance instead of the engine's bound.
        check_grad: also judge the gradients of every case.
        device: as "gpu:0"; default: the first one.
        **options: of Client.fuzz_op_client_side, as dtypes or layouts.

    Returns:
        A dict with total, passed, failed, forward_failures, vmap_failures, jit_failures, grad_failures, for each check
        also what was not run (vmap_not_run, …), not_run, undecided and seed. It is true if the run is green, checks
        included; its check() raises otherwise.

    Example:
        >>> bool(fuzz_jax_op(client, "relu", jax.nn.relu, 5, check_grad=True, dtypes=["float32"]))  # doctest: +SKIP
        True
    """
    adapter = JAXAdapter()
    option = tolerance_option(atol, rtol)
    fuzzing = Fuzzing(adapter, "jax", run_op, by_name=True)
    if check_vmap:
        fuzzing.checks["vmap"] = lambda func, inputs, _: _batched_report(adapter, func, inputs, rtol, atol, client)
    if check_jit:
        fuzzing.checks["jit"] = lambda func, inputs, _: check_jit_safe_report(func, inputs, rtol, atol, client=client)
    if check_grad:
        own = options.get("reference") is not None
        fuzzing.checks["grad"] = OpGradients(
            adapter, client, op_name, "grad", option, own=own, store=options.get("store", "failures")
        )
    settings = {"iterations": iterations, "seed": seed, "fail_fast": fail_fast, "device": device, **option, **options}
    return fuzzing.run(client, op_name, settings, "vmap", "jit", "grad")
