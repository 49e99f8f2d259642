// This file implements num, the value-with-error every reference computes in, and its elementary operations.

package oracle

import (
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/libm"
)

// classes is a set of IEEE value classes.
type classes uint8

const (
	clsFinite classes = 1 << iota
	clsPosInf
	clsNegInf
	clsNaN
)

// classOf returns the class of x as a set of one.
func classOf(x float64) classes {
	switch {
	case x-x == 0:
		return clsFinite
	case x > 0:
		return clsPosInf
	case x < 0:
		return clsNegInf
	}
	return clsNaN
}

// A num is one value of a computation as all permitted implementations see it: v is what exact arithmetic gives
// (as well as fp64 can tell), and every permitted implementation holds, at this point, either a finite value in
// [v-e, v+e] or a value of one of the classes in w.
//
// The rules below are a running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
// §3.3) over a set of implementations instead of one: with the standard model fl(x∘y) = (x∘y)(1+δ)+η,
// |δ| <= u, |η| <= tiny, each operation carries the errors of its operands through and adds one rounding. Second
// order terms are kept (products of errors, and the rounding is charged on |v|+e), so the bound is rigorous and
// not only first order.
//
// If v is not finite then e is 0 and w holds what else an implementation may show there (including finite).
type num struct {
	v, e float64
	w    classes
}

// exact returns a value that every implementation holds without error.
func exact(x float64) num { return num{v: x} }

// clean reports whether a is finite and nothing but finite.
func (a num) clean() bool { return a.w == 0 && a.v-a.v == 0 }

// noBound is the error of a value about which nothing is known but its class.
const noBound = math.MaxFloat64 / 4

// unbounded returns a with any finite value open.
func (a num) unbounded() num {
	if a.v-a.v == 0 {
		a.e = noBound
	}
	return a
}

// An arith is the arithmetic an implementation is permitted: the accumulation type and the `math` contract.
// Errors are relative unless the name says absolute; each includes the fp64 rounding of the oracle's own value
// (ownRoundoff), which is why float64 results need no case of their own.
type arith struct {
	u       float64 // one correctly rounded operation
	tiny    float64 // absolute error of one operation whose result underflows
	normal  float64 // magnitudes from here on do not underflow
	flush   float64 // magnitudes below this may be read as zero; 0: subnormals are kept
	limit   float64 // magnitudes from here on may become infinite
	quot    float64 // division
	hugeDiv float64 // a divisor beyond this may give 0 (reciprocal flushed); +Inf: never
	root    float64 // square root
	invRoot float64 // reciprocal square root
	expRel  float64 // exponential, on top of what the scaled argument costs
	expArg  float64 // error of the scaled argument x·log2(e), relative to x
	logRel  float64
	logAbs  float64 // absolute, for arguments near 1
	tanhRel float64
	tanhAbs float64
	erfRel  float64
	narrow  float64 // tensor-core accumulation: units of u per term; 0: not permitted
	// common: errors that all rows of an implementation may have in common, without those of independent roundings.
	common bool

	store dtype.DType // type that results may be rounded to; Invalid: none (compute)
	over  float64     // magnitudes from here on may become infinite there; limit without such a type
	tf32  bool        // operands of products may be rounded to TF32 (compute)
	accU  float64     // unit roundoff of the type that sums accumulate in, where it is not that of u; 0: it is
}

const (
	ownRoundoff = 0x1p-53 // of the oracle's own fp64 operations
	ownFunc     = 0x1p-52 // of internal/libm, 1 ulp
	flushFloat  = 0x1p-126
)

// newArith returns the arithmetic for outputs of type t under the math contract ("gpu" or "ieee").
//
// gpu, float32 (PTX ISA, instruction descriptions). An error of n ulp is one against the correctly rounded result, so
// half an ulp more against the exact one, and 1 ulp is at most 2u relative: division 2 ulp = 5u, or a reciprocal
// (1 ulp = 3u) and a product; a reciprocal of more than 2^126 is subnormal and may be flushed. sqrt.approx
// 2^-23 = 2u. rsqrt.approx 2^-22.9 = 2.15u, or the reciprocal of a square root: 3u+2u. ex2.approx 2 ulp = 5u; its
// argument x·log2(e) has the rounding of the product and of the constant. lg2.approx 2^-22 absolute in
// (0.5, 2), 2^-22 relative elsewhere, then a product by ln 2. tanh.approx 2^-10.987 relative, or
// 1-2/(exp(2x)+1), whose error is absolute.
// Tensor cores (K+1 terms cut to F bits, sum truncated): Volta, the widest, has K=4, F=23: each block of four costs
// at most (4+1)·2u for cut terms and 2u for the truncated sum, 3u a term.
//
// ieee: correctly rounded operations, elementary functions within 2 ulp (CUDA math library), no flushing.
func newArith(t dtype.DType, contract string) arith {
	if t == dtype.Float64 {
		u := 2 * ownRoundoff
		return arith{
			u: u, tiny: 0x1p-1073, normal: 0x1p-1021, limit: math.MaxFloat64, over: math.MaxFloat64,
			quot: u, hugeDiv: math.Inf(1), root: u, invRoot: 2 * u,
			expRel: 5*ownRoundoff + ownFunc, expArg: u, logRel: 5*ownRoundoff + ownFunc,
			tanhRel: 5*ownRoundoff + ownFunc, tanhAbs: 8 * u, erfRel: 5*ownRoundoff + ownFunc,
		}
	}
	const u = 0x1p-24 + ownRoundoff
	a := arith{
		u: u, normal: 0x1p-125, limit: math.MaxFloat32, over: math.MaxFloat32,
		tiny: 3 * 0x1p-149, // functions are within 2 ulp
		quot: u, hugeDiv: math.Inf(1), root: u, invRoot: 2 * u,
		expRel: 5 * u, expArg: u, logRel: 5 * u, tanhRel: 5 * u, tanhAbs: 8 * u, erfRel: 5 * u,
	}
	if contract == "ieee" {
		return a
	}
	a.tiny, a.flush = flushFloat, flushFloat
	a.quot, a.hugeDiv = 5*u, 0x1p126
	a.root, a.invRoot = 2.1*u, 6*u
	a.expArg = 2.1 * u
	a.logRel, a.logAbs = 0x1p-22+2*u, 0x1p-22
	a.tanhRel = 0x1.04p-11 // 2^-10.978
	a.narrow = 3
	return a
}

// input returns an input value: exact, except that an implementation may read a subnormal as zero.
func (m *arith) input(x float64) num {
	if math.Abs(x) < m.flush {
		return num{v: x, e: math.Abs(x)}
	}
	return num{v: x}
}

// isZero reports whether every implementation holds zero, so that there is nothing to round. A zero that fp64 made of
// something smaller is none: its error is at least tiny.
func (a num) isZero() bool { return a.v == 0 && a.e == 0 && a.w == 0 }

// isNaN reports whether every implementation holds NaN: then it holds NaN after any operation of arithmetic.
func (a num) isNaN() bool { return a.v != a.v && a.w == 0 }

// rounded returns v with accumulated error e after an operation of relative error rel.
func (m *arith) rounded(v, e, rel float64) num {
	a := math.Abs(v) + e
	if !(a < noBound) {
		return num{v: v, e: noBound, w: clsPosInf | clsNegInf}
	}
	e += float64(rel * a)
	if math.Abs(v)-e < m.normal {
		e += m.tiny
	}
	n := num{v: v, e: e}
	if float64(a*(1+rel)) >= m.limit {
		n.w = m.overflow(v, e)
	}
	if m.store != dtype.Invalid {
		return m.stored(n)
	}
	return n
}

// overflow returns the infinities that a finite value in [v-e, v+e] may have become.
func (m *arith) overflow(v, e float64) classes {
	var w classes
	if v+e >= m.limit {
		w |= clsPosInf
	}
	if v-e <= -m.limit {
		w |= clsNegInf
	}
	return w
}

func (m *arith) neg(a num) num {
	a.v = -a.v
	w := a.w &^ (clsPosInf | clsNegInf)
	if a.w&clsPosInf != 0 {
		w |= clsNegInf
	}
	if a.w&clsNegInf != 0 {
		w |= clsPosInf
	}
	a.w = w
	return a
}

func (m *arith) add(a, b num) num {
	v := a.v + b.v
	if a.w|b.w == 0 && v-v == 0 {
		if v == 0 && a.e+b.e == 0 {
			return num{v: v}
		}
		return m.rounded(v, a.e+b.e, m.u)
	}
	if a.isNaN() || b.isNaN() {
		return num{v: v}
	}
	return m.sampled(func(x, y float64) float64 { return x + y }, a, b, m.u, v-v != 0 && a.v-a.v == 0 && b.v-b.v == 0)
}

func (m *arith) sub(a, b num) num { return m.add(a, m.neg(b)) }

func (m *arith) mul(a, b num) num {
	v := float64(a.v * b.v)
	if a.w|b.w == 0 && v-v == 0 {
		if a.isZero() || b.isZero() {
			return num{v: v}
		}
		e := float64(math.Abs(a.v)*b.e) + float64(math.Abs(b.v)*a.e) + float64(a.e*b.e)
		return m.rounded(v, e, m.u)
	}
	if a.isNaN() || b.isNaN() {
		return num{v: v}
	}
	return m.sampled(func(x, y float64) float64 { return x * y }, a, b, m.u, v-v != 0 && a.v-a.v == 0 && b.v-b.v == 0)
}

// scale multiplies by a constant that implementations hold rounded to the accumulation type.
func (m *arith) scale(a num, c float64) num { return m.mul(a, m.constant(c)) }

// constant returns a constant of the formula, which implementations hold rounded to the accumulation type.
func (m *arith) constant(c float64) num {
	return m.stored(num{v: c, e: float64(math.Abs(c) * m.u)})
}

func (m *arith) div(a, b num) num { return m.divLeast(a, b, 0) }

// divLeast returns a/b for a divisor that no implementation holds below least in magnitude, whatever its interval says.
func (m *arith) divLeast(a, b num, least float64) num {
	v := a.v / b.v
	if low := max(math.Abs(b.v)-b.e, least); a.w|b.w == 0 && v-v == 0 && b.v-b.v == 0 && low > 0 {
		if a.isZero() {
			return num{v: v}
		}
		e := (a.e + float64(math.Abs(v)*b.e)) / low
		n := m.rounded(v, e, m.quot)
		if math.Abs(b.v)+b.e > m.hugeDiv {
			n.e = max(n.e, math.Abs(v)+e)
		}
		return n
	}
	if a.isNaN() || b.isNaN() {
		return num{v: v}
	}
	n := m.sampled(func(x, y float64) float64 { return x / y }, a, b, m.quot, false)
	if b.e > 0 && math.Abs(b.v) <= b.e {
		n = n.unbounded() // the divisor may be as small as it likes
	}
	if math.Abs(b.v)+b.e > m.hugeDiv && b.v-b.v == 0 && a.v-a.v != 0 {
		n.w |= clsNaN &^ classOf(n.v) // Inf times a reciprocal flushed to zero
	}
	return n
}

// sqrt returns the square root of a quantity that implementations never hold negative (a sum of squares, or an
// input whose exact value decides).
func (m *arith) sqrt(a num) num {
	if a.isZero() {
		return a
	}
	if a.w == 0 && a.v >= 0 && a.v-a.v == 0 {
		s := math.Sqrt(a.v)
		return m.rounded(s, rootDifference(s, a.v-math.Max(0, a.v-a.e)), m.root)
	}
	return m.sampled1(math.Sqrt, a, m.root)
}

// rootDifference returns s - √(s²-d) without the cancellation of the difference.
func rootDifference(s, d float64) float64 {
	if d <= 0 {
		return 0
	}
	return d / (s + math.Sqrt(math.Max(0, float64(s*s)-d)))
}

// rsqrt returns 1/sqrt(a) for a as in sqrt. If an implementation may hold zero it may show an infinity.
func (m *arith) rsqrt(a num) num { return m.rsqrtLeast(a, 0) }

// rsqrtLeast is rsqrt of a quantity that no implementation holds below least, whatever its interval says.
func (m *arith) rsqrtLeast(a num, least float64) num {
	if low := math.Max(a.v-a.e, m.storedLeast(least)); a.w == 0 && low > 0 && a.v-a.v == 0 {
		s, t := math.Sqrt(a.v), math.Sqrt(low)
		return m.rounded(1/s, rootDifference(s, a.v-low)/t/s, m.invRoot)
	}
	n := m.sampled1(func(x float64) float64 { return 1 / math.Sqrt(x) }, a, m.invRoot)
	if a.e > 0 && math.Abs(a.v) <= a.e {
		n = n.unbounded()
	}
	return n
}

// expZero is an argument below which the exponential is zero in float64.
const expZero = -746

func (m *arith) exp(a num) num {
	if a.w == 0 && a.v-a.v == 0 {
		v := libm.Exp(a.v)
		d := a.e + float64((math.Abs(a.v)+a.e)*m.expArg)
		if v-v == 0 && d < 600 {
			return m.rounded(v, m.expError(v, d), m.expRel)
		}
	}
	d := a.e + float64((math.Abs(a.v)+a.e)*m.expArg)
	if d-d == 0 && d > a.e {
		a.e = d
	}
	switch {
	case a.isNaN():
		return num{v: a.v}
	case a.w == 0 && a.v+a.e < expZero:
		return num{} // zero for everyone, as sampled1 would find
	}
	return m.sampled1(libm.Exp, a, m.expRel)
}

// capped narrows x to [0, top], which no implementation leaves: an exponential of a difference from the maximum.
func capped(x num, top float64) num {
	if x.v-x.v != 0 || x.w&^clsPosInf != 0 {
		return x
	}
	x.w = 0
	x.e = max(min(x.v+x.e, top)-x.v, x.v-max(x.v-x.e, 0), 0)
	return x
}

// expError bounds |exp(x±d)-exp(x)| for v = exp(x).
func (m *arith) expError(v, d float64) float64 {
	if d < 0x1p-10 {
		return float64(v * float64(d*(1+d))) // expm1(d) <= d+d² for d <= 1
	}
	return float64(v * float64(libm.Expm1(d)*(1+ownFunc)))
}

func (m *arith) log(a num) num {
	if a.w == 0 && a.v > a.e && a.v-a.v == 0 {
		v := libm.Log(a.v)
		e := -libm.Log1p(-a.e / a.v)
		if a.v-a.e < 2.01 && a.v+a.e > 0.499 {
			e += m.logAbs
		}
		return m.rounded(v, e, m.logRel)
	}
	n := m.sampled1(libm.Log, a, m.logRel)
	if a.e > 0 && math.Abs(a.v) <= a.e {
		n = n.unbounded()
	}
	if n.v-n.v == 0 {
		n.e += m.logAbs
	}
	return n
}

func (m *arith) tanh(a num) num {
	if a.w == 0 && math.IsInf(a.v, 1) {
		return exact(1) // 1-2/Inf; at -Inf the formula divides by 1, approximately
	}
	if a.v-a.v != 0 || a.w != 0 {
		n := m.sampled1(libm.Tanh, a, m.tanhRel)
		if n.v-n.v == 0 {
			n.e += m.tanhAbs
		}
		return n
	}
	v := libm.Tanh(a.v)
	near := libm.Tanh(math.Max(0, math.Abs(a.v)-a.e))
	// tanh' = 1-tanh² is largest at the end nearest to zero; beyond it tanh can only grow by 1-tanh.
	slope := math.Min(1, (1-float64(near*near))+4*ownFunc)
	e := math.Min(float64(a.e*slope), 2-near)
	if near > 0 {
		e = math.Min(e, 1-near+2*ownFunc)
	}
	return m.rounded(v, e+m.tanhAbs, m.tanhRel)
}

// erf returns erf(a). Its slope is at most 2/sqrt(pi)·exp(-x²) at the end of the interval nearest to zero.
func (m *arith) erf(a num) num {
	if a.w == 0 && math.IsInf(a.v, 0) {
		return exact(math.Copysign(1, a.v))
	}
	if a.v-a.v != 0 || a.w != 0 {
		return m.sampled1(libm.Erf, a, m.erfRel)
	}
	near := math.Max(0, math.Abs(a.v)-a.e)
	slope := float64(1.1283791670955128*libm.Exp(-float64(near*near))) + 4*ownFunc
	e := math.Min(float64(a.e*slope), 2)
	if near > 0 {
		e = math.Min(e, libm.Erfc(near)+2*ownFunc) // beyond the near end erf can only grow by erfc
	}
	return m.rounded(libm.Erf(a.v), e+float64(2*m.u), m.erfRel)
}

// max2 returns the larger value; NaN propagates.
func (m *arith) max2(a, b num) num {
	if a.w|b.w == 0 && a.v-a.v == 0 && b.v-b.v == 0 {
		return num{v: math.Max(a.v, b.v), e: math.Max(a.e, b.e)}
	}
	return m.sampled(math.Max, a, b, 0, false)
}
