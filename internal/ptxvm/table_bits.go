package ptxvm

import (
	"math/bits"

	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxmath"
)

// This file implements logic, shifts and instructions on single bits and fields of bits (PTX ISA, 9.7.1 and 9.7.8).

var bitRows = []row{
	{syntax: "and $bits|.pred", build: arith(func(a, b uint64) uint64 { return a & b }, fast.and32, fast.and64)},
	{syntax: "or $bits|.pred", build: arith(func(a, b uint64) uint64 { return a | b }, fast.or32, fast.or64)},
	{syntax: "xor $bits|.pred", build: arith(func(a, b uint64) uint64 { return a ^ b }, fast.xor32, fast.xor64)},
	{syntax: "not $bits|.pred", build: func(b *builder) {
		typ := b.typ(0)
		b.unary(typ, func(a uint64) uint64 { return cut(^a, typ) })
	}},
	{syntax: "cnot $bits", build: func(b *builder) {
		b.unary(b.typ(0), func(a uint64) uint64 { return truth(a == 0) })
	}},
	{syntax: "lop3 .b32", build: lop3},
	{syntax: "lop3 .and|.or .b32", build: lop3},
	{syntax: "shl $bits", build: shift},
	{syntax: "shr $bits|$int", build: shift},
	{syntax: "shf .l|.r .wrap|.clamp .b32", build: funnel},
	{syntax: "popc .b32|.b64", build: count(func(a uint64, _ int) uint64 { return uint64(bits.OnesCount64(a)) })},
	{syntax: "clz .b32|.b64", build: count(func(a uint64, n int) uint64 {
		return uint64(bits.LeadingZeros64(a) - 64 + n)
	})},
	{syntax: "brev .b32|.b64", build: func(b *builder) {
		free := wholeOf(b.typ(0)).free
		b.unary(b.typ(0), func(a uint64) uint64 { return bits.Reverse64(a) >> free })
	}},
	{syntax: "bfind [.shiftamt] .u32|.s32|.u64|.s64", build: bfind},
	{syntax: "fns .b32", build: fns},
	{syntax: "bfe .u32|.s32|.u64|.s64", build: bfe},
	{syntax: "bfi .b32|.b64", build: bfi},
	{syntax: "bmsk .clamp|.wrap .b32", build: bmsk},
	{syntax: "szext .clamp|.wrap $int32", build: szext},
	{syntax: "prmt .b32 [.f4e|.b4e|.rc8|.ecl|.ecr|.rc16]", build: prmt},
}

// lop3 computes any function of three bits, given as a table of 8; with a second result, whether any bit is set,
// combined with a predicate.
func lop3(b *builder) {
	lut := b.arg(4)
	if lut.Kind != ptx.IntArg || lut.Value > 255 {
		b.fail(lut.Pos, "", "the table of lop3 is not a number from 0 to 255: %s", lut)
		return
	}
	f := func(x, y, z uint64) uint64 {
		return uint64(ptxmath.Lop3(uint32(x), uint32(y), uint32(z), uint8(lut.Value)))
	}
	if len(b.in.Mods) == 1 {
		if b.args(5); b.err == nil {
			b.ternary("b32", f)
		}
		return
	}
	if b.args(6); b.err != nil {
		return
	}
	dst := b.arg(0)
	if dst.Kind != ptx.PairArg {
		b.fail(dst.Pos, "", "%s writes a register and a predicate", b.in.Mnemonic())
		return
	}
	b.out.d = b.dstOf(&dst.List[0], "b32")
	b.out.a, b.out.b, b.out.c = b.src(1, "b32"), b.src(2, "b32"), b.src(3, "b32")
	b.out.list = []ref{b.dstOf(&dst.List[1], "pred"), b.src(5, "pred")}
	b.out.combine = b.in.Mods[0]
	if b.arg(5).Not {
		b.out.flipC = ^uint32(0)
	}
	b.out.f3 = f
	b.out.run = func(w *warp, in *ins) {
		var set uint32
		for lane := range w.lanes() {
			v := in.f3(w.get(in.a, lane), w.get(in.b, lane), w.get(in.c, lane))
			w.set(in.d, lane, v)
			set |= uint32(truth(v != 0)) << lane
		}
		p, q := &w.p[in.list[0].index()], w.p[in.list[1].index()]^in.flipC
		*p = *p&^w.mask | combine(in.combine, set, q)&w.mask
	}
}

// combine joins two predicates.
func combine(how string, p, q uint32) uint32 {
	switch how {
	case "and":
		return p & q
	case "or":
		return p | q
	}
	return p ^ q
}

// shift makes shl and shr. Amounts beyond the size are taken as the size.
func shift(b *builder) {
	typ := b.typ(0)
	t := wholeOf(typ)
	last := uint64(63 - t.free)
	switch {
	case b.in.Op == "shl":
		b.binaryOf(typ, typ, "u32", func(x, y uint64) uint64 { return t.cut(x << y) })
	case t.signed:
		b.binaryOf(typ, typ, "u32", func(x, y uint64) uint64 { return t.cut(uint64(t.sign(x) >> min(y, last))) })
	default:
		b.binaryOf(typ, typ, "u32", func(x, y uint64) uint64 { return x >> y })
	}
	switch b.in.Op + typ {
	case "shlb32":
		b.out.fast32, b.out.run = fast.shl32, runFast32
	case "shrb32", "shru32":
		b.out.fast32, b.out.run = fast.shr32, runFast32
	case "shrs32":
		b.out.fast32, b.out.run = fast.shrSigned32, runFast32
	case "shlb64":
		b.out.run = runShl64
	}
}

// funnel shifts two words as one of 64 bits.
func funnel(b *builder) {
	f, wrap := ptxmath.ShfR, b.in.Mods[1] == "wrap"
	if b.in.Mods[0] == "l" {
		f = ptxmath.ShfL
	}
	b.ternary("b32", func(x, y, n uint64) uint64 { return uint64(f(uint32(x), uint32(y), uint32(n), wrap)) })
}

func count(f func(a uint64, bits int) uint64) func(*builder) {
	return func(b *builder) {
		n := 8 * typeBytes(b.typ(0))
		b.unaryOf("u32", b.typ(0), func(a uint64) uint64 { return f(a, n) })
	}
}

func bfind(b *builder) {
	typ := b.typ(0)
	sign, amount := isSigned(typ), b.in.Has("shiftamt")
	if typeBytes(typ) == 8 {
		b.unaryOf("u32", typ, func(a uint64) uint64 { return uint64(ptxmath.Bfind64(a, sign, amount)) })
		return
	}
	b.unaryOf("u32", typ, func(a uint64) uint64 { return uint64(ptxmath.Bfind32(uint32(a), sign, amount)) })
}

func fns(b *builder) {
	b.ternary("b32", func(x, y, z uint64) uint64 { return uint64(ptxmath.Fns(uint32(x), uint32(y), int32(z))) })
}

func bfe(b *builder) {
	typ := b.typ(0)
	sign := isSigned(typ)
	f := func(a, at, n uint64) uint64 { return uint64(ptxmath.Bfe32(uint32(a), uint32(at), uint32(n), sign)) }
	if typeBytes(typ) == 8 {
		f = func(a, at, n uint64) uint64 { return ptxmath.Bfe64(a, uint32(at), uint32(n), sign) }
	}
	b.ternaryOf(typ, typ, "u32", "u32", f)
}

func bfi(b *builder) {
	typ, f := b.typ(0), ptxmath.Bfi64
	if typ == "b32" {
		f = func(x, y uint64, at, n uint32) uint64 { return uint64(ptxmath.Bfi32(uint32(x), uint32(y), at, n)) }
	}
	b.out.d, b.out.a, b.out.b, b.out.c = b.dst(0, typ), b.src(1, typ), b.src(2, typ), b.src(3, "u32")
	b.out.list = []ref{b.src(4, "u32")}
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			at, n := uint32(w.get(in.c, lane)), uint32(w.get(in.list[0], lane))
			w.set(in.d, lane, f(w.get(in.a, lane), w.get(in.b, lane), at, n))
		}
	}
}

func bmsk(b *builder) {
	wrap := b.in.Has("wrap")
	b.binary("b32", func(at, n uint64) uint64 { return uint64(ptxmath.Bmsk(uint32(at), uint32(n), wrap)) })
}

func szext(b *builder) {
	sign, wrap := isSigned(b.typ(0)), b.in.Has("wrap")
	b.binary("b32", func(a, n uint64) uint64 { return uint64(ptxmath.Szext(uint32(a), uint32(n), sign, wrap)) })
}

// permutations are the modes of prmt.
var permutations = map[string]ptxmath.Permute{"f4e": ptxmath.F4E, "b4e": ptxmath.B4E, "rc8": ptxmath.RC8,
	"ecl": ptxmath.ECL, "ecr": ptxmath.ECR, "rc16": ptxmath.RC16}

func prmt(b *builder) {
	mode := permutations[b.in.Mods[len(b.in.Mods)-1]] // the type names none
	b.ternary("b32", func(x, y, z uint64) uint64 { return uint64(ptxmath.Prmt(uint32(x), uint32(y), uint32(z), mode)) })
}
