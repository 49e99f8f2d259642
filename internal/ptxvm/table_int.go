package ptxvm

import "gpuemu/internal/ptxmath"

// This file implements arithmetic on whole numbers (PTX ISA, 9.7.1).

var intRows = []row{
	{syntax: "add $int", build: arith(func(a, b uint64) uint64 { return a + b }, fast.add32, fast.add64)},
	{syntax: "sub $int", build: arith(func(a, b uint64) uint64 { return a - b }, fast.sub32, fast.sub64)},
	{syntax: "add .u16x2|.s16x2", build: pairs(func(a, b uint64) uint64 { return a + b })},
	{syntax: "add .sat .s32", build: saturating(ptxmath.AddSat)},
	{syntax: "sub .sat .s32", build: saturating(ptxmath.SubSat)},
	{syntax: "mul .lo $int", build: arith(func(a, b uint64) uint64 { return a * b }, fast.mul32, fast.mul64)},
	{syntax: "mul .hi $int", build: mulHi},
	{syntax: "mul .wide .u16|.s16|.u32|.s32", build: mulWide},
	{syntax: "mad .lo $int", build: madLo},
	{syntax: "mad .hi $int", build: madHi},
	{syntax: "mad .hi .sat .s32", build: madHiSat},
	{syntax: "mad .wide .u16|.s16|.u32|.s32", build: madWide},
	{syntax: "mul24 .lo|.hi $int32", build: mul24},
	{syntax: "mad24 .lo|.hi $int32", build: mad24},
	{syntax: "mad24 .hi .sat .s32", build: mad24},
	{syntax: "sad $int", build: sad},
	{syntax: "div $int", build: division},
	{syntax: "rem $int", build: division},
	{syntax: "min|max $int", build: minMax},
	{syntax: "min|max .relu .s32", build: minMaxRelu},
	{syntax: "min|max .s32 .relu", build: minMaxRelu},
	{syntax: "min|max .u16x2|.s16x2", build: minMaxPairs},
	{syntax: "min|max .relu .s16x2", build: minMaxPairs},
	{syntax: "abs .s16|.s32|.s64", build: func(b *builder) {
		t := wholeOf(b.typ(0))
		b.unary(b.typ(0), func(a uint64) uint64 {
			if t.sign(a) < 0 {
				return t.cut(-a)
			}
			return a
		})
	}},
	{syntax: "neg .s16|.s32|.s64", build: func(b *builder) {
		t := wholeOf(b.typ(0))
		b.unary(b.typ(0), func(a uint64) uint64 { return t.cut(-a) })
	}},
	{syntax: "dp4a .u32|.s32 .u32|.s32", build: dp4a},
	{syntax: "dp2a .lo|.hi .u32|.s32 .u32|.s32", build: dp2a},
}

// whole is a type of whole numbers or bits.
type whole struct {
	free   uint // bits of a uint64 that the type does not use
	signed bool
}

func wholeOf(typ string) whole { return whole{uint(64 - 8*typeBytes(typ)), isSigned(typ)} }

// cut keeps the bits of the type.
func (t whole) cut(v uint64) uint64 { return v << t.free >> t.free }

// sign carries the sign on.
func (t whole) sign(v uint64) int64 { return int64(v<<t.free) >> t.free }

// extend is the value as 64 bits.
func (t whole) extend(v uint64) uint64 {
	if t.signed {
		return uint64(t.sign(v))
	}
	return t.cut(v)
}

func (t whole) less(x, y uint64) bool {
	if t.signed {
		return t.sign(x) < t.sign(y)
	}
	return x < y
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
		typ := b.typ(0)
		g := f
		if size := typeBytes(typ); size == 2 {
			g = func(x, y uint64) uint64 { return f(x, y) & 0xffff }
		}
		b.binary(typ, g)
		switch {
		case typeBytes(typ) == 4:
			b.out.fast32, b.out.run = fast32, runFast32
		case typeBytes(typ) == 8:
			b.out.fast64, b.out.run = fast64, runFast64
		case typ == "pred": // f is one on bits
			b.out.run = runPredicates
		}
	}
}

// pairs makes instructions on two numbers of 16 bits.
func pairs(f func(a, b uint64) uint64) func(*builder) {
	return func(b *builder) {
		b.binary("b32", func(x, y uint64) uint64 { return f(x>>16, y>>16)&0xffff<<16 | f(x&0xffff, y&0xffff)&0xffff })
	}
}

func saturating(f func(a, b int32) int32) func(*builder) {
	return func(b *builder) {
		b.binary("s32", func(x, y uint64) uint64 { return uint64(uint32(f(int32(x), int32(y)))) })
	}
}

// high is the upper half of a product.
func (t whole) high(x, y uint64) uint64 {
	switch {
	case t.free > 0 && t.signed:
		return t.cut(uint64(t.sign(x) * t.sign(y) >> (64 - t.free)))
	case t.free > 0:
		return x * y >> (64 - t.free)
	}
	if t.signed {
		return uint64(ptxmath.MulHiS64(int64(x), int64(y)))
	}
	return ptxmath.MulHiU64(x, y)
}

func mulHi(b *builder) {
	t := wholeOf(b.typ(0))
	b.binary(b.typ(0), t.high)
}

// wideOf is the type of twice the size.
func wideOf(typ string) string {
	return typ[:1] + map[string]string{"16": "32", "32": "64"}[typ[1:]]
}

func mulWide(b *builder) {
	typ := b.typ(0)
	t, wide := wholeOf(typ), wholeOf(wideOf(typ))
	b.binaryOf(wideOf(typ), typ, typ, func(x, y uint64) uint64 { return wide.cut(t.extend(x) * t.extend(y)) })
	switch typ {
	case "s32":
		b.out.run = runMulWideSigned
	case "u32":
		b.out.run = runMulWide
	}
}

func madWide(b *builder) {
	typ := b.typ(0)
	t, wide := wholeOf(typ), wholeOf(wideOf(typ))
	b.ternaryOf(wideOf(typ), typ, typ, wideOf(typ), func(x, y, z uint64) uint64 {
		return wide.cut(t.extend(x)*t.extend(y) + z)
	})
	switch typ {
	case "s32":
		b.out.run = runMadWideSigned
	case "u32":
		b.out.run = runMadWide
	}
}

func madLo(b *builder) {
	t := wholeOf(b.typ(0))
	b.ternary(b.typ(0), func(x, y, z uint64) uint64 { return t.cut(x*y + z) })
	switch typeBytes(b.typ(0)) {
	case 4:
		b.out.run = runMad32
	case 8:
		b.out.run = runMad64
	}
}

func madHi(b *builder) {
	t := wholeOf(b.typ(0))
	b.ternary(b.typ(0), func(x, y, z uint64) uint64 { return t.cut(t.high(x, y) + z) })
}

func madHiSat(b *builder) {
	b.ternary("s32", func(x, y, z uint64) uint64 {
		return uint64(uint32(ptxmath.MadHiSat(int32(x), int32(y), int32(z))))
	})
}

// product24 is the product of the lower 24 bits: its lower 32 bits, or the upper 32 of 48.
func product24(b *builder) func(x, y uint64) uint64 {
	high := b.in.Has("hi")
	if b.typ(0) == "u32" {
		f := ptxmath.Mul24LoU32
		if high {
			f = ptxmath.Mul24HiU32
		}
		return func(x, y uint64) uint64 { return uint64(f(uint32(x), uint32(y))) }
	}
	f := ptxmath.Mul24LoS32
	if high {
		f = ptxmath.Mul24HiS32
	}
	return func(x, y uint64) uint64 { return uint64(uint32(f(int32(x), int32(y)))) }
}

func mul24(b *builder) { b.binary(b.typ(0), product24(b)) }

func mad24(b *builder) {
	if b.in.Has("sat") {
		b.ternary("s32", func(x, y, z uint64) uint64 {
			return uint64(uint32(ptxmath.Mad24HiSat(int32(x), int32(y), int32(z))))
		})
		return
	}
	product := product24(b)
	b.ternary(b.typ(0), func(x, y, z uint64) uint64 { return uint64(uint32(product(x, y) + z)) })
}

// sad adds the distance of two numbers.
func sad(b *builder) {
	t := wholeOf(b.typ(0))
	b.ternary(b.typ(0), func(x, y, z uint64) uint64 {
		if t.signed {
			return t.cut(ptxmath.SadS64(t.sign(x), t.sign(y), z))
		}
		return t.cut(ptxmath.SadU64(x, y, z))
	})
}

// divisions are div and rem of each type.
var divisions = map[string]func(x, y uint64) uint64{
	"div u16": func(x, y uint64) uint64 { return uint64(ptxmath.Div(uint16(x), uint16(y))) },
	"div s16": func(x, y uint64) uint64 { return uint64(uint16(ptxmath.Div(int16(x), int16(y)))) },
	"div u32": func(x, y uint64) uint64 { return uint64(ptxmath.Div(uint32(x), uint32(y))) },
	"div s32": func(x, y uint64) uint64 { return uint64(uint32(ptxmath.Div(int32(x), int32(y)))) },
	"div u64": ptxmath.Div[uint64],
	"div s64": func(x, y uint64) uint64 { return uint64(ptxmath.Div(int64(x), int64(y))) },
	"rem u16": func(x, y uint64) uint64 { return uint64(ptxmath.Rem(uint16(x), uint16(y))) },
	"rem s16": func(x, y uint64) uint64 { return uint64(uint16(ptxmath.Rem(int16(x), int16(y)))) },
	"rem u32": func(x, y uint64) uint64 { return uint64(ptxmath.Rem(uint32(x), uint32(y))) },
	"rem s32": func(x, y uint64) uint64 { return uint64(uint32(ptxmath.Rem(int32(x), int32(y)))) },
	"rem u64": ptxmath.Rem[uint64],
	"rem s64": func(x, y uint64) uint64 { return uint64(ptxmath.Rem(int64(x), int64(y))) },
}

func division(b *builder) { b.binary(b.typ(0), divisions[b.in.Op+" "+b.typ(0)]) }

// pick is min or max of a type.
func (t whole) pick(least bool) func(x, y uint64) uint64 {
	return func(x, y uint64) uint64 {
		if t.less(x, y) == least {
			return x
		}
		return y
	}
}

func minMax(b *builder) {
	if b.args(3); b.err != nil {
		return
	}
	typ := b.typ(0)
	b.binary(typ, wholeOf(typ).pick(b.in.Op == "min"))
	if typ == "s32" {
		b.out.fast32, b.out.run = fast.min32, runFast32
		if b.in.Op == "max" {
			b.out.fast32 = fast.max32
		}
	}
}

// relu gives 0 for what is negative.
func (t whole) relu(v uint64) uint64 {
	if t.sign(v) < 0 {
		return 0
	}
	return v
}

func minMaxRelu(b *builder) {
	if b.args(3); b.err != nil {
		return
	}
	t := wholeOf("s32")
	pick := t.pick(b.in.Op == "min")
	b.binary("s32", func(x, y uint64) uint64 { return t.relu(pick(x, y)) })
}

func minMaxPairs(b *builder) {
	if b.args(3); b.err != nil {
		return
	}
	t := wholeOf("u16")
	if b.in.Has("s16x2") {
		t = wholeOf("s16")
	}
	pick := t.pick(b.in.Op == "min")
	if b.in.Has("relu") {
		pairs(func(x, y uint64) uint64 { return t.relu(pick(x, y)) })(b)
		return
	}
	pairs(pick)(b)
}

func dp4a(b *builder) {
	s, t := isSigned(b.in.Mods[0]), isSigned(b.in.Mods[1])
	b.ternary("b32", func(x, y, z uint64) uint64 {
		return uint64(ptxmath.Dp4a(uint32(x), uint32(y), uint32(z), s, t))
	})
}

func dp2a(b *builder) {
	high, s, t := b.in.Mods[0] == "hi", isSigned(b.in.Mods[1]), isSigned(b.in.Mods[2])
	b.ternary("b32", func(x, y, z uint64) uint64 {
		return uint64(ptxmath.Dp2a(uint32(x), uint32(y), uint32(z), s, t, high))
	})
}
