"""The instruction forms that instructions.py records: what PTX text, which operands, and the edge values of each class.

A form is one PTX instruction (or a short body) from up to four operands to one result. Operands and results travel as
64-bit words; a class says how wide the register is and which values are interesting. What ptxas refuses for sm_90a is
left out by the recording, so the rules below may offer more than there is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

ROUNDS = ("rn", "rz", "rm", "rp")
FLOATS = ("f16", "bf16", "f32", "f64")
INTS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
TESTS = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")

# Register width of a class, in bits.
WIDTH = {
    "f16": 16, "bf16": 16, "u16": 16, "e8x2": 16, "f32": 32, "u32": 32, "f16x2": 32, "bf16x2": 32, "shift": 32,
    "f64": 64, "u64": 64, "pred": 32,
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """One row: name is the instruction's text, or a name for a body of several."""

    name: str
    result: str
    operands: tuple[str, ...]
    body: str
    approximate: bool = False


def edges() -> dict[str, list[int]]:
    """The edge values per class, as bit patterns."""
    table: dict[str, list[int]] = {}
    for name, ebits, mbits in (("f16", 5, 10), ("bf16", 8, 7), ("f32", 8, 23), ("f64", 11, 52)):
        bias, one = (1 << ebits - 1) - 1, 1 << mbits
        top = ((1 << ebits) - 1) * one
        half = bias * one - one
        some = [
            0, 1, one >> 1, one - 1, one, one + 1, 2 * one - 1, (bias * one) >> 1, half - 1, half, half + 1,
            bias * one - 1, bias * one, bias * one + 1, bias * one + one // 2, bias * one + one,
            bias * one + one // 2 + one, (bias + mbits) * one, (bias + mbits + 1) * one - 1,
            (bias + ebits) * one + one // 8, top - one, top - 2, top - 1, top, top + 1, top + one // 2, top + one - 1,
        ]  # fmt: skip
        table[name] = sorted({s | v for v in some for s in (0, 1 << ebits + mbits)})
    for name, bits in (("u16", 16), ("u32", 32), ("u64", 64)):
        full = (1 << bits) - 1
        some = [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256]
        half = full >> bits // 2
        some += [full // 3, full // 5, full >> 1, full >> 2, (full >> 1) - 1, half, half + 1]
        table[name] = sorted({v & full for v in some} | {full - v for v in some})
    table["shift"] = [0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 0x1F20, 1 << 31, (1 << 32) - 1]
    for name in ("f16", "bf16"):
        vs = table[name][::3] + table[name][1::7]
        table[name + "x2"] = sorted({v | vs[(i * 7 + 3) % len(vs)] << 16 for i, v in enumerate(vs)})
    table["e8x2"] = sorted({v | (v * 37 & 0xFF) << 8 for v in range(0, 256, 3)})
    return table


# How many edge values each operand of a form has, by the number of operands: the grid stays below 3000 points.
GRID = {1: 1 << 16, 2: 52, 3: 14, 4: 7}


def thinned(values: list[int], most: int) -> list[int]:
    """At most so many values, spread evenly, the first and the last among them."""
    if len(values) <= most:
        return values
    return [values[i * (len(values) - 1) // (most - 1)] for i in range(most)]


def grid(form: Form, table: dict[str, list[int]]) -> list[tuple[int, ...]]:
    """The operand tuples of a form's edge grid, the last operand changing fastest."""
    most = GRID[len(form.operands)]
    return list(itertools.product(*(thinned(table[c], most) for c in form.operands)))


def op(name: str, result: str, *operands: str, approximate: bool = False) -> Form:
    """The form of one instruction whose text is its name."""
    args = ", ".join(("{d}", "{a}", "{b}", "{c}", "{e}")[: len(operands) + 1])
    return Form(name, result, operands, f"{name} {args};", approximate)


def opt(*words: str) -> Iterator[str]:
    """Every choice of leaving out or taking each of the modifiers, in their order."""
    for choice in itertools.product((False, True), repeat=len(words)):
        yield "".join("." + w for w, take in zip(words, choice) if take)


def arithmetic() -> Iterator[Form]:
    """f32, f64, f16 and bf16 sums, products and quotients."""
    for r in ROUNDS:
        for m in opt("ftz", "sat"):
            for name in ("add", "sub", "mul"):
                yield op(f"{name}.{r}{m}.f32", "f32", "f32", "f32")
            yield op(f"fma.{r}{m}.f32", "f32", "f32", "f32", "f32")
        for m in opt("ftz"):
            yield op(f"div.{r}{m}.f32", "f32", "f32", "f32")
            for name in ("rcp", "sqrt"):
                yield op(f"{name}.{r}{m}.f32", "f32", "f32")
        for name in ("add", "sub", "mul", "div"):
            yield op(f"{name}.{r}.f64", "f64", "f64", "f64")
        yield op(f"fma.{r}.f64", "f64", "f64", "f64", "f64")
        for name in ("rcp", "sqrt"):
            yield op(f"{name}.{r}.f64", "f64", "f64")
    for t in ("f16", "bf16", "f16x2", "bf16x2"):
        for m in opt("ftz", "sat"):
            for name in ("add", "sub", "mul"):
                yield op(f"{name}.rn{m}.{t}", t, t, t)
            yield op(f"fma.rn{m}.{t}", t, t, t, t)
        for m in (".relu", ".ftz.relu", ".oob", ".oob.relu"):
            yield op(f"fma.rn{m}.{t}", t, t, t, t)


def selection() -> Iterator[Form]:
    """min, max, abs, neg, copysign, testp, setp, set, slct."""
    for t in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
        for m in opt("ftz", "NaN", "xorsign.abs"):
            for name in ("min", "max"):
                yield op(f"{name}{m}.{t}", t, t, t)
        for m in opt("ftz"):
            yield op(f"abs{m}.{t}", t, t)
            yield op(f"neg{m}.{t}", t, t)
    for t in ("f32", "f64"):
        yield op(f"copysign.{t}", t, t, t)
        for test in TESTS:
            yield Form(f"testp.{test}.{t}", "pred", (t,), f"testp.{test}.{t} %p, {{a}}; selp.b32 {{d}}, 1, 0, %p;")
    for t in FLOATS:
        for m in opt("ftz"):
            for c in COMPARE:
                name = f"setp.{c}{m}.{t}"
                yield Form(name, "pred", (t, t), f"{name} %p, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %p;")
    for c in ("lt", "geu"):
        for m in opt("ftz"):
            yield op(f"set.{c}{m}.u32.f32", "u32", "f32", "f32")
            yield op(f"set.{c}{m}.f32.f32", "f32", "f32", "f32")
        yield op(f"set.{c}.f32.f64", "f32", "f64", "f64")
        yield op(f"set.{c}.f16.f16", "f16", "f16", "f16")
        yield op(f"set.{c}.bf16.bf16", "bf16", "bf16", "bf16")
        yield op(f"set.{c}.f16x2.f16x2", "f16x2", "f16x2", "f16x2")
        yield op(f"set.{c}.u16.f16", "u16", "f16", "f16")
    for m in opt("ftz"):
        yield op(f"slct{m}.u32.f32", "u32", "u32", "u32", "f32")
    yield op("slct.u32.s32", "u32", "u32", "u32", "u32")


def register(t: str) -> str:
    """The class of a register that holds a value of a PTX type; bytes travel in 32 bits."""
    return {"u8": "u32", "s8": "u32", "s16": "u16", "s32": "u32", "s64": "u64"}.get(t, t)


def conversions() -> Iterator[Form]:
    """cvt among integers and floats."""
    for d, s in itertools.product(INTS, INTS):
        for m in opt("sat"):
            yield op(f"cvt{m}.{d}.{s}", register(d), register(s))
    for f, i in itertools.product(FLOATS, INTS):
        for r in ROUNDS:
            for m in opt("ftz", "sat"):
                yield op(f"cvt.{r}i{m}.{i}.{f}", register(i), f)
            for m in opt("sat"):
                yield op(f"cvt.{r}{m}.{f}.{i}", f, register(i))
    for d, s in itertools.product(FLOATS, FLOATS):
        for m in opt("ftz", "sat"):
            yield op(f"cvt{m}.{d}.{s}", d, s)
            for r in ROUNDS:
                yield op(f"cvt.{r}{m}.{d}.{s}", d, s)
                if d == s:
                    yield op(f"cvt.{r}i{m}.{d}.{s}", d, s)
        for r, m in itertools.product(ROUNDS, (".relu", ".satfinite", ".relu.satfinite")):
            yield op(f"cvt.{r}{m}.{d}.{s}", d, s)


def packed() -> Iterator[Form]:
    """cvt to and from pairs, tf32 and cvt.pack."""
    for m in opt("satfinite"):
        yield op(f"cvt.rna{m}.tf32.f32", "u32", "f32")
    for r in ("rn", "rz"):
        for m in (*opt("relu", "satfinite"), ".satfinite.relu"):
            yield op(f"cvt.{r}{m}.tf32.f32", "u32", "f32")
            for t in ("f16x2", "bf16x2"):
                yield op(f"cvt.{r}{m}.{t}.f32", t, "f32", "f32")
    for t in ("e4m3x2", "e5m2x2"):
        for m in opt("relu"):
            yield op(f"cvt.rn.satfinite{m}.{t}.f32", "e8x2", "f32", "f32")
            yield op(f"cvt.rn.satfinite{m}.{t}.f16x2", "e8x2", "f16x2")
            yield op(f"cvt.rn{m}.f16x2.{t}", "f16x2", "e8x2")
    for t in ("u16", "s16"):
        yield op(f"cvt.pack.sat.{t}.s32", "u32", "u32", "u32")
    for t in ("u2", "s2", "u4", "s4", "u8", "s8"):
        yield op(f"cvt.pack.sat.{t}.s32.b32", "u32", "u32", "u32", "u32")


def approximations() -> Iterator[Form]:
    """The instructions whose results are only bounded."""
    for m in opt("ftz"):
        for name in ("ex2", "lg2", "sin", "cos", "rcp", "rsqrt", "sqrt"):
            yield op(f"{name}.approx{m}.f32", "f32", "f32", approximate=True)
        for name in ("approx", "full"):
            yield op(f"div.{name}{m}.f32", "f32", "f32", "f32", approximate=True)
        for name in ("rcp", "rsqrt"):
            yield op(f"{name}.approx{m}.f64", "f64", "f64", approximate=True)
    for name in ("tanh.approx.f32", "ex2.approx.f16", "tanh.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.bf16"):
        t = name.rsplit(".", 1)[1]
        yield op(name, t, t, approximate=True)


def integers() -> Iterator[Form]:
    """Integer arithmetic."""
    for bits, sign in itertools.product((16, 32, 64), "us"):
        t, c = f"{sign}{bits}", f"u{bits}"
        for name in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            yield op(f"{name}.{t}", c, c, c)
        for name in ("mad.lo", "mad.hi", "sad"):
            yield op(f"{name}.{t}", c, c, c, c)
        for name in ("abs", "neg"):
            yield op(f"{name}.{t}", c, c)
        yield op(f"shr.{t}", c, c, "shift")
        if bits < 64:
            yield op(f"mul.wide.{t}", f"u{2 * bits}", c, c)
            yield op(f"mad.wide.{t}", f"u{2 * bits}", c, c, f"u{2 * bits}")
        if bits > 16:
            yield op(f"bfe.{t}", c, c, "shift", "shift")
            for m in opt("shiftamt"):
                yield op(f"bfind{m}.{t}", "u32", c)
        for x in ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"):
            name = f"setp.{x}.{t}"
            yield Form(name, "pred", (c, c), f"{name} %p, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %p;")
    for bits in (16, 32, 64):
        c = f"u{bits}"
        yield op(f"shl.b{bits}", c, c, "shift")
        for name in ("not", "cnot"):
            yield op(f"{name}.b{bits}", c, c)
        if bits > 16:
            yield op(f"brev.b{bits}", c, c)
            yield op(f"clz.b{bits}", "u32", c)
            yield op(f"popc.b{bits}", "u32", c)
            yield op(f"bfi.b{bits}", c, c, c, "shift", "shift")
    for sign in "us":
        t = f"{sign}32"
        for half in ("lo", "hi"):
            yield op(f"mul24.{half}.{t}", "u32", "u32", "u32")
            yield op(f"mad24.{half}.{t}", "u32", "u32", "u32", "u32")
        for mode in ("clamp", "wrap"):
            yield op(f"szext.{mode}.{t}", "u32", "u32", "shift")
        for other in "us":
            yield op(f"dp4a.{t}.{other}32", "u32", "u32", "u32", "u32")
            for half in ("lo", "hi"):
                yield op(f"dp2a.{half}.{t}.{other}32", "u32", "u32", "u32", "u32")
    for name in ("add.sat.s32", "sub.sat.s32", "min.relu.s32", "max.relu.s32"):
        yield op(name, "u32", "u32", "u32")
    for name in ("mad.hi.sat.s32", "mad24.hi.sat.s32"):
        yield op(name, "u32", "u32", "u32", "u32")
    for name in ("add.u16x2", "min.u16x2", "max.u16x2", "min.s16x2", "max.s16x2", "min.relu.s16x2", "max.relu.s16x2"):
        yield op(name, "u32", "u32", "u32")


def fields() -> Iterator[Form]:
    """Bit fields, permutations, funnel shifts and carries."""
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield op(f"prmt.b32{mode}", "u32", "u32", "u32", "u32")
    for lut in (0x00, 0x3F, 0x96, 0xCA, 0xE8, 0x1B, 0x80, 0xFE):
        yield Form(f"lop3.b32.0x{lut:02x}", "u32", ("u32",) * 3, f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, 0x{lut:02x};")
    for way, mode in itertools.product("lr", ("clamp", "wrap")):
        yield op(f"shf.{way}.{mode}.b32", "u32", "u32", "u32", "shift")
    for mode in ("clamp", "wrap"):
        yield op(f"bmsk.{mode}.b32", "u32", "shift", "shift")
    yield Form("fns.b32", "u32", ("u32", "shift", "u32"), "and.b32 {b}, {b}, 31; fns.b32 {d}, {a}, {b}, {c};")
    for bits in (32, 64):
        c = f"u{bits}"
        for name in ("add", "sub"):
            yield Form(f"{name}.cc.{c}", c, (c, c), f"{name}.cc.{c} %t, {{a}}, {{b}}; {name}c.{c} {{d}}, 0, 0;")
            yield Form(f"{name}c.cc.{c}", c, (c, c, c),
                       f"{name}.cc.{c} %t, {{c}}, {{b}}; {name}c.{c} {{d}}, {{a}}, {{b}};")  # fmt: skip
        for half in ("lo", "hi"):
            yield Form(f"mad.{half}.cc.{c}", c, (c, c, c),
                       f"mad.{half}.cc.{c} %t, {{a}}, {{b}}, {{c}}; addc.{c} {{d}}, 0, 0;")  # fmt: skip
            yield Form(f"madc.{half}.{c}", c, (c, c, c),
                       f"add.cc.{c} %t, {{a}}, {{c}}; madc.{half}.{c} {{d}}, {{a}}, {{b}}, {{c}};")  # fmt: skip


def forms() -> list[Form]:
    """Every candidate, each name once."""
    rows: dict[str, Form] = {}
    for family in (arithmetic, selection, conversions, packed, approximations, integers, fields):
        for form in family():
            rows.setdefault(form.name, form)
    return list(rows.values())


def held(t: str) -> str:
    """The class of a register that holds a value of any PTX type, bits among them."""
    return register(t) if t[0] != "b" or t.startswith("bf") else "u" + t[1:]


MOVED = ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")
BITS = ("b16", "b32", "b64")
SHOW = "selp.b32 {d}, 1, 0, %p;"
BOTH = "selp.b32 {d}, 1, 0, %p; selp.b32 %n, 2, 0, %q; or.b32 {d}, {d}, %n;"


def logic() -> Iterator[Form]:
    """Bits, predicates, moves and selections that have no rounding and no sign."""
    for t in BITS:
        c = held(t)
        for name in ("and", "or", "xor"):
            yield op(f"{name}.{t}", c, c, c)
        yield op(f"shr.{t}", c, c, "shift")
    truths = "setp.ne.u32 %p, {a}, 0; setp.ne.u32 %q, {b}, 0; "
    for name in ("and", "or", "xor"):
        yield Form(f"{name}.pred", "pred", ("shift", "shift"), f"{truths}{name}.pred %p, %p, %q; {SHOW}")
    for name in ("not", "mov"):
        yield Form(f"{name}.pred", "pred", ("shift", "shift"), f"{truths}{name}.pred %p, %q; {SHOW}")
    for name in ("and", "or"):
        body = f"setp.ne.u32 %q, {{e}}, 0; lop3.{name}.b32 %t|%p, {{a}}, {{b}}, {{c}}, 0xe8, %q; {SHOW}"
        yield Form(f"lop3.{name}.b32", "pred", ("u32", "u32", "u32", "shift"), body)
    for t in MOVED:
        c = held(t)
        yield op(f"mov.{t}", c, c)
        yield Form(f"selp.{t}", c, (c, c, "shift"), f"setp.ne.u32 %p, {{c}}, 0; selp.{t} {{d}}, {{a}}, {{b}}, %p;")
        yield op(f"slct.{t}.s32", c, c, c, "u32")
        for m in opt("ftz"):
            yield op(f"slct{m}.{t}.f32", c, c, c, "f32")


def comparisons() -> Iterator[Form]:
    """setp and set with every comparison, type and combination, one at a time."""
    whole = tuple(t for t in INTS if t[1:] != "8")
    kinds = {t: ("eq", "ne") if t in BITS else ("lt", "ge") for t in whole + BITS} | {t: ("lt", "geu") for t in FLOATS}
    for t, (c, _) in kinds.items():
        r = held(t)
        yield Form(f"setp.{c}.{t}", "pred", (r, r), f"setp.{c}.{t} %p, {{a}}, {{b}}; {SHOW}")
        for b in ("and", "or", "xor"):
            name = f"setp.{c}.{b}.{t}"
            yield Form(name, "pred", (r, r, "shift"), f"setp.ne.u32 %q, {{c}}, 0; {name} %p, {{a}}, {{b}}, %q; {SHOW}")
            yield Form(f"set.{c}.{b}.u32.{t}", "u32", (r, r, "shift"),
                       f"setp.ne.u32 %q, {{c}}, 0; set.{c}.{b}.u32.{t} {{d}}, {{a}}, {{b}}, %q;")  # fmt: skip
    for t in ("f16x2", "bf16x2"):
        for c, m in itertools.product(COMPARE, opt("ftz")):
            yield Form(f"setp.{c}{m}.{t}", "pred", (t, t), f"setp.{c}{m}.{t} %p|%q, {{a}}, {{b}}; {BOTH}")
        for b in ("and", "or", "xor"):
            yield Form(f"setp.lt.{b}.{t}", "pred", (t, t, "shift"),
                       f"setp.ne.u32 %p, {{c}}, 0; setp.lt.{b}.{t} %p|%q, {{a}}, {{b}}, %p; {BOTH}")  # fmt: skip
            yield Form(f"set.lt.{b}.{t}.{t}", t, (t, t, "shift"),
                       f"setp.ne.u32 %q, {{c}}, 0; set.lt.{b}.{t}.{t} {{d}}, {{a}}, {{b}}, %q;")  # fmt: skip
    for c in ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"):
        yield op(f"set.{c}.u32.u32", "u32", "u32", "u32")
        yield op(f"set.{c}.u32.s32", "u32", "u32", "u32")
    for d, t in itertools.product(("u16", "s16", "u32", "s32", "f16", "bf16", "f32", "f16x2", "bf16x2"),
                                  (*kinds, "f16x2", "bf16x2")):  # fmt: skip
        if (d, t) == ("bf16", "f16"):
            continue  # ptxas takes it, the manual does not have it
        for m in opt("ftz"):
            yield op(f"set.{'eq' if t in BITS else 'lt'}{m}.{d}.{t}", held(d), held(t), held(t))
    for d, t in (("u32", "f32"), ("u32", "f64"), ("u32", "f16"), ("u32", "bf16"), ("f16x2",) * 2, ("bf16x2",) * 2):
        for c in COMPARE:
            yield op(f"set.{c}.{d}.{t}", held(d), t, t)


def further() -> list[Form]:
    """Forms that only the emulator is compared with: other spellings, and what takes no arithmetic."""
    rows: dict[str, Form] = {}

    def more() -> Iterator[Form]:
        for m in opt("ftz", "sat"):
            for name, t in itertools.product(("add", "sub", "mul"), ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2")):
                yield op(f"{name}{m}.{t}", t, t, t)
            for r in ROUNDS:
                yield op(f"mad.{r}{m}.f32", "f32", "f32", "f32", "f32")
                yield op(f"mad.{r}{m}.f64", "f64", "f64", "f64", "f64")
        for name in ("add.s16x2", "min.s32.relu", "max.s32.relu"):
            yield op(name, "u32", "u32", "u32")
        yield op("cvt.rn.satfinite.tf32.f32", "u32", "f32")
        for name in ("ex2.approx.f16x2", "ex2.approx.ftz.bf16x2", "tanh.approx.f16x2", "tanh.approx.bf16x2"):
            t = name.rsplit(".", 1)[1]
            yield op(name, t, t, approximate=True)
        for t in ("u32", "u64", "s32", "s64"):
            c = held(t)
            for name in ("add", "sub"):
                yield Form(f"{name}.cc.{t}", c, (c, c), f"{name}.cc.{t} %t, {{a}}, {{b}}; {name}c.{t} {{d}}, 0, 0;")
                yield Form(f"{name}c.cc.{t}.chain", c, (c, c, c), f"{name}.cc.{t} %t, {{a}}, {{b}}; "
                           f"{name}c.cc.{t} %t, {{c}}, {{a}}; {name}c.{t} {{d}}, 0, 0;")  # fmt: skip
            for half in ("lo", "hi"):
                yield Form(f"mad.{half}.cc.{t}", c, (c, c, c),
                           f"mad.{half}.cc.{t} %t, {{a}}, {{b}}, {{c}}; addc.{t} {{d}}, 0, 0;")  # fmt: skip
                yield Form(f"madc.{half}.cc.{t}.chain", c, (c, c, c), f"add.cc.{t} %t, {{a}}, {{c}}; "
                           f"madc.{half}.cc.{t} %t, {{a}}, {{b}}, {{c}}; addc.{t} {{d}}, 0, 0;")  # fmt: skip

    known = {form.name for form in forms()}
    for family in (logic, comparisons, more):
        for form in family():
            if form.name not in known:
                rows.setdefault(form.name, form)
    return list(rows.values())


HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
LOAD = {16: "cvt.u16.u64", 32: "cvt.u32.u64", 64: "mov.b64"}
STORE = {16: "cvt.u64.u16", 32: "cvt.u64.u32", 64: "mov.b64"}


def kernel(form: Form, name: str) -> str:
    """The text of an entry (out, a, b, c, e, n) that applies the form to n tuples of operands."""
    letters = "abce"[: len(form.operands)]
    width = WIDTH[form.result]
    reg = {16: ".b16", 32: ".b32", 64: ".b64"}
    lines = [f".visible .entry {name}(.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pe,"]
    lines += ["    .param .u32 pn)", "{", ".reg .pred %p, %q;", ".reg .b32 %i, %j, %k, %n;", ".reg .b64 %o, %x, %w;"]
    lines += [f".reg {reg[width]} %vd, %t;"]
    lines += [f".reg {reg[WIDTH[c]]} %v{x};" for x, c in zip(letters, form.operands)]
    lines += ["mov.u32 %i, %tid.x; mov.u32 %j, %ctaid.x; mov.u32 %k, %ntid.x; mad.lo.u32 %i, %j, %k, %i;"]
    lines += ["ld.param.u32 %n, [pn]; setp.ge.u32 %q, %i, %n; @%q ret;", "mul.wide.u32 %o, %i, 8;"]
    for x, c in zip(letters, form.operands):
        lines += [f"ld.param.u64 %x, [p{x}]; add.u64 %x, %x, %o; ld.global.b64 %w, [%x]; {LOAD[WIDTH[c]]} %v{x}, %w;"]
    lines += [form.body.format(d="%vd", **{x: f"%v{x}" for x in letters})]
    lines += [f"{STORE[width]} %w, %vd; ld.param.u64 %x, [pd]; add.u64 %x, %x, %o; st.global.b64 [%x], %w; ret;", "}"]
    return "\n".join(lines) + "\n"
