"""Kernels that write into memory they are given: C functions, compiled here; Triton and CuPy where they are."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_cases import case, contiguous, on

from gpuemu._case import Case, OutputSpec
from gpuemu.arrays import arrays
from gpuemu.guard import Guard
from gpuemu.kernels import ctypes_kernel, pybind_kernel, raw_kernel, triton_kernel

SOURCE = r"""
#include <math.h>
#include <stdlib.h>

static void rows(const float *x, float *y, long n, long m) {
    for (long i = 0; i < n; i++) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < m; j++) top = fmaxf(top, x[i * m + j]);
        for (long j = 0; j < m; j++) sum += y[i * m + j] = expf(x[i * m + j] - top);
        for (long j = 0; j < m; j++) y[i * m + j] /= sum;
    }
}
void softmax(const float *x, float *y, int n, int m) { rows(x, y, n, m); }
void off_by_one(const float *x, float *y, int n, int m) { rows(x, y, n, m); y[n * m] = 0; }
void no_tail(const float *x, float *y, int n, int m) {
    for (long i = 0; i < (long)n * m / 4 * 4; i++) y[i] = x[i];
}
void in_place(float *x, float *y, int n, int m) { rows(x, y, n, m); x[m] = 0; }
void moody(const float *x, float *y, int n, int m) {
    static int calls;
    rows(x, y, n, m);
    y[0] = ++calls;
}
void scaled(const double *x, double *y, size_t n, float by, int shift, long stride) {
    for (size_t i = 0; i < n; i++) y[i] = x[i * stride] * by + shift;
}
"""

X = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
ROWS = case(contiguous("x", X), outputs=[OutputSpec("y", "float32", X.shape)])
ARGS = ["x", "y", "x.shape[0]", "x.shape[1]"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = os.environ.get("CC") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc): C kernels cannot be built")
    where: Path = tmp_path_factory.mktemp("c")
    (where / "kernels.c").write_text(SOURCE)
    built = where / "kernels.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", built, where / "kernels.c", "-lm"], check=True)
    return ctypes.CDLL(str(built))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def run(kernel: Any, kernel_case: Case = ROWS, where: str = "numpy", repeat: bool = False) -> Any:
    assert kernel.gpuemu_outputs == "allocated"
    return Guard(on(where), kernel.gpuemu_outputs, repeat).run(kernel, kernel_case)


def findings(done: Any) -> list[tuple[str, str]]:
    assert done.failure is None, done.failure
    return [(f.kind, f.sentence) for f in done.findings]


@pytest.mark.parametrize("where", ["numpy", "torch:cpu"])
def test_c_softmax(library: ctypes.CDLL, where: str) -> None:
    kernel = ctypes_kernel(library.softmax, args=ARGS)
    assert kernel.__name__ == "softmax"
    done = run(kernel, where=where, repeat=True)
    assert findings(done) == []
    assert np.allclose(done.outputs["y"], softmax(X)) and done.outputs["y"].tobytes() == done.again["y"].tobytes()


def test_c_off_by_one(library: ctypes.CDLL) -> None:
    want = "4 bytes after output y were overwritten, the first 0 bytes past its end"
    assert findings(run(ctypes_kernel(library.off_by_one, args=ARGS))) == [("overrun", want)]


def test_c_unwritten_tail(library: ctypes.CDLL) -> None:
    want = "3 of 15 elements of output y were not written (or only updated from what was there before), " \
           "the first at [2, 2]"  # fmt: skip
    assert findings(run(ctypes_kernel(library.no_tail, args=ARGS))) == [("not_fully_written", want)]


def test_c_writes_to_its_input(library: ctypes.CDLL) -> None:
    want = "1 of 15 elements of input x were changed, the first at [1, 0]"
    assert findings(run(ctypes_kernel(library.in_place, args=ARGS), repeat=True)) == [("input_modified", want)]


def test_c_nondeterministic(library: ctypes.CDLL) -> None:
    done = run(ctypes_kernel(library.moody, args=ARGS), repeat=True)
    assert findings(done) == []  # the engine compares
    assert done.outputs["y"][0, 0] != done.again["y"][0, 0]
    assert done.outputs["y"][0, 1:].tobytes() == done.again["y"][0, 1:].tobytes()


Z = np.arange(8.0)
SCALED = case(contiguous("z", Z[:4]), outputs=[OutputSpec("y", "float64", (4,))], attrs={"by": 0.5, "shift": -2})


@pytest.mark.parametrize("types", [
    None,
    [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float, ctypes.c_int, ctypes.c_long],
    [ctypes.POINTER(ctypes.c_double), np.ctypeslib.ndpointer(np.float64), ctypes.c_size_t, ctypes.c_float,
     ctypes.c_int, ctypes.c_long],
])  # fmt: skip
def test_c_scalars(library: ctypes.CDLL, types: Any) -> None:
    library.scaled.argtypes = types
    for args in (["z", "y", "z.numel", "by:float32", "shift", "z.stride(0)"],
                 ["z", "y", 4, np.float32(0.5), lambda i, o, a: a["shift"], lambda i, o, a: 1]):  # fmt: skip
        done = run(ctypes_kernel(library.scaled, args), SCALED)
        assert findings(done) == []
        assert done.outputs["y"].tolist() == (Z[:4] * 0.5 - 2).tolist()


def test_c_scalars_that_cannot_be_passed(library: ctypes.CDLL) -> None:
    library.scaled.argtypes = None
    args = ["z", "y", "z.numel", "by", "shift", 1]
    failure = run(ctypes_kernel(library.scaled, args), SCALED).failure
    assert failure.message.startswith("scaled raised TypeError: the float 0.5 needs a dtype: set argtypes")
    args[3] = "by:float16"
    failure = run(ctypes_kernel(library.scaled, args), SCALED).failure
    assert "C has no type for a scalar of dtype float16" in failure.message
    library.scaled.argtypes = [ctypes.c_void_p]
    failure = run(ctypes_kernel(library.scaled, args), SCALED).failure
    assert "6 arguments for a function whose argtypes are 1" in failure.message


def test_names() -> None:
    seen: list[Any] = []
    kernel = pybind_kernel(
        lambda *args: seen.append(args),
        ["x", "y", "x.shape[-1]", "x.stride(0)", "y.numel", "y.numel()", "axis", 7, "axis:int8", None],
    )
    Guard(arrays(), "allocated").run(kernel, case(*ROWS.inputs, outputs=ROWS.outputs, attrs={"axis": 1}))
    x, y, *rest = seen[0]
    assert np.array_equal(x, X) and y.shape == X.shape
    assert rest == [5, 5, 15, 15, 1, 7, 1, None] and type(rest[6]) is np.int8


def test_wrong_names() -> None:
    failure = run(pybind_kernel(print, ["w"])).failure
    assert failure.message.startswith("print raised KeyError:")
    assert "argument 'w': no input, output or attribute is named w; there are x, y" in failure.message
    clash = case(contiguous("x", X), outputs=[OutputSpec("x", "float32", X.shape)])
    assert (
        "both an input and an output or attribute have this name"
        in run(pybind_kernel(print, ["x"]), clash).failure.message
    )
    for wrong in ("x.shape", "x[0]", "x:complex64", "x.size", ""):
        with pytest.raises(ValueError, match=r"want NAME, NAME\.shape"):
            pybind_kernel(print, [wrong])
    with pytest.raises(TypeError, match="args is the text 'xy', want a list"):
        pybind_kernel(print, "xy")


def test_extensions_get_arrays() -> None:
    done = run(pybind_kernel(lambda x, y: np.copyto(np.asarray(memoryview(y)), np.from_dlpack(x) * 2), ["x", "y"]))
    assert findings(done) == [] and np.array_equal(done.outputs["y"], X * 2)


class Launched:
    """Stands for a function under @triton.jit: it is launched as fn[grid](...)."""

    __name__ = "launched"

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **options: self.calls.append((grid, args, options))

    def __call__(self, *args: Any) -> Any:
        raise RuntimeError("cannot be called from the host")


def test_triton_launch() -> None:
    fn, other = Launched(), Launched()
    meta = lambda constants: (constants["BLOCK"],)  # noqa: E731 - as Triton's users write it
    for grid, want in (
        (("x.shape[0]", 2), (3, 2)),
        ("x.numel", (15,)),
        (lambda i, o, a: (i["x"].shape[1], 1), (5, 1)),
        (functools.partial(lambda n, i, o, a: n, 4), (4,)),
        (meta, meta),
    ):
        kernel = triton_kernel(
            fn, grid, ["x", "y", "x.shape[1]"], BLOCK=lambda i, o, a: 8, num_warps=4, act="relu", f=other
        )
        run(kernel)
        grid_seen, args, options = fn.calls.pop()
        assert grid_seen == want
        assert args[2] == 5 and args[1].shape == X.shape
        assert options == {"BLOCK": 8, "num_warps": 4, "act": "relu", "f": other}
    with pytest.raises(TypeError, match="must take three arguments"):
        triton_kernel(fn, lambda a, b: 1, [])


@pytest.mark.parametrize("where", ["torch:cpu", "torch:cuda"])
@pytest.mark.parametrize("name, want", [("double", []), ("no_mask", ["overrun"]), ("no_tail", ["not_fully_written"])])
def test_triton(where: str, name: str, want: list[str]) -> None:
    pytest.importorskip("triton", reason="Triton kernels need triton")
    import kernels_triton

    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if (where == "torch:cpu") != interpreted:
        pytest.skip("Triton runs on the CPU with TRITON_INTERPRET=1 only, on a GPU without it")
    grid = lambda constants: ((15 + constants["BLOCK"] - 1) // constants["BLOCK"],)  # noqa: E731
    kernel = triton_kernel(getattr(kernels_triton, name), grid, ["x", "y", "x.numel"], BLOCK=4)
    done = run(kernel, where=where)
    assert [f[0] for f in findings(done)] == want
    assert np.array_equal(done.outputs["y"].ravel()[:12], X.ravel()[:12] * 2)


RAW = r"""
extern "C" __global__ void twice(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
extern "C" __global__ void no_mask(const float* x, float* y, int n, float by) {
    y[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
extern "C" __global__ void no_tail(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) y[i] = x[i] * by;
}
extern "C" __global__ void in_place(float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] *= by;
}
"""


@pytest.mark.parametrize("where", ["cupy:cuda", "torch:cuda"])
@pytest.mark.parametrize("name, want", [
    ("twice", []), ("no_mask", ["overrun"]), ("no_tail", ["not_fully_written"]), ("in_place", ["input_modified"]),
])  # fmt: skip
def test_cuda_raw_kernel(where: str, name: str, want: list[str]) -> None:
    cupy = on("cupy:cuda").cupy  # type: ignore[attr-defined]
    fn = cupy.RawKernel(RAW, name)
    kernel = raw_kernel(fn, lambda i, o, a: ((15 + 7) // 8,), (8,), ["x", "y", "x.numel:int32", "by:float32"])
    done = run(kernel, case(*ROWS.inputs, outputs=ROWS.outputs, attrs={"by": 2.0}), where, repeat=True)
    assert [f[0] for f in findings(done)] == want
    if not want:
        assert np.array_equal(done.outputs["y"], X * 2)


def test_raw_kernel_arguments() -> None:
    calls: list[Any] = []

    def twice(grid: Any, block: Any, args: Any, shared_mem: int) -> None:
        calls.append((grid, block, args, shared_mem))

    kernel = raw_kernel(twice, ("x.shape[0]",), 32, ["x", "y", "x.numel", "by:float32"], shared_mem=64)
    with_attrs = case(*ROWS.inputs, outputs=ROWS.outputs, attrs={"by": 2.0})
    run(kernel, with_attrs)
    grid, block, args, shared_mem = calls[0]
    assert (grid, block, shared_mem) == ((3,), (32,), 64)
    assert [type(a) for a in args] == [np.uint64, np.uint64, int, np.float32] and args[0] % 256 == 0
    failure = run(raw_kernel(twice, (1,), (1,), ["by"]), with_attrs).failure
    assert failure.message.startswith("twice raised TypeError: the float 2.0 needs a dtype: write it as NAME:float32")
    calls.clear()
    run(raw_kernel(twice, (0, 1), (1,), []))
    assert calls == []
