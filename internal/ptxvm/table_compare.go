package ptxvm

import (
	"strings"

	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxmath"
)

// This file implements comparisons and selections (PTX ISA, 9.7.6 and 9.7.7).

var compareRows = []row{
	{syntax: "setp $cmp [$bool] $int|$bits", build: setpInt},
	{syntax: "setp $fcmp [$bool] [.ftz] .f32|.f16", build: setpFloat},
	{syntax: "setp $fcmp [$bool] .f64|.bf16", build: setpFloat},
	{syntax: "setp $fcmp [$bool] [.ftz] .f16x2", build: setpPair},
	{syntax: "setp $fcmp [$bool] .bf16x2", build: setpPair},
	{syntax: "set $cmp [$bool] .u32|.s32|.f32|.f16|.bf16 $int|$bits", build: setInt},
	{syntax: "set $fcmp [$bool] [.ftz] .u32|.s32|.f32|.f16|.bf16 .f32", build: setFloat},
	{syntax: "set $fcmp [$bool] .u32|.s32|.f32|.f16|.bf16 .f64", build: setFloat},
	{syntax: "set $fcmp [$bool] [.ftz] .u16|.s16|.u32|.s32|.f16 .f16", build: setFloat},
	{syntax: "set $fcmp [$bool] .u16|.s16|.u32|.s32|.bf16 .bf16", build: setFloat},
	{syntax: "set $fcmp [$bool] [.ftz] .f16x2|.u32|.s32 .f16x2", build: setPair},
	{syntax: "set $fcmp [$bool] .bf16x2|.u32|.s32 .bf16x2", build: setPair},
	{syntax: "selp $move", build: selp},
	{syntax: "slct $move .s32", build: slct},
	{syntax: "slct [.ftz] $move .f32", build: slctFloat},
}

func selp(b *builder) {
	typ := b.typ(0)
	b.ternaryOf(typ, typ, typ, "pred", func(x, y, p uint64) uint64 {
		if p != 0 {
			return x
		}
		return y
	})
	switch typeBytes(typ) {
	case 4:
		b.out.run = runSelp32
	case 8:
		b.out.run = runSelp64
	}
}

// slct chooses by the sign of a number.
func slct(b *builder) {
	typ := b.in.Mods[0]
	b.ternaryOf(typ, typ, typ, "s32", func(x, y, z uint64) uint64 {
		if int32(z) >= 0 {
			return x
		}
		return y
	})
}

// slctFloat chooses by the sign of a number; -0 counts as 0, and NaN as negative. Flushing changes that for subnormal
// numbers.
func slctFloat(b *builder) {
	typ, ftz := b.typ(1), b.in.Has("ftz")
	b.ternaryOf(typ, typ, typ, "f32", func(x, y, z uint64) uint64 {
		if ptxmath.GE.F32(uint32(z), 0, ftz) {
			return x
		}
		return y
	})
}

// setpInt compares whole numbers.
func setpInt(b *builder) {
	typ := b.typ(0)
	b.setp(typ, b.intCompare(typ))
	if fast := fastCompare(b.in.Mods[0], typ); fast != nil && b.out.list == nil && b.out.c == noRef {
		b.out.fastSetp, b.out.run = fast, runFastSetp
	}
}

// intCompare is the comparison that the instruction names: lo, ls, hi and hs are for unsigned numbers, and bits are
// only equal or not.
func (b *builder) intCompare(typ string) func(x, y uint64) bool {
	t, cmp := wholeOf(typ), b.in.Mods[0]
	switch cmp {
	case "lo", "ls", "hi", "hs":
		if t.signed {
			b.fail(b.in.Pos, "", "%s: .%s compares unsigned numbers", b.in.Mnemonic(), cmp)
		}
	}
	if typ[0] == 'b' && cmp != "eq" && cmp != "ne" {
		b.fail(b.in.Pos, "", "%s: bits are only equal or not", b.in.Mnemonic())
	}
	switch cmp {
	case "eq":
		return func(x, y uint64) bool { return x == y }
	case "ne":
		return func(x, y uint64) bool { return x != y }
	case "lt", "lo":
		return t.less
	case "le", "ls":
		return func(x, y uint64) bool { return !t.less(y, x) }
	case "gt", "hi":
		return func(x, y uint64) bool { return t.less(y, x) }
	}
	return func(x, y uint64) bool { return !t.less(x, y) } // ge, hs
}

// setp makes a comparison: operands p or p|q, a, b, and with a boolean operator a predicate c.
func (b *builder) setp(typ string, cmp func(x, y uint64) bool) {
	dst := b.arg(0)
	if dst.Kind == ptx.PairArg {
		b.out.d = b.dstOf(&dst.List[0], "pred")
		b.out.list = []ref{b.dstOf(&dst.List[1], "pred")}
	} else {
		b.out.d = b.dstOf(dst, "pred")
	}
	b.compare(typ, cmp)
	b.out.run = runSetp
}

// compare reads the operands of a comparison.
func (b *builder) compare(typ string, cmp func(x, y uint64) bool) {
	b.out.a, b.out.b, b.out.c, b.out.cmp = b.src(1, typ), b.src(2, typ), noRef, cmp
	for _, m := range b.in.Mods[1:] {
		switch m {
		case "and", "or", "xor":
			b.out.combine = m
		}
	}
	if b.out.combine == "" {
		b.args(3)
		return
	}
	if b.args(4); b.err != nil {
		return
	}
	b.out.c = b.src(3, "pred")
	if b.arg(3).Not {
		b.out.flipC = ^uint32(0)
	}
}

func runSetp(w *warp, in *ins) {
	var yes uint32
	for lane := range w.lanes() {
		if in.cmp(w.get(in.a, lane), w.get(in.b, lane)) {
			yes |= 1 << lane
		}
	}
	w.predicate(in, yes)
}

// predicate writes the result of a comparison, and its opposite where the instruction wants both.
func (w *warp) predicate(in *ins, yes uint32) {
	no := ^yes
	if in.c != noRef {
		c := w.p[in.c.index()] ^ in.flipC
		yes, no = combine(in.combine, yes, c), combine(in.combine, no, c)
	}
	d := &w.p[in.d.index()]
	*d = *d&^w.mask | yes&w.mask
	if in.list != nil {
		q := &w.p[in.list[0].index()]
		*q = *q&^w.mask | no&w.mask
	}
}

// setInt makes set of whole numbers.
func setInt(b *builder) {
	typ := b.typ(0)
	b.set(b.typ(1), typ, b.intCompare(typ))
}

// trueBits is what set writes for true: 1.0 or all bits.
var trueBits = map[string]uint64{"f32": 0x3f800000, "f16": 0x3c00, "bf16": 0x3f80, "u32": 1<<32 - 1, "s32": 1<<32 - 1,
	"u16": 1<<16 - 1, "s16": 1<<16 - 1}

// set makes a comparison whose result is a number.
func (b *builder) set(result, typ string, cmp func(x, y uint64) bool) {
	b.out.d = b.dst(0, result)
	b.compare(typ, cmp)
	yes := trueBits[result]
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			p := uint32(truth(in.cmp(w.get(in.a, lane), w.get(in.b, lane))))
			if in.c != noRef {
				p = combine(in.combine, p, uint32(w.get(in.c, lane))^in.flipC&1)
			}
			w.set(in.d, lane, yes*uint64(p))
		}
	}
}

// comparisons are those of floats.
var comparisons = map[string]ptxmath.Cmp{"eq": ptxmath.EQ, "ne": ptxmath.NE, "lt": ptxmath.LT, "le": ptxmath.LE,
	"gt": ptxmath.GT, "ge": ptxmath.GE, "equ": ptxmath.EQU, "neu": ptxmath.NEU, "ltu": ptxmath.LTU, "leu": ptxmath.LEU,
	"gtu": ptxmath.GTU, "geu": ptxmath.GEU, "num": ptxmath.NUM, "nan": ptxmath.NAN}

// floatCompare is the comparison that the instruction names, of floats of a type.
func (b *builder) floatCompare(typ string) func(x, y uint64) bool {
	cmp, ftz := comparisons[b.in.Mods[0]], b.in.Has("ftz")
	switch typ {
	case "f64":
		return cmp.F64
	case "f32":
		return func(x, y uint64) bool { return cmp.F32(uint32(x), uint32(y), ftz) }
	case "f16":
		return func(x, y uint64) bool { return cmp.F16(uint16(x), uint16(y), ftz) }
	}
	return func(x, y uint64) bool { return cmp.BF16(uint16(x), uint16(y)) }
}

func setpFloat(b *builder) {
	typ := b.typ(0)
	b.setp(typ, b.floatCompare(typ))
	if fast := fastCompare(b.in.Mods[0], typ); fast != nil && !b.in.Has("ftz") && b.out.list == nil && b.out.c == noRef {
		b.out.fastSetp, b.out.run = fast, runFastSetp
	}
}

// setpPair compares pairs: the first predicate is for the lower ones, the second for the upper ones.
func setpPair(b *builder) {
	dst := b.arg(0)
	if dst.Kind != ptx.PairArg {
		b.fail(dst.Pos, "", "%s writes two predicates", b.in.Mnemonic())
		return
	}
	typ, _ := strings.CutSuffix(b.typ(0), "x2")
	b.out.d, b.out.list = b.dstOf(&dst.List[0], "pred"), []ref{b.dstOf(&dst.List[1], "pred")}
	b.compare("b32", b.floatCompare(typ))
	b.out.run = func(w *warp, in *ins) {
		var low, high uint32
		for lane := range w.lanes() {
			x, y := w.get(in.a, lane), w.get(in.b, lane)
			low |= uint32(truth(in.cmp(x, y))) << lane
			high |= uint32(truth(in.cmp(x>>16, y>>16))) << lane
		}
		if in.c != noRef {
			c := w.p[in.c.index()] ^ in.flipC
			low, high = combine(in.combine, low, c), combine(in.combine, high, c)
		}
		p, q := &w.p[in.d.index()], &w.p[in.list[0].index()]
		*p = *p&^w.mask | low&w.mask
		*q = *q&^w.mask | high&w.mask
	}
}

// setFloat makes set of floats.
func setFloat(b *builder) {
	typ := b.typ(0)
	b.set(b.typ(1), typ, b.floatCompare(typ))
}

// setPair makes set of pairs: each half of the result is for one of them.
func setPair(b *builder) {
	typ, _ := strings.CutSuffix(b.typ(0), "x2")
	yes := trueBits[strings.TrimSuffix(b.typ(1), "x2")] & 0xffff
	b.out.d = b.dst(0, "b32")
	b.compare("b32", b.floatCompare(typ))
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			x, y := w.get(in.a, lane), w.get(in.b, lane)
			p, q := uint32(truth(in.cmp(x, y))), uint32(truth(in.cmp(x>>16, y>>16)))
			if in.c != noRef {
				c := uint32(w.get(in.c, lane)) ^ in.flipC&1
				p, q = combine(in.combine, p, c), combine(in.combine, q, c)
			}
			w.set(in.d, lane, yes*uint64(p)|yes*uint64(q)<<16)
		}
	}
}
