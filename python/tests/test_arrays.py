"""Arrays of every framework that can be imported; with a GPU also there (-k cuda)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from made_cases import WHERE, on, random_bits

from gpuemu import arrays as module
from gpuemu.arrays import ITEM_SIZES, Arrays, JaxArrays, Refusal, aligned_bytes, arrays, numpy_dtype, to_numpy

# shape, strides, offset, elements of the storage
VIEWS = {
    "contiguous": ((3, 5), (5, 1), 0, 15),
    "transposed": ((3, 5), (1, 3), 0, 15),
    "strided": ((3, 5), (20, 2), 3, 60),
    "broadcast": ((3, 5), (0, 1), 1, 6),
    "scalar": ((), (), 2, 3),
    "empty": ((0, 4), (4, 1), 0, 0),
}


def wanted(data: Any, dtype: str, shape: Any, strides: Any, offset: int) -> Any:
    size = ITEM_SIZES[dtype]
    return np.ndarray(shape, numpy_dtype(dtype), data, offset * size, [s * size for s in strides])


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("dtype", ITEM_SIZES)
def test_bits_survive(where: str, dtype: str, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("ml_dtypes", reason="bfloat16 and float8 in numpy need ml_dtypes")
    made = on(where)
    if isinstance(made, JaxArrays):
        made.jax.config.update("jax_enable_x64", True)
        request.addfinalizer(lambda: made.jax.config.update("jax_enable_x64", False))
    for shape, strides, offset, count in VIEWS.values():
        data = random_bits(dtype, count)
        try:
            array = made.view(made.buffer(data), dtype, shape, strides, offset)
        except Refusal as refusal:
            assert refusal.failure.reason == "unsupported"
            assert refusal.failure.hint
            pytest.skip(refusal.failure.message)
        assert tuple(array.shape) == shape
        assert made.dtype_name(array) == dtype
        assert made.dtype_name(array.dtype) == dtype
        made.synchronise(array)
        got = made.to_numpy(array)
        assert got.flags.c_contiguous
        assert got.dtype == numpy_dtype(dtype)
        assert got.tobytes() == wanted(data, dtype, shape, strides, offset).tobytes()


@pytest.mark.parametrize("where", ["numpy", "torch:cpu", "torch:cuda", "cupy:cuda"])
def test_strides_are_real_and_memory_is_fresh(where: str) -> None:
    made = on(where)
    assert made.strided
    data = random_bits("float32", 60)
    buffer = made.buffer(data)
    array = made.view(buffer, "float32", (3, 5), (20, 2), 3)
    strides = array.stride() if made.framework == "torch" else tuple(s // 4 for s in array.strides)
    assert strides == (20, 2)
    address = array.data_ptr() if made.framework == "torch" else array.__array_interface__["data"][0] \
        if made.framework == "numpy" else array.data.ptr  # fmt: skip
    assert address % 256 == 3 * 4
    copy = made.clone(buffer)
    assert made.same(copy, buffer)
    array[0, 0] = 1.5
    made.synchronise()
    assert not made.same(copy, buffer)
    assert made.download(copy)[: data.size].tobytes() == data.tobytes()
    assert made.download(buffer)[12:16].tobytes() == np.float32(1.5).tobytes()


@pytest.mark.parametrize("where", ["torch:cpu", "torch:cuda"])
def test_a_tensor_whose_buffer_begins_inside_its_storage(where: str) -> None:
    made = on(where)
    data = random_bits("int32", 128)
    array = made.view(made.buffer(data)[256:], "int32", (2,), (3,), 5)
    assert made.to_numpy(array).tobytes() == data.view(np.int32)[[69, 72]].tobytes()


def test_negative_strides() -> None:
    data = np.arange(4, dtype=np.float32).view(np.uint8)
    made = arrays()
    assert made.view(made.buffer(data), "float32", (4,), (-1,), 3).tolist() == [3, 2, 1, 0]
    tensors = on("torch:cpu")
    with pytest.raises(Refusal, match=r"torch has no negative strides, the case asks for \[-1\]"):
        tensors.view(tensors.buffer(data), "float32", (4,), (-1,), 3)


@pytest.mark.parametrize("where", WHERE)
def test_from_numpy(where: str) -> None:
    made = on(where)
    source = np.arange(24, dtype=np.int32).reshape(2, 3, 4)[:, ::2].transpose(2, 0, 1)
    array = made.from_numpy(source)
    assert np.array_equal(made.to_numpy(array), source)
    source[...] = -1
    assert made.to_numpy(array).max() == 23
    aligned = aligned_bytes(4096)  # what JAX would take as it is
    aligned[:] = 1
    array = made.from_numpy(aligned)
    aligned[:] = 2
    assert made.to_numpy(array).max() == 1
    assert made.to_numpy(made.from_numpy(np.float32(2.5).reshape(()))).shape == ()


@pytest.mark.parametrize("where", ["jax:cpu", "jax:cuda"])
def test_jax_without_64_bits_says_so(where: str) -> None:
    made = on(where)
    with pytest.raises(Refusal, match="jax made float32 of float64: types of 64 bits are switched off") as caught:
        made.from_numpy(np.zeros(3))
    assert caught.value.failure.reason == "unsupported"
    assert "jax_enable_x64" in caught.value.failure.hint


def test_to_numpy_copies_what_may_still_be_written() -> None:
    source = np.arange(6, dtype=np.float32)
    got = to_numpy(source)
    source[0] = 9
    assert got[0] == 0
    assert to_numpy(np.asfortranarray(np.arange(6).reshape(2, 3))).flags.c_contiguous
    assert to_numpy(np.array([1, 256], ">i2")).tobytes() == b"\x01\x00\x00\x01"
    assert to_numpy([1.0, 2.0]).dtype == np.float64
    assert to_numpy(np.float32(3)).shape == ()


def test_to_numpy_copies_tensors() -> None:
    torch = pytest.importorskip("torch", reason="tensors need torch")
    source = torch.arange(6, dtype=torch.float32, requires_grad=True)
    got = to_numpy(source)
    with torch.no_grad():
        source[0] = 9
    assert got[0] == 0
    assert to_numpy(torch.arange(6).reshape(2, 3).t()).tolist() == [[0, 3], [1, 4], [2, 5]]
    imaginary = torch.tensor([1 + 2j]).conj().imag  # a tensor with a pending minus sign
    assert to_numpy(imaginary).tolist() == [-2]


def test_to_numpy_of_an_unknown_framework() -> None:
    class Foreign:
        def __init__(self) -> None:
            self.held = np.arange(3, dtype=np.float32)

        def __dlpack__(self, **options: Any) -> Any:
            return self.held.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.held.__dlpack_device__()

    foreign = Foreign()
    got = to_numpy(foreign)
    foreign.held[0] = 9
    assert got.tolist() == [0, 1, 2]

    class OnDevice:
        __cuda_array_interface__ = None

    for name in ("torch", "cupy"):
        if name in sys.modules:
            pytest.skip(f"{name} is imported here and would take the array")
    with pytest.raises(TypeError, match="needs torch or cupy"):
        to_numpy(OnDevice())


def test_cuda_results_of_another_framework() -> None:
    made, cupy = on("torch:cuda"), on("cupy:cuda").cupy  # type: ignore[attr-defined]
    assert made.to_numpy(cupy.arange(4, dtype=np.float32)).tolist() == [0, 1, 2, 3]

    class Foreign:  # neither torch nor cupy
        def __init__(self) -> None:
            self.held = cupy.arange(4, dtype=np.float16)

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.held.__dlpack__(stream=stream)

        def __dlpack_device__(self) -> Any:
            return self.held.__dlpack_device__()

    assert made.to_numpy(Foreign()).tolist() == [0, 1, 2, 3]


def test_functions_of_torch_take_numpy_arrays() -> None:
    torch = pytest.importorskip("torch", reason="functions of torch need torch")
    made = arrays()
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)
    x, y = made.from_numpy(a), made.from_numpy(b)
    assert isinstance(x, np.ndarray)
    assert np.array_equal(to_numpy(torch.matmul(x, y)), a @ b)
    assert isinstance(torch.nn.functional.softmax(x, dim=-1), torch.Tensor)
    assert torch.cat([x, x]).shape == (4, 3)
    assert torch.add(x, other=x)[1, 2] == 10
    assert np.array_equal(to_numpy(torch.relu(made.view(x, "float32", (6,), (1,), 0)[::-1])), a.ravel()[::-1])
    torch.relu_(np.negative(x, out=x))
    assert x.max() == 0 and x.min() == 0  # the tensor lies on the same memory


def test_functions_of_torch_take_bfloat16() -> None:
    torch = pytest.importorskip("torch", reason="functions of torch need torch")
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 in numpy needs ml_dtypes")
    x = arrays().from_numpy(np.array([1, -2], ml_dtypes.bfloat16))
    got = torch.relu(x)
    assert got.dtype == torch.bfloat16
    assert to_numpy(got).tobytes() == np.array([1, 0], ml_dtypes.bfloat16).tobytes()


def test_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.delitem(module._numpy_dtypes, "bfloat16", raising=False)
    with pytest.raises(Refusal, match="bfloat16 arrays need ml_dtypes") as caught:
        numpy_dtype("bfloat16")
    assert caught.value.failure.reason == "missing_package"
    assert caught.value.failure.hint.endswith("-m pip install ml_dtypes")


def test_wrong_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="unknown framework 'mxnet': known are numpy, torch, jax, cupy, tensorflow"):
        arrays("mxnet")
    with pytest.raises(ValueError, match="numpy arrays have no device 'cuda': choose framework=\"torch\""):
        arrays(None, "cuda")
    with pytest.raises(Refusal, match="unknown dtype float128"):
        numpy_dtype("float128")
    with pytest.raises(TypeError, match="no array of dtype complex64 can be made"):
        arrays().from_numpy(np.zeros(1, np.complex64))
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"framework='cupy' needs cupy.*pip install cupy-cuda12x"):
        arrays("cupy")


@pytest.mark.parametrize("where", ["torch:cpu", "jax:cpu", "tensorflow:cpu"])
def test_wrong_device(where: str) -> None:
    framework = on(where).framework
    with pytest.raises(ValueError, match="nowhere"):
        arrays(framework, "nowhere")


def test_torch_without_a_device() -> None:
    torch = pytest.importorskip("torch", reason="a default device needs torch")
    want = "cuda" if torch.cuda.is_available() else "cpu"
    assert arrays("torch").device == arrays("pytorch").device == want


def test_dtype_names() -> None:
    made = Arrays()
    for value in (np.float32, np.dtype("<f4"), np.zeros(1, np.float32), np.float32(1)):
        assert made.dtype_name(value) == "float32"
    assert made.dtype_name(np.zeros(1, np.complex64)) is None
    assert made.dtype_name("float8_e5m2") == "float8_e5m2"
