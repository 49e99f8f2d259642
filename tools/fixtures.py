"""fixtures.py: compiles the kernels of testdata/kernels with clang into testdata/ptx and writes the manifest.

The device part (nvcc, NVRTC, Triton) is bench/device/artifacts.py, which uses the manifest functions of this file.
Run from the root of the repository; needs clang 14, 16, 19 and 22 (Debian packages), no CUDA.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys

KERNELS = pathlib.Path("testdata/kernels")
PTX = pathlib.Path("testdata/ptx")
MANIFEST = PTX / "manifest.json"
PLANTED = pathlib.Path("testdata/planted")
PAIRS_MANIFEST = KERNELS / "pairs" / "manifest.json"

# How each clang is told the version of PTX: the option came with 16, and 22 stops without one.
PTX_VERSION = {
    14: "-Xclang -target-feature -Xclang +ptx75",
    16: "--cuda-feature=+ptx78",
    19: "--cuda-feature=+ptx83",
    22: "--cuda-feature=+ptx86",
}
# Pairs are for one machine and one version of PTX, so that compilers can be compared too.
PAIR_ISA = "--cuda-feature=+ptx78"
PAIR_BUILD = "clang-19 -O3"
CASE = r"^(?://|#) case (\w+): (fault|edit), ([\w -]+): (.*)$"
LINES = "-gline-directives-only"
DWARF = "-O0 -g"  # with optimisation clang drops the sections and keeps the lines

# Sources that need no header of CUDA and no architecture beyond sm_80.
PORTABLE = [
    *("attention", "calls", "control", "double", "elementwise", "indexed", "integer", "layout", "local", "matmul"),
    *("memory", "mma", "narrow", "norm", "print", "reduce", "softmax"),
]

# The older compilers get what shows their ways of writing, not all: the corpus is kept small.
OLDER = [name for name in PORTABLE if name not in ("attention", "local", "double")]
LINED = ["calls", "control", "indexed", "layout", "memory", "reduce"]

# What is compiled: clang version, architecture, optimisation and debug flags, sources, suffix of the file.
JOBS: list[tuple[int, str, str, list[str], str]] = [
    (14, "sm_80", "-O3", OLDER, ""),
    (14, "sm_75", f"-O2 {LINES}", ["elementwise", "reduce"], "-lines"),
    (16, "sm_80", "-O3", OLDER, ""),
    (16, "sm_80", "-O0", ["reduce", "calls"], "-O0"),
    (16, "sm_80", DWARF, ["print"], "-dwarf"),
    (19, "sm_90", "-O3", PORTABLE, ""),
    (19, "sm_90a", f"-O3 {LINES}", ["hopper"], ""),
    (19, "sm_80", "-O3 -ffast-math -fhonor-infinities", ["softmax", "norm"], "-fast"),
    (19, "sm_80", DWARF, ["double"], "-dwarf"),
    (22, "sm_90", "-O3", PORTABLE, ""),
    (22, "sm_80", f"-O3 {LINES}", LINED, "-lines"),
    (22, "sm_90a", "-O3", ["hopper"], ""),
    (22, "sm_80", "-Os -fgpu-flush-denormals-to-zero", ["elementwise", "matmul"], "-Os"),
    (22, "sm_80", DWARF, ["narrow"], "-dwarf"),
]


def entries(ptx: str) -> list[str]:
    """Names of the kernels of a PTX text, in its order."""
    return re.findall(r"^\s*(?:\.(?:visible|weak|extern)\s+)?\.entry\s+([\w$]+)", ptx, re.M)


def merge(parts: list[str], files: list[dict[str, object]], manifest: pathlib.Path = MANIFEST) -> None:
    """Writes files into the manifest in place of all that stood there for these folders."""
    kept = []
    if manifest.exists():
        kept = [f for f in json.loads(manifest.read_text())["files"] if f["path"].split("/")[0] not in parts]
    files = sorted(kept + files, key=lambda f: str(f["path"]))
    write(manifest, "files", files)


def write(manifest: pathlib.Path, key: str, rows: list[dict[str, object]]) -> None:
    """One line per row, so that a difference between two versions is read row by row."""
    body = ",\n".join(json.dumps(row) for row in rows)
    manifest.write_text(f'{{"{key}": [\n{body}\n]}}\n')


def version(clang: int) -> str:
    """The first line of what the compiler says about itself."""
    out = subprocess.run([f"clang-{clang}", "--version"], capture_output=True, text=True, check=True).stdout
    return out.splitlines()[0]


def system() -> str:
    """What the files were made on, from the release file of the system."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.M))
    return f"{release['PRETTY_NAME']}, x86-64"


def clang_flags(clang: int, arch: str, isa: str = "") -> str:
    """What every call of clang has; paths in debug information are relative to the source."""
    return (
        f"-x cuda --cuda-device-only --cuda-gpu-arch={arch} {isa or PTX_VERSION[clang]} -nocudainc -nocudalib"
        f" -std=c++17 -fdebug-compilation-dir=. -ffile-prefix-map=/usr/lib/llvm-{clang}/lib/clang=clang -S"
    )


def compile_clang(clang: int, flags: str, source: pathlib.Path, out: pathlib.Path) -> str:
    """Compiles in the folder of the source, so that no other path gets into the output. Returns the PTX."""
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [f"clang-{clang}", *flags.split(), source.name, "-o", str(out.resolve())]
    done = subprocess.run(command, cwd=source.parent, capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{source}: clang-{clang} said:\n{done.stderr}")
    return out.read_text()


def corpus() -> list[dict[str, object]]:
    """The kernels of testdata/kernels/cuda through every job."""
    made = []
    for clang, arch, extra, names, suffix in JOBS:
        for name in names:
            source = KERNELS / "cuda" / f"{name}.cu"
            out = PTX / f"clang{clang}" / f"{name}{suffix}.ptx"
            flags = f"{clang_flags(clang, arch)} {extra}"
            text = compile_clang(clang, flags, source, out)
            made.append(
                {
                    "path": out.relative_to(PTX).as_posix(),
                    "source": source.as_posix(),
                    "compiler": f"clang-{clang}",
                    "version": version(clang),
                    "flags": flags,
                    "arch": arch,
                    "entries": entries(text),
                    "made_on": system(),
                }
            )
    return made


def side(name: str, build: str, after: bool, source: pathlib.Path) -> tuple[dict[str, object], dict[str, object]]:
    """Compiles one side of a pair; returns its part of the manifest of pairs and of the manifest of files."""
    compiler, _, extra = build.partition(" ")
    clang = int(compiler.removeprefix("clang-"))
    flags = f"{clang_flags(clang, 'sm_80', PAIR_ISA)} {extra} -DCASE_{name}{' -DAFTER' if after else ''}"
    out = PTX / "pairs" / f"{name}.{'after' if after else 'before'}.ptx"
    text = compile_clang(clang, flags, source, out)
    found = entries(text)
    entry = next((e for e in found if name in e), found[0])
    path = out.relative_to(PTX).as_posix()
    made: dict[str, object] = {"path": path, "source": source.as_posix(), "compiler": compiler}
    made |= {"version": version(clang), "flags": flags, "arch": "sm_80", "entries": found, "made_on": system()}
    return {"ptx": path, "source": source.name, "compiler": compiler, "flags": flags, "entry": entry}, made


def pairs() -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The cases of testdata/kernels/pairs: their manifest and the files made for it."""
    cases, made = [], []
    for source in sorted((KERNELS / "pairs").glob("*.cu")):
        text = source.read_text()
        builds = {m[1]: (m[2], m[3]) for m in re.finditer(r"^// build (\w+): (.*) => (.*)$", text, re.M)}
        for name, kind, group, what in re.findall(CASE, text, re.M):
            before, after = builds.pop(name, (PAIR_BUILD, PAIR_BUILD))
            old, old_file = side(name, before, False, source)
            new, new_file = side(name, after, True, source)
            cases.append({"name": name, "kind": kind, "class": group, "what": what, "before": old, "after": new})
            made += [old_file, new_file]
        if builds:
            sys.exit(f"{source}: builds of cases that do not exist: {', '.join(builds)}")
    return cases, made


def merge_cases(language: str, cases: list[dict[str, object]]) -> None:
    """Writes the cases of one language into the manifest of pairs and keeps those of the other."""
    kept = []
    if PAIRS_MANIFEST.exists():
        kept = [c for c in json.loads(PAIRS_MANIFEST.read_text())["pairs"] if c["language"] != language]
    cases = kept + [{"name": c["name"], "language": language, **c} for c in cases]
    cases.sort(key=lambda c: (str(c["language"]), str(c["kind"]), str(c["class"]), str(c["name"])))
    write(PAIRS_MANIFEST, "pairs", cases)


def planted() -> int:
    """The kernels of testdata/kernels/planted, each with its defect and as its sound twin. Returns how many files."""
    made: list[dict[str, object]] = []
    for clang in (19, 22):
        shutil.rmtree(PLANTED / f"clang{clang}", ignore_errors=True)
        for source in sorted((KERNELS / "planted").glob("*.cu")):
            arch = "sm_90" if source.stem == "bulk" else "sm_80"
            for twin, define in (("defect", ""), ("sound", " -DSOUND")):
                out = PLANTED / f"clang{clang}" / f"{source.stem}.{twin}.ptx"
                flags = f"{clang_flags(clang, arch)} -O3 {LINES}{define}"
                text = compile_clang(clang, flags, source, out)
                row: dict[str, object] = {"path": out.relative_to(PLANTED).as_posix(), "source": source.as_posix()}
                row |= {"compiler": f"clang-{clang}", "version": version(clang), "flags": flags, "arch": arch}
                made.append(row | {"entries": entries(text), "made_on": system()})
    write(PLANTED / "manifest.json", "files", made)
    return len(made)


def main() -> None:
    """Makes all anew: a file whose job is gone disappears."""
    print(f"{planted()} files in {PLANTED}")
    parts = [f"clang{v}" for v in PTX_VERSION] + ["pairs"]
    for part in parts:
        shutil.rmtree(PTX / part, ignore_errors=True)
    cases, files = pairs()
    merge_cases("cuda", cases)
    made = corpus() + files
    merge(parts, made)
    kernels = sum(len(f["entries"]) for f in made)  # type: ignore[arg-type]
    print(f"{len(made)} files, {kernels} kernels in {PTX}; {len(cases)} pairs")


if __name__ == "__main__":
    main()
