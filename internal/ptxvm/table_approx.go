package ptxvm

import "gpuemu/internal/ptxmath"

// This file implements approximations (PTX ISA, 9.7.3 and 9.7.4): the nearest number to the exact result, which lies
// inside every documented bound, or the ends of the bounds ([Numerics]).

var approxRows = []row{
	{syntax: "rcp|sqrt|rsqrt|sin|cos|lg2|ex2 .approx [.ftz] .f32", build: approximate},
	{syntax: "tanh .approx .f32", build: approximate},
	{syntax: "div .approx|.full [.ftz] .f32", build: approximate},
	{syntax: "rcp .approx .ftz .f64", build: approximate},
	{syntax: "rsqrt .approx [.ftz] .f64", build: approximate},
	{syntax: "ex2 .approx .f16|.f16x2", build: approximate},
	{syntax: "ex2 .approx .ftz .bf16|.bf16x2", build: approximate},
	{syntax: "tanh .approx .f16|.f16x2|.bf16|.bf16x2", build: approximate},
}

// approximations are the instructions by opcode and type.
var approximations = map[string]ptxmath.Approx{
	"rcp f32": ptxmath.RcpApprox, "sqrt f32": ptxmath.SqrtApprox, "rsqrt f32": ptxmath.RsqrtApprox,
	"sin f32": ptxmath.Sin, "cos f32": ptxmath.Cos, "lg2 f32": ptxmath.Lg2, "ex2 f32": ptxmath.Ex2,
	"tanh f32": ptxmath.Tanh, "rcp f64": ptxmath.RcpF64, "ex2 f16": ptxmath.Ex2F16, "ex2 bf16": ptxmath.Ex2BF16,
	"tanh f16": ptxmath.TanhF16, "tanh bf16": ptxmath.TanhBF16,
}

func approximate(b *builder) {
	typ, _ := b.half()
	f := approximations[b.in.Op+" "+typ]
	switch {
	case b.in.Op == "div":
		f = ptxmath.DivFull
		if b.in.Has("approx") {
			f = ptxmath.DivApprox
		}
		b.binary("f32", b.approximation(f))
		if f == ptxmath.DivFull && b.nearest() && !b.in.Has("ftz") {
			b.out.fast32, b.out.run = fast.divFloat, runFast32
		}
	case b.in.Op == "rsqrt" && typ == "f64":
		f = ptxmath.RsqrtWide
		if b.in.Has("ftz") {
			f = ptxmath.RsqrtF64
		}
		g := b.approximation(f)
		b.unary("f64", func(x uint64) uint64 { return g(x, 0) })
	case typ == "f16" || typ == "bf16":
		g := b.approximation(f)
		b.unaryHalf(func(x uint16) uint16 { return uint16(g(uint64(x), 0)) })
	default:
		g := b.approximation(f)
		b.unary(typ, func(x uint64) uint64 { return g(x, 0) })
		if ftz := b.in.Has("ftz"); typ == "f32" && b.nearest() {
			b.out.run = func(w *warp, in *ins) {
				f.Lanes(w.to32(in.d), &w.r32[in.a.index()], ftz)
				w.keep32(in.d)
			}
		}
	}
}
