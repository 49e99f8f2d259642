"""CUDA C++ without a GPU: a source is compiled once, and its launches are executed by the emulator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ._launch import emulate, sizes
from .client import Client
from .emulation import EmulationResult, settle
from .results import ClientError


class CudaKernel:
    """A kernel of CUDA C++ or PTX that runs on arrays of numpy or tensors of torch on the CPU; cuda_kernel makes it.

    Called as kernel(grid, block, args, shared_mem=0), like a RawKernel of CuPy. Arrays are read and written in place,
    numbers have the types of the kernel's parameters. Findings are raised as EmulationError.
    """

    gpuemu_takes_arrays = True  # raw_kernel passes arrays, no pointers

    def __init__(
        self, source: str | os.PathLike[str], entry: str | None, compile_options: dict[str, Any],
        options: dict[str, Any], client: Client | None,
    ) -> None:  # fmt: skip
        self.name = entry or ""
        self._source = source
        self._compile_options = compile_options
        self._bounds = str(options.pop("bounds", "view"))
        self._options = options
        self._client = client
        self._ptx = ""
        text = os.fspath(source)
        if text.endswith(".ptx") and "\n" not in text:
            with open(text, encoding="utf-8") as file:
                self._ptx = file.read()
        elif text.lstrip().startswith(("//", ".version")) and ".version" in text:
            self._ptx = text

    @property
    def client(self) -> Client:
        """The client that launches are sent with."""
        if self._client is None:
            self._client = Client()
        return self._client

    @property
    def ptx(self) -> str:
        """The compiled module; compiled when it is first asked for."""
        if not self._ptx:
            self._ptx = self.client.compile_cuda(self._source, **self._compile_options)
        return self._ptx

    def __call__(self, grid: Any, block: Any, args: Sequence[Any], shared_mem: int = 0) -> EmulationResult:
        """Launches the kernel; an empty grid does nothing."""
        if 0 in sizes(grid):
            return EmulationResult("passed", self.name, [])
        options = {**self._options, "entry": self.name, "dynamic_shared": shared_mem}
        result = emulate(self.client, self.ptx, options, grid, block, args, (), self._bounds)
        settle(result)
        return result


_OPTIONS = {"checks", "schedules", "budget", "counters", "sfu", "contract", "bounds", "memory"}


def cuda_kernel(
    source: str | os.PathLike[str], entry: str | None = None, compiler: str | None = None, *, arch: str = "sm_80",
    flags: Sequence[str] = (), client: Client | None = None, **options: Any,
) -> CudaKernel:  # fmt: skip
    """A kernel of CUDA C++ that is executed on the CPU: kernel(grid, block, args, shared_mem=0).

    The source is compiled when the kernel is first launched, by nvcc where it is installed, else by clang, which knows
    the language and what kernels usually call, but not CUDA's headers. It works with raw_kernel, too.

    Args:
        source: text of CUDA C++ or PTX, or the path of a .cu or .ptx file.
        entry: name of the kernel, without its mangling; default: the only one.
        compiler: "nvcc" or "clang".
        arch: what is compiled for.
        flags: further arguments of the compiler.
        client: a client to use; default: one of its own.
        **options: checks, schedules, budget, counters, sfu, contract, bounds and memory as of Client.emulate.
    """
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise ClientError(f"there is no option {unknown[0]}", hint="there are " + ", ".join(sorted(_OPTIONS)))
    compile_options = {"arch": arch, "flags": tuple(flags), "compiler": compiler}
    return CudaKernel(source, entry, compile_options, options, client)
