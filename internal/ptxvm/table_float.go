package ptxvm

import "gpuemu/internal/ptxmath"

// This file implements instructions on f32 and f64 (PTX ISA, 9.7.3).

var floatRows = []row{
	{syntax: "add|sub|mul [$rnd] [.ftz] [.sat] .f32", build: binary32},
	{syntax: "fma|mad $rnd [.ftz] [.sat] .f32", build: fma32},
	{syntax: "div $rnd [.ftz] .f32", build: binary32},
	{syntax: "rcp|sqrt $rnd [.ftz] .f32", build: root32},
	{syntax: "min|max [.ftz] [.NaN] .f32", build: minMax32},
	{syntax: "min|max [.ftz] [.NaN] .xorsign .abs .f32", build: minMax32},
	{syntax: "abs|neg [.ftz] .f32", build: sign32},
	{syntax: "add|sub|mul [$rnd] .f64", build: binary64},
	{syntax: "fma|mad $rnd .f64", build: fma64},
	{syntax: "div $rnd .f64", build: binary64},
	{syntax: "rcp|sqrt $rnd .f64", build: root64},
	{syntax: "min|max .f64", build: minMax64},
	{syntax: "abs|neg .f64", build: sign64},
	{syntax: "copysign .f32|.f64", build: copysign},
	{syntax: "testp .finite|.infinite|.number|.notanumber|.normal|.subnormal .f32|.f64", build: testp},
}

// roundings are the modifiers for the direction of rounding.
var roundings = map[string]ptxmath.Round{"rn": ptxmath.RN, "rz": ptxmath.RZ, "rm": ptxmath.RM, "rp": ptxmath.RP,
	"rni": ptxmath.RN, "rzi": ptxmath.RZ, "rmi": ptxmath.RM, "rpi": ptxmath.RP, "rna": ptxmath.RNA}

// mode is what the modifiers say about the result. Without a direction it is rounded to nearest; an assembler might
// then contract mul with add or sub, which is done here where [Numerics] says so.
func (b *builder) mode() (m ptxmath.Mode) {
	for _, mod := range b.in.Mods {
		switch mod {
		case "rni", "rzi", "rmi", "rpi":
			m.Round, m.Integral = roundings[mod], true
		case "rn", "rz", "rm", "rp", "rna":
			m.Round = roundings[mod]
		case "ftz":
			m.FTZ = true
		case "sat":
			m.Sat = true
		case "relu":
			m.Relu = true
		case "satfinite":
			m.SatFinite = true
		}
	}
	return m
}

// op32 and op64 are instructions with two operands and a mode.
var op32 = map[string]func(a, b uint32, m ptxmath.Mode) uint32{
	"add": ptxmath.Add32, "sub": ptxmath.Sub32, "mul": ptxmath.Mul32, "div": ptxmath.Div32,
}

var op64 = map[string]func(a, b uint64, r ptxmath.Round) uint64{
	"add": ptxmath.Add64, "sub": ptxmath.Sub64, "mul": ptxmath.Mul64, "div": ptxmath.Div64,
}

func binary32(b *builder) {
	f, m := op32[b.in.Op], b.mode()
	if b.fused("f32", 1<<31, func(x, y, z uint64) uint64 {
		return uint64(ptxmath.Fma32(uint32(x), uint32(y), uint32(z), m))
	}) {
		return
	}
	b.binary("f32", func(x, y uint64) uint64 { return uint64(f(uint32(x), uint32(y), m)) })
	if fast := fastFloat[b.in.Op]; fast != nil && m == (ptxmath.Mode{}) {
		b.out.fast32, b.out.run = fast, runFast32
	}
}

func binary64(b *builder) {
	f, r := op64[b.in.Op], b.mode().Round
	if b.fused("f64", 1<<63, func(x, y, z uint64) uint64 { return ptxmath.Fma64(x, y, z, r) }) {
		return
	}
	b.binary("f64", func(x, y uint64) uint64 { return f(x, y, r) })
}

// fma32 makes fma and mad, which is the same since sm_20.
func fma32(b *builder) {
	m := b.mode()
	b.ternary("f32", func(x, y, z uint64) uint64 {
		return uint64(ptxmath.Fma32(uint32(x), uint32(y), uint32(z), m))
	})
	if m == (ptxmath.Mode{}) {
		b.out.run = runFma32
	}
}

func fma64(b *builder) {
	r := b.mode().Round
	b.ternary("f64", func(x, y, z uint64) uint64 { return ptxmath.Fma64(x, y, z, r) })
}

func root32(b *builder) {
	f, m := ptxmath.Rcp32, b.mode()
	if b.in.Op == "sqrt" {
		f = ptxmath.Sqrt32
	}
	b.unary("f32", func(x uint64) uint64 { return uint64(f(uint32(x), m)) })
}

func root64(b *builder) {
	f, r := ptxmath.Rcp64, b.mode().Round
	if b.in.Op == "sqrt" {
		f = ptxmath.Sqrt64
	}
	b.unary("f64", func(x uint64) uint64 { return f(x, r) })
}

// selection is what the modifiers of min and max say.
func (b *builder) selection() ptxmath.Sel {
	return ptxmath.Sel{FTZ: b.in.Has("ftz"), NaN: b.in.Has("NaN"), XorSign: b.in.Has("xorsign")}
}

func minMax32(b *builder) {
	if b.args(3); b.err != nil {
		return
	}
	f, s := ptxmath.Min32, b.selection()
	if b.in.Op == "max" {
		f = ptxmath.Max32
	}
	b.binary("f32", func(x, y uint64) uint64 { return uint64(f(uint32(x), uint32(y), s)) })
	if fast := fastFloat[b.in.Op]; s == (ptxmath.Sel{}) {
		b.out.fast32, b.out.run = fast, runFast32
	}
}

func minMax64(b *builder) {
	if b.args(3); b.err != nil {
		return
	}
	f := ptxmath.Min64
	if b.in.Op == "max" {
		f = ptxmath.Max64
	}
	b.binary("f64", f)
}

// sign32 and sign64 make abs and neg.
func sign32(b *builder) {
	f, ftz := ptxmath.Abs32, b.in.Has("ftz")
	if b.in.Op == "neg" {
		f = ptxmath.Neg32
	}
	b.unary("f32", func(x uint64) uint64 { return uint64(f(uint32(x), ftz)) })
}

func sign64(b *builder) {
	f := ptxmath.Abs64
	if b.in.Op == "neg" {
		f = ptxmath.Neg64
	}
	b.unary("f64", f)
}

func copysign(b *builder) {
	if b.typ(0) == "f64" {
		b.binary("f64", ptxmath.Copysign64)
		return
	}
	b.binary("f32", func(x, y uint64) uint64 { return uint64(ptxmath.Copysign32(uint32(x), uint32(y))) })
}

var properties = map[string]ptxmath.Test{"finite": ptxmath.Finite, "infinite": ptxmath.Infinite,
	"number": ptxmath.Number, "notanumber": ptxmath.NotANumber, "normal": ptxmath.Normal, "subnormal": ptxmath.Subnormal}

func testp(b *builder) {
	is := properties[b.in.Mods[0]]
	if b.typ(0) == "f64" {
		b.unaryOf("pred", "f64", func(x uint64) uint64 { return truth(is.F64(x)) })
		return
	}
	b.unaryOf("pred", "f32", func(x uint64) uint64 { return truth(is.F32(uint32(x))) })
}
