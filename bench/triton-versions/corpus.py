"""The Triton kernels of internal/corpus as projects whose cases gpuemu fuzz draws and judges."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys
from typing import Any

import build

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHS = (80, 90)
# What stands for an argument: no size is known to be 1 or a multiple of 16, no address to be aligned.
SCALARS = {"i32": 7, "i64": (1 << 33) + 1, "fp32": 0.5}


def load() -> Any:
    """tools/corpus/build.py, which knows how the kernels are described."""
    spec = importlib.util.spec_from_file_location("corpus_build", ROOT / "tools/corpus/build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def compile_spec(tools: Any, spec: Any, dtype: str, arch: int) -> Any:
    """A kernel in a format, compiled for any sizes."""
    kernel = tools.module_of(spec, spec.source.read_text())[spec.entry]
    kinds = iter(spec.signature)
    args = {}
    for p in kernel.params:
        if p.name in spec.constants:
            args[p.name] = spec.constants[p.name]
            continue
        kind = next(kinds).replace("T", tools.TRITON_TYPES[dtype])
        args[p.name] = build.Pointer(kind[1:], (1 << 20) + 4) if kind.startswith("*") else SCALARS[kind]
    return build.compile_kernel(kernel, args, arch, {"num_warps": spec.warps, "num_stages": spec.stages})


def toml(value: Any) -> str:
    """A value of gpuemu.toml."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def entry(spec: Any, dtypes: list[str], shared: int, parameters: int) -> str:
    """A kernel's part of gpuemu.toml. The last arguments are those of scratch memory, which not all versions have."""
    args = spec.launch["args"]
    if not len(args) - 2 <= parameters <= len(args) or args[-2:] != [0, 0]:
        raise ValueError(f"{spec.name}: {parameters} parameters for {len(args)} arguments")
    lines = {"name": spec.name, "schema": spec.op, "dtypes": dtypes}
    lines |= {key: v for key in ("attributes", "max_sizes") if (v := getattr(spec, key))}
    kernel = {"ptx": f"ptx/{spec.name}.{{dtype}}.ptx", "entry": spec.entry, "grid": spec.launch["grid"],
              "block": spec.launch["block"], "shared": shared, "args": args[:parameters]}  # fmt: skip
    text = "".join(f"{k} = {toml(v)}\n" for k, v in lines.items())
    return f"[[ops]]\n{text}\n[ops.kernel]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in kernel.items())


def build_all(root: pathlib.Path, version: str, only: str) -> list[dict[str, Any]]:
    """A project for each architecture; a row for each kernel in each format."""
    tools, rows = load(), []
    for arch in ARCHS:
        project = f"corpus/{version}.sm_{arch}"
        (root / project / "ptx").mkdir(parents=True, exist_ok=True)
        parts = ['[project]\nname = "corpus"\n']
        for spec in tools.load_all():
            if spec.language != "triton" or only not in f"corpus/{spec.name}":
                continue
            dtypes, shared, parameters = [], 0, 0
            for dtype in spec.dtypes:
                row = {"version": version, "suite": "corpus", "kernel": spec.name,
                       "build": f"{spec.name}.{dtype}.sm_{arch}"}  # fmt: skip
                rows.append(row)
                try:
                    compiled = compile_spec(tools, spec, dtype, arch)
                except Exception as e:  # whatever a compiler raises, it does not compile
                    row["error"] = build.reason(e)
                    continue
                row["project"] = project
                ptx = compiled.asm["ptx"]
                (root / project / "ptx" / f"{spec.name}.{dtype}.ptx").write_text(ptx)
                dtypes.append(dtype)
                shared = max(shared, compiled.metadata.shared)
                parameters = len(build.parameters(ptx))
            if dtypes:
                parts.append(entry(spec, dtypes, shared, parameters))
        (root / project / "gpuemu.toml").write_text("\n".join(parts))
    return rows
