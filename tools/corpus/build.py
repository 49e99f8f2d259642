"""Compiles the kernels of internal/corpus by Triton and nvcc, for machines that need not be here.

    build.py [NAME...]      compiles base kernels in all their formats for sm_80 and sm_90 into internal/corpus/ptx
    build.py --list [NAME...]

Other programs use load, compile_text, compile_all and replace. A build is a process of its own with a limit of time: a
compiler that hangs or crashes on a mutant ends that build alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import importlib
import linecache
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "internal/corpus/kernels"
PTX = ROOT / "internal/corpus/ptx"
ARCHES = ("sm_80", "sm_90")
AT_ONCE = 2  # builds at the same time
LIMIT = 120.0  # seconds of one build; the slowest base kernel needs 5
ENDING = 10.0  # seconds that a child may take to end after its result
TRITON_TYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
CUDA_TYPES = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}
# nvcc puts a hash of the folder into names of internal symbols, in the text and, as bytes, in .debug_str.
INTERNAL = (re.compile(r"(_INTERNAL_)[0-9a-f]{8}_"), re.compile(r"(95,73,78,84,69,82,78,65,76,95,)(?:\d+,){8}95,"))
DATE = (1980, 1, 1, 0, 0, 0)  # of every file in a zip, so that a rebuild gives the same bytes


class Broken(Exception):
    """A source that gives no PTX; the text says why, in one line."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """A kernel's NAME.toml; docs/corpus.md says what the keys mean."""

    name: str
    title: str
    op: str
    family: str
    language: str
    entry: str
    dtypes: list[str]
    provenance: str
    launch: dict[str, Any]
    source: pathlib.Path
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    max_sizes: dict[str, int] = dataclasses.field(default_factory=dict)  # that the kernel is made for
    signature: list[str] = dataclasses.field(default_factory=list)
    constants: dict[str, Any] = dataclasses.field(default_factory=dict)
    warps: int = 4
    stages: int = 2

    @property
    def place(self) -> str:
        """The path that line information names: relative to the repository."""
        return f"internal/corpus/kernels/{self.source.name}"


@dataclasses.dataclass(frozen=True)
class Job:
    """One build: a text in place of the source of spec, in a format, for an architecture."""

    id: str
    spec: Spec
    text: str
    dtype: str
    arch: str = "sm_80"

    @property
    def file(self) -> str:
        """The name in the zip."""
        return f"{self.id}.{self.dtype}.{self.arch}.ptx"


def load(path: str | os.PathLike[str]) -> Spec:
    """Reads a NAME.toml; an unknown or missing key is an error."""
    path = pathlib.Path(path)
    table = tomllib.loads(path.read_text())
    build = table.pop("build", {})
    language = table.get("language")
    if language not in ("triton", "cuda"):
        raise ValueError(f'{path}: language = {language!r}: it is "triton" or "cuda"')
    source = path.with_suffix(".py" if language == "triton" else ".cu")
    try:
        spec = Spec(name=path.stem, source=source, **table, **build)
    except TypeError as e:
        raise ValueError(f"{path}: {e}: docs/corpus.md lists the keys") from None
    unknown = set(spec.dtypes) - set(TRITON_TYPES)
    if unknown or not spec.dtypes:
        raise ValueError(f"{path}: dtypes {spec.dtypes}: some of {', '.join(TRITON_TYPES)} are expected")
    return spec


def load_all(names: Iterable[str] = ()) -> list[Spec]:
    """The kernels of these names, or all, in the order of their names."""
    paths = [KERNELS / f"{n}.toml" for n in names] or sorted(KERNELS.glob("*.toml"))
    return [load(p) for p in paths]


def compile_text(spec: Spec, text: str, dtype: str, arch: str = "sm_80") -> str:
    """The PTX of a source that stands in for that of spec; raises Broken."""
    for _, result in compile_all([Job(spec.name, spec, text, dtype, arch)]):
        if isinstance(result, Broken):
            raise result
        return result
    raise AssertionError("one job has one result")


def compile_all(jobs: Iterable[Job], limit: float = LIMIT) -> Iterator[tuple[Job, str | Broken]]:
    """Builds jobs, AT_ONCE at the same time, and yields each with its PTX or with what was wrong, as they end."""
    waiting = list(jobs)[::-1]
    for module in {"triton.backends.nvidia.compiler" for job in waiting if job.spec.language == "triton"}:
        importlib.import_module(module)  # once here, not a second each in the children
    context = multiprocessing.get_context("fork")
    running: dict[Any, tuple[Job, Any, float]] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            job = waiting.pop()
            here, there = context.Pipe(duplex=False)
            child = context.Process(target=build_in_child, args=(job, there))
            child.start()
            there.close()
            running[here] = (job, child, time.monotonic() + limit)
        first = min(end for _, _, end in running.values())
        ended = multiprocessing.connection.wait(list(running), max(0.0, first - time.monotonic()))
        late = [pipe for pipe, (_, _, end) in running.items() if end <= time.monotonic() and pipe not in ended]
        for pipe in [*ended, *late]:
            job, child, _ = running.pop(pipe)
            yield job, finish(pipe, child, pipe in late, limit)


def build_in_child(job: Job, pipe: Any) -> None:
    """The child's side of a build: a group of its own, so that nvcc's parts end with it."""
    os.setpgid(0, 0)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)  # compilers print whole modules when they fail
    try:
        pipe.send(("ptx", triton_ptx(job) if job.spec.language == "triton" else cuda_ptx(job)))
    except BaseException as e:
        reason = str(e) if isinstance(e, Broken) else "".join(traceback.format_exception_only(e))
        reason = " ".join(reason.split())
        # Triton quotes the source between the place and what is wrong.
        pipe.send(("broken", reason if len(reason) <= 300 else f"{reason[:100]} ... {reason[-200:]}"))


def finish(pipe: Any, child: Any, late: bool, limit: float) -> str | Broken:
    """What came through the pipe of a child that has ended or is too late; the child is gone afterwards."""
    try:
        if late:
            return Broken(f"the compiler did not end within {limit:.0f} s")
        kind, text = pipe.recv()
        return text if kind == "ptx" else Broken(text)
    except EOFError:
        child.join()
        return Broken(f"the compiler crashed: exit status {child.exitcode}")
    finally:
        if not late:
            child.join(ENDING)
        if child.is_alive():
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                child.kill()  # it has not made its group yet
        child.join()
        pipe.close()


def triton_ptx(job: Job) -> str:
    """Compiles by Triton, without its cache and without attributes: no size is known to be a multiple of 16."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    spec = job.spec
    hide_folder(triton)
    kernel = module_of(spec, job.text).get(spec.entry)
    if not isinstance(kernel, triton.JITFunction):
        raise Broken(f"{spec.place} has no triton.jit function {spec.entry}")
    kinds = iter(spec.signature)
    signature = {
        p.name: "constexpr" if p.name in spec.constants else next(kinds, "").replace("T", TRITON_TYPES[job.dtype])
        for p in kernel.params
    }
    if "" in signature.values() or next(kinds, None) is not None:
        raise Broken(f"{spec.name}.toml: signature has {len(spec.signature)} entries, {spec.entry} takes others")
    source = ASTSource(fn=kernel, signature=signature, constexprs=spec.constants)
    with tempfile.TemporaryDirectory() as folder:
        triton.knobs.cache.dir = folder
        triton.knobs.compilation.always_compile = True
        options = {"num_warps": spec.warps, "num_stages": spec.stages}
        compiled = triton.compile(source, target=GPUTarget("cuda", int(job.arch[3:]), 32), options=options)
    needed, given = compiled.metadata.shared, spec.launch.get("shared", 0)
    if needed > given:
        raise Broken(f"{spec.name}.toml: shared = {given}, and {needed} bytes are needed in {job.dtype} on {job.arch}")
    return str(compiled.asm["ptx"])


def module_of(spec: Spec, text: str) -> dict[str, Any]:
    """Executes the text as if it lay at the kernel's place; Triton reads sources through linecache."""
    linecache.cache[spec.place] = (len(text), None, text.splitlines(keepends=True), spec.place)
    module = types.ModuleType(spec.name)
    module.__file__ = spec.place
    sys.modules[spec.name] = module
    exec(compile(text, spec.place, "exec"), vars(module))
    return vars(module)


def hide_folder(triton: Any) -> None:
    """Gives the functions of Triton's own library a path that is relative to the package, for line information."""
    root = str(pathlib.Path(triton.__file__).parent.parent) + "/"
    for module in [m for name, m in sys.modules.items() if name.startswith("triton.")]:
        for value in list(vars(module).values()):
            if isinstance(value, triton.JITFunction):
                code = value.fn.__code__
                value.fn.__code__ = code.replace(co_filename=code.co_filename.removeprefix(root))


def nvcc() -> str:
    """NVIDIA's compiler: GPUEMU_NVCC, that of make corpus, or the one on the path."""
    known = sorted(glob.glob(str(ROOT / ".cache/nvcc-venv/lib/python*/site-packages/nvidia/cu*/bin/nvcc")))
    return os.environ.get("GPUEMU_NVCC") or (known[-1] if known else "nvcc")


def cuda_ptx(job: Job) -> str:
    """Compiles by nvcc, in an empty folder with the source at its place."""
    spec = job.spec
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / spec.place
        source.parent.mkdir(parents=True)
        source.write_text(job.text)
        defines = {"ELEMENT": CUDA_TYPES[job.dtype], f"T_{job.dtype.upper()}": 1, **spec.constants}
        command = [nvcc(), "-ptx", f"-arch={job.arch}", "-std=c++17", "-lineinfo", "-O3", "-o", "out.ptx", spec.place]
        command += [f"-D{name}={value}" for name, value in defines.items()]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        except FileNotFoundError:
            raise Broken(f"{command[0]} not found: run make corpus, or set GPUEMU_NVCC") from None
        if done.returncode != 0:
            raise Broken(next((line for line in done.stderr.splitlines() if "error" in line), done.stderr))
        ptx = (pathlib.Path(folder) / "out.ptx").read_text().replace(os.path.realpath(folder) + "/", "")
    include = str(pathlib.Path(nvcc()).parent.parent / "include")
    ptx = re.sub(r'"[^"]*/(include/[^"]*)"', r'"cuda/\1"', ptx.replace(include, "/include"))
    for internal in INTERNAL:
        ptx = internal.sub(r"\1", ptx)
    if f".entry {spec.entry}(" not in ptx:
        raise Broken(f'{spec.place} has no kernel {spec.entry}: it is declared extern "C" __global__')
    return ptx


def replace(name: str, files: dict[str, str], keep: Any = lambda kernel_id: True) -> pathlib.Path:
    """Writes files (name in the zip, PTX) to ptx/NAME.zip. Of those already there, keep(id) decides; new ones win."""
    path = PTX / f"{name}.zip"
    both: dict[str, str] = {}
    if path.exists():
        with zipfile.ZipFile(path) as old:
            both = {n: old.read(n).decode() for n in old.namelist() if keep(id_of(n))}
    both.update(files)
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(".new")
    with zipfile.ZipFile(fresh, "w") as out:
        for file in sorted(both):
            info = zipfile.ZipInfo(file, DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = 0o644 << 16
            out.writestr(info, both[file], compresslevel=9)
    fresh.replace(path)
    return path


def id_of(file: str) -> str:
    """The id in a name like ID.DTYPE.sm_80.ptx."""
    return file.rsplit(".", 3)[0]


def build_kernels(specs: list[Spec]) -> int:
    """Builds base kernels into their zips, with a line each; returns how many could not be built."""
    failures = 0
    for spec in specs:
        start = time.monotonic()
        text = spec.source.read_text()
        jobs = [Job(spec.name, spec, text, dtype, arch) for dtype in spec.dtypes for arch in ARCHES]
        files = {}
        for job, result in compile_all(jobs):
            if isinstance(result, Broken):
                print(f"{job.file}: {result}", file=sys.stderr, flush=True)
            else:
                files[job.file] = result
        if len(files) < len(jobs):
            failures += 1
            continue
        path = replace(spec.name, files, keep=lambda kernel_id, base=spec.name: kernel_id != base)
        seconds = time.monotonic() - start
        print(f"{spec.name}: {len(files)} files, {path.stat().st_size:,} bytes, {seconds:.1f} s", flush=True)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description="compiles the base kernels of internal/corpus")
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels; default: all")
    parser.add_argument("--list", action="store_true", help="prints what there is and builds nothing")
    args = parser.parse_args()
    try:
        specs = load_all(args.names)
    except (OSError, ValueError) as e:
        parser.error(str(e))
    if args.list:
        for spec in specs:
            print(f"{spec.name:24} {spec.language:7} {spec.op:20} {', '.join(spec.dtypes):30} {spec.title}")
        return 0
    failures = build_kernels(specs)
    if failures:
        print(f"{failures} of {len(specs)} kernels could not be built", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
