"""Triton without a GPU: wrappers that launch @triton.jit kernels run on arrays of the CPU, unchanged.

Needs Triton; `make test-triton` installs it. Every test runs on arrays of numpy and, where torch is there, on its
tensors.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpuemu import Client, ClientError, EmulationError, _triton, emulated_triton

triton = pytest.importorskip("triton", reason="Triton is not installed: make test-triton")
KERNELS = Path(__file__).with_name("kernels_triton.py")


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernels_triton", KERNELS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["numpy", "torch"])
def place(request: pytest.FixtureRequest) -> Any:
    """Makes an array of numpy one of the framework; empty(shape, like), and back."""
    if request.param == "numpy":
        return Numpy()
    return Torch(pytest.importorskip("torch", reason="torch is not installed"))


class Numpy:
    def make(self, array: np.ndarray[Any, Any]) -> Any:
        return array

    def empty(self, like: Any) -> Any:
        return np.full_like(like, 99)

    def back(self, value: Any) -> np.ndarray[Any, Any]:
        return np.asarray(value)

    def stride(self, value: Any) -> int:
        return int(value.strides[0] // value.itemsize)


class Torch:
    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def make(self, array: np.ndarray[Any, Any]) -> Any:
        return self.torch.from_numpy(array)

    def empty(self, like: Any) -> Any:
        return self.torch.full_like(like, 99)

    def back(self, value: Any) -> np.ndarray[Any, Any]:
        made: np.ndarray[Any, Any] = value.numpy()
        return made

    def stride(self, value: Any) -> int:
        return int(value.stride(0))


def line_of(marker: str) -> int:
    lines = KERNELS.read_text(encoding="utf-8").splitlines()
    [line] = [i + 1 for i, text in enumerate(lines) if marker in text]
    return line


def softmax(kernel: Any, place: Any, x: Any) -> Any:
    """A wrapper as people write them."""
    y = place.empty(x)
    kernel[(x.shape[0],)](x, y, x.shape[1], place.stride(x), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def want_softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    made: np.ndarray[Any, Any] = e / e.sum(1, keepdims=True)
    return made


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_wrapper_runs(kernels: ModuleType, place: Any, target: str) -> None:
    x = normal(5, 100)
    with emulated_triton(target, counters=True, schedules=2) as emulated:
        y = softmax(kernels.softmax_rows, place, place.make(x))
    assert np.abs(place.back(y) - want_softmax(x)).max() < 1e-6
    assert [r.kernel for r in emulated.launches] == ["softmax_rows"] and emulated.findings == []
    assert emulated.launches[0].counters is not None
    assert emulated.launches[0].raw["target"].startswith(target)


def test_halves(kernels: ModuleType, place: Any) -> None:
    x = normal(3, 64).astype(np.float16)
    with emulated_triton():
        y = softmax(kernels.softmax_rows, place, place.make(x))
    assert np.abs(place.back(y) - want_softmax(x)).max() < 1e-3


def test_bfloat16(kernels: ModuleType) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.from_numpy(normal(3, 65)).to(torch.bfloat16)
    with emulated_triton():
        y = softmax(kernels.softmax_rows, Torch(torch), x)
    assert y.dtype == torch.bfloat16
    assert np.abs(y.float().numpy() - want_softmax(x.float().numpy())).max() < 1e-2


def test_views_and_alignment(kernels: ModuleType, place: Any) -> None:
    """Rows of a larger matrix, and one that begins at an odd element: compiled anew, as on a GPU."""
    whole = normal(6, 128)
    for part in (whole[1:5, :100], whole[1:5, 1:101], whole[1:5:2, 3:67]):
        with emulated_triton():
            y = softmax(kernels.softmax_rows, place, place.make(part))
        assert np.abs(place.back(y) - want_softmax(part)).max() < 1e-6


def test_a_finding_has_the_line_of_the_kernel(kernels: ModuleType, place: Any) -> None:
    x = place.make(normal(4, 100))
    line = line_of("PLANT oob_read")
    text = rf"^softmax_over: oob_read at .*kernels_triton\.py:{line}: block 3,0,0, thread .* behind the end of x"
    with emulated_triton(), pytest.raises(EmulationError, match=text):
        softmax(kernels.softmax_over, place, x)
    with emulated_triton(findings="collect") as emulated:
        softmax(kernels.softmax_over, place, x)
    assert [(f.kind, f.line) for f in emulated.findings] == [("oob_read", line)]
    with emulated_triton(checks="none"):
        softmax(kernels.softmax_over, place, x)
    # Within a storage that goes on, a GPU sees nothing; the rows end where the view ends.
    rows = place.make(np.concatenate([normal(4, 100), normal(4, 100)]))[:4]
    with emulated_triton(), pytest.raises(EmulationError, match="oob_read"):
        softmax(kernels.softmax_over, place, rows)
    with emulated_triton(bounds="storage"):
        softmax(kernels.softmax_over, place, rows)


def test_autotune_heuristics_and_defaults(kernels: ModuleType, place: Any) -> None:
    """The first configuration that fits is taken; None, constants, defaults and a grid that is a function."""
    tuner = kernels.scaled
    for n, bias, twice in [(200, None, False), (256, normal(256), True)]:
        x = normal(n)
        y = place.empty(place.make(x))
        made = None if bias is None else place.make(bias)
        options = {"TWICE": True} if twice else {}

        def grid(meta: Any, n: int = n) -> tuple[int]:
            return (triton.cdiv(n, meta["BLOCK"]),)

        for autotune, launches in (("first", 1), ("all", 3)):
            with emulated_triton(autotune=autotune) as emulated:
                tuner[grid](place.make(x), made, y, n, 0.5, **options)
            want = (x if bias is None else x + bias) * (2 if twice else 1) * np.float32(0.5)
            assert np.array_equal(place.back(y), want)
            assert len(emulated.launches) == launches
    assert tuner.cache == {} and tuner.nargs is None  # a choice that was made for no GPU is not kept


@pytest.mark.parametrize("autotune", ["first", "all"])
def test_configurations_begin_with_the_same_memory(kernels: ModuleType, place: Any, autotune: str) -> None:
    """The hook of a configuration writes to the tensors themselves, and a kernel may read what it writes."""
    x, total, seen = np.ones(512, np.int32), np.full(1, 7, np.int32), np.zeros(1, np.int32)
    with emulated_triton(autotune=autotune):
        kernels.cleared_sum[lambda meta: (triton.cdiv(512, meta["BLOCK"]),)](
            place.make(x), place.make(total), place.make(seen), 512, debug=True
        )
    assert (total[0], seen[0]) == (512, 2)


def test_tuples(kernels: ModuleType, place: Any) -> None:
    class Pair(NamedTuple):
        a: Any
        b: Any

    a, b = normal(32), normal(32)
    y = place.empty(place.make(a))
    for pair in ((place.make(a), place.make(b)), Pair(place.make(a), place.make(b))):
        with emulated_triton():
            kernels.of_tuple[(1,)](pair, (2.0, 1), y, BLOCK=32)
        assert np.array_equal(place.back(y), a * 2 + b)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_matmul(kernels: ModuleType, place: Any, target: str) -> None:
    M, N, K = 70, 50, 90
    a, b = normal(M, K).astype(np.float16), normal(K, N).astype(np.float16)
    c = place.make(np.zeros((M, N), np.float32))
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    with emulated_triton(target):
        kernels.matmul[grid](place.make(a), place.make(b), c, M, N, K, BM=32, BN=32, BK=32, num_warps=4, num_stages=2)
    assert np.abs(place.back(c) - a.astype(np.float64) @ b.astype(np.float64)).max() < 1e-3


def test_atomics_and_numbers(kernels: ModuleType, place: Any) -> None:
    x, total = np.arange(1000, dtype=np.int32), np.zeros(1, np.int32)
    out = np.zeros(4, np.float64)
    with emulated_triton():
        kernels.count[(8,)](place.make(x), place.make(total), 1000, BLOCK=128)
        kernels.numbers[(1,)](place.make(out), -(1 << 40), 0.1, True, 1)
    assert total[0] == x.sum()
    assert out.tolist() == [-float(1 << 40), float(np.float32(0.1)), 1.0, 1.0]


def test_arguments_that_overlap(kernels: ModuleType, place: Any) -> None:
    memory = np.array([1, 2, 0, 0], np.float32)
    made = place.make(memory)
    with emulated_triton():
        kernels.shared_sum[(1,)](made, made[1:], made[2:])
    assert memory.tolist() == [1, 2, 3, 0]


def test_prints_and_asserts(kernels: ModuleType, place: Any, capsys: pytest.CaptureFixture[str]) -> None:
    x = place.make(np.array([7], np.int32))
    with emulated_triton():
        kernels.checked[(1,)](x, 8, debug=True, num_warps=1)
        assert "value" in capsys.readouterr().out
        with pytest.raises(EmulationError, match="assert"):
            kernels.checked[(1,)](x, 6, debug=True, num_warps=1)


def test_everything_is_restored(kernels: ModuleType, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    def state() -> tuple[Any, ...]:
        return driver._active, CompiledKernel._init_handles, JITFunction.run, Autotuner.run

    before = state()
    x = place.make(normal(2, 100))
    with emulated_triton() as outer:
        inside = state()
        with pytest.raises(EmulationError), emulated_triton("sm_90") as inner:
            softmax(kernels.softmax_over, place, x)
        assert state() == inside
        kernel = kernels.softmax_rows[(2,)](x, place.empty(x), 100, 100, BLOCK=128)
    assert state() == before and len(outer.launches) == len(inner.launches) == 1
    with pytest.raises(ClientError, match=r"use it in emulated_triton"):
        kernel[(2, 1, 1)](x, x, 100, 100, 128, stream=0)
    decorated = emulated_triton()(softmax)
    decorated(kernels.softmax_rows, place, x)
    decorated(kernels.softmax_rows, place, x)
    assert state() == before
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    with pytest.raises(ClientError, match="TRITON_INTERPRET is set"), emulated_triton():
        pass
    assert state() == before


def test_what_is_refused(kernels: ModuleType, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = place.make(normal(64, 64).astype(np.float16))
    y = place.make(np.zeros((64, 64), np.float32))
    monkeypatch.setitem(_triton.SHARED, 86, 128)
    with emulated_triton("sm_86"), pytest.raises(triton.runtime.errors.OutOfResources, match="shared memory"):
        kernels.matmul[(2, 2)](x, x, y, 64, 64, 64, BM=32, BN=32, BK=32)
    with emulated_triton() as emulated:
        kernels.matmul[(0, 2)](x, x, y, 64, 64, 64, BM=32, BN=32, BK=32, num_stages=2)  # nothing to do
    assert emulated.launches == []
    for wrong in ({"target": "gfx90a"}, {"findings": "ignore"}, {"autotune": "best"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            emulated_triton(**wrong)  # type: ignore[arg-type]


def test_fuzzing(kernels: ModuleType, place: Any) -> None:
    """Cases of the engine: the sound kernel passes, the other is found."""
    for name, found in (("softmax_rows", False), ("softmax_over", True)):
        kernel = getattr(kernels, name)

        @emulated_triton()
        def run(inputs: Any, kernel: Any = kernel) -> Any:
            x = inputs["input"]
            rows = x.reshape(-1, x.shape[-1])
            return softmax(kernel, place, rows).reshape(x.shape)

        framework = "torch" if isinstance(place, Torch) else None
        results = Client().fuzz_op_client_side(
            "softmax", run, framework=framework, iterations=12, seed=5, dtypes=["float32"], layouts=["contiguous"],
            shapes={"B": [1, 2], "S": [1, 3], "H": [16, 100]},
        )  # fmt: skip
        assert results.ok != found, results
        if found:
            assert results.failures[0].reason == "oob_read"
            assert f"kernels_triton.py:{line_of('PLANT oob_read')}: block" in results.failures[0].message


TESTS = """
import gpuemu
import numpy as np
import triton
import kernels_triton

@gpuemu.op("softmax", iterations=6, dtypes=["float32"], layouts=["contiguous"], shapes={"H": [100]}OPTION)
def test_softmax(inputs):
    x = inputs["input"]
    rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    y = np.empty_like(rows)
    kernels_triton.KERNEL[(len(rows),)](rows, y, rows.shape[1], rows.shape[1],
                                        BLOCK=triton.next_power_of_2(rows.shape[1]))
    return y.reshape(x.shape)
"""


@pytest.mark.parametrize(("kernel", "option", "flags", "outcome"), [
    ("softmax_rows", ", emulate=True", [], {"passed": 6}), ("softmax_rows", "", ["--gpuemu-emulate"], {"passed": 6}),
    ("softmax_over", ', emulate="sm_90"', [], {"failed": 6}),
])  # fmt: skip
def test_pytest_plugin(
    kernel: str, option: str, flags: list[str], outcome: dict[str, int], pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # where the package is installed, too
    monkeypatch.syspath_prepend(str(KERNELS.parent))
    pytester.makepyfile(test_page=TESTS.replace("OPTION", option).replace("KERNEL", kernel))
    result = pytester.runpytest_inprocess("-p", "gpuemu.pytest_plugin", "-q", "--gpuemu-minimize=0", *flags)
    result.assert_outcomes(**outcome)
    if "failed" in outcome:
        lines = ["softmax: fail (oob_read)", f"*kernels_triton.py:{line_of('PLANT oob_read')}: block *"]
        result.stdout.fnmatch_lines(lines)
