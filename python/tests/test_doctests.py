"""The examples of docstrings, run by doctest. Every public function, and every method of the client, has one."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu import Client

MODULES = ["gpuemu", "gpuemu.strategies", "gpuemu.tolerances", "gpuemu.frameworks.pytorch", "gpuemu.frameworks.jax",
           "gpuemu.frameworks.tensorflow"]  # fmt: skip
PROJECT = '[[ops]]\nname = "configured_relu"\nschema = "relu"\nreference = "builtin:relu"\ncandidate = "k.py:relu"\n'
KERNEL = 'import numpy as np\n\ndef relu(inputs):\n    return np.maximum(inputs["input"], 0)\n'
PTX = """//
.version 8.0
.target sm_80
.address_size 64
.visible .entry ones(.param .u64 y)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [y];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.f32 [%rd3], 0f3F800000;
  ret;
}
"""
# Frameworks that examples of a module use.
NEEDS = {"pytorch": "torch", "jax": "jax", "tensorflow": "tensorflow", "strategies": "hypothesis",
         "emulated_triton": "triton"}  # fmt: skip
WITHOUT = {
    "an error, or what others return": ["Error", "ClientError", "ConnectionFailed", "EmulationError", "ValidationError",
                                        "EmulationFinding", "EmulationResult", "MinimizeResult", "ReproduceResult",
                                        "ReproductionInfo", "CalibratedTolerance", "CheckReport", "CudaKernel"],
    "needs a device; the pages have one": ["cuda_kernel", "raw_kernel", "triton_kernel", "ctypes_kernel"],
    "gives functions of gpuemu.frameworks": ["get_jax_adapter", "get_pytorch_adapter", "get_tensorflow_adapter"],
    "the pages of the frameworks have one": [
        "PyTorchAdapter", "JAXAdapter", "TensorFlowAdapter", "check_compile_consistent", "check_pmap_compatible",
        "validate_custom_autograd_function", "validate_jax_primitive", "check_tf_function_safe", "check_xla_compatible",
        "fuzz_tensorflow_op", "validate_custom_gradient"],
    "a helper of calibration": ["compare_tolerances"],
}  # fmt: skip


def public() -> Iterator[tuple[str, Any]]:
    """Public functions and classes, each once, and the methods of the client."""
    seen: set[int] = set()
    for module_name in MODULES:
        package = NEEDS.get(module_name.rpartition(".")[2], "numpy")
        if "frameworks" in module_name and importlib.util.find_spec(package) is None:
            continue
        module = importlib.import_module(module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            if id(thing) not in seen and (inspect.isfunction(thing) or inspect.isclass(thing)):
                seen.add(id(thing))
                yield f"{module_name}.{name}", thing
    for name, member in vars(Client).items():
        if not name.startswith("_") and inspect.isfunction(member):
            yield f"gpuemu.Client.{name}", member


PUBLIC = dict(public())
EXAMPLES = {name: thing for name, thing in PUBLIC.items() if ">>>" in (inspect.getdoc(thing) or "")}


def test_every_public_function_has_an_example() -> None:
    without = {name for names in WITHOUT.values() for name in names}
    lacking = [name for name in PUBLIC if name not in EXAMPLES and name.rpartition(".")[2] not in without
               and not name.endswith("_report")]  # fmt: skip
    assert lacking == [], "give them an example, or WITHOUT a reason"


def values() -> dict[str, Any]:
    """What examples leave to the reader."""
    def my_softmax(inputs: Any) -> Any:
        x = inputs["input"] if isinstance(inputs, dict) else inputs
        wide = x.astype(np.float64)
        y = np.exp(wide - wide.max(-1, keepdims=True))
        return (y / y.sum(-1, keepdims=True)).astype(x.dtype)

    x = np.random.default_rng(1).standard_normal((2, 3, 4), np.float32)
    return {"np": np, "x": x, "my_softmax": my_softmax, "my_tanh": lambda x: np.tanh(x), "PTX": PTX,
            "my_relu": lambda x: x.clip(0.0)}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part, package in NEEDS.items():
        if part in name.split("."):
            pytest.importorskip(package, reason=f"the example is of {package}, which is not installed")
    (tmp_path / "gpuemu.toml").write_text(PROJECT)
    (tmp_path / "k.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(EXAMPLES[name].__module__)
    with Client() as client:
        names: dict[str, Any] = {**vars(module), **values(), "client": client}
        framework = NEEDS.get(name.split(".")[-2], "")
        if framework:
            names[framework] = importlib.import_module(framework)
        if framework == "tensorflow":
            names.update(tf=names[framework], my_relu=names[framework].nn.relu)
        text = inspect.getdoc(EXAMPLES[name]) or ""
        test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
        assert test.examples
        said: list[str] = []
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        failed, _ = doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
        assert failed == 0, "".join(said)
