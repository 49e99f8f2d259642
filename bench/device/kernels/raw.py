"""CUDA C kernels, compiled by CuPy on the device, on the tensors of PyTorch: sum, relu, scatter_add."""

from __future__ import annotations

import functools
from typing import Any

from .spec import Bug, Kernel, planted

TYPES = {"torch.float32": "float", "torch.float64": "double"}

SOURCE = r"""
extern "C" __global__ void row_sum(const T* x, T* out, int S, int H, long long sb, long long ss, long long sh) {
    __shared__ T part[256];
    const T* row = x + (blockIdx.x / S) * sb + (blockIdx.x % S) * ss;
    T acc = 0;
    for (int h = threadIdx.x; h < H; h += blockDim.x) acc += row[h * sh];
    part[threadIdx.x] = acc;
    BARRIER;
    for (int n = blockDim.x / 2; n > 0; n /= 2) {
        if (threadIdx.x < n) part[threadIdx.x] += part[threadIdx.x + n];
        BARRIER;
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void relu(const T* x, T* out, int n, int limit, int S, int H, long long sb, long long ss,
                                long long sh) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= limit) return;
    int j = i < n ? i : n - 1;
    T v = x[(long long)(j / (S * H)) * sb + (long long)(j / H % S) * ss + (long long)(j % H) * sh];
    out[i] = v <= 0 ? (T)0 : v;
}

extern "C" __global__ void scatter_add(const T* src, const long long* index, T* out, int R, int D, long long sr,
                                       long long sd, long long si) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= R * D) return;
    T* to = out + index[i / D * si] * D + i % D;
    T v = src[i / D * sr + i % D * sd];
    ADD;
}
"""


@functools.cache
def _compiled(name: str, dtype: str, bug: str) -> Any:
    """The kernel as CuPy compiles it; the bugs of a race are another barrier and another addition."""
    import cupy

    barrier = "" if bug == "barrier" else "__syncthreads()"
    addition = "*to = *(volatile T*)to + v" if bug == "race" else "atomicAdd(to, v)"
    head = f"#define T {TYPES[dtype]}\n#define BARRIER {barrier}\n#define ADD {addition}\n"
    return cupy.RawKernel(head + SOURCE, name)


def _launch(name: str, bug: str, like: Any, blocks: int, args: tuple[int, ...]) -> None:
    """Launches on the default stream, which is that of PyTorch as well. Integers are passed with their C type."""
    import numpy as np

    kernel = _compiled(name, str(like.dtype), bug)
    kinds = {
        "row_sum": "qqiiqqq",
        "relu": "qqiiiiqqq",
        "scatter_add": "qqqiiqqq",
    }[name]
    typed = tuple(np.int64(a) if kind == "q" else np.int32(a) for kind, a in zip(kinds, args))
    kernel((blocks,), (256,), typed)


def row_sum(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    x, out = inputs["input"], outputs["output"]
    if out.numel() == 0:
        return
    b, s, h = x.shape
    _launch("row_sum", bug, x, b * s, (x.data_ptr(), out.data_ptr(), s, h, *x.stride()))


def relu(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    x, out = inputs["input"], outputs["output"]
    n = out.numel()
    if n == 0:
        return
    limit = n + 1 if bug == "overrun" else n - 1 if bug == "tail" else n
    args = (x.data_ptr(), out.data_ptr(), n, limit, x.shape[1], x.shape[2], *x.stride())
    _launch("relu", bug, x, (limit + 255) // 256 or 1, args)


def scatter_add(inputs: dict[str, Any], outputs: dict[str, Any], bug: str = "") -> None:
    x, index, src, out = inputs["input"], inputs["index"], inputs["src"], outputs["output"]
    out.copy_(x)
    if src.numel() == 0:
        return
    (r, d), (sr, sd) = src.shape, src.stride()
    args = (src.data_ptr(), index.data_ptr(), out.data_ptr(), r, d, sr, sd, index.stride(0))
    _launch("scatter_add", bug, src, (r * d + 255) // 256, args)


WIDE = ("float32", "float64")
SUM = Kernel("cuda_sum", "sum", WIDE, row_sum)
RELU = Kernel("cuda_relu", "relu", WIDE, relu)
SCATTER = Kernel("cuda_scatter_add", "scatter_add", WIDE, scatter_add)

KERNELS = [
    SUM, RELU, SCATTER,
    planted(SUM, "barrier", Bug("race", "has no barrier between the steps of its reduction", "nondeterministic"),
            repeat=True),
    planted(RELU, "overrun", Bug("write past the end", "writes one element too many", "overrun")),
    planted(RELU, "tail", Bug("tail not written", "stops one element early", "not_fully_written")),
    planted(SCATTER, "race", Bug("race", "adds without atomicAdd", "nondeterministic"), repeat=True),
]  # fmt: skip
