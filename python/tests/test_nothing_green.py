"""A wrong kernel through every public function that judges: none of them is green.

JUDGES has a use of each such function as a test would write it. A use is green if it returns something true and raises
nothing. QUIET says of every other public name why it judges nothing; a name in neither is a failure.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import Client, ValidationError
from gpuemu.results import ValidationResult

Array = np.ndarray[Any, Any]
MODULES = ["gpuemu", "gpuemu.validate", "gpuemu.kernels", "gpuemu.tolerances", "gpuemu.frameworks",
           "gpuemu.frameworks.base", "gpuemu.frameworks.pytorch", "gpuemu.frameworks.jax",
           "gpuemu.frameworks.tensorflow", "gpuemu.strategies"]  # fmt: skip
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
FEW: dict[str, Any] = {"iterations": 4, "seed": 1, "dtypes": ["float32"], "value_distribution": "normal"}

# Writes one element past the end of y.
OVER = """//
.version 8.0
.target sm_80
.address_size 64
.visible .entry over(.param .u64 y)
{
  .reg .b64 %rd<2>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [y];
  cvta.to.global.u64 %rd1, %rd1;
  mov.f32 %f1, 0f3F800000;
  st.global.f32 [%rd1+16], %f1;
  ret;
}
"""

PROJECT = """
[[ops]]
name = "relu"
candidate = "kernels.py:broken"
[[ops]]
name = "gelu"
candidate = "kernels.py:zeros"
"""
KERNELS = """
import numpy as np

def broken(inputs):
    return np.maximum(inputs["input"], 0) + 1

def zeros(inputs):
    return inputs["input"] * 0
"""


def wrong(inputs: Any) -> Any:
    """A relu that adds one."""
    return np.maximum(inputs["input"], 0) + 1


def wrong_array(x: Array) -> Array:
    result: Array = np.maximum(x, 0) + 1
    return result


class Module:
    """wrong as a module."""

    def __call__(self, x: Array) -> Array:
        return wrong_array(x)


def exact(x: Array) -> Array:
    result: Array = np.maximum(x, 0).astype(np.float64)
    return result


def a_failure(client: Client) -> ValidationResult:
    return client.validate_op("relu", {"input": X}, X + 1)


# ---- uses ------------------------------------------------------------------------------------------------------------


def with_validate(client: Client, **options: Any) -> Any:
    module = Module()
    with gpuemu.validate(client, module, exact, **options) as checked:
        module(X)
    return checked


def with_validate_and_no_call(client: Client) -> bool:
    with gpuemu.validate(client, Module(), exact):
        pass
    return True


def with_validate_op(*place: Any, **options: Any) -> Any:
    with gpuemu.validate_op(*place, "relu", inputs={"input": X}, **options) as ctx:
        ctx.set_output(wrong_array(X))
    return ctx.result


def with_validate_op_and_no_output(client: Client) -> bool:
    with gpuemu.validate_op(client, "relu", inputs={"input": X}):
        pass
    return True


def with_validate_op_by_name(client: Client) -> Any:
    with gpuemu.validate_op("relu", inputs={"input": X}) as ctx:
        ctx.set_output(wrong_array(X))
    return ctx.result


def submitted(client: Client) -> Any:
    case = client.get_test_case("relu", seed=3, dtypes=["float32"], value_distribution="normal")
    return client.submit_output("relu", case["inputs"], wrong(case["inputs"]), case["seed"])


def batch(client: Client) -> bool:
    cases = client.get_test_batch("relu", 3, seed=3, dtypes=["float32"], value_distribution="normal")
    results = [client.submit_output("relu", c["inputs"], wrong(c["inputs"]), c["seed"], store="none") for c in cases]
    return any(results)


def gradients(client: Client) -> Any:
    return client.check_gradients("relu", {"input": X}, np.ones_like(X), {"input": X * 0 + 3})


def one_case(client: Client) -> str:
    return client.fuzz_op_client_side("relu", wrong, **FEW).failures[0].case


def emulated(client: Client) -> Any:
    return client.emulate(OVER, grid=1, block=1, args=[np.zeros(4, np.float32)])


def emulated_kernel(client: Client) -> bool:
    gpuemu.cuda_kernel(OVER, client=client)((1,), (1,), (np.zeros(4, np.float32),))
    return True


def written_by(kernel: Callable[..., Any], client: Client) -> Any:
    """A kernel that writes to its outputs: the wrapper says how it is called."""
    return client.fuzz_op_client_side("relu", kernel, **FEW)


def pybind(client: Client) -> Any:
    from gpuemu.kernels import pybind_kernel

    def into(x: Array, y: Array) -> None:
        y[...] = wrong_array(x)

    return written_by(pybind_kernel(into, ["input", "output"]), client)


def calibrated(client: Client) -> bool:
    """Zeros in the place of tanh: a tolerance that lets zeros pass lets everything pass."""

    def zeros(x: Array) -> Array:
        return x * 0

    gpuemu.calibrate_tolerance(zeros, lambda x: np.tanh(x.astype(np.float64)), [(64,)], client=client)
    return True


def calibrated_operator(client: Client) -> bool:
    gpuemu.calibrate_tolerance(client, "gelu", dtype="float32", iterations=40)
    return True


def fitted(client: Client) -> bool:
    samples = [{"max_abs": 1.0, "max_want": 1.0, "bins": [{"want": 0.5, "max_abs": 1.0, "count": 10}]}] * 40
    client.fit_tolerance("float32", samples)
    return True


def by_hypothesis(client: Client, draw: str) -> bool:
    hypothesis = pytest.importorskip("hypothesis", reason="Hypothesis is not installed")
    from gpuemu import strategies

    @hypothesis.settings(max_examples=5, database=None, deadline=None)
    @hypothesis.given(drawn=getattr(strategies, draw)("relu", client=client, dtypes=["float32"]))
    def test(drawn: Any) -> None:
        inputs = drawn["inputs"] if draw == "cases" else drawn
        client.validate_op("relu", inputs, wrong(inputs), store="none").check()

    test()
    return True


def linted(client: Client) -> Any:
    return client.lint_kernel(OVER.replace("  .reg .f32", "  .local .align 4 .b8 depot[16];\n  .reg .f32"))


def fuzzer(client: Client) -> Any:
    config = gpuemu.FuzzConfig(max_dims=3, max_size=8, iterations=4)
    return gpuemu.SeededFuzzer(1, config).run(wrong, reference=lambda i: exact(i["input"]), client=client)


JUDGES: dict[str, list[Callable[[Client], Any]]] = {
    "gpuemu.validate": [with_validate, with_validate_and_no_call,
                        lambda c: with_validate(c, raise_on_failure=False),
                        lambda c: with_validate(c, raise_on_failure=False).check()],
    "gpuemu.validate_op": [with_validate_op, with_validate_op_by_name, with_validate_op_and_no_output,
                           lambda c: with_validate_op(c, raise_on_failure=False)],
    "gpuemu.Client.validate_op": [a_failure, lambda c: a_failure(c).check()],
    "gpuemu.Client.submit_output": [submitted, batch],
    "gpuemu.Client.check_gradients": [gradients],
    "gpuemu.Client.compare": [lambda c: c.compare(wrong_array(X), exact(X)),
                              lambda c: c.compare(wrong_array(X), exact(X)).check()],
    "gpuemu.Client.fuzz_op_client_side": [
        lambda c: c.fuzz_op_client_side("relu", wrong, **FEW),
        lambda c: c.fuzz_op_client_side("relu", wrong, **FEW).check(),
        lambda c: c.fuzz_op_client_side("relu", lambda i: None, **FEW),
        lambda c: c.fuzz_op_client_side("relu", lambda i: i["x"], **FEW),
        lambda c: c.fuzz_op_client_side("relu", wrong, reference=lambda i: exact(i["input"]), **FEW),
        lambda c: c.fuzz_op_client_side("relu", lambda i: importlib.import_module("no_such_package"), **FEW),
    ],
    "gpuemu.Client.fuzz_op": [lambda c: c.fuzz_op("relu", seed=1, iterations=4, dtypes=["float32"]),
                              lambda c: c.fuzz_op("softmax", seed=1, iterations=4, dtypes=["float32"])],
    "gpuemu.Client.get_result": [lambda c: c.get_result(a_failure(c).seed)],
    "gpuemu.Client.reproduce": [lambda c: c.reproduce(a_failure(c).seed), lambda c: c.reproduce(one_case(c)),
                                lambda c: c.reproduce(one_case(c)).check()],
    "gpuemu.Client.replay": [lambda c: c.replay(one_case(c), wrong)],
    "gpuemu.Client.minimize": [lambda c: c.minimize(one_case(c), run_op=wrong, max_iters=5),
                               lambda c: c.minimize(one_case(c), max_iters=5)],
    "gpuemu.Client.emulate": [emulated, lambda c: emulated(c).check()],
    "gpuemu.Client.lint_kernel": [linted, lambda c: linted(c).check()],
    "gpuemu.Client.calibrate": [lambda c: c.calibrate("gelu", "float32", 40)],
    "gpuemu.Client.fit_tolerance": [fitted],
    "gpuemu.calibrate_tolerance": [calibrated, calibrated_operator],
    "gpuemu.cuda_kernel": [emulated_kernel],
    "gpuemu.SeededFuzzer": [fuzzer, lambda c: fuzzer(c).check()],
    "gpuemu.kernels.pybind_kernel": [pybind],
    "gpuemu.strategies.cases": [lambda c: by_hypothesis(c, "cases")],
    "gpuemu.strategies.arrays": [lambda c: by_hypothesis(c, "arrays")],
}  # fmt: skip

DATA = "data that other functions return or take"
QUIET = {
    "gpuemu.Client": "its methods judge", "gpuemu.AsyncClient": "runs the methods of Client (test_concurrency.py)",
    "gpuemu.op": "test_pytest_plugin.py: a wrong kernel fails case by case",
    "gpuemu.strategies": "a module, whose functions are listed",
    **dict.fromkeys(["gpuemu.ClientError", "gpuemu.ConnectionFailed", "gpuemu.EmulationError",
                     "gpuemu.ValidationError"], "an error"),
    **dict.fromkeys(["gpuemu.EmulationFinding", "gpuemu.EmulationResult", "gpuemu.FuzzConfig", "gpuemu.FuzzResults",
                     "gpuemu.MinimizeResult", "gpuemu.ReproduceResult", "gpuemu.ReproductionInfo", "gpuemu.TestCase",
                     "gpuemu.ToleranceConfig", "gpuemu.ToleranceProfile", "gpuemu.ValidationResult",
                     "gpuemu.CudaKernel", "gpuemu.__version__"], DATA),
    **dict.fromkeys(["gpuemu.SeededRng", "gpuemu.derive_seed", "gpuemu.generate_seed", "gpuemu.fuzz_dtypes",
                     "gpuemu.fuzz_dtypes_seeded", "gpuemu.fuzz_layouts", "gpuemu.fuzz_layouts_seeded",
                     "gpuemu.fuzz_shapes", "gpuemu.fuzz_shapes_seeded", "gpuemu.generate_random_tensor"], "draws"),
    **dict.fromkeys(["gpuemu.get_recommended_tolerance", "gpuemu.tolerances.compare_tolerances"], "a tolerance"),
    **dict.fromkeys(["gpuemu.ctypes_kernel", "gpuemu.raw_kernel", "gpuemu.triton_kernel"],
                    "makes a kernel for fuzz_op_client_side, as pybind_kernel does"),
    "gpuemu.emulated_triton": "test_triton.py: findings raise inside the context, as those of cuda_kernel",
    **dict.fromkeys(["gpuemu.get_jax_adapter", "gpuemu.get_pytorch_adapter", "gpuemu.get_tensorflow_adapter"],
                    "gives functions of gpuemu.frameworks"),
    **dict.fromkeys(["gpuemu.Client.ping", "gpuemu.Client.close"], "the connection"),
    **dict.fromkeys(["gpuemu.Client.get_test_case", "gpuemu.Client.get_test_batch"], "hands out; submit_output judges"),
    **dict.fromkeys(["gpuemu.Client.list_results", "gpuemu.Client.list_failures"], "lists results, each false or true"),
    "gpuemu.Client.store_baseline": "stores results that have their verdicts",
    "gpuemu.Client.compile_cuda": "gives PTX",
    "gpuemu.frameworks.CheckReport": DATA, "gpuemu.frameworks.FrameworkAdapter": "converts arrays",
    "gpuemu.frameworks.base.framework_module": "imports", "gpuemu.tolerances.CalibratedTolerance": DATA,
    **dict.fromkeys(["gpuemu.frameworks.get_jax_adapter", "gpuemu.frameworks.get_pytorch_adapter",
                     "gpuemu.frameworks.get_tensorflow_adapter"], "gives functions of this package"),
    **dict.fromkeys(["gpuemu.tolerances.DEFAULT_TOLERANCES", "gpuemu.tolerances.FRAMEWORK_MULTIPLIERS"], DATA),
    "gpuemu.frameworks.base.float64": "converts", "gpuemu.frameworks.base.split_settings": "sorts arguments",
    **dict.fromkeys(["gpuemu.frameworks.pytorch.PyTorchAdapter", "gpuemu.frameworks.jax.JAXAdapter",
                     "gpuemu.frameworks.tensorflow.TensorFlowAdapter"], "converts arrays"),
}  # fmt: skip


def names() -> Iterator[str]:
    """Every public name, by the first module that has it, and the methods of the client."""
    seen: set[int] = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        if hasattr(module, "__all__"):
            public = list(module.__all__)
        else:
            own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module_name]
            public = [n for n in own if not n.startswith("_")]
        for name in public:
            thing = getattr(module, name)
            if id(thing) not in seen:
                seen.add(id(thing))
                yield f"{module_name}.{name}"
    for name, member in vars(Client).items():
        if not name.startswith("_") and inspect.isfunction(member):
            yield f"gpuemu.Client.{name}"


def test_every_public_name_is_here() -> None:
    found = set(names())
    listed = {*JUDGES, *QUIET, *FRAMEWORK_USES}
    assert sorted(found - listed) == [], "say in JUDGES or QUIET what these do"
    assert sorted(listed - found) == [], "these are no public names"
    assert not set(JUDGES) & set(QUIET)


def green(use: Callable[[Client], Any], client: Client) -> bool:
    """Whether a test that ends in `assert use(client)` would pass."""
    with contextlib.suppress(ValidationError, gpuemu.ClientError, gpuemu.EmulationError, ValueError):
        return bool(use(client))
    return False


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "gpuemu.toml").write_text(PROJECT)
    (tmp_path / "kernels.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", JUDGES)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_a_wrong_kernel_is_never_green(name: str, project: Path) -> None:
    with Client() as client:
        for number, use in enumerate(JUDGES[name]):
            assert not green(use, client), f"use {number} of {name} is green"


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_a_right_kernel_is_green(client: Client) -> None:
    """The uses can be green: without this, one that always raises would satisfy the test above."""
    right = {"input": X}
    out = exact(X).astype(np.float32)
    assert client.validate_op("relu", right, out).check()
    assert client.compare(out, exact(X)).check()
    assert client.check_gradients("relu", right, np.ones_like(X), {"input": (X > 0).astype(np.float32)}).check()
    results = client.fuzz_op_client_side("relu", lambda i: np.maximum(i["input"], 0), **FEW)
    assert results and results.check() is results
    assert client.replay(one_case(client), lambda i: np.maximum(i["input"], 0))
    assert client.emulate(OVER, grid=1, block=1, args=[np.zeros(5, np.float32)]).check()
    assert client.lint_kernel(OVER).check()
    config = gpuemu.FuzzConfig(max_dims=3, max_size=8, iterations=4)
    run = gpuemu.SeededFuzzer(1, config).run
    assert run(lambda i: np.maximum(i["input"], 0), reference=lambda i: exact(i["input"]), client=client)


# ---- frameworks ------------------------------------------------------------------------------------------------------


def jax_uses() -> dict[str, list[Callable[[Client], Any]]]:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    from gpuemu.frameworks import GradientChecker
    from gpuemu.frameworks import jax as ours

    x = jax.numpy.asarray(X)
    relu, off = jax.nn.relu, lambda input: jax.nn.relu(input) + 1
    state = {"calls": 0}

    def counts(x: Any) -> Any:
        state["calls"] += 1
        return x * state["calls"]

    @jax.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, g: (3 * x * g,))

    def raises(x: Any) -> Any:
        raise TypeError("a typo")

    def context(client: Client, **set_: Any) -> Any:
        with ours.validate_jax(client, "relu", {"input": x}) as ctx:
            ctx.update(set_)
        return ctx["result"]

    def primitive(client: Client) -> Any:
        return ours.validate_jax_primitive("relu", off, {"input": x}, relu(x), client=client)

    def jvp(client: Client) -> Any:
        @jax.custom_jvp
        def f(x: Any) -> Any:
            return x * x

        f.defjvp(lambda primals, tangents: (primals[0] ** 2, 3 * primals[0] * tangents[0]))
        return ours.validate_jax_primitive("square", f, {"x": x}, x * x, client=client)

    return {
        "gpuemu.frameworks.GradientChecker": [
            lambda c: GradientChecker(ours.JAXAdapter(), client=c).check(square, {"x": x}),
            lambda c: not GradientChecker(ours.JAXAdapter(), client=c).check(raises, {"x": x}),
        ],
        "gpuemu.frameworks.jax.validate_jax": [
            lambda c: context(c, output=relu(x) + 1), context,
            lambda c: context(c, output=relu(x), grads={"input": x}, grad_output=x * 0 + 1),
            lambda c: context(c, output=relu(x), grads={"input": x}),
        ],
        "gpuemu.frameworks.jax.check_jit_safe": [lambda c: ours.check_jit_safe(counts, {"x": x}, client=c),
                                                 lambda c: not ours.check_jit_safe(raises, {"x": x}, client=c)],
        "gpuemu.frameworks.jax.check_jit_safe_report": [
            lambda c: ours.check_jit_safe_report(counts, {"x": x}, client=c).check()],
        "gpuemu.frameworks.jax.check_vmap_compatible": [
            lambda c: ours.check_vmap_compatible(counts, {"x": x}, client=c)],
        "gpuemu.frameworks.jax.check_vmap_compatible_report": [
            lambda c: ours.check_vmap_compatible_report(counts, {"x": x}, client=c).check()],
        "gpuemu.frameworks.jax.check_pmap_compatible": [
            lambda c: ours.check_pmap_compatible(counts, {"x": x}, client=c)],
        "gpuemu.frameworks.jax.check_pmap_compatible_report": [
            lambda c: ours.check_pmap_compatible_report(counts, {"x": x}, client=c).check()],
        "gpuemu.frameworks.jax.check_grad_safe": [lambda c: ours.check_grad_safe(square, {"x": x}, client=c),
                                                  lambda c: not ours.check_grad_safe(raises, {"x": x}, client=c)],
        "gpuemu.frameworks.jax.check_grad_safe_report": [
            lambda c: ours.check_grad_safe_report(square, {"x": x}, client=c).check()],
        "gpuemu.frameworks.jax.validate_jax_primitive": [primitive, jvp, lambda c: primitive(c).check()],
        "gpuemu.frameworks.jax.fuzz_jax_op": [
            lambda c: ours.fuzz_jax_op(c, "relu", off, **FEW),
            lambda c: ours.fuzz_jax_op(c, "relu", wrong_gradient(jax), check_grad=True, **FEW),
            lambda c: ours.fuzz_jax_op(c, "relu", off, **FEW).check(),
        ],
    }  # fmt: skip


def wrong_gradient(jax: Any) -> Any:
    @jax.custom_vjp
    def relu(input: Any) -> Any:
        return jax.nn.relu(input)

    relu.defvjp(lambda x: (jax.nn.relu(x), x), lambda x, g: (g,))
    return relu


def torch_uses() -> dict[str, list[Callable[[Client], Any]]]:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from gpuemu.frameworks import pytorch as ours

    def x() -> Any:
        return torch.tensor(X, requires_grad=True)

    class Relu(torch.autograd.Function):  # type: ignore[misc,name-defined,unused-ignore]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    def raises(x: Any) -> Any:
        raise TypeError("a typo")

    def context(client: Client, output: Any, **options: Any) -> Any:
        value = x()
        with ours.validate_pytorch(client, "relu", {"input": value}, **options) as ctx:
            ctx["output"] = output(value)
        return ctx["result"]

    state = {"calls": 0}

    def counts(x: Any) -> Any:
        state["calls"] += 1
        return x * state["calls"]

    def compiled(client: Client) -> Any:
        return ours.check_compile_consistent(counts, {"x": x()}, backend="eager", client=client)

    return {
        "gpuemu.frameworks.pytorch.validate_pytorch": [
            lambda c: context(c, lambda v: v.clamp(min=0) + 1), lambda c: context(c, lambda v: None),
            lambda c: context(c, Relu.apply, check_backward=True),
        ],
        "gpuemu.frameworks.pytorch.check_autograd": [
            lambda c: ours.check_autograd(lambda x: Relu.apply(x), {"x": x()}, client=c),
            lambda c: not ours.check_autograd(raises, {"x": x()}, client=c),
        ],
        "gpuemu.frameworks.pytorch.check_autograd_report": [
            lambda c: ours.check_autograd_report(lambda x: Relu.apply(x), {"x": x()}, client=c).check()],
        "gpuemu.frameworks.pytorch.check_compile_consistent": [compiled],
        "gpuemu.frameworks.pytorch.check_compile_consistent_report": [
            lambda c: ours.check_compile_consistent_report(counts, {"x": x()}, backend="eager", client=c).check()],
        "gpuemu.frameworks.pytorch.validate_custom_autograd_function": [
            lambda c: ours.validate_custom_autograd_function(Relu, {"x": x()}, client=c),
            lambda c: ours.validate_custom_autograd_function(Relu, {"x": x()}, client=c).check()],
        "gpuemu.frameworks.pytorch.fuzz_pytorch_op": [
            lambda c: ours.fuzz_pytorch_op(c, "relu", lambda i: i["input"].clamp(min=0) + 1, **FEW),
            lambda c: ours.fuzz_pytorch_op(c, "relu", lambda i: Relu.apply(i["input"]), check_backward=True, **FEW)],
    }  # fmt: skip


def tensorflow_uses() -> dict[str, list[Callable[[Client], Any]]]:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    from gpuemu.frameworks import tensorflow as ours

    x = tf.constant(X)
    state = {"calls": 0}

    def counts(x: Any) -> Any:
        state["calls"] += 1
        return x * state["calls"]

    @tf.custom_gradient
    def relu(input: Any) -> Any:
        return tf.nn.relu(input), lambda g: g * 2

    def context(client: Client, output: Any, **options: Any) -> Any:
        with ours.validate_tensorflow(client, "relu", {"input": x}, **options) as ctx:
            ctx["output"] = output
        return ctx["result"]

    def layer(client: Client) -> Any:
        return ours.check_keras_layer(tf.keras.layers.Lambda(lambda v: v + 1), (2, 3, 4), client, "relu")

    def layer_report(client: Client) -> Any:
        kind = tf.keras.layers.Lambda(lambda v: v + 1)
        return ours.check_keras_layer_report(kind, (2, 3, 4), client, "relu").check()

    return {
        "gpuemu.frameworks.tensorflow.validate_tensorflow": [lambda c: context(c, tf.nn.relu(x) + 1),
                                                             lambda c: context(c, None)],
        "gpuemu.frameworks.tensorflow.check_keras_layer": [layer],
        "gpuemu.frameworks.tensorflow.check_keras_layer_report": [layer_report],
        "gpuemu.frameworks.tensorflow.check_tf_function_safe": [
            lambda c: ours.check_tf_function_safe(counts, {"x": x}, client=c)],
        "gpuemu.frameworks.tensorflow.check_tf_function_safe_report": [
            lambda c: ours.check_tf_function_safe_report(counts, {"x": x}, client=c).check()],
        "gpuemu.frameworks.tensorflow.check_xla_compatible": [
            lambda c: ours.check_xla_compatible(counts, {"x": x}, client=c)],
        "gpuemu.frameworks.tensorflow.check_xla_compatible_report": [
            lambda c: ours.check_xla_compatible_report(counts, {"x": x}, client=c).check()],
        "gpuemu.frameworks.tensorflow.validate_custom_gradient": [
            lambda c: ours.validate_custom_gradient(relu, None, {"input": x}, client=c)],
        "gpuemu.frameworks.tensorflow.fuzz_tensorflow_op": [
            lambda c: ours.fuzz_tensorflow_op(c, "relu", lambda input: tf.nn.relu(input) + 1, **FEW),
            lambda c: ours.fuzz_tensorflow_op(c, "relu", relu, check_gradient=True, **FEW)],
    }  # fmt: skip


_JAX = ["validate_jax", "check_jit_safe", "check_jit_safe_report", "check_vmap_compatible",
        "check_vmap_compatible_report", "check_pmap_compatible", "check_pmap_compatible_report", "check_grad_safe",
        "check_grad_safe_report", "validate_jax_primitive", "fuzz_jax_op"]  # fmt: skip
_TORCH = ["validate_pytorch", "check_autograd", "check_autograd_report", "check_compile_consistent",
          "check_compile_consistent_report", "validate_custom_autograd_function", "fuzz_pytorch_op"]  # fmt: skip
_TENSORFLOW = ["validate_tensorflow", "check_keras_layer", "check_keras_layer_report", "check_tf_function_safe",
               "check_tf_function_safe_report", "check_xla_compatible", "check_xla_compatible_report",
               "validate_custom_gradient", "fuzz_tensorflow_op"]  # fmt: skip
FRAMEWORK_USES: dict[str, Callable[[], dict[str, list[Callable[[Client], Any]]]]] = {
    "gpuemu.frameworks.GradientChecker": jax_uses,
    **{f"gpuemu.frameworks.jax.{name}": jax_uses for name in _JAX},
    **{f"gpuemu.frameworks.pytorch.{name}": torch_uses for name in _TORCH},
    **{f"gpuemu.frameworks.tensorflow.{name}": tensorflow_uses for name in _TENSORFLOW},
}


@pytest.mark.parametrize("name", FRAMEWORK_USES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a check that was not run warns
def test_a_wrong_kernel_of_a_framework_is_never_green(name: str, client: Client) -> None:
    for number, use in enumerate(FRAMEWORK_USES[name]()[name]):
        assert not green(use, client), f"use {number} of {name} is green"
