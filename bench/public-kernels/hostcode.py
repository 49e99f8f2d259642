"""CUDA C++ of public projects with its own host code, on a runtime without a device (runtime.cpp).

A source is compiled twice by nvcc: to PTX, and to a shared library whose launches arrive here. Their grids, blocks and
arguments are those of the project. A pointer is the piece of device memory that it points into, as a whole.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
from typing import Any

import numpy as np
from record import NotExecuted, Recorder

import gpuemu

BUDGET = 400_000_000  # instructions of warps per launch
ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\((.*?)\)", re.DOTALL)
PARAM = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)(?:\s+\.ptr[^,\n]*?)?\s+[\w$]+(?:\[(\d+)\])?\s*(?:,|$)")
SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
CALLBACK = ctypes.CFUNCTYPE(
    None,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.POINTER(ctypes.c_uint),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_size_t,
)


@dataclasses.dataclass(frozen=True)
class Tools:
    """Where the compiler, CUDA's headers and those of cublas are; work is for what is built."""

    nvcc: str
    includes: tuple[str, ...]
    work: pathlib.Path

    def run(self, *args: str, cwd: str | os.PathLike[str] | None = None) -> None:
        """Runs a compiler; its messages are the error."""
        done = subprocess.run(args, capture_output=True, text=True, cwd=cwd)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            raise RuntimeError("; ".join(errors[:3]) or done.stderr[-300:])

    def runtime(self) -> pathlib.Path:
        """The runtime without a device, as an object that every library has a copy of: torch brings CUDA's own."""
        out = self.work / "runtime.o"
        source = pathlib.Path(__file__).with_name("runtime.cpp")
        if not out.exists() or out.stat().st_mtime < source.stat().st_mtime:
            include = pathlib.Path(self.nvcc).parent.parent / "include"
            flags = [f"-I{p}" for p in (include, *self.includes)]
            self.run("g++", "-O2", "-c", "-fPIC", *flags, "-o", str(out), str(source))
        return out

    def library(self, sources: list[pathlib.Path], name: str, flags: tuple[str, ...] = ()) -> list[pathlib.Path]:
        """NAME.so of sources: host code whose launches and calls of CUDA go to the runtime. Returns their PTX."""
        so = self.work / f"{name}.so"
        if not so.exists():
            objects = []
            for source in sources:
                out = self.work / f"{source.name}.o"
                if not out.exists():
                    self.compile(source, out, flags)
                objects.append(str(out))
            link = ["--unresolved-symbols=ignore-all", "-Bsymbolic"]
            self.run("g++", "-shared", *(f"-Wl,{o}" for o in link), "-o", str(so), *objects, str(self.runtime()))
        self.stubs(so)
        ptx = [self.work / f"{s.stem}.ptx" for s in sources]
        return [p for p in ptx if p.exists()]  # host code alone has none

    def compile(self, source: pathlib.Path, out: pathlib.Path, flags: tuple[str, ...]) -> None:
        """An object of the host code; what nvcc makes of the device code stops at PTX, which is kept beside it."""
        includes = [f"-I{p}" for p in self.includes]
        if source.suffix == ".c":
            self.run("gcc", "-c", "-O2", "-w", "-fPIC", *flags, "-o", str(out), str(source))
            return
        keep = self.work / f"{source.stem}.keep"
        keep.mkdir(exist_ok=True)
        target = [
            "-gencode",
            "arch=compute_80,code=compute_80",
            "-O3",
            "-std=c++17",
            "-lineinfo",
            "-Xcompiler",
            "-fPIC,-w",
        ]
        self.run(
            self.nvcc,
            *target,
            *includes,
            *flags,
            "--keep",
            "--keep-dir",
            str(keep),
            "-c",
            "-o",
            str(out),
            str(source),
            cwd=source.parent,
        )
        for ptx in keep.glob("*.ptx"):
            ptx.replace(self.work / f"{source.stem}.ptx")
        shutil.rmtree(keep)

    def stubs(self, so: pathlib.Path) -> None:
        """Functions that a library names, and neither it nor the system has: they end the process."""
        linked = subprocess.run(["ldd", "-r", str(so)], capture_output=True, text=True)
        missing = set(re.findall(r"undefined symbol: (\w+)", linked.stdout + linked.stderr))
        text = "#include <stdio.h>\n#include <stdlib.h>\n" + "".join(
            f'void {name}(void) {{ fputs("no {name} here\\n", stderr); exit(3); }}\n' for name in sorted(missing)
        )
        source = so.with_suffix(".stubs.c")
        source.write_text(text)
        self.run("gcc", "-w", "-fno-builtin", "-shared", "-fPIC", "-o", str(so.with_suffix(".stubs.so")), str(source))

    def load(self, name: str) -> ctypes.CDLL:
        """Loads a library."""
        ctypes.CDLL(str(self.work / f"{name}.stubs.so"), mode=ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(str(self.work / f"{name}.so"))


def tools_of(folder: str) -> Tools:
    """The tools as NVCC and CUDA_INCLUDES name them."""
    includes = tuple(p for p in os.environ.get("CUDA_INCLUDES", "").split(":") if p)
    work = pathlib.Path(folder)
    work.mkdir(parents=True, exist_ok=True)
    return Tools(os.environ.get("NVCC", "nvcc"), includes, work)


def parameters(ptx: str) -> dict[str, list[tuple[str, int]]]:
    """Kernels of a module by name: the type and size of each parameter; structs have the type "b8" and more bytes."""
    found = {}
    for name, text in ENTRY.findall(ptx):
        found[name] = [
            (kind, int(count) if count else SIZES[kind.lstrip("bsuf")]) for kind, count in PARAM.findall(text.strip())
        ]
    return found


class Device:
    """Executes the launches of a library."""

    def __init__(self, library: ctypes.CDLL, recorder: Recorder, modules: list[pathlib.Path]) -> None:
        self.recorder = recorder
        self.client = gpuemu.Client()
        self.runtime = library
        self.kernels: dict[str, tuple[pathlib.Path, list[tuple[str, int]]]] = {}
        for path in modules:
            for name, params in parameters(path.read_text()).items():
                self.kernels[name] = (path, params)
        self.failed: Exception | None = None
        self._callback = CALLBACK(self._launched)
        self.runtime.gpuemu_on_launch(self._callback)

    def share(self, tensor: Any) -> ctypes.c_void_p:
        """Makes a tensor of torch memory of the device; returns its address."""
        at = ctypes.c_void_p(tensor.data_ptr())
        size = tensor.numel() * tensor.element_size()
        self.runtime.gpuemu_add_memory(at, ctypes.c_size_t(max(size, 1)))
        return at

    def settle(self) -> None:
        """Raises what a launch raised: exceptions do not pass through the host code."""
        failed, self.failed = self.failed, None
        if failed is not None:
            raise failed

    def _launched(self, name: bytes, grid: Any, block: Any, args: Any, shared: int) -> None:
        if self.failed is not None:
            return
        try:
            self._launch(name.decode(), grid[:3], block[:3], args, shared)
        except Exception as exc:  # it is raised again by settle
            self.failed = exc

    def _launch(self, mangled: str, grid: list[int], block: list[int], args: Any, shared: int) -> None:
        name, spec = readable(mangled)
        if mangled not in self.kernels:
            raise RuntimeError(f"no PTX of {name}")
        path, params = self.kernels[mangled]
        if any(kind == "b8" and size > 8 for kind, size in params):
            self.recorder.skipped(name, path.stem, "struct parameter")
            raise NotExecuted(f"{name}: struct parameter")
        values = [self._value(size, args[i]) for i, (_, size) in enumerate(params)]
        if 0 in grid:
            return
        result = self.client.emulate(
            path, mangled, grid=grid, block=block, args=values, shared=shared, bounds="storage", budget=BUDGET
        )
        self.recorder.launch(name, path.stem, spec, grid, block, result, f"// {path.name}: {mangled}\n")

    def _value(self, size: int, at: int) -> Any:
        raw = ctypes.string_at(at, size)
        if size == 8:
            address = int.from_bytes(raw, "little")
            begin, length = ctypes.c_void_p(), ctypes.c_size_t()
            if self.runtime.gpuemu_find(ctypes.c_void_p(address), ctypes.byref(begin), ctypes.byref(length)):
                whole = np.frombuffer((ctypes.c_ubyte * length.value).from_address(begin.value or 0), np.uint8)
                return whole[address - (begin.value or 0) :]
        return np.frombuffer(raw, f"u{size}")[0]


def readable(mangled: str) -> tuple[str, str]:
    """A kernel's name, and what tells its specializations apart."""
    done = subprocess.run(["c++filt", mangled], capture_output=True, text=True)
    whole = done.stdout.strip() or mangled
    plain = re.sub(r"^void ", "", whole)
    name = re.match(r"[\w:()\s]*?(\w+)(?=[<(]|$)", plain)
    return (
        name.group(1) if name else mangled,
        plain.split("(")[0][:80].replace("/", "_").replace(" ", "") + mangled[-8:],
    )
