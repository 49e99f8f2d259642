"""How functions are called: whose arrays they get, by name or as a dict, and what is taken for a data type."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import Client, FuzzConfig, SeededFuzzer, ToleranceConfig, _calling
from gpuemu.arrays import dtype_text

FEW: dict[str, Any] = {"iterations": 6, "seed": 1, "dtypes": ["float32"], "value_distribution": "normal"}
OWN = {"dims": [{"name": "N", "candidates": [3, 5]}], "inputs": [{"name": "x", "dims": ["N"]}],
       "output": {"name": "y", "dims": ["N"]}}  # fmt: skip


def of_c(*args: Any) -> Any:
    """Has no signature, as a function of C."""


of_c.__signature__ = "none"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("function", "names", "want"), [
    (lambda inputs: 0, ["input"], False),
    (lambda i: 0, ["i"], True),
    (lambda input: 0, ["input", "weight"], False),
    (lambda a, b: 0, ["a", "b"], True),
    (lambda b, a, alpha=1: 0, ["a", "b"], True),
    (lambda a, **rest: 0, ["a", "b"], True),
    (lambda inputs, **rest: 0, ["a", "b"], False),
    (lambda inputs, a: 0, ["a"], False),
    (lambda **arrays: 0, ["a", "b"], True),
    (lambda *arrays: 0, ["a"], False),
    (lambda a, /: 0, ["a"], False),
    (lambda *, a: 0, ["a"], True),
    (lambda: 0, ["a"], False),
    (of_c, ["a"], False),
])  # fmt: skip
def test_the_signature_says_how(function: Any, names: list[str], want: bool) -> None:
    assert _calling.by_name(function, names) is want


def test_where_the_signature_says_nothing_the_default_holds() -> None:
    for function in (of_c, lambda *args, **kw: 0):
        assert _calling.by_name(function, ["a"], True) and not _calling.by_name(function, ["a"], False)


# ---- by name or as a dict --------------------------------------------------------------------------------------------


def test_kernels_take_a_dict_or_names(client: Client) -> None:
    def leaky(input: Any, alpha: Any) -> Any:
        return np.where(input >= 0, input, input * np.float32(alpha))

    def product_into(a: Any, b: Any, c: Any) -> None:
        c[...] = a.astype(np.float64) @ b

    assert client.fuzz_op_client_side("matmul", lambda a, b: (a.astype(np.float64) @ b).astype(a.dtype), **FEW).ok
    assert client.fuzz_op_client_side("leaky_relu", leaky, **FEW).ok
    assert not client.fuzz_op_client_side("leaky_relu", lambda input, alpha: leaky(input, 2 * alpha), **FEW).ok
    # A parameter for the dict may have the name of the only array.
    assert client.fuzz_op_client_side("relu", lambda input: np.maximum(input["input"], 0), **FEW).ok
    shape = {"dims": [{"name": d, "candidates": [2, 9]} for d in "MKN"],
             "inputs": [{"name": "a", "dims": ["M", "K"]}, {"name": "b", "dims": ["K", "N"]}],
             "output": {"name": "c", "dims": ["M", "N"]}}  # fmt: skip
    found = client.fuzz_op_client_side("matmul", product_into, op_schema=shape, outputs="allocated", **FEW)
    assert found.ok, found


def test_references_take_a_dict_or_names(client: Client) -> None:
    for reference in (lambda x: x * 2, lambda i: i["x"] * 2):
        found = client.fuzz_op_client_side("own", lambda x: x + x, op_schema=OWN, reference=reference, **FEW)
        assert found.ok, found
        assert not client.fuzz_op_client_side("own", lambda x: x, op_schema=OWN, reference=reference, **FEW).ok


def test_the_seeded_fuzzer_takes_a_dict_or_names(client: Client) -> None:
    config = FuzzConfig(max_dims=2, max_size=8, iterations=4)
    for kernel in (lambda input: np.maximum(input, 0), lambda i: np.maximum(i["input"], 0)):
        for reference in (lambda input: np.maximum(input, 0), lambda i: np.maximum(i["input"], 0)):
            assert SeededFuzzer(1, config).run(kernel, reference=reference, client=client)
    assert not SeededFuzzer(1, config).run(lambda input: input, op="relu", client=client)


def test_jax_takes_a_dict_or_names(client: Client) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    from gpuemu.frameworks.jax import fuzz_jax_op

    for kernel in (lambda input: jax.nn.relu(input), lambda i: jax.nn.relu(i["input"])):
        found = fuzz_jax_op(client, "relu", kernel, check_vmap=True, check_jit=True, check_grad=True, **FEW)
        assert found, found
    assert not fuzz_jax_op(client, "relu", lambda i: i["input"], **FEW)


def test_tensorflow_takes_a_dict_or_names(client: Client) -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    from gpuemu.frameworks.tensorflow import fuzz_tensorflow_op

    for kernel in (lambda input: tf.nn.relu(input), lambda i: tf.nn.relu(i["input"])):
        assert fuzz_tensorflow_op(client, "relu", kernel, check_gradient=True, **FEW)
    assert not fuzz_tensorflow_op(client, "relu", lambda i: i["input"], **FEW)


# ---- whose arrays ----------------------------------------------------------------------------------------------------


def test_tensors_for_a_kernel_that_calls_their_methods(client: Client) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from gpuemu.frameworks.pytorch import fuzz_pytorch_op

    kernels = {
        "a method": lambda i: i["input"].float().clamp(min=0),
        "by name": lambda input: input.clamp(min=0),
        "a module": torch.nn.ReLU(),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, kernel in kernels.items():
            found = client.fuzz_op_client_side("relu", kernel, **FEW)
            assert found.ok, (name, found)
            assert not client.fuzz_op_client_side("relu", lambda i, k=kernel: k(i) * 2, **FEW).ok, name
        # The two arguments swap axes in torch, and are the order of all axes for numpy.
        dims = [{"name": d, "candidates": [2, 9]} for d in "MN"]
        table = {"dims": dims, "inputs": [{"name": "x", "dims": ["M", "N"]}],
                 "output": {"name": "y", "dims": ["M", "N"]}}  # fmt: skip
        found = client.fuzz_op_client_side(
            "own", lambda x: torch.relu(x.transpose(0, 1)).transpose(0, 1), op_schema=table,
            reference=lambda x: np.maximum(x, 0), **FEW)  # fmt: skip
        assert found.ok, found
    with pytest.warns(UserWarning, match="framework='torch' says so"):
        summed = client.fuzz_op_client_side(
            "softmax", lambda i: i["input"].exp() / i["input"].exp().sum(dim=-1, keepdim=True)
            if i["input"].sum(dim=-1) is not None else 0, shapes={"B": [2], "S": [3], "H": [8]}, **FEW)  # fmt: skip
    assert summed.ok, summed
    assert fuzz_pytorch_op(client, "relu", lambda input: input.clamp(min=0), check_backward=True, **FEW)
    config = FuzzConfig(max_dims=2, max_size=8, iterations=4)
    assert SeededFuzzer(1, config).run(lambda i: i["input"].clamp(min=0), op="relu", client=client)


def test_the_quick_start_of_the_documents(client: Client) -> None:
    """A kernel for attention in torch, as the API document calls it."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def my_flash_attn(q: Any, k: Any, v: Any) -> Any:
        scores = q.double() @ k.double().transpose(-1, -2) / q.size(-1) ** 0.5
        return (torch.softmax(scores, -1) @ v.double()).to(q.dtype)

    results = client.fuzz_op_client_side(
        "attention", run_op=lambda inputs: my_flash_attn(inputs["q"], inputs["k"], inputs["v"]), **FEW,
        attrs={"causal": False})  # fmt: skip
    assert results.failed == 0 and results.passed > 0, results


def test_numpy_stays_where_the_kernel_is_one_of_numpy(client: Client) -> None:
    seen: list[type] = []

    def kernel(inputs: dict[str, Any]) -> Any:
        seen.append(type(inputs["input"]))
        if len(seen) == 4:
            raise TypeError("once")
        return np.maximum(inputs["input"], 0)

    found = client.fuzz_op_client_side("relu", kernel, **FEW)
    assert (found.passed, found.failed) == (5, 1), "what runs on arrays of NumPy is never run on others instead"
    assert all(issubclass(kind, np.ndarray) for kind in seen) and len(seen) == 6


def test_a_kernel_that_no_arrays_suit_says_what_it_said(client: Client) -> None:
    def kernel(inputs: dict[str, Any]) -> Any:
        return inputs["input"].no_such_method()

    found = client.fuzz_op_client_side("relu", kernel, **FEW)
    assert found.failed == 6 and "no attribute 'no_such_method'" in found.failures[0].message


def test_a_kernel_of_jax_gets_its_arrays(client: Client) -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    found = client.fuzz_op_client_side("relu", lambda i: i["input"].at[...].max(0), **FEW)
    assert found.ok, found
    assert not client.fuzz_op_client_side("relu", lambda i: i["input"].at[...].max(1), **FEW).ok


def test_on_case_gets_the_arrays_of_the_kernel(client: Client) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    kinds: set[Any] = set()

    def on_case(case: Any, inputs: dict[str, Any], outputs: Any, result: Any) -> None:
        kinds.add(type(inputs["input"]))

    client.fuzz_op_client_side("relu", lambda i: i["input"].clamp(min=0), on_case=on_case, **FEW)
    assert kinds == {torch.Tensor}


def test_gradients_of_an_own_op_by_differences(client: Client) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from gpuemu.frameworks.pytorch import fuzz_pytorch_op

    class Square(torch.autograd.Function):  # type: ignore[misc,name-defined,unused-ignore]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return ctx.saved_tensors[0] * 3 * g

    own: dict[str, Any] = {"op_schema": OWN, "reference": lambda x: x * x, "check_backward": True, "device": "cpu"}
    for name in ("own", "relu"):  # one that the engine does not know, and one that it takes for another
        assert fuzz_pytorch_op(client, name, lambda x: x * x, **own, **FEW)
        found = fuzz_pytorch_op(client, name, lambda x: Square.apply(x), **own, **FEW)
        assert not found and found["failed"] == 0 and len(found["backward_failures"]) == 6
        assert "gradient of x[" in found["backward_failures"][0]["message"]


# ---- data types ------------------------------------------------------------------------------------------------------


def test_data_types_of_every_framework(client: Client) -> None:
    known: list[tuple[Any, str]] = [
        ("float16", "float16"), ("torch.float16", "float16"), (np.float16, "float16"),
        (np.dtype(np.float32), "float32"), (np.dtype(">f4"), "float32"), (bool, "bool"), (float, "float64"),
    ]  # fmt: skip
    if "torch" in sys.modules:
        known += [(sys.modules["torch"].bfloat16, "bfloat16"), (sys.modules["torch"].int8, "int8")]
    if "jax" in sys.modules:
        jnp = sys.modules["jax"].numpy
        known += [(jnp.bfloat16, "bfloat16"), (jnp.float32, "float32"), (jnp.zeros(1, jnp.int8).dtype, "int8")]
    if "tensorflow" in sys.modules:
        known += [(sys.modules["tensorflow"].bfloat16, "bfloat16"), (sys.modules["tensorflow"].int8, "int8")]
    for dtype, want in known:
        assert dtype_text(dtype) == want
        assert list(gpuemu.fuzz_dtypes([dtype])) == [want]
        assert ToleranceConfig.for_dtype(dtype) == ToleranceConfig.for_dtype(want)
        assert FuzzConfig(dtypes=[dtype]).dtypes == [want]
    few = {k: v for k, v in FEW.items() if k != "dtypes"}
    for dtype, want in [k for k in known if k[1] in ("float16", "float32", "float64")]:
        for dtypes in ([dtype], dtype):
            found = client.fuzz_op_client_side("relu", lambda i: np.maximum(i["input"], 0), dtypes=dtypes, **few)
            assert found.ok, (dtype, found)
            case = client.get_test_case("relu", seed=1, dtypes=dtypes)
            assert case["inputs"]["input"].dtype.name == want
    x = np.ones(3, np.float16)
    assert client.validate_op("relu", {"input": x}, x, dtype=np.float16)
    with pytest.raises(gpuemu.ClientError, match="flaot32"):
        client.fuzz_op_client_side("relu", lambda i: i["input"], dtypes=["flaot32"], **few)


# ---- arrays of every kind --------------------------------------------------------------------------------------------


class Foreign:
    """An array of a framework that is not known here: DLPack, and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**{k: v for k, v in options.items() if v is not None})

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def kinds() -> dict[str, Any]:
    made: dict[str, Any] = {"dlpack": lambda a: Foreign(np.ascontiguousarray(a)), "list": lambda a: a.tolist()}
    if "torch" in sys.modules:
        made["torch"] = sys.modules["torch"].from_numpy
        made["torch with a gradient"] = lambda a: sys.modules["torch"].from_numpy(a).requires_grad_(True)
    if "jax" in sys.modules:
        made["jax"] = sys.modules["jax"].numpy.asarray
    if "tensorflow" in sys.modules:
        made["tensorflow"] = sys.modules["tensorflow"].constant
    return made


def test_arrays_of_every_kind_are_taken(client: Client) -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    y, g = np.maximum(x, 0), np.ones_like(x)
    for name, make in kinds().items():
        if name != "list":  # its elements are float64
            assert client.validate_op("relu", {"input": make(x)}, make(y)), name
            assert not client.validate_op("relu", {"input": make(x)}, make(y + 1)), name
            assert client.check_gradients("relu", {"input": make(x)}, make(g), {"input": make(np.float32(x > 0))}), name
            with gpuemu.validate_op(client, "relu", inputs={"input": make(x)}) as ctx:
                ctx.set_output(make(y))
            assert client.fuzz_op_client_side("relu", lambda i, m=make: m(np.maximum(i["input"], 0)), **FEW).ok, name
        assert client.compare(make(y), make(y)) and not client.compare(make(y), make(y + 1)), name
        own = client.fuzz_op_client_side("own", lambda x: x * 2, op_schema=OWN,
                                         reference=lambda x, m=make: m(x * 2), **FEW)  # fmt: skip
        assert own.ok, (name, own)
