"""Records what the GPU computes for wgmma, wmma and bulk reductions: one kernel per case, pseudo-random operands.

The record is $OUT/wgmma.json.gz, kept as testdata/vectors/ptx/wgmma-sm90.json.gz: the text of the kernels, and for
every case how its operands are made and the SHA-256 of its results. Operands are not in it: a test of internal/ptxvm
makes them again. With --list nothing is executed, and the record has no results.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OUT = pathlib.Path(os.environ.get("OUT", ".cache/device")).resolve()
BLOCKS = 2  # of every case, each with operands of its own
SHARED = 49152  # bytes of shared memory, all of them random
B_AT = 16384  # where B lies in it
HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"

# How random words become operands: and, or for words of even number, and, or for odd ones. Numbers are finite and not
# large, so that sums are numbers, too.
MASKS = {
    "f16": (0xBFFFBFFF, 0) * 2, "bf16": (0x83FF83FF, 0x3C003C00) * 2, "tf32": (0x83FFFFFF, 0x3C000000) * 2,
    "f32": (0x83FFFFFF, 0x3C000000) * 2, "e4m3": (0xBFBFBFBF, 0) * 2, "e5m2": (0xBFBFBFBF, 0) * 2,
    "f64": (0xFFFFFFFF, 0, 0x803FFFFF, 0x3FC00000), "small f32": (0x80FFFFFF, 0) * 2,
    "small bf16": (0x80FF80FF, 0) * 2,
}  # fmt: skip
ANY = (0xFFFFFFFF, 0) * 2
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8,
        "s4": 4, "u4": 4, "b1": 1}  # fmt: skip


@dataclass
class Case:
    """A kernel, the words of its operands and how many words of results it has, per block."""

    name: str
    threads: int
    inputs: list[tuple[str, int]]  # type, words
    out: int
    text: str = field(repr=False)


def names(letter: str, n: int) -> str:
    """Registers in braces."""
    return "{" + ", ".join(f"%{letter}{i}" for i in range(n)) + "}"


def frame(name: str, inputs: int, out: int, declarations: str, body: list[str]) -> str:
    """A kernel with the addresses of its block's operands in %rd1 and of its results in %rd2; the thread is %r1."""
    lines = [
        f".visible .entry {name}(.param .u64 x, .param .u64 y) {{", declarations,
        ".reg .pred %p<4>;", ".reg .b32 %r<16>;", ".reg .b64 %rd<16>;",
        "ld.param.u64 %rd1, [x];", "ld.param.u64 %rd2, [y];", "cvta.to.global.u64 %rd1, %rd1;",
        "cvta.to.global.u64 %rd2, %rd2;", "mov.u32 %r1, %tid.x;", "mov.u32 %r2, %ctaid.x;",
        f"mad.wide.u32 %rd1, %r2, {4 * inputs}, %rd1;", f"mad.wide.u32 %rd2, %r2, {4 * out}, %rd2;", *body, "ret;", "}",
    ]  # fmt: skip
    return "\n".join(line for line in lines if line) + "\n"


@dataclass
class Matrix:
    """Where a matrix lies in shared memory."""

    start: int
    lead: int
    stride: int
    mode: int  # 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
    base: int = 0

    def constant(self) -> int:
        """The descriptor without its address."""
        return self.lead >> 4 << 16 | self.stride >> 4 << 32 | self.base << 49 | self.mode << 62


def place(start: int, mode: int, across: bool, pad: int = 0) -> Matrix:
    """A usual place of a matrix with a swizzle mode."""
    row = {0: 16, 1: 128, 2: 64, 3: 32}[mode]
    if mode == 0:
        return Matrix(start, 128, 256 + pad, 0)
    if across:
        return Matrix(start, 16 * row + pad, 8 * row, mode)
    return Matrix(start, 16, 8 * row + pad, mode)


def wgmma(
    name: str,
    n: int,
    k: int,
    types: tuple[str, str, str],
    b: Matrix,
    a: Matrix | None = None,
    trans: tuple[int, int] = (0, 0),
    scale: tuple[int, int] = (1, 1),
    keep: int = 1,
    sat: str = "",
) -> Case:
    """A case of wgmma; A lies in registers where it has no place."""
    d, ta, tb = types
    nd = n // 4 if d == "f16" else n // 2
    shape = f"m64n{n}k{k}"
    inputs = [(ta if a else tb, B_AT // 4), (tb, (SHARED - B_AT) // 4), (d, 128 * nd)]
    if a is None:
        inputs.append((ta, 128 * 4))
    body = [
        "shl.b32 %r3, %r1, 4;", "mov.u32 %r4, s;", "L:", "cvt.u64.u32 %rd3, %r3;", "add.s64 %rd3, %rd1, %rd3;",
        "ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%rd3];", "add.s32 %r9, %r4, %r3;",
        "st.shared.v4.b32 [%r9], {%r5, %r6, %r7, %r8};", "add.s32 %r3, %r3, 2048;",
        f"setp.lt.u32 %p1, %r3, {SHARED};", "@%p1 bra L;", "fence.proxy.async;", "bar.sync 0;",
        f"mad.wide.u32 %rd3, %r1, {4 * nd}, %rd1;",
    ]  # fmt: skip
    body += [f"ld.global.b32 %d{i}, [%rd3+{SHARED + 4 * i}];" for i in range(nd)]
    if a is None:
        body += ["mad.wide.u32 %rd3, %r1, 16, %rd1;",
                 f"ld.global.v4.b32 {names('a', 4)}, [%rd3+{SHARED + 512 * nd}];"]  # fmt: skip
    for i, m in enumerate((a, b)):
        if m:
            body += [f"add.s32 %r5, %r4, {m.start};", "bfe.u32 %r5, %r5, 4, 14;", "cvt.u64.u32 %rd5, %r5;",
                     f"or.b64 %rd{8 + i}, %rd5, {m.constant():#x};"]  # fmt: skip
    operands = [names("d", nd), "%rd8" if a else names("a", 4), "%rd9", "%p2"]
    if d != "s32":
        operands += [str(s) for s in scale]
    if BITS[ta] == 16:
        operands += [str(t) for t in (trans if a else trans[1:])]
    body += [
        f"setp.ne.u32 %p2, {keep}, 0;", "wgmma.fence.sync.aligned;",
        f"wgmma.mma_async.sync.aligned.{shape}{sat}.{d}.{ta}.{tb} {', '.join(operands)};",
        "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
        f"mad.wide.u32 %rd3, %r1, {4 * nd}, %rd2;",
    ]  # fmt: skip
    body += [f"st.global.b32 [%rd3+{4 * i}], %d{i};" for i in range(nd)]
    words = sum(w for _, w in inputs)
    declarations = f".shared .align 1024 .b8 s[{SHARED}];\n.reg .b32 %d<{nd}>;\n.reg .b32 %a<4>;"
    return Case(name, 128, inputs, 128 * nd, frame(name, words, 128 * nd, declarations, body))


TYPES = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
         ("f32", "e4m3", "e4m3"), ("f32", "e5m2", "e4m3"), ("f16", "e4m3", "e5m2"), ("f16", "e5m2", "e5m2"),
         ("s32", "s8", "s8"), ("s32", "u8", "u8"), ("s32", "s8", "u8"), ("s32", "u8", "s8")]  # fmt: skip
SIZES = [8, 64, 128, 256, 16, 96, 32]


def wgmma_cases() -> list[Case]:
    """All swizzles and majors of all types, all n, and the other operands."""
    cases: list[Case] = []
    for types in TYPES:
        ta = types[1]
        k = 256 // BITS[ta]
        label = "_".join(types)
        majors = [(0, 0), (0, 1), (1, 0), (1, 1)] if BITS[ta] == 16 else [(0, 0)]
        for mode in range(4):
            for x, y in majors:
                n = SIZES[len(cases) % len(SIZES)]
                a, b = place(0, mode, bool(x)), place(B_AT, mode, bool(y))
                cases.append(wgmma(f"ss_{label}_{mode}_{x}{y}", n, k, types, b, a, (x, y)))
                if x == 0:
                    n = SIZES[len(cases) % len(SIZES)]
                    cases.append(wgmma(f"rs_{label}_{mode}_{y}", n, k, types, b, None, (0, y)))
    f16, s8, e4 = TYPES[0], TYPES[8], TYPES[4]
    for n in range(8, 257, 8):
        cases.append(wgmma(f"n{n}_f16", n, 16, f16, place(B_AT, n // 8 % 4, False), None))
        if n <= 32 or n % 16 == 0:
            cases.append(wgmma(f"n{n}_s8", n, 32, s8, place(B_AT, n // 16 % 4, False), None))
    for i, (sa, sb) in enumerate([(-1, 1), (1, -1), (-1, -1)]):
        for types in (TYPES[0], TYPES[1], TYPES[2], TYPES[3], e4):
            k = 256 // BITS[types[1]]
            a, b = place(0, 1, False), place(B_AT, 1, False)
            label = "_".join(types)
            cases.append(wgmma(f"sign{i}_{label}", 16, k, types, b, a, scale=(sa, sb)))
            if i == 0:
                cases.append(wgmma(f"fresh_{label}", 16, k, types, b, a, keep=0))
    cases.append(wgmma("fresh_s8", 16, 32, s8, place(B_AT, 1, False), place(0, 1, False), keep=0))
    cases.append(wgmma("sat_s8", 16, 32, s8, place(B_AT, 1, False), place(0, 1, False), sat=".satfinite"))
    # Steps along k inside a row of the pattern, rows further apart, and starts inside a pattern with its base offset.
    for mode, row in ((1, 128), (2, 64), (3, 32)):
        for step in range(32, row, 32):
            a, b = place(0, mode, False), place(B_AT, mode, False)
            a.start, b.start = a.start + step, b.start + step
            cases.append(wgmma(f"step{step}_{mode}", 32, 16, f16, b, a))
        for x in (0, 1):
            a, b = place(0, mode, bool(x), 1024), place(B_AT, mode, bool(x), 1024)
            cases.append(wgmma(f"pad_{mode}_{x}", 64, 16, f16, b, a, (x, x)))
            for base in (1, 2, 3, 5):
                b = place(B_AT + 128 * base, mode, bool(x))
                b.base = base
                cases.append(wgmma(f"base{base}_{mode}_{x}", 32, 16, f16, b, None, (0, x)))
                b = place(B_AT + 128 * base, mode, bool(x))
                cases.append(wgmma(f"start{base}_{mode}_{x}", 32, 16, f16, b, None, (0, x)))
    return cases


def wmma(
    shape: tuple[int, int, int], types: tuple[str, ...], rows: tuple[int, int], plain: int, tail: str = "", op: str = ""
) -> Case:
    """A case of wmma: loads, a product and a store. types are those of D, A and B, C; rows says whether A and B lie row
    by row, plain whether C and D do."""
    m, n, k = shape
    td, ta, tc = types
    name = f"m{m}n{n}k{k}"
    layout = ["col", "row"]
    entry = f"wmma_{name}_{td}_{ta}_{tc}_{layout[rows[0]]}_{layout[rows[1]]}_{plain}{tail.replace('.', '_')}{op[:4]}"
    entry = entry.replace(".", "_")

    def lines(which: str) -> tuple[int, int, int]:
        """Number of lines, their distance and their words: 16 bytes lie between lines."""
        high, wide, by_row, typ = {
            "a": (m, k, rows[0], ta), "b": (k, n, rows[1], ta), "c": (m, n, plain, tc), "d": (m, n, plain, td),
        }[which]  # fmt: skip
        if not by_row:
            high, wide = wide, high
        step = wide + (128 // BITS[typ])
        return high, step, high * step * BITS[typ] // 32

    def registers(which: str) -> tuple[str, int]:
        typ = {"a": ta, "b": ta, "c": tc, "d": td}[which]
        count = {"a": m * k, "b": n * k}.get(which, m * n) * BITS[typ] // 1024
        if typ == "f16" and which in "ab":
            count = 8
        return names(which, max(count, 1) if typ != "f64" else {"a": 1, "b": 1}.get(which, 2)), BITS[typ]

    inputs = [(ta, lines("a")[2]), (ta, lines("b")[2]), (tc, lines("c")[2])]
    starts = {"a": 0, "b": inputs[0][1], "c": inputs[0][1] + inputs[1][1]}
    body: list[str] = []
    declarations: list[str] = []
    for which in "abcd":
        declarations.append(f".reg .b{64 if registers(which)[1] == 64 else 32} %{which}<8>;")
    for which, typ in (("a", ta), ("b", ta), ("c", tc)):
        kind = layout[{"a": rows[0], "b": rows[1], "c": plain}[which]]
        body.append(
            f"wmma.load.{which}.sync.aligned.{kind}.{name}.global.{typ} {registers(which)[0]}, "
            f"[%rd1+{4 * starts[which]}], {lines(which)[1]};"
        )
    kinds = f"{td}.{tc}" if ta == "f16" else f"{td}.{ta}.{ta}.{tc}"
    body.append(
        f"wmma.mma{op}.sync.aligned.{layout[rows[0]]}.{layout[rows[1]]}.{name}.{kinds}{tail} {registers('d')[0]}, "
        f"{registers('a')[0]}, {registers('b')[0]}, {registers('c')[0]};"
    )
    body.append(
        f"wmma.store.d.sync.aligned.{layout[plain]}.{name}.global.{td} [%rd2], {registers('d')[0]}, {lines('d')[1]};"
    )
    out = lines("d")[2]
    words = sum(w for _, w in inputs)
    return Case(entry, 32, inputs, out, frame(entry, words, out, "\n".join(declarations), body))


def wmma_cases() -> list[Case]:
    """All shapes, types and layouts."""
    cases: list[Case] = []
    shapes = [(16, 16, 16), (32, 8, 16), (8, 32, 16)]
    layouts = [(0, 0), (0, 1), (1, 0), (1, 1)]
    for shape in shapes:
        for i, rows in enumerate(layouts):
            cases += [wmma(shape, (d, "f16", c), rows, i % 2) for d in ("f16", "f32") for c in ("f16", "f32")]
            cases.append(wmma(shape, ("f32", "bf16", "f32"), rows, i % 2))
            cases += [wmma(shape, ("s32", t, "s32"), rows, 1 - i % 2) for t in ("s8", "u8")]
        cases += [wmma(shape, ("s32", "s8", "s32"), (1, 0), 1, ".satfinite")]
    for i, rows in enumerate(layouts):
        cases.append(wmma((16, 16, 8), ("f32", "tf32", "f32"), rows, i % 2))
        cases.append(wmma((8, 8, 4), ("f64", "f64", "f64"), rows, i % 2))
    for plain in (0, 1):
        cases += [
            wmma((8, 8, 32), ("s32", t, "s32"), (1, 0), plain, s) for t in ("s4", "u4") for s in ("", ".satfinite")
        ]
        cases += [wmma((8, 8, 128), ("s32", "b1", "s32"), (1, 0), plain, "", op) for op in (".xor.popc", ".and.popc")]
    return cases


REDUCTIONS = """add.u32 add.s32 add.u64 add.f32 add.f64 add.noftz.f16 add.noftz.bf16 min.u32 min.s32 min.u64 min.s64
    max.u32 max.s32 max.u64 max.s64 inc.u32 dec.u32 and.b32 and.b64 or.b32 or.b64 xor.b32 xor.b64"""


def bulk_cases() -> list[Case]:
    """All reductions of bulk copies to global memory, 64 words each, of floats with subnormal numbers."""
    cases: list[Case] = []
    for form in REDUCTIONS.split():
        typ = form.split(".")[-1]
        kind = f"small {typ}" if typ in ("f32", "bf16") else typ
        body = [
            "mul.wide.u32 %rd3, %r1, 8;", "add.s64 %rd4, %rd1, %rd3;", "ld.global.b64 %rd5, [%rd4];",
            "ld.global.b64 %rd6, [%rd4+256];", "add.s64 %rd4, %rd2, %rd3;", "st.global.b64 [%rd4], %rd6;",
            "shl.b32 %r3, %r1, 3;", "mov.u32 %r4, s;", "add.s32 %r5, %r4, %r3;", "st.shared.b64 [%r5], %rd5;",
            "membar.gl;", "fence.proxy.async;", "bar.sync 0;", "setp.ne.u32 %p1, %r1, 0;", "@%p1 ret;",
            f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{form} [%rd2], [%r4], 256;",
            "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;",
        ]  # fmt: skip
        name = "bulk_" + form.replace(".", "_")
        text = frame(name, 128, 64, ".shared .align 128 .b8 s[256];", body)
        cases.append(Case(name, 32, [(kind, 64), (kind, 64)], 64, text))
    return cases


def video_cases() -> list[Case]:
    """All forms of the video instructions of two halves or four bytes; a kernel has those of one opcode."""
    types = ("u32", "s32")
    cases: list[Case] = []
    for width in "24":
        for op in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"):
            if op == "vset":
                compare = ("eq", "ne", "lt", "le", "gt", "ge")
                forms = [f"{a}.{b}.{c}{s}" for a in types for b in types for c in compare for s in ("", ".add")]
            else:
                forms = [f"{d}.{a}.{b}{s}" for d in types for a in types for b in types for s in ("", ".sat", ".add")]
            n = len(forms)
            body = ["mul.wide.u32 %rd3, %r1, 12;", "add.s64 %rd3, %rd1, %rd3;"]
            body += [f"ld.global.b32 %r{3 + i}, [%rd3+{4 * i}];" for i in range(3)]
            body.append(f"mad.wide.u32 %rd4, %r1, {4 * n}, %rd2;")
            for i, form in enumerate(forms):
                body += [f"{op}{width}.{form} %r6, %r3, %r4, %r5;", f"st.global.b32 [%rd4+{4 * i}], %r6;"]
            text = frame(op + width, 768, 256 * n, "", body)
            cases.append(Case(op + width, 256, [("u32", 768)], 256 * n, text))
    return cases


def seed_of(name: str) -> int:
    """FNV-1a of the name, 64 bits."""
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    return h


def operands(case: Case) -> np.ndarray:
    """The words of all blocks: SplitMix64 with the seed of the name, its upper halves, under the masks."""
    per_block = sum(w for _, w in case.inputs)
    with np.errstate(over="ignore"):
        z = np.uint64(seed_of(case.name)) + np.arange(1, BLOCKS * per_block + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        words = ((z ^ z >> np.uint64(31)) >> np.uint64(32)).astype(np.uint32).reshape(BLOCKS, per_block)
    at = 0
    for typ, n in case.inputs:
        mask = MASKS.get(typ, ANY)
        for odd in (0, 1):
            part = words[:, at + odd : at + n : 2]
            part &= np.uint32(mask[2 * odd])
            part |= np.uint32(mask[2 * odd + 1])
        at += n
    return words


def compiled(text: str) -> str:
    """The path of a cubin."""
    path = os.path.join(tempfile.mkdtemp(prefix="wgmma-"), "k.ptx")
    pathlib.Path(path).write_text(text)
    done = subprocess.run(["ptxas", "-arch=sm_90a", "-o", path + ".cubin", path], capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stdout.decode() + done.stderr.decode())
    return path + ".cubin"


def main() -> None:
    """Writes the record."""
    cases = wgmma_cases() + wmma_cases() + bulk_cases() + video_cases()
    step = 16  # kernels in a module
    texts = [HEAD + "".join(c.text for c in cases[i : i + step]) for i in range(0, len(cases), step)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        cubins = list(pool.map(compiled, texts))
    rows: list[dict[str, Any]] = []
    outputs: dict[str, np.ndarray] = {}
    modules: list[Any] = []
    if "--list" not in sys.argv:
        import cupy as cp

        modules = [cp.RawModule(path=path) for path in cubins]
    for i, case in enumerate(cases):
        masks = [[*MASKS.get(typ, ANY), n] for typ, n in case.inputs]
        row = {"name": case.name, "module": i // step, "threads": case.threads, "inputs": masks, "out": case.out}
        if modules:
            y = cp.zeros(BLOCKS * case.out, dtype=cp.uint32)
            modules[i // step].get_function(case.name)((BLOCKS,), (case.threads,), (cp.asarray(operands(case)), y))
            outputs[case.name] = y.get()
            row["sha256"] = hashlib.sha256(outputs[case.name]).hexdigest()[:16]
        rows.append(row)
    OUT.mkdir(parents=True, exist_ok=True)
    record = {"blocks": BLOCKS, "modules": texts, "cases": rows}
    with gzip.GzipFile(OUT / "wgmma.json.gz", "wb", mtime=0) as f:
        f.write(json.dumps(record, separators=(",", ":")).encode())
    if outputs:
        np.savez_compressed(OUT / "wgmma-outputs.npz", **{k: v[: v.size // BLOCKS] for k, v in outputs.items()})
    print(f"{len(cases)} cases, {len(texts)} modules")


if __name__ == "__main__":
    main()
