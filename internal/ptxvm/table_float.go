package ptxvm

import (
	"math"

	"gpuemu/internal/libm"
)

// This file implements instructions on floating-point numbers.

var floatRows = []row{
	{syntax: "add [.rn] .f32", build: float32Op(func(a, b float32) float32 { return a + b }, fastFAdd)},
	{syntax: "sub [.rn] .f32", build: float32Op(func(a, b float32) float32 { return a - b }, fastFSub)},
	{syntax: "mul [.rn] .f32", build: float32Op(func(a, b float32) float32 { return a * b }, fastFMul)},
	{syntax: "div .rn|.full .f32", build: float32Op(func(a, b float32) float32 { return a / b }, nil)},
	{syntax: "fma .rn .f32", build: fma32},
	{syntax: "max .f32", build: float32Op(max32, fastFMax)},
	{syntax: "min .f32", build: float32Op(min32, nil)},
	{syntax: "ex2 .approx [.ftz] .f32", build: approx32(libm.Exp2)},
	{syntax: "lg2 .approx .f32", build: approx32(libm.Log2)},
	{syntax: "rcp .approx|.rn .f32", build: approx32(func(x float64) float64 { return 1 / x })},
	{syntax: "rsqrt .approx .f32", build: approx32(func(x float64) float64 { return 1 / math.Sqrt(x) })},
	{syntax: "sqrt .approx|.rn .f32", build: approx32(math.Sqrt)},
	{syntax: "neg .f32", build: func(b *builder) {
		b.unary("f32", func(a uint64) uint64 { return a ^ 1<<31 })
	}},
	{syntax: "abs .f32", build: func(b *builder) {
		b.unary("f32", func(a uint64) uint64 { return a &^ (1 << 31) })
	}},
	{syntax: "setp $fcmp .f32", build: setpFloat},
	{syntax: "setp $fcmp $bool .f32", build: setpFloat},
}

// nan32 is what every f32 instruction gives for NaN (PTX ISA, 9.7.3).
const nan32 = 0x7fffffff

// bits32 are the bits of a result.
func bits32(f float32) uint32 {
	if f != f {
		return nan32
	}
	return math.Float32bits(f)
}

func float32Op(f func(a, b float32) float32, fast func(d, a, b *lanes32)) func(*builder) {
	return func(b *builder) {
		b.binary("f32", func(x, y uint64) uint64 {
			return uint64(bits32(f(math.Float32frombits(uint32(x)), math.Float32frombits(uint32(y)))))
		})
		if fast != nil {
			b.out.fast32, b.out.run = fast, runFast32
		}
	}
}

func approx32(f func(float64) float64) func(*builder) {
	return func(b *builder) {
		b.unary("f32", func(x uint64) uint64 {
			return uint64(bits32(float32(f(float64(math.Float32frombits(uint32(x)))))))
		})
	}
}

// max32 gives the operand that is not NaN; -0 is less than +0.
func max32(a, b float32) float32 {
	switch {
	case a != a:
		return b
	case b != b || a > b:
		return a
	case a < b:
		return b
	}
	return math.Float32frombits(math.Float32bits(a) & math.Float32bits(b))
}

func min32(a, b float32) float32 {
	switch {
	case a != a:
		return b
	case b != b || a < b:
		return a
	case b < a:
		return b
	}
	return math.Float32frombits(math.Float32bits(a) | math.Float32bits(b))
}

// fmaBits rounds a*b+c once. The product is exact in float64; where the sum is not, its last bit is made odd, so that
// rounding to float32 cannot be led astray by the first rounding (Boldo and Melquiond, 2008).
func fmaBits(x, y, z uint32) uint32 {
	p := float64(math.Float32frombits(x)) * float64(math.Float32frombits(y))
	c := float64(math.Float32frombits(z))
	s := p + c
	if u := math.Float64bits(s); u&(1<<29-1) == 1<<28 || u<<1>>53 < 1023-126 {
		t := s - p
		if e := (p - (s - t)) + (c - t); e != 0 && u&1 == 0 && !math.IsInf(s, 0) {
			if (e > 0) == (s > 0) {
				s = math.Float64frombits(u + 1)
			} else {
				s = math.Float64frombits(u - 1)
			}
		}
	}
	return bits32(float32(s))
}

func fma32(b *builder) {
	b.ternary("f32", func(x, y, z uint64) uint64 { return uint64(fmaBits(uint32(x), uint32(y), uint32(z))) })
	b.out.run = runFma
}

func runFma(w *warp, in *ins) {
	if w.mask != allLanes {
		runTernary(w, in)
		return
	}
	d, a, b, c := &w.r32[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r32[in.c.index()]
	for i := range d {
		p := float64(math.Float32frombits(a[i])) * float64(math.Float32frombits(b[i]))
		s := p + float64(math.Float32frombits(c[i]))
		if u := math.Float64bits(s); u&(1<<29-1) == 1<<28 || u<<1>>53 < 1023-126 || s != s {
			d[i] = fmaBits(a[i], b[i], c[i])
		} else {
			d[i] = math.Float32bits(float32(s))
		}
	}
}

func fastFAdd(d, a, b *lanes32) {
	for i := range d {
		d[i] = bits32(math.Float32frombits(a[i]) + math.Float32frombits(b[i]))
	}
}

func fastFSub(d, a, b *lanes32) {
	for i := range d {
		d[i] = bits32(math.Float32frombits(a[i]) - math.Float32frombits(b[i]))
	}
}

func fastFMul(d, a, b *lanes32) {
	for i := range d {
		d[i] = bits32(math.Float32frombits(a[i]) * math.Float32frombits(b[i]))
	}
}

func fastFMax(d, a, b *lanes32) {
	for i := range d {
		d[i] = bits32(max32(math.Float32frombits(a[i]), math.Float32frombits(b[i])))
	}
}

func setpFloat(b *builder) {
	cmp := floatCompare(b.in.Mods[0])
	b.setp("f32", func(x, y uint64) bool {
		return cmp(float64(math.Float32frombits(uint32(x))), float64(math.Float32frombits(uint32(y))))
	})
	b.out.run = runSetp
}

// floatCompare is a comparison; those that end in u are also true where an operand is NaN.
func floatCompare(cmp string) func(x, y float64) bool {
	switch cmp {
	case "num":
		return func(x, y float64) bool { return x == x && y == y }
	case "nan":
		return func(x, y float64) bool { return x != x || y != y }
	case "eq":
		return func(x, y float64) bool { return x == y }
	case "ne":
		return func(x, y float64) bool { return x < y || x > y }
	case "lt":
		return func(x, y float64) bool { return x < y }
	case "le":
		return func(x, y float64) bool { return x <= y }
	case "gt":
		return func(x, y float64) bool { return x > y }
	case "ge":
		return func(x, y float64) bool { return x >= y }
	case "equ":
		return func(x, y float64) bool { return !(x < y || x > y) }
	case "neu":
		return func(x, y float64) bool { return !(x == y) }
	case "ltu":
		return func(x, y float64) bool { return !(x >= y) }
	case "leu":
		return func(x, y float64) bool { return !(x > y) }
	case "gtu":
		return func(x, y float64) bool { return !(x <= y) }
	}
	return func(x, y float64) bool { return !(x < y) } // geu
}
