"""Records what the GPU computes: one kernel per PTX instruction form, edge values and pseudo-random operands.

The record is $OUT/instructions.json.gz, kept as testdata/vectors/ptx/instructions-sm90.json.gz. Of exact instructions
it holds the results on the edge grid whole and a SHA-256 per block of the results on random operands, of approximate
ones also a sample and the largest errors; of products of matrices a SHA-256 per block of tiles. The operands are not
in it: instructions.cu says how they are made, and the tests of internal/ptxmath make them again. $OUT/first.json.gz and
$OUT/first-products.json.gz have the first results of everything as they came, to see where a difference is.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy as cp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import instruction_forms as forms

HERE = pathlib.Path(__file__).parent
OUT = pathlib.Path(os.environ.get("OUT", ".cache/device")).resolve()
SOURCE = (HERE / "instructions.cu").read_text()
# Block k of random operands starts at FIRST·(2^k - 1) and has FIRST·2^k tuples, so that a short test checks a few.
FIRST, BLOCKS = 4096, 8
TILES, TILE_BLOCKS = 256, 12
SAMPLE = 2048  # results of approximate instructions that are kept
SHOWN = 1536  # results of every form in the file that is not kept

# How operands of a class are made: kind, register width, exponent bits, mantissa bits.
MAKE = {
    "f16": (1, 16, 5, 10), "bf16": (1, 16, 8, 7), "f32": (1, 32, 8, 23), "f64": (1, 64, 11, 52), "u16": (0, 16, 0, 0),
    "u32": (0, 32, 0, 0), "u64": (0, 64, 0, 0), "e8x2": (0, 16, 0, 0), "f16x2": (2, 32, 5, 10), "bf16x2": (2, 32, 8, 7),
    "shift": (3, 32, 0, 0),
}  # fmt: skip


def say(text: str) -> None:
    """A line of progress, at once."""
    print(f"{time.monotonic() - START:6.1f} s  {text}", file=sys.stderr, flush=True)


START = time.monotonic()


def seed_of(name: str) -> int:
    """FNV-1a of the name, 64 bits: the seed of a form's operands."""
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    return h


def pack(values: np.ndarray, width: int) -> str:
    """Results as base64 of little-endian words of the given width in bits."""
    return base64.b64encode(values.astype(f"<u{width // 8}").tobytes()).decode()


def digest(values: np.ndarray) -> str:
    """The first 8 bytes of the SHA-256 of little-endian words."""
    return hashlib.sha256(np.ascontiguousarray(values)).hexdigest()[:16]


class Recorder:
    """Runs the forms, and keeps what they gave."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="forms-")
        self.module = cp.RawModule(code=SOURCE, backend="nvrtc", options=("-arch=sm_90a", "-std=c++17"))
        self.table = forms.edges()
        self.device_edges = {c: cp.asarray(np.array(v, dtype=np.uint64)) for c, v in self.table.items()}
        self.first: dict[str, str] = {}
        self.first_products: dict[str, str] = {}

    def compiled(self, job: tuple[int, forms.Form]) -> tuple[forms.Form, str | None]:
        """The form with the path of its cubin, None where ptxas refuses it."""
        i, form = job
        path = os.path.join(self.folder, f"{i}.ptx")
        pathlib.Path(path).write_text(forms.HEAD + forms.kernel(form, "form"))
        done = subprocess.run(["ptxas", "-arch=sm_90a", "-o", path + ".cubin", path], capture_output=True, check=False)
        return form, path + ".cubin" if done.returncode == 0 else None

    def operands(self, form: forms.Form, base: int, n: int) -> list[Any]:
        """The tuples [base, base+n) of a form, as arrays on the device."""
        arrays: list[Any] = []
        gen = self.module.get_function("operands")
        ref = MAKE[form.operands[0]]
        for j, c in enumerate(form.operands):
            kind, width, ebits, mbits = MAKE[c]
            out = cp.empty(n, dtype=cp.uint64)
            gen(((n + 255) // 256,), (256,), (
                out, np.uint32(n), np.uint64(base), np.uint64(seed_of(form.name)), np.int32(j),
                np.int32(len(form.operands)), np.int32(kind), np.int32(width), np.int32(ebits), np.int32(mbits),
                arrays[0] if j else out, np.int32(ref[2]), np.int32(ref[3]), self.device_edges[c],
                np.int32(len(self.table[c])),
            ))  # fmt: skip
            arrays.append(out)
        return arrays

    def form(self, form: forms.Form, path: str) -> dict[str, Any]:
        """One form: the row of the record."""
        function = cp.RawModule(path=path).get_function("form")
        width = forms.WIDTH[form.result]

        def run(arrays: list[Any]) -> np.ndarray:
            n = int(arrays[0].size)
            out = cp.empty(n, dtype=cp.uint64)
            args = (arrays + [out] * 4)[:4]
            function(((n + 255) // 256,), (256,), (out, *args, np.uint32(n)))
            return out.get()

        points = np.array(forms.grid(form, self.table), dtype=np.uint64)
        edge = run([cp.asarray(np.ascontiguousarray(points[:, j])) for j in range(points.shape[1])])
        row: dict[str, Any] = {"name": form.name, "result": form.result, "operands": form.operands}
        row["edge"] = pack(edge, width)
        small = len(form.operands) == 1 and forms.WIDTH[form.operands[0]] <= 16
        total = 1 << 16 if small else FIRST * ((1 << BLOCKS) - 1)
        results = run(self.operands(form, 0, total))
        self.first[form.name] = pack(results[:SHOWN], width)
        if form.approximate:
            row["sample"] = pack(results[:: total // SAMPLE][:SAMPLE], width)
            return row
        row["blocks"] = []
        for k in range(BLOCKS):
            lo, hi = FIRST * ((1 << k) - 1), FIRST * ((2 << k) - 1)
            if lo < total:
                row["blocks"].append(digest(results[lo : min(hi, total)]))
        return row

    def sweeps(self) -> dict[str, list[float]]:
        """The largest errors of the approximate instructions, by the name of the instruction."""
        found: dict[str, list[float]] = {}
        names = re.findall(r'SWEEP2?\((sweep_\w+), "([a-z0-9.]+)"', SOURCE)
        for name, instruction in names:
            stats = cp.zeros(7, dtype=cp.uint64)
            self.module.get_function(name)((1056,), (256,), (stats, np.int32(".ftz" in instruction)))
            found[instruction] = stats.get().view(np.float64).tolist()
            say(f"{instruction}: {found[instruction]}")
        return found


# Formats of matrix elements: width, exponent bits, mantissa bits; integers have 0 exponent bits.
ELEMENT = {
    "f16": (16, 5, 10), "bf16": (16, 8, 7), "tf32": (32, 8, 23), "f32": (32, 8, 23), "e4m3": (8, 4, 3),
    "e5m2": (8, 5, 2), "f64": (64, 11, 52), "s8": (8, 0, 8), "u8": (8, 0, 8), "s4": (4, 0, 4), "u4": (4, 0, 4),
    "b1": (1, 0, 1), "s32": (32, 0, 32),
}  # fmt: skip


def products() -> list[str]:
    """The products of matrices, by the text of the instruction."""
    rows = [f"mma.m16n8k{k}.{t}" for k in (8, 16) for t in ("f32.f16.f16.f32", "f16.f16.f16.f16", "f32.bf16.bf16.f32")]
    rows += ["mma.m16n8k4.f32.tf32.tf32.f32", "mma.m16n8k8.f32.tf32.tf32.f32"]
    for a in ("e4m3", "e5m2"):
        rows += [f"mma.m16n8k32.f32.{a}.{b}.f32" for b in ("e4m3", "e5m2")]
        rows += [f"mma.m16n8k32.f16.{a}.{a}.f16"]
    rows += ["mma.m8n8k4.f64.f64.f64.f64", "mma.m16n8k4.f64.f64.f64.f64", "mma.m16n8k8.f64.f64.f64.f64"]
    rows += ["mma.m16n8k16.f64.f64.f64.f64", "mma.m16n8k16.s32.s8.s8.s32", "mma.m16n8k32.s32.s8.s8.s32"]
    rows += ["mma.m16n8k32.s32.s8.u8.s32", "mma.m16n8k32.satfinite.s32.s8.s8.s32"]
    rows += ["mma.m16n8k32.satfinite.s32.u8.u8.s32"]
    rows += ["mma.m16n8k64.s32.s4.s4.s32", "mma.m16n8k64.satfinite.s32.u4.s4.s32"]
    rows += ["mma.m8n8k16.s32.s8.s8.s32", "mma.m8n8k16.satfinite.s32.u8.s8.s32", "mma.m8n8k32.s32.s4.u4.s32"]
    rows += ["mma.m8n8k32.satfinite.s32.u4.u4.s32", "mma.m16n8k32.s32.s4.s4.s32", "mma.m16n8k32.s32.u4.u4.s32"]
    rows += ["mma.m16n8k16.s32.u8.s8.s32", "mma.m16n8k32.f16.e4m3.e5m2.f16", "mma.m16n8k32.f16.e5m2.e4m3.f16"]
    rows += ["mma.m16n8k256.s32.b1.b1.s32.xor.popc", "mma.m16n8k256.s32.b1.b1.s32.and.popc"]
    rows += ["wgmma.m64n8k16.f32.f16.f16", "wgmma.m64n8k16.f16.f16.f16", "wgmma.m64n8k16.f32.bf16.bf16"]
    rows += ["wgmma.m64n8k8.f32.tf32.tf32", "wgmma.m64n8k32.f32.e4m3.e4m3", "wgmma.m64n8k32.f32.e5m2.e4m3"]
    rows += ["wgmma.m64n8k32.f16.e4m3.e4m3", "wgmma.m64n8k32.f32.e5m2.e5m2", "wgmma.m64n8k32.s32.s8.u8"]
    return rows


def issue(name: str, a_regs: int, b_regs: int) -> str:
    """The statements from c to d for one product."""
    wg = name.startswith("wgmma")
    kind = [t for t in name.split(".") if t in ELEMENT]
    wide, half = kind[0] == "f64", kind[0] == "f16"
    count = 2 if half or ".m8n8" in name else 4
    letter = "l" if wide else "r"
    regs = [f"%{i}" for i in range(count + a_regs + b_regs)]
    d, a, b = regs[:count], regs[count : count + a_regs], regs[count + a_regs :]
    brace = [f"{{{', '.join(x)}}}" for x in (d, a, b)]
    inputs = [f'"{letter}"(a[{i}])' for i in range(a_regs)]
    if wg:
        shape, types = name.split(".", 2)[1:]
        scale = "" if kind[0] == "s32" else ", 1, 1"
        trans = ", 0" if kind[1] in ("f16", "bf16") else ""
        text = "wgmma.fence.sync.aligned;\\n{.reg .pred p;\\nsetp.eq.u32 p, 0, 0;\\n"
        text += f"wgmma.mma_async.sync.aligned.{shape}.{types} {brace[0]}, {brace[1]}, "
        text += f"%{count + a_regs}, p{scale}{trans};}}"
        text += "\\nwgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;"
        inputs.append('"l"(desc)')
    else:
        shape, types = name.split(".", 2)[1:]
        text = f"mma.sync.aligned.{shape}.row.col.{types} {brace[0]}, {brace[1]}, {brace[2]}, {brace[0]};"
        inputs += [f'"{letter}"(b[{i}])' for i in range(b_regs)]
    source = [f"c[{i}]" for i in range(count)]
    result = " ".join(f"d[{i}] = x[{i}];" for i in range(count))
    if half:
        source = ["c[0] | c[1] << 16", "c[2] | c[3] << 16"]
        result = " ".join(f"d[{i}] = x[{i // 2}] >> {i % 2 * 16} & 0xffff;" for i in range(4))
    outputs = ", ".join(f'"+{letter}"(x[{i}])' for i in range(count))
    init = ", ".join(f"(REG)({s})" for s in source)
    return f'REG x[] = {{{init}}}; asm volatile("{text}" : {outputs} : {", ".join(inputs)} : "memory"); {result}'


def product(recorder: Recorder, name: str) -> dict[str, Any]:
    """One product of matrices: the row of the record."""
    wg = name.startswith("wgmma")
    m, _, k = (int(x) for x in re.findall(r"m(\d+)n(\d+)k(\d+)", name)[0])
    d, a, b = [t for t in name.split(".") if t in ELEMENT][:3]
    c = d
    width, ea, ma = ELEMENT[a]
    _, eb, mb = ELEMENT[b]
    per = max(1, 32 // width)
    rows = 16 if wg else m
    a_regs, b_regs = rows * k // 32 // per, 8 * k // 32 // per
    defines = {
        "WIDTH": width, "A_REGS": a_regs, "B_REGS": b_regs, "TILE_M": rows, "TILE_K": k, "EA": ea, "MA": ma, "EB": eb,
        "MB": mb, "EC": ELEMENT[c][1], "MC": ELEMENT[c][2], "REG": "u64" if d == "f64" else "u32",
        "OUT": {"f64": "u64", "f16": "unsigned short"}.get(d, "u32"), "ISSUE": issue(name, a_regs, b_regs),
    }  # fmt: skip
    head = "".join(f"#define {key} {value}\n" for key, value in defines.items()) + ("#define WGMMA\n" if wg else "")
    source = re.sub(r"(?m)^(SWEEP2?)\(.*\)$", "", SOURCE)
    module = cp.RawModule(code=head + source, backend="nvrtc", options=("-arch=sm_90a", "-std=c++17"))
    function = module.get_function("product")
    kind = {"f64": "<u8", "f16": "<u2"}.get(d, "<u4")
    points = (64 if wg else m) * 8
    row: dict[str, Any] = {"name": name, "blocks": []}
    first = TILES // 4 if wg else TILES
    for block in range(TILE_BLOCKS):
        base, n = first * ((1 << block) - 1), first << block
        out = cp.zeros(n * points, dtype=np.dtype(kind))
        grid, threads = (n, 128) if wg else ((n + 7) // 8, 256)
        function((grid,), (threads,), (out, np.uint32(n), np.uint64(base), np.uint64(seed_of(name))))
        results = out.get()
        if block == 0:
            recorder.first_products[name] = base64.b64encode(results.tobytes()).decode()
        row["blocks"].append(digest(results))
        del out
    cp.get_default_memory_pool().free_all_blocks()
    return row


def write(name: str, value: Any, level: int = 1) -> None:
    """A JSON file, compressed, without a date in it."""
    text = json.dumps(value, separators=(",", ":")).replace('{"name"', '\n{"name"').encode()
    (OUT / name).write_bytes(gzip.compress(text, level, mtime=0))
    say(f"{name}: {(OUT / name).stat().st_size} bytes")


def main() -> None:
    """Everything, in one go."""
    OUT.mkdir(parents=True, exist_ok=True)
    recorder = Recorder()
    say("compiling")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = list(pool.map(recorder.compiled, enumerate(forms.forms() + forms.further())))
    accepted = [(form, path) for form, path in jobs if path]
    say(f"{len(accepted)} of {len(jobs)} forms exist for sm_90a")
    record: dict[str, Any] = {
        "device": cp.cuda.runtime.getDeviceProperties(0)["name"].decode(), "driver": cp.cuda.runtime.driverGetVersion(),
        "first": FIRST, "tiles": TILES, "sample": SAMPLE, "edges": recorder.table, "grid": forms.GRID,
    }  # fmt: skip
    further = {form.name for form in forms.further()}
    record["forms"] = [recorder.form(form, path) for form, path in accepted if form.name not in further]
    record["further"] = [recorder.form(form, path) for form, path in accepted if form.name in further]
    say("forms are done")
    record["products"], failed = [], []
    for name in products():
        try:
            record["products"].append(product(recorder, name))
            say(name)
        except Exception as e:  # a product that does not compile must not cost the others
            failed.append(name)
            say(f"{name}: {e}")
    record["errors"] = recorder.sweeps()
    write("instructions.json.gz", record, 9)
    write("first.json.gz", recorder.first)
    write("first-products.json.gz", recorder.first_products)
    if failed:
        sys.exit(f"not recorded: {', '.join(failed)}")


if __name__ == "__main__":
    main()
