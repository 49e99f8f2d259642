"""JAX: adapter, gradients, jit, vmap, pmap, primitives, validation and fuzzing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp  # noqa: E402

import gpuemu  # noqa: E402
from gpuemu import Client, ValidationError  # noqa: E402
from gpuemu.frameworks import get_jax_adapter  # noqa: E402
from gpuemu.frameworks.jax import (  # noqa: E402
    JAXAdapter,
    check_grad_safe,
    check_grad_safe_report,
    check_jit_safe,
    check_jit_safe_report,
    check_pmap_compatible,
    check_pmap_compatible_report,
    check_vmap_compatible,
    check_vmap_compatible_report,
    fuzz_jax_op,
    validate_jax,
    validate_jax_primitive,
)


def randn(*shape: int, dtype: Any = jnp.float32) -> Any:
    return jnp.asarray(np.random.default_rng(3).standard_normal(shape), dtype)


@jax.custom_vjp
def wrong_sin(x: Any) -> Any:
    return jnp.sin(x)


wrong_sin.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.sin(x),))


@jax.custom_jvp
def wrong_square(x: Any) -> Any:
    return x * x


wrong_square.defjvp(lambda primals, tangents: (primals[0] ** 2, primals[0] * tangents[0]))


@jax.custom_batching.custom_vmap
def wrong_batch(x: Any) -> Any:
    return x - jnp.mean(x)


wrong_batch.def_vmap(lambda size, batched, x: (x - jnp.mean(x), True))


def test_names() -> None:
    assert get_jax_adapter() == (JAXAdapter, validate_jax, check_vmap_compatible, check_jit_safe, fuzz_jax_op)
    assert gpuemu.get_jax_adapter() == (JAXAdapter, validate_jax, check_vmap_compatible, check_jit_safe)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "bool"])
def test_round_trip(dtype: str) -> None:
    adapter = JAXAdapter()
    x = (10 * randn(3, 5)).astype(dtype)
    assert adapter.get_dtype_name(x) == dtype
    assert adapter.requires_grad(x) is ("float" in dtype)
    back = adapter.from_numpy(adapter.to_numpy(x), like=x)
    assert back.dtype == x.dtype and bool((back == x).all())
    assert adapter.get_framework_name() == "jax" and adapter.is_available()


def test_compute_gradient() -> None:
    adapter = JAXAdapter()
    inputs = {"x": randn(3), "y": randn(3) + 2, "i": jnp.arange(3)}
    grads = adapter.compute_gradient(lambda x, y, i: x * y, inputs)
    assert set(grads) == {"x", "y"}
    assert bool((grads["x"] == inputs["y"]).all())
    assert set(adapter.compute_gradient(lambda x, y, i: x * y, inputs, argnums=(1,))) == {"y"}
    with pytest.raises(ValueError, match="argnums has 3; there are 3 inputs"):
        adapter.compute_gradient(lambda x, y, i: x * y, inputs, argnums=3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_grad_right(client: Client, dtype: str) -> None:
    inputs = {"x": randn(4, 3, dtype=dtype), "w": randn(3, 2, dtype=dtype)}
    report = check_grad_safe_report(lambda x, w: jnp.tanh(x @ w), inputs, argnums=(0, 1), client=client)
    assert report.passed, report
    assert not jax.config.jax_enable_x64  # only inside the check


def test_grad_wrong(client: Client) -> None:
    x = randn(3, 3)
    for op, detail in [
        (wrong_sin, "gradient of x: "),
        (lambda x: x * jax.lax.stop_gradient(x), "gradient of x: "),
        (lambda x: jnp.sqrt(x - 100), "not finite"),
        (lambda x: np.asarray(x) * 2, "TracerArrayConversionError"),
    ]:
        report = check_grad_safe_report(lambda x, f=op: f(x), {"x": x}, client=client)
        assert not report.passed and report.ran
        assert detail in report.detail, report
    assert check_grad_safe(wrong_sin, {"x": x}, client=client) is False
    assert check_grad_safe(lambda x: jnp.sin(x), {"x": x}, client=client) is True


def test_jit(client: Client) -> None:
    x = randn(4)
    state: dict[str, Any] = {"calls": 0}

    def counts(x: Any) -> Any:
        state["calls"] += 1
        return x + state["calls"]

    def branches(x: Any) -> Any:
        return x if x[0] > 0 else -x

    def leaks(x: Any) -> Any:
        found = x + state.get("last", 0)
        state["last"] = x
        return found

    @jax.jit
    def kept(x: Any) -> Any:
        return x * state.setdefault("scale", 3.0)

    assert check_jit_safe(lambda x: jnp.sin(x), {"x": x}, client=client) is True
    assert check_jit_safe(lambda x, axis: x.sum(axis), {"x": x, "axis": 0}, client=client) is True
    assert check_jit_safe(kept, {"x": x}, client=client) is True
    for op, detail in [(counts, "jit against eager"), (branches, "TracerBoolConversionError"), (leaks, "")]:
        report = check_jit_safe_report(op, {"x": x}, client=client)
        assert not report.passed and report.ran
        assert detail in report.detail, report
        if op is leaks:  # what the first check left behind makes the plain function itself raise
            with pytest.raises(ValidationError, match="jit: error: eager on the given inputs raised"):
                check_jit_safe(op, {"x": x}, client=client)
        else:
            assert check_jit_safe(op, {"x": x}, client=client) is False


def test_jit_of_a_jitted_function(client: Client) -> None:
    """The function under jax.jit is the plain one: compared with itself, a jitted function would always be right."""
    calls: list[int] = []

    @jax.jit
    def counts(x: Any) -> Any:
        calls.append(1)
        return x + len(calls)

    assert check_jit_safe(counts, {"x": randn(3)}, client=client) is False


def test_jit_value_fixed_by_the_first_call(client: Client) -> None:
    """Right on the inputs it was traced with, wrong on all others."""
    seen: list[Any] = []

    def plain(x: Any) -> Any:
        if isinstance(x, jax.core.Tracer):
            return x / seen[0]
        if not seen:
            seen.append(x.max())
        return x / x.max()

    report = check_jit_safe_report(plain, {"x": randn(5)}, client=client)
    assert not report.passed
    assert report.detail.startswith("jit against eager on negated and scaled inputs: "), report


def test_vmap(client: Client) -> None:
    x = randn(4, 6)
    assert check_vmap_compatible(lambda x: x - x.mean(), {"x": x}, client=client) is True
    assert check_vmap_compatible(lambda x: x - x.mean(), {"x": x}, batch_axis=1, client=client) is True
    assert check_vmap_compatible(lambda x: (x, {"s": x.sum()}), {"x": x[:1]}, client=client) is True
    for op, detail in [
        (wrong_batch, "vmap against element by element on the given inputs: "),
        (lambda x: x if x[0] > 0 else -x, "TracerBoolConversionError"),
    ]:
        report = check_vmap_compatible_report(lambda x, f=op: f(x), {"x": x}, client=client)
        assert not report.passed and report.ran
        assert detail in report.detail, report
        assert check_vmap_compatible(lambda x, f=op: f(x), {"x": x}, client=client) is False


def test_vmap_wrong_use(client: Client) -> None:
    with pytest.raises(ValueError, match="x has shape \\(4,\\) and no axis 1"):
        check_vmap_compatible(lambda x: x, {"x": randn(4)}, batch_axis=1, client=client)
    with pytest.raises(ValueError, match="batch sizes differ along axis 0"):
        check_vmap_compatible(lambda x, y: x, {"x": randn(4), "y": randn(3)}, client=client)
    with pytest.warns(RuntimeWarning, match="vmap was not run: the batch along axis 0 is empty"):
        assert check_vmap_compatible(lambda x: x, {"x": randn(0, 3)}, client=client) is False


@pytest.mark.skipif(jax.local_device_count() > 1, reason="there is more than one device")
def test_pmap_on_one_device(client: Client) -> None:
    report = check_pmap_compatible_report(lambda x: x, {"x": randn(3)}, client=client)
    assert not report.passed and not report.ran and "there is 1 device" in report.detail
    with pytest.warns(RuntimeWarning, match="pmap was not run: there is 1 device"):
        assert check_pmap_compatible(lambda x: x, {"x": randn(3)}, client=client) is False


TWO_DEVICES = """
import jax, jax.numpy as jnp
from gpuemu import Client
from gpuemu.frameworks.jax import check_pmap_compatible_report
ops = {
    "sin": jnp.sin,
    "collective": lambda x: jax.lax.pmean(x, "batch"),
    "branches": lambda x: x if x[0] > 0 else -x,
    "device": lambda x: x + (jax.lax.axis_index("batch") if isinstance(x, jax.core.Tracer) else 0),
}
with Client() as client:
    for name, op in ops.items():
        report = check_pmap_compatible_report(lambda x: op(x), {"x": jnp.arange(3.0)}, client=client)
        print(name, report.passed, report.ran, report.detail.splitlines()[:1])
"""


def test_pmap_on_two_devices(client: Client) -> None:
    """In a process of its own: the number of devices is fixed at the first use of JAX."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", TWO_DEVICES], env=env, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    found = [line.split(" ", 3) for line in run.stdout.splitlines()]
    assert [(name, passed) for name, passed, *_ in found] == [
        ("sin", "True"), ("collective", "True"), ("branches", "False"), ("device", "False")
    ]  # fmt: skip
    assert all(ran == "True" for _, _, ran, _ in found)
    assert "pmap raised TracerBoolConversionError" in found[2][3]
    assert "pmap on 2 devices against one device, output 0: " in found[3][3]


def test_primitive(client: Client) -> None:
    x = randn(3, 4)
    right = validate_jax_primitive("sin", lambda x: jnp.sin(x), {"x": x}, jnp.sin(x), client=client)
    assert (right["forward_ok"], right["jvp_ok"], right["vmap_ok"]) == (True, True, True), right
    found = validate_jax_primitive("sin", lambda x: jnp.sin(x), {"x": x}, jnp.cos(x), check_jvp=False, client=client)
    assert (found["forward_ok"], found["jvp_ok"], found["vmap_ok"]) == (False, None, True)
    assert found["details"][0].startswith("sin: forward: failed: output 0: ")
    found = validate_jax_primitive("square", lambda x: wrong_square(x), {"x": x}, x * x, client=client)
    assert (found["forward_ok"], found["jvp_ok"], found["vmap_ok"]) == (True, False, True)
    assert "jvp of output 0" in found["details"][0]
    found = validate_jax_primitive("batch", lambda x: wrong_batch(x), {"x": x}, x - x.mean(), client=client)
    assert (found["forward_ok"], found["vmap_ok"]) == (True, False)


def test_validate(client: Client) -> None:
    x = randn(4, 6)
    with validate_jax(client, "relu", {"input": x}) as ctx:
        ctx["output"] = jax.nn.relu(x)
        ctx["output"], pull_back = jax.vjp(jax.nn.relu, x)
        ctx["grad_output"] = randn(4, 6) + 1
        ctx["grads"] = {"input": pull_back(ctx["grad_output"])[0]}
    assert ctx["result"].passed and ctx["grad_result"].passed
    with pytest.raises(ValidationError), validate_jax(client, "relu", {"input": x}) as ctx:
        ctx["output"] = x
    with pytest.raises(ValidationError), validate_jax(client, "relu", {"input": x}) as ctx:
        ctx["output"], ctx["grad_output"], ctx["grads"] = jax.nn.relu(x), jnp.ones((4, 6)), {"input": jnp.ones((4, 6))}
    with pytest.raises(ValueError, match=r'set ctx\["output"\]'), validate_jax(client, "relu", {"input": x}):
        pass
    context = validate_jax(client, "relu", {"input": x})
    with pytest.raises(ValueError, match="set the upstream gradient"), context as ctx:
        ctx["output"], ctx["grads"] = jax.nn.relu(x), {"input": x}


@jax.custom_vjp
def wrong_relu(x: Any) -> Any:
    return jax.nn.relu(x)


wrong_relu.defvjp(lambda x: (jax.nn.relu(x), None), lambda _, g: (g,))


def test_fuzz(client: Client) -> None:
    # Normal values: XLA on a CPU takes subnormal inputs for zero, where the gradient of relu jumps.
    options: dict[str, Any] = {"iterations": 10, "seed": 5, "dtypes": ["float32"], "value_distribution": "normal"}
    checks = {"check_vmap": True, "check_jit": True, "check_grad": True}
    found = fuzz_jax_op(client, "relu", lambda input: jax.nn.relu(input), **checks, **options)
    assert (found["total"], found["passed"], found["failed"]) == (10, 10, 0), found
    assert found["vmap_failures"] == found["jit_failures"] == found["grad_failures"] == [], found
    found = fuzz_jax_op(client, "relu", lambda input: wrong_relu(input), check_grad=True, **options)
    assert found["failed"] == 0 and found["grad_failures"]
    found = fuzz_jax_op(client, "relu", lambda input: jnp.asarray(np.maximum(input, 0)), **checks, **options)
    assert found["failed"] == 0
    assert len(found["jit_failures"]) == 10 and "TracerArrayConversionError" in found["jit_failures"][0]["message"]
    found = fuzz_jax_op(client, "relu", lambda input: input, **options)
    assert found["failed"] > 0 and not found["forward_failures"][0].passed


def test_indexes_are_int32(client: Client) -> None:
    """JAX has no int64 unless it is switched on: int32 indexes are correct, of one output and of several."""
    assert jnp.argmax(randn(3)).dtype == jnp.int32
    results = client.fuzz_op_client_side(
        "argmax", lambda inputs: jnp.argmax(inputs["input"], axis=-1), iterations=10, seed=4, dtypes=["float32"],
        framework="jax", value_distribution="normal",
    )  # fmt: skip
    assert results.passed == 10, results
    x = randn(4, 16)
    values, indices = jax.lax.top_k(x, 2)
    assert client.validate_op("topk", {"input": x}, {"values": values, "indices": indices}, k=2).passed
    wrong = client.validate_op("topk", {"input": x}, {"values": values, "indices": indices.astype(jnp.float32)}, k=2)
    assert not wrong.passed and "want int64 or int32" in wrong.message


def test_a_function_that_raises_is_an_error(client: Client) -> None:
    def typo(x: Any) -> Any:
        return x.sinn()

    x = jnp.ones(3)
    with pytest.raises(ValidationError, match="grad: error: the function raised AttributeError"):
        check_grad_safe(typo, {"x": x}, client=client)
    with pytest.raises(ValidationError, match="jit: error: eager on the given inputs raised AttributeError"):
        check_jit_safe(typo, {"x": x}, client=client)
    assert not gpuemu.frameworks.jax.check_grad_safe_report(typo, {"x": x}, client=client)
