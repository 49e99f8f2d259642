package ptxvm

import (
	"math"

	"gpuemu/internal/libm"
	"gpuemu/internal/ptxmath"
)

// This file implements approximations (PTX ISA, 9.7.3): the nearest number to the exact result, which lies inside every
// documented bound.

var approxRows = []row{
	{syntax: "rcp|sqrt|rsqrt|sin|cos|lg2|ex2 .approx [.ftz] .f32", build: approx32},
	{syntax: "tanh .approx .f32", build: approx32},
	{syntax: "div .approx|.full [.ftz] .f32", build: divApprox},
	{syntax: "ex2 .approx .f16|.f16x2", build: approxHalf},
	{syntax: "ex2 .approx .ftz .bf16|.bf16x2", build: approxHalf},
	{syntax: "tanh .approx .f16|.f16x2|.bf16|.bf16x2", build: approxHalf},
}

// exact are the functions that are approximated.
var exact = map[string]func(x float64) float64{
	"rcp": func(x float64) float64 { return 1 / x }, "sqrt": math.Sqrt,
	"rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"sin":   libm.Sin, "cos": libm.Cos, "lg2": libm.Log2, "ex2": libm.Exp2, "tanh": libm.Tanh,
}

func approx32(b *builder) {
	f, m := exact[b.in.Op], b.mode()
	b.unary("f32", func(x uint64) uint64 {
		a := uint32(x)
		if m.FTZ {
			a = ptxmath.Flush32(a)
		}
		r := f(float64(math.Float32frombits(a)))
		if r != r {
			return uint64(ptxmath.NaN32)
		}
		a = math.Float32bits(float32(r))
		if m.FTZ {
			a = ptxmath.Flush32(a)
		}
		return uint64(a)
	})
}

// divApprox makes div.full and div.approx, which gives 0 for divisors above 2^126: their reciprocal is subnormal.
func divApprox(b *builder) {
	m, full := b.mode(), b.in.Has("full")
	b.binary("f32", func(x, y uint64) uint64 {
		q := ptxmath.Div32(uint32(x), uint32(y), m)
		if size := uint32(y) &^ (1 << 31); !full && size > 0x7e800000 && size < 0x7f800000 {
			return uint64(ptxmath.Mul32(uint32(x), uint32(y)&(1<<31), m))
		}
		return uint64(q)
	})
}

// approxHalf makes approximations of f16 and bf16. With .ftz, which only bf16 has here, subnormal operands and results
// become zero; that of an operand does not change the result of ex2, which is 1 around 0.
func approxHalf(b *builder) {
	name, _ := b.half()
	typ, f, ftz := cvtTypes[name], exact[b.in.Op], b.in.Has("ftz")
	b.unaryHalf(func(x uint16) uint16 {
		r := f(math.Float64frombits(ptxmath.Cvt(ptxmath.F64, typ, ptxmath.Mode{}, uint64(x))))
		if r != r {
			return ptxmath.NaN16
		}
		d := uint16(ptxmath.Cvt(typ, ptxmath.F64, ptxmath.Mode{}, math.Float64bits(r)))
		if ftz && d&0x7f80 == 0 {
			d &= 1 << 15
		}
		return d
	})
}
