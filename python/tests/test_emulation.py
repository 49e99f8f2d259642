"""Launches of compiled kernels on the CPU: memory of numpy arrays, findings, CUDA C++ through a compiler."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import Client, ClientError, EmulationError, _launch, cuda_kernel, raw_kernel

# y[i] = max(x[i], s) for i below n
RELU = """//
.version 8.0
.target sm_80
.address_size 64
.visible .entry relu(.param .u64 x, .param .u64 y, .param .f32 s, .param .u64 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.f32 %f1, [s];
    ld.param.u64 %rd3, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd4, %r1, %r2;
    cvt.u64.u32 %rd5, %r3;
    add.s64 %rd4, %rd4, %rd5;
    setp.ge.u64 %p1, %rd4, %rd3;
    @%p1 bra done;
    shl.b64 %rd4, %rd4, 2;
    add.s64 %rd6, %rd1, %rd4;
    add.s64 %rd7, %rd2, %rd4;
    ld.global.f32 %f2, [%rd6];
    max.NaN.f32 %f3, %f2, %f1;
    st.global.f32 [%rd7], %f3;
done:
    ret;
}
"""
# One more than n: what hardware usually survives.
OVER = RELU.replace("setp.ge.u64", "setp.gt.u64").replace("relu(", "over(")
SPIN = """.version 8.0
.target sm_80
.address_size 64
.visible .entry spin()
{
again:
    bra again;
}
"""


@pytest.fixture
def client() -> Iterator[Client]:
    with Client() as c:
        yield c


def kinds(result: Any) -> set[str]:
    return {f.kind for f in result.findings}


def test_in_place(client: Client) -> None:
    x = np.linspace(-1, 1, 100, dtype=np.float32)
    y = np.empty_like(x)
    args = {"x": x, "y": y, "s": 0, "n": 100}
    result = client.emulate(RELU, grid=4, block=(32, 1, 1), args=args, outputs=["y"], counters=True, schedules=2)
    assert result.ok and result.check() is result and result.kernel == "relu" and result.findings == []
    assert np.array_equal(y, np.maximum(x, 0))
    assert result.counters is not None and result.counters["warp_instructions"] > 0
    assert result.raw["schedules"] == 2


@pytest.mark.parametrize("size", [100, 100_000])  # through the socket, and by a shared file
def test_views_share_memory(client: Client, size: int) -> None:
    whole = np.linspace(-1, 1, 2 * size, dtype=np.float32)
    want = np.maximum(whole[:size], np.float32(0.25))
    result = client.emulate(RELU, "relu", grid=-(-size // 256), block=256, args=[whole, whole[size:], 0.25, size])
    assert result.ok, result
    assert np.array_equal(whole[size:], want)


def test_memory(client: Client) -> None:
    """A launch uses no more memory than it is allowed, and says what it would need."""
    x = np.ones(10_000, np.float32)
    args = [x, np.zeros_like(x), 0.0, 10_000]
    for memory, limit in (("64KiB", 65536), (1000, 1000)):
        small = client.emulate(RELU, "relu", grid=40, block=256, args=args, memory=memory)
        assert small.status == "not_run" and not small.ok
        with pytest.raises(EmulationError, match=f"relu needs at least .* of memory .*; the limit is {limit} bytes"):
            small.check()
    assert not args[1].any()
    assert client.emulate(RELU, "relu", grid=40, block=256, args=args, memory="64MiB").ok
    assert args[1].all()


def test_views_that_overlap(client: Client) -> None:
    """What is written through one argument is not written over with what another one had before."""
    memory = np.array([1, 2, 3, 4], np.float32)
    turned = RELU.replace(".param .u64 x, .param .u64 y", ".param .u64 y, .param .u64 x")
    assert client.emulate(turned, grid=1, block=2, args=[memory[:2], memory[1:], 0, 2], checks="bounds").ok
    assert memory.tolist() == [2, 3, 3, 4]


def test_bounds(client: Client) -> None:
    memory = np.zeros(128, np.float32)
    args = {"x": memory[:10], "y": memory[20:30], "s": 0.0, "n": 10}
    inside = client.emulate(OVER, grid=1, block=32, args=args, bounds="storage")
    assert inside.ok
    outside = client.emulate(OVER, grid=1, block=32, args=args)
    assert kinds(outside) == {"oob_read", "oob_write"}
    first = outside.findings[0]
    assert first.block == (0, 0, 0) and first.thread == (10, 0, 0) and "x, which has 40 bytes" in first.message
    text = r"^over: oob_read at PTX line \d+: block 0,0,0, thread 10,0,0: reads"
    with pytest.raises(EmulationError, match=text) as exc:
        outside.check()
    assert exc.value.result is outside and len(exc.value.findings) == 2
    backwards = memory[9::-1]  # its first element is the last in memory
    assert kinds(client.emulate(RELU, grid=1, block=1, args=[backwards, memory[20:], 0, 1])) == set()
    assert kinds(client.emulate(RELU, grid=1, block=2, args=[backwards, memory[20:], 0, 2])) == {"oob_read"}
    assert kinds(client.emulate(RELU, grid=1, block=1, args=[memory[:0], memory[20:], 0, 1])) == {"oob_read"}


def test_alignment_is_that_of_the_array(client: Client) -> None:
    odd = np.zeros(65, np.uint8)[1:].view(np.float32)
    assert kinds(client.emulate(RELU, grid=1, block=1, args=[odd, np.zeros(1, np.float32), 0, 1])) == {"misaligned"}


def test_outputs_have_nothing_in_them(client: Client) -> None:
    x, y = np.ones(10, np.float32), np.zeros(10, np.float32)
    args = {"x": x, "y": y, "s": 0, "n": 9}
    assert kinds(client.emulate(RELU, grid=1, block=32, args=args)) == set()
    assert kinds(client.emulate(RELU, grid=1, block=32, args=args, outputs=["y"])) == {"unwritten"}
    assert kinds(client.emulate(RELU, grid=1, block=32, args=args, outputs=["y"], checks="bounds")) == set()
    with pytest.raises(ClientError, match="shares memory with x"):
        client.emulate(RELU, grid=1, block=1, args={"x": x, "y": x, "s": 0, "n": 1}, outputs=["y"])
    with pytest.raises(ClientError, match="outputs are contiguous"):
        client.emulate(RELU, grid=1, block=1, args=[x, y[::2], 0, 1], outputs=[1])
    with pytest.raises(ClientError, match="'z', which args has not"):
        client.emulate(RELU, grid=1, block=1, args=[x, y, 0, 1], outputs=["z"])


def test_outputs_that_share_memory(client: Client) -> None:
    x = np.ones(10, np.float32)
    for outputs in ([0], [1], [0, 1]):
        with pytest.raises(ClientError, match=r"output arg\d shares memory with arg\d"):
            client.emulate(RELU, grid=1, block=1, args=[x[:6], x[4:], 0, 1], outputs=outputs)
    assert client.emulate(RELU, grid=1, block=32, args=[x[:5], x[5:], 0, 5], outputs=[1]).ok


def test_outputs_of_formats_that_numpy_has_not(client: Client) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    y = torch.zeros(20, dtype=torch.bfloat16)
    assert client.emulate(RELU, grid=1, block=32, args=[np.ones(10, np.float32), y, 0, 10], outputs=[1]).ok
    assert y.view(torch.int16)[1::2].tolist() == [0x3F80] * 10


def test_sizes_and_arrays_that_are_none(client: Client) -> None:
    x = np.ones(10, np.float32)
    for size in (1.5, "1", np.ones(2), (1, 1.0)):
        with pytest.raises(ClientError, match="a grid or block is"):
            client.emulate(RELU, grid=size, block=1, args=[x, x, 0, 1])
    with pytest.raises(ClientError, match="dtype object"):
        client.emulate(RELU, grid=1, block=1, args=[np.array([x, None], object), x, 0, 1])
    assert client.emulate(RELU, grid=np.int64(1), block=(np.uint8(1), 1), args=[x, x, 0, 1]).ok


def test_what_cannot_be_written_to(client: Client) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    x.flags.writeable = False
    assert client.emulate(RELU, grid=1, block=4, args=[x, y, 0, 4]).ok
    for checks in (None, "none"):
        result = client.emulate(RELU, grid=1, block=4, args=[y, x, 2.0, 4], checks=checks)
        assert kinds(result) == {"input_modified"}
        assert "of arg2, which is an input" in result.findings[0].message and result.findings[0].count == 4
    with pytest.raises(EmulationError, match="input_modified"):
        result.check()
    assert np.array_equal(x, np.ones(4))


def test_numbers(client: Client) -> None:
    x, y = np.zeros(1, np.float32), np.zeros(1, np.float32)
    for s, want in [(1, 1.0), (-1, 0.0), (0.1, np.float32(0.1)), (np.float32(7), 7.0)]:
        client.emulate(RELU, grid=1, block=1, args=[x, y, s, np.uint64(1)]).check()
        assert y[0] == np.float32(want)
    for bad, match in [
        (np.float64(1), "has 8 bytes"), (True, "has 1 bytes"), ("1", "is a str"), (1 << 64, "not a value"),
        (np.complex64(1), "is a complex64"),
    ]:  # fmt: skip
        with pytest.raises(ClientError, match=match):
            client.emulate(RELU, grid=1, block=1, args=[x, y, 0.0 if bad == 1 << 64 else bad, bad])
    null = client.emulate(RELU, grid=1, block=1, args=[None, y, 0, 1])
    assert kinds(null) == {"oob_read"}


def test_what_is_not_executed(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "spin.ptx"
    file.write_text(SPIN)
    result = client.emulate(file, grid=1, block=1, args=[], budget=1000)
    assert result.status == "not_run" and not result.ok and result.error is not None
    assert result.error.code == "ptxvm-budget"
    with pytest.raises(EmulationError, match=r"^spin: not executed: spin executed more than 1000 instructions\n"):
        result.check()
    with pytest.raises(ClientError, match="not PTX"):
        client.emulate("no PTX", grid=1, block=1, args=[])
    with pytest.raises(ClientError, match="no such file"):
        client.emulate(tmp_path / "missing.ptx", grid=1, block=1, args=[])
    with pytest.raises(ClientError, match="x is from 1 to 1024"):
        client.emulate(SPIN, grid=1, block=0, args=[])
    with pytest.raises(ClientError, match="bounds is 'all'"):
        client.emulate(SPIN, grid=1, block=1, args=[], bounds="all")
    with pytest.raises(ClientError, match="1 arguments are given, the kernel has 4"):
        client.emulate(RELU, grid=1, block=1, args=[1])


def fuzzed(text: str, **options: Any) -> gpuemu.FuzzResults:
    kernel = raw_kernel(
        cuda_kernel(text, **options), grid=lambda i, o, a: -(-i["input"].size // 128), block=128,
        args=["input", "output", lambda i, o, a: 0.0, "input.numel"],
    )  # fmt: skip
    return Client().fuzz_op_client_side("relu", kernel, iterations=20, seed=3, dtypes=["float32"],
                                        layouts=["contiguous"])  # fmt: skip


def test_cases_of_the_engine() -> None:
    """A sound kernel passes; one that reads and writes an element too many does not, but where a block ends with it."""
    sound = fuzzed(RELU)
    assert sound.ok and sound.passed == 20, sound
    over = fuzzed(OVER)
    assert over.failed > 0 and over.passed + over.failed == 20, over
    assert {(f.verdict, f.reason) for f in over.failures} == {("fail", "oob_write")}
    for failure in over.failures:
        assert {f["kind"] for f in failure.findings} >= {"oob_read", "oob_write"}
        assert all("PTX line" in f["sentence"] for f in failure.findings if f["kind"] == "oob_read")


def test_a_case_that_is_not_executed() -> None:
    refused = fuzzed(RELU, budget=1)
    assert refused.not_run == 20 and not refused.ok


def test_cuda_kernel(tmp_path: Path) -> None:
    kernel = cuda_kernel(OVER, "over", checks="none")
    x, y = np.array([-1, 1], np.float32), np.zeros(2, np.float32)
    kernel(1, 32, (x, y, 0, 2))
    assert y.tolist() == [0, 1]
    assert kernel((0, 1), 32, (x, y, 0, 2)).ok
    file = tmp_path / "over.ptx"
    file.write_text(OVER)
    with pytest.raises(EmulationError, match="oob_write"):
        cuda_kernel(file)(1, 32, (x, y, 0, 2))
    with pytest.raises(ClientError, match="there is no option check"):
        cuda_kernel(RELU, check="all")


SOURCE = """
template <typename T> __device__ T larger(T a, T b) { return a > b ? a : b; }
__global__ void relu(const float *x, float *y, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i <= n) y[i] = larger(x[i], LEAST);
}
"""


def test_cuda_source(tmp_path: Path) -> None:
    """Through clang or nvcc: a finding has the line of the source."""
    names = ["nvcc", "clang", *(f"clang-{n}" for n in range(14, 30))]
    if not any(shutil.which(name) for name in names):
        pytest.skip("there is neither nvcc nor clang")
    path = tmp_path / "relu.cu"
    path.write_text(SOURCE)
    kernel = cuda_kernel(path, "relu", flags=["-DLEAST=0.5f"])
    x, y = np.zeros(100, np.float32), np.zeros(101, np.float32)
    kernel(1, 100, (x, y, 99))
    assert (y[:100] == 0.5).all()
    with pytest.raises(EmulationError, match=r"oob_read at (\./)?relu\.cu:5: block 0,0,0, thread 100"):
        kernel(1, 128, (x, y, 100))
    with pytest.raises(ClientError, match=r"kernel\.cu.*LEAST"):
        cuda_kernel(SOURCE)(1, 1, (x, y, 1))


def test_between_the_rows_of_a_view(client: Client) -> None:
    whole = np.zeros((8, 32), np.float32)
    rows = whole[:, :16]
    copied = np.zeros(256, np.float32)
    for n, found in ((16, set()), (17, {"oob_read"})):
        args = {"x": rows, "y": copied, "s": 0, "n": n}
        result = client.emulate(RELU, grid=1, block=32, args=args)
        assert kinds(result) == found
    assert "byte 64 of x, behind the valid part from 0 to 64" in result.findings[0].message
    assert kinds(client.emulate(RELU, grid=1, block=32, args=args, bounds="storage")) == set()
    both = [rows, whole[:, 16:], 0, 1]  # they cover everything together
    assert kinds(client.emulate(RELU, grid=1, block=1, args=both)) == set()
    assert kinds(client.emulate(RELU, grid=1, block=1, args=[whole.T[:16], copied, 0, 1])) == set()


def test_parts_of_arrays() -> None:
    a = np.zeros((6, 8, 10), np.int16)
    at = a.__array_interface__["data"][0]

    def parts(view: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
        memory = _launch._numpy_memory(view, "view")
        assert min(p[0] for p in memory.parts) == memory.low and max(p[1] for p in memory.parts) == memory.high
        return sorted((begin - at, end - at) for begin, end in memory.parts)

    assert parts(a) == parts(a.T) == parts(a[::-1, :, ::-1]) == [(0, 960)]
    assert parts(a[2:4]) == [(320, 640)]
    assert parts(a[:, 1:3]) == parts(a[::-1, 1:3].T) == [(160 * i + 20, 160 * i + 60) for i in range(6)]
    assert parts(a[0, 0, ::3]) == [(0, 2), (6, 8), (12, 14), (18, 20)]
    assert parts(np.broadcast_to(a[0, 0], (5, 10))) == [(0, 20)]
    assert parts(np.lib.stride_tricks.sliding_window_view(a[0, 0], 3)) == [(0, 20)]
    many = np.zeros((100, 100, 4), np.int8)[:, :, :2]  # ten thousand pieces are too many, a hundred rows are not
    assert len(_launch._numpy_memory(many[:, :50], "view").parts) == 100
