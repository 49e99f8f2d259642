"""The guard, with kernels that do wrong what can be done wrong with memory; with a GPU also there (-k cuda)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from made_cases import case, contiguous, on, random_bits

from gpuemu import Client
from gpuemu import arrays as arrays_module
from gpuemu import guard as guard_module
from gpuemu._case import OutputSpec, View
from gpuemu._exceptions import describe
from gpuemu.arrays import ITEM_SIZES, Arrays, arrays, numpy_dtype
from gpuemu.guard import _BITS, _PATTERNS, Guard, call_attrs


@pytest.fixture(autouse=True, params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of few bytes are watched in another way than those of many: all that is found has to be found in both."""
    if request.param == "large":
        monkeypatch.setattr(guard_module, "SMALL", 0)


X = np.arange(10, dtype=np.float32).reshape(2, 5)
RELU = case(contiguous("x", X), outputs=[OutputSpec("y", "float32", (2, 5))])


class Distant(Arrays):
    """numpy, treated as if it were a device: with a pristine copy beside the inputs, compared there."""

    on_host = False

    def upload(self, data: Any) -> Any:
        return self.clone(data)

    def download(self, buffer: Any) -> Any:
        return buffer.copy()


GUARDED = ["numpy", "distant", "torch:cpu", "torch:cuda", "cupy:cuda"]


def guarded(where: str) -> Arrays:
    return Distant() if where == "distant" else on(where)


def poke(array: Any, element: int, value: float) -> None:
    """Writes to an element of the memory of an array, counted from its first one, inside or not."""
    if hasattr(array, "as_strided"):  # torch
        array.as_strided((1,), (1,), array.storage_offset() + element)[0] = value
    elif hasattr(array, "get"):  # cupy
        type(array)((1,), array.dtype, array.data + element * array.itemsize)[0] = value
    else:
        address = array.__array_interface__["data"][0] + element * array.itemsize
        cell = (type(np.ctypeslib.as_ctypes(np.zeros((), array.dtype)))).from_address(address)
        cell.value = value


def findings(done: Any) -> list[tuple[str, str, str]]:
    assert done.failure is None, done.failure
    return [(f.kind, f.name, f.sentence) for f in done.findings]


@pytest.mark.parametrize("where", GUARDED)
@pytest.mark.parametrize("repeat", [False, True])
def test_a_good_kernel_has_no_findings(where: str, repeat: bool) -> None:
    done = Guard(guarded(where), repeat=repeat).run(lambda i: i["x"] * 2, RELU)
    assert findings(done) == []
    assert done.outputs is not None and done.time_ns > 0
    assert np.array_equal(done.outputs["y"], X * 2)
    assert (done.again is not None) == repeat
    if done.again is not None:
        assert done.again["y"].tobytes() == done.outputs["y"].tobytes()


@pytest.mark.parametrize("where", GUARDED)
def test_allocated_outputs(where: str) -> None:
    def kernel(inputs: Any, outputs: Any, scale: float) -> str:
        assert outputs["y"].shape == (2, 5)
        outputs["y"][...] = inputs["x"] * scale
        outputs["z"][...] = True
        return "ignored"

    specs = [OutputSpec("y", "float32", (2, 5)), OutputSpec("z", "bool", ())]
    done = Guard(guarded(where), "allocated", repeat=True).run(
        kernel, case(contiguous("x", X), outputs=specs, attrs={"scale": 3, "other": 1})
    )
    assert findings(done) == []
    assert done.outputs is not None and done.again is not None
    assert np.array_equal(done.outputs["y"], X * 3) and done.outputs["z"] is not done.again["z"]
    assert done.outputs["z"].shape == () and done.outputs["z"] and done.again["z"]


@pytest.mark.parametrize("where", GUARDED)
@pytest.mark.parametrize("element, want", [
    (10, "4 bytes after input x were overwritten, the first 0 bytes past its end"),
    (75, "4 bytes after input x were overwritten, the first 260 bytes past its end"),
    (-1, "4 bytes before input x were overwritten, the first 4 bytes before its start"),
])  # fmt: skip
def test_overrun_of_an_input(where: str, element: int, want: str) -> None:
    def kernel(inputs: Any) -> Any:
        poke(inputs["x"], element, 0)
        return inputs["x"] + 0

    assert findings(Guard(guarded(where)).run(kernel, RELU)) == [("overrun", "x", want)]


@pytest.mark.parametrize("where", GUARDED)
def test_overrun_of_an_output(where: str) -> None:
    def kernel(inputs: Any, outputs: Any) -> None:
        outputs["y"][...] = 0
        poke(outputs["y"], 11, 0)
        poke(outputs["y"], -2, 0)

    assert findings(Guard(guarded(where), "allocated").run(kernel, RELU)) == [
        ("overrun", "y", "4 bytes before output y were overwritten, the first 8 bytes before its start"),
        ("overrun", "y", "4 bytes after output y were overwritten, the first 4 bytes past its end"),
    ]


def test_an_empty_output_has_red_zones() -> None:
    kernel_case = case(contiguous("x", X), outputs=[OutputSpec("y", "float32", (0, 5))])
    done = Guard(arrays(), "allocated").run(lambda i, outputs: poke(outputs["y"], 0, 1), kernel_case)
    assert [f[:2] for f in findings(done)] == [("overrun", "y")]
    assert done.outputs is not None and done.outputs["y"].shape == (0, 5)


def test_copying_beyond_both_ends_is_seen() -> None:
    def kernel(inputs: Any, outputs: Any) -> None:
        for array in (inputs["x"], outputs["y"]):
            assert array.__array_interface__["data"][0] % 256 == 0
        source, target = (np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * 12).from_address(
            a.__array_interface__["data"][0])) for a in (inputs["x"], outputs["y"]))  # fmt: skip
        target[:] = source
        assert np.isnan(source[10:]).all()

    assert [f[:2] for f in findings(Guard(arrays(), "allocated").run(kernel, RELU))] == [("overrun", "y")]


@pytest.mark.parametrize("where", GUARDED)
def test_modified_inputs(where: str) -> None:
    def kernel(inputs: Any) -> Any:
        inputs["x"][1, 2:4] += 1  # twice on the same memory gives other outputs
        return inputs["x"]

    done = Guard(guarded(where), repeat=True).run(kernel, RELU)
    want = "2 of 10 elements of input x were changed, the first at [1, 2]"
    assert findings(done) == [("input_modified", "x", want)]
    assert done.outputs is not None and done.again is not None
    assert done.outputs["y"].tobytes() == done.again["y"].tobytes(), "the second run had other inputs than the first"


@pytest.mark.parametrize("where", GUARDED)
def test_modified_gaps(where: str) -> None:
    storage = random_bits("float32", 20)
    strided = case(View("x", "float32", (5,), (4,), 1, storage))

    def kernel(inputs: Any) -> Any:
        result = inputs["x"] + 0
        poke(inputs["x"], 1, 0)
        return result

    done = Guard(guarded(where)).run(kernel, strided)
    want = (
        "1 elements in the gaps of input x, which no index reaches, were changed, the first is element 2 of its storage"
    )
    assert findings(done) == [("input_modified", "x", want)]
    assert done.outputs is not None
    assert np.array_equal(done.outputs["output"], storage.view(np.float32)[1::4] + 0, equal_nan=True)


def test_a_change_of_the_last_odd_byte_is_seen() -> None:
    def kernel(inputs: Any) -> Any:
        inputs["x"][12] ^= 1
        return inputs["x"]

    done = Guard(arrays()).run(kernel, case(contiguous("x", np.arange(13, dtype=np.uint8))))
    assert [f[2] for f in findings(done)] == ["1 of 13 elements of input x were changed, the first at [12]"]


@pytest.mark.parametrize("where", ["numpy", "distant"])
@pytest.mark.parametrize("dtype", ITEM_SIZES)
def test_unwritten_elements(where: str, dtype: str) -> None:
    if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        pytest.importorskip("ml_dtypes", reason=f"{dtype} in numpy needs ml_dtypes")
    runs = []

    def kernel(inputs: Any, outputs: Any) -> None:
        runs.append(None)
        outputs["y"][:1] = 1
        outputs["y"][1, :2] = 1

    specs = [OutputSpec("y", dtype, (2, 3))]
    done = Guard(guarded(where), "allocated").run(kernel, case(outputs=specs))
    want = (
        "1 of 6 elements of output y were not written (or only updated from what was there before), the first at [1, 2]"
    )
    assert findings(done) == [("not_fully_written", "y", want)]
    assert len(runs) == 2
    assert done.outputs is not None
    value = done.outputs["y"][1, 2]
    if dtype in _PATTERNS:
        assert np.isnan(value.astype(np.float64))
    if dtype == "bool":
        assert done.outputs["y"].view(np.uint8).max() == 1


@pytest.mark.parametrize("where", GUARDED)
def test_a_written_pattern_is_no_finding(where: str) -> None:
    pattern = np.uint32(_PATTERNS["float32"][2])
    runs = []

    def kernel(inputs: Any, outputs: Any) -> None:
        runs.append(None)
        outputs["y"][...] = inputs["x"]

    same = case(contiguous("x", np.full((2, 5), pattern).view(np.float32)), outputs=RELU.outputs)
    done = Guard(guarded(where), "allocated").run(kernel, same)
    assert findings(done) == []
    assert len(runs) == 2, "all elements have the pattern: it must be asked again"
    assert done.outputs is not None and (done.outputs["y"].view(np.uint32) == pattern).all()


def test_a_written_pattern_is_not_counted() -> None:
    def kernel(inputs: Any, outputs: Any) -> None:
        outputs["y"].ravel()[:9] = inputs["x"].ravel()[:9]

    x = X.copy()
    x.view(np.uint32)[0, :3] = _PATTERNS["float32"][2]
    done = Guard(arrays(), "allocated").run(kernel, case(contiguous("x", x), outputs=RELU.outputs))
    want = "1 of 10 elements of output y were not written (or only updated from what was there before), "
    assert [f[2] for f in findings(done)] == [want + "the first at [1, 4]"]


def test_reading_the_output_before_writing_it_is_seen() -> None:
    def kernel(inputs: Any, outputs: Any) -> None:
        outputs["y"] += inputs["x"]

    kinds = [f[0] for f in findings(Guard(arrays(), "allocated").run(kernel, RELU))]
    assert kinds == ["not_fully_written"]


def test_patterns_are_distinct_and_no_results() -> None:
    pytest.importorskip("ml_dtypes", reason="bfloat16 and float8 in numpy need ml_dtypes")
    for dtype, patterns in _PATTERNS.items():
        bits = np.array(patterns, _BITS[ITEM_SIZES[dtype]])
        values = bits.view(numpy_dtype(dtype)).astype(np.float64)
        assert np.isnan(values[:3]).all() and 128 < values[3] < np.inf, dtype
        assert patterns[0] != patterns[1] and patterns[2] != patterns[3], dtype


def test_views_have_their_offsets_and_strides() -> None:
    seen = {}

    def kernel(inputs: Any) -> Any:
        seen.update(inputs)
        return inputs["a"]

    storage = random_bits("float16", 40)
    Guard(arrays()).run(kernel, case(View("a", "float16", (3, 4), (1, 5), 7, storage), contiguous("b", X)))
    assert seen["a"].strides == (2, 10) and seen["a"].__array_interface__["data"][0] % 256 == 14
    assert seen["b"].__array_interface__["data"][0] % 256 == 0


@pytest.mark.parametrize("where", ["jax:cpu", "tensorflow:cpu", "jax:cuda"])
def test_frameworks_without_strides(where: str) -> None:
    made = on(where)
    assert not made.strided
    transposed = case(View("x", "float32", (5, 2), (1, 5), 0, contiguous("x", X).storage))
    done = Guard(made, repeat=True).run(lambda i: i["x"] + 1, transposed)
    assert findings(done) == []
    assert done.outputs is not None and np.array_equal(done.outputs["output"], X.T + 1)
    with pytest.raises(ValueError, match=r'arrays cannot be written to: use outputs="returned"'):
        Guard(made, "allocated")


# ---- what kernels return -----------------------------------------------------------------------------------------

TWO = [OutputSpec("y", "float32", (2, 5)), OutputSpec("z", "float32", (2, 5))]


@pytest.mark.parametrize("result, names", [
    ((X, X), ["y", "z"]), ([X, X], ["y", "z"]), ({"z": X, "y": X}, ["z", "y"]),
])  # fmt: skip
def test_several_outputs(result: Any, names: list[str]) -> None:
    done = Guard(arrays()).run(lambda i: result, case(outputs=TWO))
    assert done.outputs is not None and list(done.outputs) == names


def test_outputs_without_a_schema() -> None:
    def outputs(result: Any) -> dict[str, Any]:
        got = Guard(arrays()).run(lambda i: result, case()).outputs
        assert got is not None
        return got

    assert list(outputs(X)) == ["output"] and list(outputs((X,))) == ["output"]
    assert list(outputs((X, X))) == ["output0", "output1"]
    assert outputs([1.0, 2.0])["output"].tolist() == [1, 2]


@pytest.mark.parametrize("result, reason, message", [
    (None, "bad_reply", "the kernel returned None as y"),
    (X, "wrong_outputs", "the kernel returned one ndarray, want 2 outputs"),
    ((X, X, X), "wrong_outputs", "the kernel returned a tuple of 3, want 2 outputs"),
    ({"y": X.astype(np.complex64)}, "wrong_dtype", "the kernel returned y of type ndarray (complex64)"),
    ({"y": "text"}, "bad_reply", "the kernel returned y of type str (no number)"),
    ({"y": [[1], [1, 2]]}, "bad_reply", "the kernel returned a list as y, which is no array: ValueError"),
])  # fmt: skip
def test_wrong_results(result: Any, reason: str, message: str) -> None:
    specs = TWO if result is not None else TWO[:1]
    if np.lib.NumpyVersion(np.__version__) < "1.24.0" and isinstance(result, dict) and isinstance(result["y"], list):
        pytest.skip("this numpy makes an array of objects of a ragged list")
    failure = Guard(arrays()).run(lambda i: result, case(outputs=specs)).failure
    assert failure is not None
    assert failure.reason == reason and failure.message.startswith(message) and failure.hint


def test_a_buffer_that_the_kernel_uses_again_is_copied() -> None:
    shared, runs = np.zeros(3, np.float32), []

    def kernel(inputs: Any) -> Any:
        runs.append(None)
        shared[:] = len(runs)
        return shared

    done = Guard(arrays(), repeat=True).run(kernel, case())
    assert done.outputs is not None and done.again is not None
    assert done.outputs["output"].tolist() == [1, 1, 1] and done.again["output"].tolist() == [2, 2, 2]


# ---- kernels that raise ------------------------------------------------------------------------------------------


def test_exceptions() -> None:
    def kernel(inputs: Any) -> Any:
        raise ValueError("no such luck\nadvice")

    done = Guard(arrays()).run(kernel, RELU)
    assert done.outputs is None and done.failure is not None
    assert done.failure.reason == "raised" and done.failure.message == "kernel raised ValueError: no such luck"
    assert "in kernel" in done.failure.trace and 'guard.py"' not in done.failure.trace.replace("test_guard.py", "")


@pytest.mark.parametrize("fault, reason, message", [
    (ModuleNotFoundError("x", name="flash_attn.ops"), "missing_package", "kernel needs the package flash_attn, which "),
    (SystemExit(3), "raised", "kernel called sys.exit(3)"),
    (MemoryError(), "raised", "kernel raised MemoryError"),
])  # fmt: skip
def test_kinds_of_exceptions(fault: BaseException, reason: str, message: str) -> None:
    def kernel(inputs: Any) -> Any:
        raise fault

    failure = Guard(arrays()).run(kernel, RELU).failure
    assert failure is not None and failure.reason == reason and failure.message.startswith(message)


def test_interrupts_pass() -> None:
    def kernel(inputs: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Guard(arrays()).run(kernel, RELU)


def test_a_kernel_that_wants_outputs_gets_a_hint() -> None:
    def kernel(inputs: Any, outputs: Any) -> None:
        raise AssertionError("not reached")

    failure = Guard(arrays()).run(kernel, RELU).failure
    assert failure is not None and 'needs outputs="allocated"' in failure.hint


def test_without_ml_dtypes_the_case_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.delitem(arrays_module._numpy_dtypes, "bfloat16", raising=False)
    for wide in (case(View("x", "bfloat16", (2,), (1,), 0, random_bits("bfloat16", 2))),
                 case(outputs=[OutputSpec("y", "bfloat16", (2,))])):  # fmt: skip
        failure = Guard(arrays()).run(lambda i: pytest.fail("it was run"), wide).failure
        assert failure is not None and failure.reason == "missing_package"


def test_outputs_of_unknown_shape_cannot_be_allocated() -> None:
    for specs in (None, [OutputSpec("y", "float32", None)]):
        failure = Guard(arrays(), "allocated").run(lambda i, o: None, case(outputs=specs)).failure
        assert failure is not None and failure.reason == "unsupported" and 'outputs="returned"' in failure.hint


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match=r'outputs is \'given\', want "returned" or "allocated"'):
        Guard(arrays(), "given")

    def kernel(inputs: Any, outputs: Any) -> None: ...

    kernel.gpuemu_outputs = "allocated"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match='kernel wants outputs="allocated", the guard has "returned"'):
        Guard(arrays()).run(kernel, RELU)


# ---- devices -----------------------------------------------------------------------------------------------------


class Failing(Arrays):
    """A device that reports errors at synchronisation: so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def synchronise(self, result: object = None) -> None:
        if self.times:
            self.times -= 1
            raise RuntimeError("CUDA error: invalid configuration argument")


@pytest.mark.parametrize("times", [1, 2])
def test_an_error_of_one_launch(times: int) -> None:
    guard = Guard(Failing(times))
    failure = guard.run(lambda i: i["x"], RELU).failure
    assert failure is not None and failure.reason == "raised" and guard.broken is None
    want = "the kernel raised RuntimeError: CUDA error: invalid configuration argument, reported at synchronisation"
    assert failure.message == want
    assert guard.run(lambda i: i["x"], RELU).failure is None


def test_a_lost_device() -> None:
    guard = Guard(Failing(1000))
    failure = guard.run(lambda i: i["x"], RELU).failure
    assert failure is not None and failure.reason == "crashed"
    assert failure.message.startswith("the kernel crashed the device: RuntimeError") and "new process" in failure.hint
    assert guard.broken is not None and "invalid configuration argument" in guard.broken
    later = guard.run(lambda i: pytest.fail("it was run"), RELU).failure
    assert later is not None and later.reason == "unsupported"
    assert later.message.startswith("not run: the kernel left the device unusable in an earlier case")


def test_tensors_that_do_not_fit_are_not_the_kernels_fault() -> None:
    class Small(Arrays):
        def upload(self, data: Any) -> Any:
            raise RuntimeError("out of memory")

    failure = Guard(Small()).run(lambda i: pytest.fail("it was run"), RELU).failure
    assert failure is not None and failure.reason == "unsupported"
    assert failure.message == "numpy on cpu cannot hold the tensors of the case: RuntimeError: out of memory"


def test_cuda_illegal_access_breaks_the_guard() -> None:
    """In a process of its own: it leaves the device unusable."""
    import subprocess

    on("torch:cuda")
    on("cupy:cuda")
    program = """
import cupy, sys
sys.path.insert(0, sys.argv[1])
from gpuemu.arrays import arrays
from gpuemu.guard import Guard
from test_guard import RELU
wild = cupy.RawKernel('extern "C" __global__ void wild(float* p) { *(p + (1ull << 40)) = 1; }', "wild")
def kernel(i):
    wild((1,), (1,), (0,))
    return i["x"]
guard = Guard(arrays("torch", "cuda"))
print(guard.run(kernel, RELU).failure)
print(guard.run(lambda i: i["x"], RELU).failure)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, __file__.rpartition("/")[0]], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert "reason='crashed'" in first and "reported at synchronisation" in first
    assert "reason='unsupported'" in second and "left the device unusable" in second


# ---- the rest ----------------------------------------------------------------------------------------------------


def test_call_attrs() -> None:
    def plain(inputs: Any, eps: float, axis: int = 0) -> None: ...
    def everything(inputs: Any, **attrs: Any) -> None: ...
    def only(inputs: Any, /, *, eps: float) -> None: ...
    def written(inputs: Any, outputs: Any, eps: float) -> None: ...

    assert call_attrs(plain) == {"eps", "axis"}
    assert call_attrs(everything) is None
    assert call_attrs(only) == {"eps"}
    assert call_attrs(written, 2) == {"eps"}
    assert call_attrs(dict.fromkeys) == frozenset() or call_attrs(dict.fromkeys) == {"value"}


def test_attributes_are_passed_by_name() -> None:
    attrs = {"eps": 1e-5, "axis": -1}
    seen: dict[str, Any] = {}

    def some(inputs: Any, axis: int) -> Any:
        seen.update(axis=axis)
        return X

    def all_of_them(inputs: Any, **given: Any) -> Any:
        seen.update(given)
        return X

    guard = Guard(arrays())
    assert guard.run(some, case(attrs=attrs)).failure is None and seen == {"axis": -1}
    assert guard.run(all_of_them, case(attrs=attrs)).failure is None and seen == attrs


def test_outputs_that_are_read_before_they_are_written(client: Client) -> None:
    """A maximum ignores NaN: only the other pattern shows that the output was never set to zero."""

    def lazy(inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        np.fmax(outputs["output"], np.maximum(inputs["input"], 0), out=outputs["output"])

    options: dict[str, Any] = {"iterations": 20, "seed": 1, "dtypes": ["float32"], "value_distribution": "normal"}
    assert client.fuzz_op_client_side("relu", lazy, outputs="allocated", **options).failed >= 9
    assert client.fuzz_op_client_side("relu", lazy, outputs="allocated", repeat=True, **options).failed == 20


@pytest.mark.parametrize(
    ("exc", "want"),
    [
        (ValueError("no"), "ValueError: no"),
        (RuntimeError("CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA`"),
         "RuntimeError: CUDA error: device-side assert triggered"),
        (RuntimeError("\nwhat happened\nadvice"), "RuntimeError: what happened"),
        (ValueError("at 3:4:\nx = y\n    ^\nNameError('y')"), "ValueError: at 3:4: NameError('y')"),
        (SyntaxError("invalid syntax", ("a/k.py", 7, 3, "x = (")), "SyntaxError: invalid syntax (k.py, line 7)"),
        (KeyError(), "KeyError"),
        (ValueError("x" * 600), "ValueError: " + "x" * 488 + "..."),
    ],
)  # fmt: skip
def test_exceptions_are_described_by_what_happened(exc: BaseException, want: str) -> None:
    assert describe(exc) == want
