"""The device part of the fixtures: nvcc, NVRTC and Triton to PTX and cubins, with the figures of NVIDIA's tools.

artifacts.sh calls it; it compiles and packs.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

sys.path[:0] = ["tools", "testdata/kernels/triton"]
import fixtures  # noqa: E402

ROOT = pathlib.Path.cwd()
PTX = ROOT / "testdata/ptx"
CUBIN = ROOT / "testdata/cubin"
SASS = ROOT / "testdata/sass"
OUT = pathlib.Path(os.environ.get("OUT", ".cache/device")).resolve()
# Sources are compiled in this folder, a name that says nothing about the machine: nvcc writes whole paths.
NEUTRAL = pathlib.Path("/tmp/kernels")
SECONDS = 300  # for one call of a compiler; the slowest takes about 20

ALL = [*fixtures.PORTABLE, "half", "wmma", "texture"]

# What nvcc compiles to PTX and ptxas to a cubin: architecture, flags, sources, suffix, flags for ptxas.
NVCC: list[tuple[str, str, list[str], str, str]] = [
    ("sm_80", "", ["calls", "elementwise", "integer", "local", "mma", "reduce", "wmma"], "-sm80", ""),
    ("sm_90", "", ALL, "-sm90", ""),
    ("sm_90a", "-lineinfo", ["hopper"], "-sm90a", "-lineinfo"),
    ("sm_90", "-lineinfo", ["layout"], "-sm90-lineinfo", "-lineinfo"),
    ("sm_90", "--use_fast_math", ["elementwise", "norm", "softmax"], "-sm90-fast", ""),
    ("sm_80", "-G", ["print"], "-sm80-debug", "-g"),
    ("sm_80", "-rdc=true", ["calls"], "-sm80-rdc", "-c"),
    ("sm_90", "-maxrregcount=24", ["attention", "integer", "local", "softmax"], "-sm90-24regs", "-maxrregcount=24"),
    ("sm_75", "", ["reduce"], "-sm75", ""),
    ("sm_100", "", ["elementwise"], "-sm100", ""),
]
NVRTC = [("compute_80", ["elementwise", "reduce", "softmax", "wmma"]), ("sm_90", ["norm", "control"])]

# Containers: name, source, flags. -fatbin ones differ in how the images inside are packed.
MACHINES = "-gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_90,code=sm_90"
CONTAINERS = [
    ("default.fatbin", "norm", f"-fatbin {MACHINES}"),
    ("no-compress.fatbin", "norm", f"-fatbin -no-compress {MACHINES}"),
    ("mode-size.fatbin", "norm", f"-fatbin --compress-mode=size {MACHINES}"),
    ("mode-speed.fatbin", "norm", f"-fatbin --compress-mode=speed {MACHINES}"),
    ("mode-balance.fatbin", "norm", f"-fatbin --compress-mode=balance {MACHINES}"),
    ("mode-none.fatbin", "norm", f"-fatbin --compress-mode=none {MACHINES}"),
    ("ptx-only.fatbin", "norm", "-fatbin -arch=compute_90"),
    ("host.o", "host", f"-c {MACHINES}"),
    ("host-rdc.o", "host", "-c -rdc=true -arch=sm_90"),
    ("host.so", "host", f"-shared -cudart=none -Xcompiler -fPIC -Xlinker -s {MACHINES}"),
    ("host.exe", "host", f"-DMAIN -cudart=shared -Xlinker -s {MACHINES}"),
]
# Listings: cubins that show spills, tensor cores, calls and Hopper's instructions, and of some only these functions,
# since a listing is ten times as large as the code.
LISTED = {
    "nvcc-reduce-sm80": "sum_shuffle,compact",
    "nvcc-local-sm90-24regs": "local_index,spill_64",
    "nvcc-mma-sm80": "mma_pipeline",
    "nvcc-calls-sm90": "call_scalar,call_indirect",
    "nvcc-hopper-sm90a": "bulk_copy,warpgroup_product",
    "triton-softmax-sm90": "",
    "triton-histogram-sm80": "",
}
TRITON_CUBIN_LIMIT = 20_000  # bytes; larger ones add weight and nothing new


def call(command: list[str], cwd: pathlib.Path = NEUTRAL) -> str:
    """Runs a tool; what it says on both channels, or an end with its words."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def tool(name: str) -> str:
    """The path of a tool of CUDA: the bin of CUDA_HOME first, then PATH, then the usual place."""
    places = [os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin"]
    found = shutil.which(name, path=":".join([*places, os.environ["PATH"]]))
    if found is None:
        raise RuntimeError(f"{name} is not on PATH and not in {places[0]}")
    return found


def tool_version(path: str) -> str:
    """The line of --version that carries the number."""
    return next(line for line in call([path, "--version"], ROOT).splitlines() if "release" in line)


def made_on() -> str:
    """The GPU and the system."""
    try:
        gpu = call(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], ROOT).strip()
    except (OSError, RuntimeError):
        gpu = "no GPU"
    return f"{fixtures.system()}, {gpu}"


BANKS = re.compile(r"CONSTANT\[(\d+)\]:(\d+)")


def res_usage(text: str) -> list[dict[str, Any]]:
    """Per image and function what `cuobjdump -res-usage` says; numbers are bytes, or registers."""
    found: list[dict[str, Any]] = []
    arch, common = "", {}
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if m := re.match(r"arch = (\w+)", line.strip()):
            arch = m[1]
        elif line.strip().startswith("GLOBAL:"):
            common = {"global": int(re.search(r"GLOBAL:(\d+)", line)[1]), "constant": dict(BANKS.findall(line))}
        elif m := re.match(r"\s*Function (\S+):$", line):
            figures = dict(re.findall(r"(\w+):(\d+)", BANKS.sub("", lines[i + 1])))
            row = {"name": m[1], **{k.lower(): int(v) for k, v in figures.items()}}
            row["registers"] = row.pop("reg")
            row["constant"] = {k: int(v) for k, v in BANKS.findall(lines[i + 1])}
            row["module"] = {"global": common.get("global", 0),
                             "constant": {k: int(v) for k, v in common.get("constant", {}).items()}}
            if arch:
                row["arch"] = arch
            found.append(row)
    return found


def ptxas_figures(text: str) -> dict[str, dict[str, Any]]:
    """Per function what `ptxas -v` says; a figure it leaves out is absent."""
    found: dict[str, dict[str, Any]] = {}
    name = ""
    for line in text.splitlines():
        if m := re.search(r"Function properties for (\S+)", line):
            name = m[1]
            found.setdefault(name, {})
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            found[name] |= {"stack": int(m[1]), "spill_stores": int(m[2]), "spill_loads": int(m[3])}
        elif m := re.search(r"Used (\d+) registers", line):
            found[name]["registers"] = int(m[1])
            for key, pattern in {"barriers": r"used (\d+) barriers", "shared": r"(\d+) bytes smem",
                                 "cumulative_stack": r"(\d+) bytes cumulative stack size",
                                 "local": r"(\d+) bytes lmem"}.items():
                if figure := re.search(pattern, line):
                    found[name][key] = int(figure[1])
            found[name]["constant"] = {k: int(v) for v, k in re.findall(r"(\d+) bytes cmem\[(\d+)\]", line)}
    return found


def kernels(cubin: pathlib.Path, said: str, names: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Figures of the kernels of a cubin, and of its other functions."""
    figures = ptxas_figures(said)
    rows = []
    for row in res_usage(call([tool("cuobjdump"), "-res-usage", str(cubin)])):
        if row["name"] in figures:
            row["ptxas"] = figures[row["name"]]
        rows.append(row)
    return [r for r in rows if r["name"] in names], [r for r in rows if r["name"] not in names]


def assemble(ptxas: str, arch: str, flags: str, ptx: pathlib.Path, cubin: pathlib.Path) -> str:
    """PTX to a cubin; returns what ptxas -v says."""
    cubin.parent.mkdir(parents=True, exist_ok=True)
    return call([ptxas, "-v", f"-arch={arch}", *flags.split(), str(ptx), "-o", str(cubin)])


def file_row(path: str, source: str, compiler: str, flags: str, arch: str) -> dict[str, Any]:
    """What both manifests say of a file."""
    version = tool_version(tool("nvcc"))
    return {"path": path, "source": source, "compiler": compiler, "version": version, "flags": flags, "arch": arch}


def nvcc_one(job: tuple[str, str, str, str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """One source through nvcc: its PTX, and its cubin made of that PTX, so that ptxas says its figures."""
    arch, flags, name, suffix, ptxas_flags = job
    out = PTX / "nvcc13" / f"{name}{suffix}.ptx"
    given = [f"-arch={arch}", "-std=c++17", *flags.split(), "-ptx"]
    call([tool("nvcc"), *given, f"{name}.cu", "-o", str(out)])
    source = f"testdata/kernels/cuda/{name}.cu"
    row = file_row(f"nvcc13/{out.name}", source, "nvcc", " ".join(given), arch)
    row["entries"] = fixtures.entries(out.read_text())
    cubin = CUBIN / f"nvcc-{name}{suffix}.cubin"
    said = assemble(tool("ptxas"), arch, ptxas_flags, out, cubin)
    main, other = kernels(cubin, said, row["entries"])
    image = file_row(cubin.name, source, "nvcc", f"ptxas -v -arch={arch} {ptxas_flags}".strip(), arch)
    return row, image | {"kind": "cubin", "ptx": row["path"], "kernels": main, "functions": other}


def with_nvcc() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All jobs of nvcc."""
    jobs = [(arch, flags, n, suffix, more) for arch, flags, names, suffix, more in NVCC for n in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(nvcc_one, jobs))
    return [row for row, _ in done], [image for _, image in done]


def container(job: tuple[str, str, str]) -> dict[str, Any]:
    """A fatbin or a host file, with the list of images inside as cuobjdump gives it."""
    name, source, flags = job
    out = CUBIN / name
    call([tool("nvcc"), "-std=c++17", *flags.split(), f"{source}.cu", "-o", str(out)])
    row = file_row(name, f"testdata/kernels/cuda/{source}.cu", "nvcc", f"-std=c++17 {flags}", "")
    listed = []
    for option in ("-lelf", "-lptx"):
        # cuobjdump ends with an error where there is no image of the kind asked for.
        done = subprocess.run([tool("cuobjdump"), option, str(out)], capture_output=True, text=True, timeout=SECONDS)
        listed += [line.split(":", 1)[1].strip() for line in done.stdout.splitlines() if "file" in line and ":" in line]
    usage = []
    if any(".cubin" in line for line in listed):
        usage = res_usage(call([tool("cuobjdump"), "-res-usage", str(out)]))
    return row | {"kind": out.suffix[1:], "images": listed, "kernels": usage}


class Nvrtc:
    """The few functions of NVRTC that are needed, by ctypes."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL(os.environ.get("NVRTC_LIBRARY", "libnvrtc.so.13"))

    def check(self, code: int) -> None:
        self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        if code != 0:
            raise RuntimeError(f"NVRTC: {self.lib.nvrtcGetErrorString(code).decode()}")

    def version(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.check(self.lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return f"NVRTC {major.value}.{minor.value}"

    def compile(self, name: str, text: str, options: list[str]) -> str:
        program = ctypes.c_void_p()
        self.check(self.lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None))
        given = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        code = self.lib.nvrtcCompileProgram(program, len(options), given)
        size = ctypes.c_size_t()
        if code != 0:
            self.check(self.lib.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
            log = ctypes.create_string_buffer(size.value)
            self.check(self.lib.nvrtcGetProgramLog(program, log))
            raise RuntimeError(f"{name}: {log.value.decode()}")
        self.check(self.lib.nvrtcGetPTXSize(program, ctypes.byref(size)))
        ptx = ctypes.create_string_buffer(size.value)
        self.check(self.lib.nvrtcGetPTX(program, ptx))
        self.check(self.lib.nvrtcDestroyProgram(ctypes.byref(program)))
        return ptx.value.decode()


def with_nvrtc() -> list[dict[str, Any]]:
    """A few sources through the compiler that runs inside a process."""
    nvrtc = Nvrtc()
    os.chdir(NEUTRAL)  # it writes the working folder into line information
    include = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"
    rows = []
    for arch, names in NVRTC:
        for name in names:
            own = [f"--gpu-architecture={arch}", "--std=c++17", "-lineinfo", "-I."]
            text = (NEUTRAL / f"{name}.cu").read_text()
            ptx = nvrtc.compile(f"{name}.cu", text, [*own, f"-I{NEUTRAL}", f"-I{include}", f"-I{include}/cccl"])
            out = PTX / "nvrtc13" / f"{name}-{arch.replace('_', '')}.ptx"
            out.write_text(ptx)
            row = file_row(f"nvrtc13/{out.name}", f"testdata/kernels/cuda/{name}.cu", "nvrtc", " ".join(own), arch)
            rows.append(row | {"version": nvrtc.version(), "entries": fixtures.entries(ptx)})
    os.chdir(ROOT)
    return rows


def triton_row(path: str, source: str, row: dict[str, Any], arch: int, ptx: str) -> dict[str, Any]:
    """What the manifest of PTX says of a file by Triton."""
    import triton

    target = re.search(r"^\.target (\w+)", ptx, re.M)
    shown = {k: str(v) for k, v in row["constants"].items()}
    flags = f"num_warps={row['warps']} num_stages={row['stages']} signature={','.join(row['signature'])} {shown}"
    made = {"path": path, "source": source, "compiler": "triton", "version": f"Triton {triton.__version__}"}
    return made | {"flags": flags, "arch": target[1] if target else f"sm_{arch}", "entries": fixtures.entries(ptx)}


def triton_cubin(name: str, ptx: pathlib.Path, made: Any, row: dict[str, Any]) -> dict[str, Any] | None:
    """The cubin by the ptxas that Triton brings, called as Triton calls it so that it says its figures."""
    import triton

    if len(made.asm["cubin"]) > TRITON_CUBIN_LIMIT:
        return None
    bundled = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
    cubin = CUBIN / f"triton-{name}.cubin"
    said = assemble(str(bundled), row["arch"], "-lineinfo", ptx, cubin)
    main, other = kernels(cubin, said, row["entries"])
    image = {k: row[k] for k in ("source", "compiler", "arch")} | {"path": cubin.name, "kind": "cubin"}
    image |= {"version": tool_version(str(bundled)), "flags": f"ptxas -v -arch={row['arch']} -lineinfo"}
    return image | {"ptx": row["path"], "kernels": main, "functions": other}


def with_triton() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The kernels of testdata/kernels/triton."""
    import builder

    builder.hide_folder()
    source = "testdata/kernels/triton/kernels.py"
    rows, images = [], []
    for build in builder.load(source).BUILDS:
        for arch in build["archs"]:
            made = builder.compile_one(build, arch)
            name = f"{build['kernel'].__name__}{build['suffix']}-sm{arch}"
            out = PTX / "triton36" / f"{name}.ptx"
            out.write_text(made.asm["ptx"])
            rows.append(triton_row(f"triton36/{out.name}", source, build, arch, made.asm["ptx"]))
            if image := triton_cubin(name, out, made, rows[-1]):
                images.append(image)
    return rows, images


def with_pairs() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The pairs of testdata/kernels/pairs/pairs.py: files and cases."""
    import builder
    import triton

    source = "testdata/kernels/pairs/pairs.py"
    said = {m[0]: m[1:] for m in re.findall(fixtures.CASE, (ROOT / source).read_text(), re.M)}
    rows, cases = [], []
    for build in builder.load(source).BUILDS:
        kind, group, what = said.pop(build["name"])
        case: dict[str, Any] = {"name": build["name"], "kind": kind, "class": group, "what": what}
        for side in ("before", "after"):
            row = build[side]
            row["constants"] = {**row["constants"], "AFTER": side == "after"}
            triton.knobs.compilation.disable_line_info = not row["lines"]
            ptx = builder.compile_one(row, row["arch"]).asm["ptx"]
            out = PTX / "pairs-triton" / f"{build['name']}.{side}.ptx"
            out.write_text(ptx)
            made = triton_row(f"pairs-triton/{out.name}", source, row, row["arch"], ptx)
            made["flags"] += "" if row["lines"] else " no line information"
            rows.append(made)
            case[side] = {"ptx": made["path"], "source": "pairs.py", "compiler": "triton", "flags": made["flags"],
                          "entry": made["entries"][0]}
        cases.append(case)
    if said:
        raise RuntimeError(f"{source}: cases without a build: {', '.join(said)}")
    return rows, cases


def listings() -> None:
    """What cuobjdump and nvdisasm print for a few cubins; nvdisasm cannot pick functions by name."""
    for name, functions in LISTED.items():
        file = f"{name}.cubin"
        chosen = ["-fun", functions] if functions else []
        (SASS / f"{name}.cuobjdump.txt").write_text(call([tool("cuobjdump"), "-sass", *chosen, file], CUBIN))
        (SASS / f"{name}.nvdisasm.txt").write_text(call([tool("nvdisasm"), "-c", file], CUBIN))


def make() -> None:
    """Everything anew, the manifests and the packed result."""
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    shutil.copytree("testdata/kernels/cuda", NEUTRAL)
    parts = ["nvcc13", "nvrtc13", "triton36", "pairs-triton"]
    for folder in [*(PTX / p for p in parts), CUBIN, SASS]:
        for old in folder.glob("*"):
            if old.suffix != ".md":
                old.unlink()
        folder.mkdir(parents=True, exist_ok=True)
    on = {"made_on": made_on()}
    rows, images = with_nvcc()
    rows += with_nvrtc()
    triton_rows, triton_images = with_triton()
    rows, images = rows + triton_rows, images + triton_images
    pair_rows, cases = with_pairs()
    images += [container(job) for job in CONTAINERS]
    listings()
    fixtures.merge(parts, [r | on for r in rows + pair_rows])
    fixtures.merge_cases("triton", cases)
    fixtures.write(CUBIN / "manifest.json", "files", sorted((i | on for i in images), key=lambda i: str(i["path"])))
    with tarfile.open(OUT / "artifacts.tar.gz", "w:gz") as tar:
        for path in [*(PTX / p for p in parts), fixtures.MANIFEST, fixtures.PAIRS_MANIFEST, CUBIN, SASS]:
            tar.add(path, arcname=str(pathlib.Path(path).resolve().relative_to(ROOT)))
    entries = sum(len(r["entries"]) for r in rows + pair_rows)
    figures = sum(len(i["kernels"]) for i in images if i["kind"] == "cubin")
    print(f"{len(rows) + len(pair_rows)} PTX files with {entries} kernels")
    print(f"{len(images)} images, {figures} kernels of cubins with figures")


if __name__ == "__main__":
    make()
