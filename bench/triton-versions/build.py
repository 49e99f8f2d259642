"""Compiles the kernels of this folder by the Triton that is installed, and writes launches of them.

    build.py DIR [--seeds N] [--suites LIST] [--only TEXT]

DIR/VERSION/NAME.ptx are the modules, DIR/VERSION.*.json launch files for gpuemu emulate --case, DIR/data their data,
which all versions share. DIR/VERSION.SUITE.jsonl has a line for each build: where its launches are, or why it does not
compile. Suites that did not change are not compiled again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from launches import KINDS, Case, Launch, Tensor, encode, variants

SUITES = ("reductions", "rows", "products", "recurrent", "indices", "elements", "fixtures", "corpus")

NEEDED = ("build", "launches")  # modules that all suites need
ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = {
    "fixtures": (*(ROOT / "bench/triton-versions" / f for f in ("elements.py", "rows.py")),
                 ROOT / "testdata/kernels/triton/kernels.py"),
    "corpus": tuple(sorted((ROOT / "internal/corpus/kernels").glob("*"))),
}  # fmt: skip


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
    doc = {"kind": "tensor", "name": name, "dtype": KINDS[value.kind][0], "shape": list(value.shape),
           "role": value.role}  # fmt: skip
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


def reason(e: BaseException) -> str:
    """Why something does not compile, in one line."""
    chain = [str(x) for x in (e, e.__cause__, e.__context__) if x is not None and str(x)]
    text = " ".join(" ".join(chain or [traceback.format_exc()]).split())
    return text if len(text) < 400 else f"{text[:120]} ... {text[-280:]}"


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
        return row | {"error": reason(e)}
    ptx = f"{version}/{name}.ptx"
    (root / ptx).write_text(compiled.asm["ptx"])
    files = []
    for seed, launch in enumerate(launches):
        file = f"{version}.{name}.{seed}.json"
        (root / file).write_text(json.dumps(launch_file(root, case, launch, seed, compiled, ptx)))
        files.append(file)
    return row | {"launches": files}


def fingerprint(suite: str, seeds: int) -> str:
    """What the builds of a suite depend on besides the version of Triton."""
    here = pathlib.Path(__file__).parent
    files = [here / f"{name}.py" for name in (*NEEDED, suite)]
    files += SOURCES.get(suite, ())
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest() + f" {seeds}"


def builds(root: pathlib.Path, version: str, suite: str, seeds: int, only: str) -> Iterator[dict[str, Any]]:
    """The lines of all builds of a suite."""
    for case in importlib.import_module(suite).CASES:
        if only not in f"{suite}/{case.name}":
            continue
        launches = [draw(case, seed) for seed in range(seeds)]
        for arch in case.archs:
            for warps, stages in variants(case):
                yield build(root, version, suite, case, launches, arch, warps, stages)


def build_suite(root: pathlib.Path, version: str, suite: str, seeds: int, only: str) -> tuple[int, int]:
    """Builds the cases of a suite unless they are there already; how many builds there are, and how many failed."""
    index, key = root / f"{version}.{suite}.jsonl", root / f"{version}.{suite}.key"
    want = f"{fingerprint(suite, seeds)} {only}"
    if not (key.exists() and key.read_text() == want):
        key.unlink(missing_ok=True)
        module = importlib.import_module(suite)
        rows = module.build_all(root, version, only) if suite == "corpus" else builds(root, version, suite, seeds, only)
        with open(index, "w") as out:
            for row in rows:
                print(json.dumps(row), file=out, flush=True)
        key.write_text(want)
    rows = [json.loads(line) for line in index.read_text().splitlines()]
    return len(rows), sum("error" in row for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="compiles kernels by the Triton that is installed")
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=2, help="launches with other data of each build")
    parser.add_argument("--only", default="", help="cases whose SUITE/NAME contains this text")
    parser.add_argument("--suites", default=",".join(SUITES), help="some of %(default)s")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"TRITON_CACHE_DIR": cache, "TRITON_ALWAYS_COMPILE": "1"}
        import triton

        (args.dir / triton.__version__).mkdir(parents=True, exist_ok=True)
        for suite in args.suites.split(","):
            start = time.monotonic()
            builds, failed = build_suite(args.dir, triton.__version__, suite, args.seeds, args.only)
            seconds = time.monotonic() - start
            line = f"{triton.__version__} {suite}: {builds} builds, {failed} do not compile, {seconds:.0f} s"
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.modules["build"] = sys.modules["__main__"]  # corpus imports it
    sys.exit(main())
