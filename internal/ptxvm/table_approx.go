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
