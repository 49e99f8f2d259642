"""Compiles the kernels of this folder by the Triton that is installed, and writes launches of them.

    build.py DIR [--seeds N] [--only TEXT]

DIR/VERSION/NAME.ptx are the modules, DIR/VERSION.*.json launch files for gpuemu emulate --case, DIR/data their data, which
all versions share. DIR/VERSION.jsonl has a line for each build: where its launches are, or why it does not compile.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import re
import sys
import tempfile
import traceback
import zlib
from typing import Any

import numpy as np
from launches import KINDS, Case, Launch, Tensor, encode, variants

SUITES = ("reductions", "rows", "products", "recurrent", "indices", "elements")


class Pointer:
    """A tensor as Triton's specialization sees it: its type, and an address that is aligned to 16 bytes."""

    def __init__(self, kind: str, address: int = 1 << 20) -> None:
        self.dtype = KINDS[kind][1]
        self.address = address

    def data_ptr(self) -> int:
        """The address that the specialization looks at."""
        return self.address


class Driver:
    """A driver of Triton that has no device."""

    def __init__(self, capability: int) -> None:
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> Any:
        """What is compiled for."""
        return self.target

    def get_current_device(self) -> int:
        """The key of the cache of compiled kernels."""
        return self.target.arch

    def get_current_stream(self, device: Any = None) -> int:
        """There is one stream only."""
        return 0


def compile_kernel(kernel: Any, args: dict[str, Any], arch: int, options: dict[str, Any]) -> Any:
    """What Triton compiles for a launch with these arguments: the way of a launch on a GPU, up to the PTX."""
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.runtime import driver

    CUDABackend.make_cubin = lambda *args, **kwargs: b""  # what ptxas makes of the PTX is not looked at
    driver.set_active(Driver(arch))
    return kernel.warmup(**args, grid=(1,), **options)


def parameters(ptx: str) -> list[str]:
    """The types of the parameters of the only kernel of a module."""
    head = ptx[ptx.index(".entry") :]
    return re.findall(r"\.param \.(\w+)", head[: head.index(")")])


def argument(name: str, value: Any, folder: pathlib.Path, root: pathlib.Path) -> tuple[dict[str, Any], Any]:
    """An argument of a launch file, and what is expected of it or None. Data is written where it is not there yet."""
    if isinstance(value, int):
        wide = not -(1 << 31) <= value < 1 << 31
        return {"kind": "scalar", "name": name, "dtype": "int64" if wide else "int32", "value": value}, None
    if isinstance(value, float):
        return {"kind": "scalar", "name": name, "dtype": "float32", "value": repr(value)}, None
    doc = {"kind": "tensor", "name": name, "dtype": KINDS[value.kind][0], "shape": list(value.shape), "role": value.role}
    for key, elements in (("file", value.data), ("want", value.want)):
        if elements is None:
            continue
        path = folder / f"{name}.{key}"
        if not path.exists():
            path.write_bytes(encode(elements, value.kind).tobytes())
        if key == "file":
            doc["file"] = str(path.relative_to(root))
    if value.want is None:
        return doc, None
    want = {"name": name, "file": str((folder / f"{name}.want").relative_to(root))}
    if value.tolerance > 0:
        finite = np.abs(value.want[np.isfinite(value.want)])
        want |= {"match": "abs", "abs": value.tolerance * float(finite.max(initial=0.0))}
    return doc, want


def launch_file(root: pathlib.Path, case: Case, launch: Launch, seed: int, compiled: Any, ptx: str) -> dict[str, Any]:
    """The launch of a compiled kernel."""
    folder = root / "data" / case.name / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    args, expected = [], []
    for name, value in launch.args.items():
        if isinstance(value, int) and value == 1:
            continue  # Triton makes a constant of it
        doc, want = argument(name, value, folder, root)
        args.append(doc)
        expected += [want] if want is not None else []
    kinds = parameters((root / ptx).read_text())
    sizes = [getattr(compiled.metadata, name + "_scratch_size", 0) or 0 for name in ("global", "profile")]
    extra = len(kinds) - len(args)
    if extra not in (0, 1, 2):
        raise ValueError(f"{len(kinds)} parameters for {len(args)} arguments")
    for name, size in list(zip(("global_scratch", "profile_scratch"), sizes))[:extra]:
        if size:
            shape = [size * int(np.prod(launch.grid))]
            path = folder / f"zeros.{shape[0]}"
            path.write_bytes(bytes(shape[0]))
            args.append({"kind": "tensor", "name": name, "dtype": "uint8", "shape": shape, "role": "inout",
                         "file": str(path.relative_to(root))})  # fmt: skip
        else:
            args.append({"kind": "scalar", "name": name, "dtype": "int64", "value": 0})
    return {"ptx": ptx, "grid": list(launch.grid), "block": [32 * compiled.metadata.num_warps],
            "dynamic_shared": compiled.metadata.shared, "args": args, "expected": expected}  # fmt: skip


def draw(case: Case, seed: int) -> Launch:
    """The launch of a case for a seed: the same for all versions."""
    return case.draw(np.random.default_rng([seed, zlib.crc32(case.name.encode())]))


def build(root: pathlib.Path, version: str, suite: str, case: Case, launches: list[Launch], arch: int, warps: int,
          stages: int) -> dict[str, Any]:  # fmt: skip
    """Compiles one build; the line about it."""
    name = f"{case.name}.w{warps}s{stages}.sm_{arch}"
    row = {"version": version, "suite": suite, "kernel": case.kernel.fn.__name__, "build": name}
    args = {k: Pointer(v.kind) if isinstance(v, Tensor) else v for k, v in launches[0].args.items()}
    try:
        options = {"num_warps": warps, "num_stages": stages, **case.options}
        compiled = compile_kernel(case.kernel, args | case.constants, arch, options)
    except Exception as e:  # whatever a compiler raises, it does not compile
        chain = [str(x) for x in (e, e.__cause__, e.__context__) if x is not None and str(x)]
        text = " ".join(" ".join(chain or [traceback.format_exc()]).split())
        return row | {"error": text if len(text) < 400 else f"{text[:120]} ... {text[-280:]}"}
    ptx = f"{version}/{name}.ptx"
    (root / ptx).write_text(compiled.asm["ptx"])
    files = []
    for seed, launch in enumerate(launches):
        file = f"{version}.{name}.{seed}.json"
        (root / file).write_text(json.dumps(launch_file(root, case, launch, seed, compiled, ptx)))
        files.append(file)
    return row | {"launches": files}


def main() -> int:
    parser = argparse.ArgumentParser(description="compiles kernels by the Triton that is installed")
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=2, help="launches with other data of each build")
    parser.add_argument("--only", default="", help="cases whose SUITE/NAME contains this text")
    args = parser.parse_args()
    folder = tempfile.TemporaryDirectory()  # Triton's cache
    os.environ |= {"TRITON_CACHE_DIR": folder.name, "TRITON_ALWAYS_COMPILE": "1"}
    import triton

    version = triton.__version__
    root: pathlib.Path = args.dir
    (root / version).mkdir(parents=True, exist_ok=True)
    failed = 0
    fresh = root / f"{version}.new"
    with open(fresh, "w") as index, folder:
        for suite in SUITES:
            for case in importlib.import_module(suite).CASES:
                if args.only not in f"{suite}/{case.name}":
                    continue
                launches = [draw(case, seed) for seed in range(args.seeds)]
                for arch in case.archs:
                    for warps, stages in variants(case):
                        row = build(root, version, suite, case, launches, arch, warps, stages)
                        print(json.dumps(row), file=index)
                        failed += "error" in row
                        if "error" in row:
                            print(f"{version} {row['build']}: {row['error']}", file=sys.stderr)
    fresh.replace(root / f"{version}.jsonl")
    print(f"{version}: {failed} builds do not compile", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
