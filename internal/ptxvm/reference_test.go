package ptxvm

import (
	"math"
	"math/big"
	"strings"
)

// This file implements floating-point arithmetic for the tests by big numbers: exact results, rounded by definition.

// floatFormat is a binary format.
type floatFormat struct {
	size, man uint
	emin      int
}

var floatFormats = map[string]floatFormat{"f16": {16, 10, -14}, "bf16": {16, 7, -126}, "f32": {32, 23, -126},
	"f64": {64, 52, -1022}, "tf32": {19, 10, -126}}

func (f floatFormat) sign() uint64 { return 1 << (f.size - 1) }
func (f floatFormat) inf() uint64  { return (f.sign() - 1) >> f.man << f.man }

// isNaN, isInf and isSubnormal look at bits; zero is subnormal here.
func (f floatFormat) isNaN(v uint64) bool       { return v&^f.sign() > f.inf() }
func (f floatFormat) isInf(v uint64) bool       { return v&^f.sign() == f.inf() }
func (f floatFormat) isSubnormal(v uint64) bool { return v&f.inf() == 0 }
func (f floatFormat) negative(v uint64) bool    { return v&f.sign() != 0 }

// precision holds every sum and every product of the format exactly.
func (f floatFormat) precision() uint {
	if f.size == 64 {
		return 6500
	}
	return 900
}

// value is the number that bits stand for. They are finite.
func (f floatFormat) value(v uint64) *big.Float {
	n, e := v&(1<<f.man-1), f.emin
	if field := int(v & f.inf() >> f.man); field > 0 {
		n, e = n|1<<f.man, f.emin+field-1
	}
	x := new(big.Float).SetPrec(f.precision()).SetUint64(n)
	x.SetMantExp(x, e-int(f.man))
	if f.negative(v) {
		x.Neg(x)
	}
	return x
}

// number is the value as a float64; formats of up to 32 bits and special values are exact.
func (f floatFormat) number(v uint64) float64 {
	sign := 1.0
	if f.negative(v) {
		sign = -1
	}
	switch {
	case f.isNaN(v):
		return math.NaN()
	case f.isInf(v):
		return math.Inf(int(sign))
	case v&^f.sign() == 0:
		return math.Copysign(0, sign)
	}
	n, e := v&(1<<f.man-1), f.emin
	if field := int(v & f.inf() >> f.man); field > 0 {
		n, e = n|1<<f.man, f.emin+field-1
	}
	return math.Ldexp(sign*float64(n), e-int(f.man))
}

// round gives the bits for a number that is not zero. more says that the exact number is a little larger in magnitude.
func (f floatFormat) round(x *big.Float, more bool, mode string) uint64 {
	sign := uint64(0)
	if x.Sign() < 0 {
		sign = f.sign()
	}
	e := max(x.MantExp(nil)-1, f.emin)
	scaled := new(big.Float).SetPrec(f.precision()).Abs(x)
	scaled.SetMantExp(scaled, int(f.man)-e)
	whole, _ := scaled.Int(nil)
	rest := new(big.Float).SetPrec(f.precision()).Sub(scaled, new(big.Float).SetPrec(f.precision()).SetInt(whole))
	half := rest.Cmp(big.NewFloat(0.5))
	if half == 0 && more {
		half = 1
	}
	inexact := rest.Sign() != 0 || more
	up := false
	switch mode {
	case "rn":
		up = half > 0 || half == 0 && whole.Bit(0) == 1
	case "rna":
		up = half >= 0
	case "rm":
		up = inexact && sign != 0
	case "rp":
		up = inexact && sign == 0
	}
	n := whole.Uint64()
	if up {
		n++
	}
	n += uint64(e-f.emin) << f.man
	if n < f.inf() {
		return sign | n
	}
	if mode == "rz" || mode == "rm" && sign == 0 || mode == "rp" && sign != 0 {
		return sign | f.inf() - 1
	}
	return sign | f.inf()
}

// modifiers are those of an instruction: "rn", "ftz" and so on.
type modifiers string

func (m modifiers) has(name string) bool { return strings.Contains("."+string(m)+".", "."+name+".") }

func (m modifiers) rounding() string {
	for _, name := range []string{"rz", "rm", "rp", "rna"} {
		if m.has(name) {
			return name
		}
	}
	return "rn"
}

// nan is what arithmetic of a format gives for NaN. For f64 it depends on the operands, and tests take any.
func (f floatFormat) nan() uint64 { return f.sign() - 1 }

func (f floatFormat) flush(v uint64, m modifiers) uint64 {
	if m.has("ftz") && f.isSubnormal(v) {
		return v & f.sign()
	}
	return v
}

// finish applies what modifiers do to a result.
func (f floatFormat) finish(v uint64, m modifiers) uint64 {
	one := (f.inf() >> 1) >> f.man << f.man
	switch {
	case m.has("sat") && (f.isNaN(v) || f.negative(v)):
		return 0
	case m.has("sat") && v > one:
		return one
	case m.has("relu") && f.negative(v) && !f.isNaN(v):
		return 0
	case f.isNaN(v):
		return f.nan()
	case m.has("satfinite") && f.isInf(v):
		return v - 1
	}
	return f.flush(v, m)
}

// compute is an operation on finite or special numbers of one format.
func (f floatFormat) compute(op string, x []uint64, m modifiers) uint64 {
	in := make([]uint64, len(x))
	special := false
	for i := range x {
		in[i] = f.flush(x[i], m)
		special = special || f.isNaN(in[i]) || f.isInf(in[i])
	}
	if op == "sub" {
		op, in[1] = "add", in[1]^f.sign()
	}
	if op == "rcp" {
		op, in = "div", []uint64{f.inf() >> 1 >> f.man << f.man, in[0]}
	}
	if special || op == "div" && in[1]&^f.sign() == 0 || op == "sqrt" && f.negative(in[0]) {
		return f.finish(f.special(op, in), m)
	}
	r, more := f.exact(op, in)
	if r.Sign() == 0 {
		return f.finish(f.zero(op, in, m), m)
	}
	if wide := (floatFormat{64, f.man, -1022}); m.has("ftz") { // too small already where exponents have no end
		v := wide.value(wide.round(r, more, m.rounding()))
		if v.Abs(v).Cmp(new(big.Float).SetMantExp(big.NewFloat(1), f.emin)) < 0 {
			return f.finish(truth(r.Sign() < 0)*f.sign(), m)
		}
	}
	return f.finish(f.round(r, more, m.rounding()), m)
}

// special computes with infinities, NaN and zeros, where float64 has the right answer: it is one of them.
func (f floatFormat) special(op string, in []uint64) uint64 {
	v := make([]float64, len(in))
	for i := range in {
		v[i] = f.number(in[i])
		if math.Abs(v[i]) > 0 && !math.IsInf(v[i], 0) { // a product must not become special by itself
			v[i] = math.Copysign(1, v[i])
		}
	}
	var r float64
	switch op {
	case "add":
		r = v[0] + v[1]
	case "mul":
		r = v[0] * v[1]
	case "div":
		r = v[0] / v[1]
	case "fma":
		r = math.FMA(v[0], v[1], v[2])
	case "sqrt":
		r = math.Sqrt(v[0])
	}
	sign := uint64(0)
	if math.Signbit(r) {
		sign = f.sign()
	}
	switch {
	case r != r:
		return f.nan()
	case r == 0:
		return sign
	}
	return sign | f.inf()
}

// exact is the exact result, or one that is a little too small in magnitude.
func (f floatFormat) exact(op string, in []uint64) (r *big.Float, more bool) {
	x := f.value(in[0])
	r = new(big.Float).SetPrec(f.precision())
	switch op {
	case "add":
		r.Add(x, f.value(in[1]))
	case "mul":
		r.Mul(x, f.value(in[1]))
	case "fma":
		r.Add(r.Mul(x, f.value(in[1])), f.value(in[2]))
	case "div":
		r.SetPrec(200).SetMode(big.ToZero).Quo(x, f.value(in[1]))
		more = new(big.Float).SetPrec(f.precision()).Mul(r, f.value(in[1])).Cmp(x) != 0
	case "sqrt":
		r.SetPrec(200).SetMode(big.ToZero).Sqrt(x)
		if new(big.Float).SetPrec(f.precision()).Mul(r, r).Cmp(x) > 0 { // Sqrt rounds to nearest inside
			r.Sub(r, new(big.Float).SetMantExp(big.NewFloat(1), r.MantExp(nil)-200))
		}
		more = new(big.Float).SetPrec(f.precision()).Mul(r, r).Cmp(x) != 0
	}
	return r, more
}

// zero is the zero of an exact result.
func (f floatFormat) zero(op string, in []uint64, m modifiers) uint64 {
	a := in[0] & f.sign()
	b := a
	switch op {
	case "add":
		b = in[1] & f.sign()
	case "mul", "div":
		return (in[0] ^ in[1]) & f.sign()
	case "fma":
		a, b = (in[0]^in[1])&f.sign(), in[2]&f.sign()
	}
	switch {
	case a == b:
		return a
	case m.rounding() == "rm":
		return f.sign()
	}
	return 0
}
