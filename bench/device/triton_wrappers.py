"""Unchanged Triton wrappers on the GPU and in the emulator: the same bits, or how far they are apart.

usage: triton_wrappers.py, on a machine with a GPU, torch, Triton and bin/gpuemu. Prints a table in Markdown. Both sides
are compiled for the architecture of the GPU, by the same Triton.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable

import torch
import triton

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python" / "src"), str(ROOT / "python" / "tests")]

import kernels_triton as k  # noqa: E402

import gpuemu  # noqa: E402

Wrapper = Callable[..., Any]


def softmax(x: Any) -> Any:
    y = torch.empty_like(x)
    k.softmax_rows[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    y = torch.empty_like(x)
    k.layernorm[(x.shape[0],)](x, scale, shift, y, x.shape[1], 1e-5, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def matmul(a: Any, b: Any) -> Any:
    (m, kk), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    k.matmul[(triton.cdiv(m, 64), triton.cdiv(n, 64))](a, b, c, m, n, kk, BM=64, BN=64, BK=32)
    return c


def double(x: Any) -> Any:
    y = torch.empty_like(x)
    k.double[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y


def count(x: Any) -> Any:
    total = torch.zeros(1, device=x.device, dtype=torch.int32)
    k.count[(triton.cdiv(x.numel(), 128),)](x, total, x.numel(), BLOCK=128)
    return total


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def main() -> None:
    major, minor = torch.cuda.get_device_capability()
    half, brain = torch.float16, torch.bfloat16
    cases: list[tuple[str, Wrapper, list[torch.Tensor]]] = [
        ("double float32[1000]", double, [normal(1000)]),
        ("count int32[1000]", count, [torch.arange(1000, dtype=torch.int32)]),
        ("softmax float32[37,1000]", softmax, [normal(37, 1000)]),
        ("softmax float16[37,1000]", softmax, [normal(37, 1000, dtype=half)]),
        ("softmax float32, a view of odd columns", softmax, [normal(37, 1000)[:, 1:778]]),
        ("layernorm float32[37,1000]", layernorm, [normal(37, 1000), normal(1000), normal(1000)]),
        ("matmul float16[100,90]·[90,70]", matmul, [normal(100, 90, dtype=half), normal(90, 70, dtype=half)]),
        ("matmul bfloat16[128,256]·[256,128]", matmul, [normal(128, 256, dtype=brain), normal(256, 128, dtype=brain)]),
    ]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}\n")
    print("| wrapper | elements | other bits | largest difference |\n|---|---:|---:|---:|")
    for name, wrapper, args in cases:
        got_gpu = wrapper(*[a.cuda() if a.is_contiguous() else a._base.cuda()[:, 1:778] for a in args]).cpu()
        with gpuemu.emulated_triton(f"sm_{major}{minor}"):
            got = wrapper(*args)
        other = int((got.view(torch.uint8) != got_gpu.view(torch.uint8)).reshape(got.numel(), -1).any(1).sum())
        apart = float((got.double() - got_gpu.double()).abs().max())
        print(f"| {name} | {got.numel()} | {other} | {apart:.3g} |")


if __name__ == "__main__":
    main()
