package ptxvm

import (
	"math/bits"

	"gpuemu/internal/ptx"
)

// This file implements instructions on whole numbers and bits.

var intRows = []row{
	{syntax: "add $int", build: arith(func(a, b uint64) uint64 { return a + b }, fastAdd32, fastAdd64)},
	{syntax: "sub $int", build: arith(func(a, b uint64) uint64 { return a - b }, fastSub32, fastSub64)},
	{syntax: "mul .lo $int", build: arith(func(a, b uint64) uint64 { return a * b }, fastMul32, nil)},
	{syntax: "mul .hi $int", build: mulHi},
	{syntax: "mul .wide .u16|.s16|.u32|.s32", build: mulWide},
	{syntax: "mad .lo $int", build: madLo},
	{syntax: "mad .wide .u16|.s16|.u32|.s32", build: madWide},
	{syntax: "div $int", build: division},
	{syntax: "rem $int", build: division},
	{syntax: "min $int", build: minMax},
	{syntax: "max $int", build: minMax},
	{syntax: "abs .s16|.s32|.s64", build: func(b *builder) {
		t := b.typ(0)
		b.unary(t, func(a uint64) uint64 {
			if s := signed(a, t); s < 0 {
				return cut(uint64(-s), t)
			}
			return a
		})
	}},
	{syntax: "neg .s16|.s32|.s64", build: func(b *builder) {
		t := b.typ(0)
		b.unary(t, func(a uint64) uint64 { return cut(-a, t) })
	}},
	{syntax: "and $bits|.pred", build: arith(func(a, b uint64) uint64 { return a & b }, fastAnd32, nil)},
	{syntax: "or $bits|.pred", build: arith(func(a, b uint64) uint64 { return a | b }, fastOr32, nil)},
	{syntax: "xor $bits|.pred", build: arith(func(a, b uint64) uint64 { return a ^ b }, fastXor32, nil)},
	{syntax: "not $bits|.pred", build: func(b *builder) {
		t := b.typ(0)
		b.unary(t, func(a uint64) uint64 { return cut(^a, t) })
	}},
	{syntax: "cnot $bits", build: func(b *builder) {
		b.unary(b.typ(0), func(a uint64) uint64 {
			if a == 0 {
				return 1
			}
			return 0
		})
	}},
	{syntax: "shl $bits", build: shift},
	{syntax: "shr $bits|$int", build: shift},
	{syntax: "popc .b32|.b64", build: count(func(a uint64, _ int) uint64 { return uint64(bits.OnesCount64(a)) })},
	{syntax: "clz .b32|.b64", build: count(func(a uint64, n int) uint64 {
		return uint64(bits.LeadingZeros64(a) - 64 + n)
	})},
	{syntax: "brev .b32|.b64", build: func(b *builder) {
		t := b.typ(0)
		b.unary(t, func(a uint64) uint64 { return bits.Reverse64(a) >> (64 - 8*typeBytes(t)) })
	}},
	{syntax: "selp $move", build: selp},
	{syntax: "setp $cmp .u16|.s16|.u32|.s32|.u64|.s64|.b16|.b32|.b64", build: setpInt},
	{syntax: "setp $cmp $bool .u16|.s16|.u32|.s32|.u64|.s64|.b16|.b32|.b64", build: setpInt},
}

// cut keeps the bits of a type.
func cut(v uint64, typ string) uint64 {
	if typ == "pred" {
		return v & 1
	}
	return v << (64 - 8*typeBytes(typ)) >> (64 - 8*typeBytes(typ))
}

// signed is the value of bits of a type as a signed number.
func signed(v uint64, typ string) int64 {
	n := 64 - 8*typeBytes(typ)
	return int64(v<<n) >> n
}

func isSigned(typ string) bool { return typ[0] == 's' }

// arith makes instructions whose low bits do not depend on the sign, with fast ways for full warps.
func arith(f func(a, b uint64) uint64, fast32 func(d, a, b *lanes32), fast64 func(d, a, b *lanes64)) func(*builder) {
	return func(b *builder) {
		t := b.typ(0)
		g := f
		if size := typeBytes(t); size < 4 {
			g = func(x, y uint64) uint64 { return cut(f(x, y), t) }
		}
		b.binary(t, g)
		switch {
		case typeBytes(t) == 4 && fast32 != nil:
			b.out.fast32, b.out.run = fast32, runFast32
		case typeBytes(t) == 8 && fast64 != nil:
			b.out.fast64, b.out.run = fast64, runFast64
		}
	}
}

func runFast32(w *warp, in *ins) {
	if w.mask == allLanes {
		in.fast32(&w.r32[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()])
		return
	}
	runBinary(w, in)
}

func runFast64(w *warp, in *ins) {
	if w.mask == allLanes {
		in.fast64(&w.r64[in.d.index()], &w.r64[in.a.index()], &w.r64[in.b.index()])
		return
	}
	runBinary(w, in)
}

func mulHi(b *builder) {
	t := b.typ(0)
	n := 8 * typeBytes(t)
	b.binary(t, func(x, y uint64) uint64 {
		if !isSigned(t) {
			if n < 64 {
				return x * y >> n
			}
			hi, _ := bits.Mul64(x, y)
			return hi
		}
		if n < 64 {
			return cut(uint64(signed(x, t)*signed(y, t)>>n), t)
		}
		hi, _ := bits.Mul64(x, y)
		if int64(x) < 0 {
			hi -= y
		}
		if int64(y) < 0 {
			hi -= x
		}
		return hi
	})
}

// wideOf is the type of twice the size.
func wideOf(typ string) string {
	return typ[:1] + map[string]string{"16": "32", "32": "64"}[typ[1:]]
}

func mulWide(b *builder) {
	t := b.typ(0)
	wide := wideOf(t)
	b.out.d, b.out.a, b.out.b, b.out.run = b.dst(0, wide), b.src(1, t), b.src(2, t), runBinary
	b.out.f2 = func(x, y uint64) uint64 {
		if isSigned(t) {
			return cut(uint64(signed(x, t)*signed(y, t)), wide)
		}
		return x * y
	}
	if t == "s32" {
		b.out.run = runMulWide
	}
}

func madWide(b *builder) {
	t := b.typ(0)
	wide := wideOf(t)
	b.out.d, b.out.a, b.out.b, b.out.c = b.dst(0, wide), b.src(1, t), b.src(2, t), b.src(3, wide)
	b.out.run = runTernary
	b.out.f3 = func(x, y, z uint64) uint64 {
		if isSigned(t) {
			return cut(uint64(signed(x, t)*signed(y, t))+z, wide)
		}
		return cut(x*y+z, wide)
	}
}

func madLo(b *builder) {
	t := b.typ(0)
	b.ternary(t, func(x, y, z uint64) uint64 { return cut(x*y+z, t) })
	if typeBytes(t) == 4 {
		b.out.run = runMad32
	}
}

// division makes div and rem. Dividing by zero gives all ones and the dividend, as the hardware does; the smallest
// number divided by -1 wraps.
func division(b *builder) {
	t, rem := b.typ(0), b.in.Op == "rem"
	b.binary(t, func(x, y uint64) uint64 {
		switch {
		case y == 0 && rem:
			return x
		case y == 0:
			return cut(^uint64(0), t)
		case !isSigned(t) && rem:
			return x % y
		case !isSigned(t):
			return x / y
		case rem:
			return cut(uint64(signed(x, t)%signed(y, t)), t)
		}
		return cut(uint64(signed(x, t)/signed(y, t)), t)
	})
}

func minMax(b *builder) {
	t, least := b.typ(0), b.in.Op == "min"
	b.binary(t, func(x, y uint64) uint64 {
		less := x < y
		if isSigned(t) {
			less = signed(x, t) < signed(y, t)
		}
		if less == least {
			return x
		}
		return y
	})
}

// shift makes shl and shr. Amounts beyond the size are taken as the size.
func shift(b *builder) {
	t := b.typ(0)
	n := uint64(8 * typeBytes(t))
	b.out.d, b.out.a, b.out.b, b.out.run = b.dst(0, t), b.src(1, t), b.src(2, "u32"), runBinary
	switch {
	case b.in.Op == "shl":
		b.out.f2 = func(x, y uint64) uint64 { return cut(x<<min(y, 64), t) }
	case isSigned(t):
		b.out.f2 = func(x, y uint64) uint64 { return cut(uint64(signed(x, t)>>min(y, n-1)), t) }
	default:
		b.out.f2 = func(x, y uint64) uint64 { return x >> min(y, 64) }
	}
	if t == "b32" && b.in.Op == "shl" {
		b.out.fast32, b.out.run = fastShl32, runFast32
	}
}

func count(f func(a uint64, bits int) uint64) func(*builder) {
	return func(b *builder) {
		t := b.typ(0)
		b.out.d, b.out.a, b.out.run = b.dst(0, "u32"), b.src(1, t), runUnary
		b.out.f1 = func(a uint64) uint64 { return f(a, 8*typeBytes(t)) }
	}
}

func selp(b *builder) {
	t := b.typ(0)
	b.out.d, b.out.a, b.out.b, b.out.c = b.dst(0, t), b.src(1, t), b.src(2, t), b.src(3, "pred")
	b.out.run = runTernary
	b.out.f3 = func(x, y, p uint64) uint64 {
		if p != 0 {
			return x
		}
		return y
	}
	if typeBytes(t) == 4 {
		b.out.run = runSelp32
	}
}

// setpInt compares whole numbers.
func setpInt(b *builder) {
	t := b.typ(0)
	b.setp(t, intCompare(b.in.Mods[0], t))
	if b.out.run != nil || b.err != nil {
		return
	}
	b.out.run = runSetp
	if fast := fastCompare(b.in.Mods[0], t); fast != nil && b.out.list == nil && b.out.c == noRef {
		b.out.fastSetp, b.out.run = fast, runFastSetp
	}
}

// intCompare is a comparison of values of a type.
func intCompare(cmp, typ string) func(x, y uint64) bool {
	less := func(x, y uint64) bool { return x < y }
	if isSigned(typ) {
		less = func(x, y uint64) bool { return signed(x, typ) < signed(y, typ) }
	}
	switch cmp {
	case "eq":
		return func(x, y uint64) bool { return x == y }
	case "ne":
		return func(x, y uint64) bool { return x != y }
	case "lt", "lo":
		return less
	case "le", "ls":
		return func(x, y uint64) bool { return !less(y, x) }
	case "gt", "hi":
		return func(x, y uint64) bool { return less(y, x) }
	}
	return func(x, y uint64) bool { return !less(x, y) } // ge, hs
}

// setp makes a comparison: operands p or p|q, a, b, and with a boolean operator a predicate c.
func (b *builder) setp(typ string, cmp func(x, y uint64) bool) {
	dst := &b.in.Args[0]
	b.out.c = noRef
	if dst.Kind == ptx.PairArg {
		b.out.d = b.dstOf(&dst.List[0], "pred")
		b.out.list = []ref{b.dstOf(&dst.List[1], "pred")}
	} else {
		b.out.d = b.dstOf(dst, "pred")
	}
	b.out.a, b.out.b, b.out.cmp = b.src(1, typ), b.src(2, typ), cmp
	if len(b.in.Args) == 4 {
		b.out.c = b.src(3, "pred")
		if b.in.Args[3].Not {
			b.out.flipC = ^uint32(0)
		}
		for _, m := range b.in.Mods {
			switch m {
			case "and", "or", "xor":
				b.out.combine = m
			}
		}
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
		switch in.combine {
		case "and":
			yes, no = yes&c, no&c
		case "or":
			yes, no = yes|c, no|c
		default:
			yes, no = yes^c, no^c
		}
	}
	d := &w.p[in.d.index()]
	*d = *d&^w.mask | yes&w.mask
	if in.list != nil {
		q := &w.p[in.list[0].index()]
		*q = *q&^w.mask | no&w.mask
	}
}
