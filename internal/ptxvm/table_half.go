package ptxvm

import (
	"strings"

	"gpuemu/internal/ptxmath"
)

// This file implements instructions on f16 and bf16 and on pairs of them (PTX ISA, 9.7.4).

var halfRows = []row{
	{syntax: "add|sub|mul [.rn] [.ftz] [.sat] .f16|.f16x2", build: binaryHalf},
	{syntax: "add|sub|mul [.rn] .bf16|.bf16x2", build: binaryHalf},
	{syntax: "fma .rn [.ftz] [.sat] .f16|.f16x2", build: fmaHalf},
	{syntax: "fma .rn [.ftz] .relu .f16|.f16x2", build: fmaHalf},
	{syntax: "fma .rn [.relu] .bf16|.bf16x2", build: fmaHalf},
	{syntax: "fma .rn .oob [.relu] .f16|.f16x2|.bf16|.bf16x2", build: fmaHalf},
	{syntax: "min|max [.ftz] [.NaN] .f16|.f16x2", build: minMaxHalf},
	{syntax: "min|max [.ftz] [.NaN] .xorsign .abs .f16|.f16x2", build: minMaxHalf},
	{syntax: "min|max [.NaN] .bf16|.bf16x2", build: minMaxHalf},
	{syntax: "min|max [.NaN] .xorsign .abs .bf16|.bf16x2", build: minMaxHalf},
	{syntax: "abs|neg [.ftz] .f16|.f16x2", build: signHalf},
	{syntax: "abs|neg .bf16|.bf16x2", build: signHalf},
}

// half is the type of the elements, and whether there are two.
func (b *builder) half() (typ string, pair bool) { return strings.CutSuffix(b.typ(0), "x2") }

// unaryHalf, binaryOfHalf and ternaryHalf compute one number, or both of a pair.
func (b *builder) unaryHalf(f func(x uint16) uint16) {
	if _, pair := b.half(); pair {
		b.unary("b32", func(x uint64) uint64 { return uint64(f(uint16(x>>16)))<<16 | uint64(f(uint16(x))) })
		return
	}
	b.unary("b16", func(x uint64) uint64 { return uint64(f(uint16(x))) })
}

func (b *builder) binaryOfHalf(f func(x, y uint16) uint16) {
	if _, pair := b.half(); pair {
		b.binary("b32", func(x, y uint64) uint64 {
			return uint64(f(uint16(x>>16), uint16(y>>16)))<<16 | uint64(f(uint16(x), uint16(y)))
		})
		return
	}
	b.binary("b16", func(x, y uint64) uint64 { return uint64(f(uint16(x), uint16(y))) })
}

func (b *builder) ternaryHalf(f func(x, y, z uint16) uint16) {
	if _, pair := b.half(); pair {
		b.ternary("b32", func(x, y, z uint64) uint64 {
			return uint64(f(uint16(x>>16), uint16(y>>16), uint16(z>>16)))<<16 | uint64(f(uint16(x), uint16(y), uint16(z)))
		})
		return
	}
	b.ternary("b16", func(x, y, z uint64) uint64 { return uint64(f(uint16(x), uint16(y), uint16(z))) })
}

var opHalf = map[string]func(x, y uint16, m ptxmath.Mode) uint16{
	"add f16": ptxmath.AddF16, "sub f16": ptxmath.SubF16, "mul f16": ptxmath.MulF16,
	"add bf16": ptxmath.AddBF16, "sub bf16": ptxmath.SubBF16, "mul bf16": ptxmath.MulBF16,
}

func binaryHalf(b *builder) {
	typ, pair := b.half()
	f, m := opHalf[b.in.Op+" "+typ], b.mode()
	fma := fmaOfHalf[typ]
	one := func(x, y, z uint64) uint64 { return uint64(fma(uint16(x), uint16(y), uint16(z), m)) }
	if !pair && b.fused("b16", 1<<15, one) || pair && b.fused("b32", 1<<31|1<<15, func(x, y, z uint64) uint64 {
		return one(x>>16, y>>16, z>>16)<<16 | one(x, y, z)
	}) {
		return
	}
	b.binaryOfHalf(func(x, y uint16) uint16 { return f(x, y, m) })
}

var fmaOfHalf = map[string]func(x, y, z uint16, m ptxmath.Mode) uint16{
	"f16": ptxmath.FmaF16, "bf16": ptxmath.FmaBF16, "oob f16": ptxmath.FmaOOBF16, "oob bf16": ptxmath.FmaOOBBF16,
}

func fmaHalf(b *builder) {
	key, _ := b.half()
	if b.in.Has("oob") {
		key = "oob " + key
	}
	f, m := fmaOfHalf[key], b.mode()
	b.ternaryHalf(func(x, y, z uint16) uint16 { return f(x, y, z, m) })
}

var minMaxOfHalf = map[string]func(x, y uint16, s ptxmath.Sel) uint16{
	"min f16": ptxmath.MinF16, "max f16": ptxmath.MaxF16, "min bf16": ptxmath.MinBF16, "max bf16": ptxmath.MaxBF16,
}

func minMaxHalf(b *builder) {
	if b.args(3); b.err != nil {
		return
	}
	typ, _ := b.half()
	f, s := minMaxOfHalf[b.in.Op+" "+typ], b.selection()
	b.binaryOfHalf(func(x, y uint16) uint16 { return f(x, y, s) })
}

func signHalf(b *builder) {
	typ, _ := b.half()
	ftz := b.in.Has("ftz")
	switch b.in.Op + " " + typ {
	case "abs f16":
		b.unaryHalf(func(x uint16) uint16 { return ptxmath.AbsF16(x, ftz) })
	case "neg f16":
		b.unaryHalf(func(x uint16) uint16 { return ptxmath.NegF16(x, ftz) })
	case "abs bf16":
		b.unaryHalf(ptxmath.AbsBF16)
	default:
		b.unaryHalf(ptxmath.NegBF16)
	}
}
