// This file implements val, a value with the error that honest code may have made so far, and its operations.

package gradient

import (
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/libm"
)

// A val is one value of a gradient's computation: v as float64 gives it, and e, the error that honest code may have
// made up to this point, in units of u, the unit roundoff of the type that the framework works in.
//
// The rules are a running error analysis of first order (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
// ed., §3.3): every operation carries the errors of its operands through and adds its own rounding. So e is the sum of
// the magnitudes of all terms that make a gradient up, each as often as it is rounded, and with the conditioning of the
// forward values in it: where scores of 100 are known to 100 u, the probabilities made of them are, too.
//
// An e that is not finite means that nothing is known: a kink, a value that is not finite, an overflow on the way.
type val struct{ v, e float64 }

// open is a value about which nothing is known.
func open(v float64) val { return val{v, math.Inf(1)} }

// finite reports whether x is a number.
func finite(x float64) bool { return x-x == 0 }

// A prec is the arithmetic that an operation is done in.
type prec struct {
	u     float64 // unit roundoff of the working type, the unit of all errors
	r     float64 // unit roundoff of this arithmetic over u
	tiny  float64 // what a result near zero may lose to underflow, over u
	limit float64 // beyond it a value overflows
}

// precs returns two arithmetics: work rounds every result to the framework's type, as eager execution does; acc is the
// accumulation type inside a kernel, float32 for narrower types.
func precs(d dtype.DType) (work, acc prec) {
	a := d
	if d != dtype.Float64 {
		a = dtype.Float32
	}
	u := d.UnitRoundoff()
	work = prec{u: u, r: 1, tiny: d.SmallestNormal() / u, limit: d.OverflowThreshold()}
	if d != a && d != dtype.BFloat16 {
		work.tiny = d.SmallestNormal() // subnormals of the narrow types are kept: half of the smallest is u times this
	}
	acc = prec{u: u, r: a.UnitRoundoff() / u, tiny: a.SmallestNormal() / u, limit: a.OverflowThreshold()}
	return work, acc
}

// rounded adds the rounding of a result to the errors it inherits. What is zero without an error is zero for everyone.
func (p prec) rounded(v, e float64) val {
	switch {
	case v == 0 && e == 0:
		return val{}
	case !(math.Abs(v) < p.limit):
		return open(v)
	}
	return val{v, e + float64(p.r*math.Abs(v)) + p.tiny}
}

func (p prec) add(a, b val) val { return p.rounded(a.v+b.v, a.e+b.e) }

func (p prec) sub(a, b val) val { return p.rounded(a.v-b.v, a.e+b.e) }

func (p prec) mul(a, b val) val {
	if a == (val{}) && finite(b.v) || b == (val{}) && finite(a.v) {
		return val{}
	}
	e := float64(math.Abs(a.v)*b.e) + float64(math.Abs(b.v)*a.e) + float64(p.u*float64(a.e*b.e))
	return p.rounded(float64(a.v*b.v), e)
}

// times multiplies by a constant that is itself rounded.
func (p prec) times(a val, c float64) val {
	return p.mul(a, val{c, float64(p.r * math.Abs(c))})
}

// half is the product by 0.5, which rounds nothing.
func half(a val) val { return val{0.5 * a.v, 0.5 * a.e} }

func (p prec) div(a, b val) val {
	low := math.Abs(b.v) - float64(p.u*b.e)
	if !(low > 0) {
		return open(a.v / b.v)
	}
	if a == (val{}) {
		return val{}
	}
	v := a.v / b.v
	return p.rounded(v, (a.e+float64(math.Abs(v)*b.e))/low)
}

// valued returns a with v as its value, which is nearer to the exact one than what the written formula gives; the
// error still covers the formula.
func (p prec) valued(a val, v float64) val {
	if finite(a.v) && finite(v) {
		a.e += math.Abs(v-a.v) / p.u
		a.v = v
	}
	return a
}

// functionError is how many roundings a function of the library is off by: 2 ulp are documented for most of them.
const functionError = 4

// function returns a value of a library function whose argument's error has been carried through already.
func (p prec) function(v, e float64) val {
	return p.rounded(v, e+float64(functionError*p.r*math.Abs(v)))
}

// exp returns the exponential. Its argument may be scaled by log2 e first, which costs a rounding of the argument.
func (p prec) exp(a val) val {
	v := libm.Exp(a.v)
	d := float64(p.u * (a.e + float64(p.r*math.Abs(a.v))))
	if !(d < 700) {
		return open(v)
	}
	return p.function(v, float64(v*libm.Expm1(d))/p.u)
}

// weight is the exponential of a difference from the maximum: no implementation holds more than 1.
func (p prec) weight(a val) val {
	w := p.exp(a)
	if finite(a.v) && finite(a.e) {
		w.e = math.Min(w.e, 1/p.u)
	}
	return w
}

// log returns the logarithm; next to 1 it is off by roundings of 1.
func (p prec) log(a val) val {
	low := a.v - float64(p.u*a.e)
	if !(low > 0) {
		return open(libm.Log(a.v))
	}
	v := libm.Log(a.v)
	return p.function(v, a.e/low+float64(functionError*p.r))
}

// sqrt returns the root of a value that is not negative.
func (p prec) sqrt(a val) val {
	v := math.Sqrt(a.v)
	low := math.Sqrt(math.Max(0, a.v-float64(p.u*a.e)))
	if a == (val{}) || !(v > 0) {
		return val{v, a.e}
	}
	return p.function(v, a.e/(v+low))
}

// tanh has the slope 1-tanh², which is largest at the end of the interval nearest to zero.
func (p prec) tanh(a val) val {
	t := libm.Tanh(math.Max(0, math.Abs(a.v)-float64(p.u*a.e)))
	return p.function(libm.Tanh(a.v), float64((1-float64(t*t))*a.e))
}

// erf has the slope 2/√π·exp(-x²). Vectorised libraries use approximations with an absolute error, 1.5e-7 in float32
// (Abramowitz and Stegun, 7.1.26), so the function's error is relative to 1 and not to the value.
func (p prec) erf(a val) val {
	near := math.Max(0, math.Abs(a.v)-float64(p.u*a.e))
	slope := float64(1.1283791670955126 * libm.Exp(-float64(near*near)))
	return p.rounded(libm.Erf(a.v), float64(slope*a.e)+float64(functionError*p.r))
}

// sigmoid returns 1/(1+exp(-x)). Where exp(-x) overflows, 1/Inf is zero: off by the value itself.
func (p prec) sigmoid(a val) val {
	x := p.exp(val{-a.v, a.e})
	if !finite(x.e) && a.v < 0 && finite(a.v) && finite(a.e) {
		v := libm.Exp(a.v)
		most := libm.Exp(math.Min(0, a.v+float64(p.u*a.e)))
		return val{v, most/p.u + p.tiny}
	}
	return p.div(val{v: 1}, p.add(val{v: 1}, x))
}

// A sum adds terms in an order that nobody knows.
type sum struct {
	v, a, e float64 // value, magnitudes, errors of the terms
	n       int
}

func (s *sum) add(x val) { s.addAs(x, math.Abs(x.v)) }

// addAs adds a term that code may form from larger parts: magnitude is the sum of theirs.
func (s *sum) addAs(x val, magnitude float64) {
	if x == (val{}) && magnitude == 0 {
		return
	}
	s.v, s.a, s.e = s.v+x.v, s.a+magnitude, s.e+x.e
	s.n++
}

// Depth of a sum: n-1 roundings of partial sums at worst; for long sums the statistical bound λ√n (Higham and Mary,
// SIAM J. Sci. Comput. 41, 2019) with λ = 8, and depthFloor for accumulators that truncate instead of rounding.
const (
	depthFloor  = 128
	depthLambda = 8
)

func depth(n int) float64 {
	if n < 2 {
		return 0
	}
	return math.Min(float64(n-1), depthFloor+float64(depthLambda*math.Sqrt(float64(n))))
}

// total returns the sum in the given arithmetic.
func (s *sum) total(p prec) val {
	if s.n == 0 {
		return val{}
	}
	if !(s.a < p.limit) {
		return open(s.v)
	}
	return val{s.v, s.e + float64(p.r*float64(depth(s.n)*s.a)) + float64(p.tiny*float64(s.n))}
}
