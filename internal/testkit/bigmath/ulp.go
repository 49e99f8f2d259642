package bigmath

import (
	"math"
	"math/big"
)

// ULPError returns |got - exact| in units of the spacing of float64 numbers at exact. An infinity counts as ±2^1024,
// the number that would follow the largest one, so that a right overflow has an error of at most 1/2; when exact lies
// still further out the infinity is right. The error of a NaN is +Inf.
func ULPError(got float64, exact *big.Float) float64 {
	const infinity = 1024 // exponent: an infinity rounds from 2^1024 on
	if math.IsNaN(got) {
		return math.Inf(1)
	}
	prec := exact.Prec() + 64
	g := newFloat(prec)
	if math.IsInf(got, 0) {
		if exponent(exact) > infinity && exact.Sign() > 0 == (got > 0) {
			return 0
		}
		g.SetMantExp(fromInt(1, prec), infinity)
		if got < 0 {
			g.Neg(g)
		}
	} else {
		g.SetFloat64(got)
	}
	spacing := max(min(exponent(exact), infinity)-53, -1074)
	g.Sub(g, exact)
	f, _ := scale(g, -spacing).Float64()
	return math.Abs(f)
}

// RelErr returns |got - exact|/|exact|, and |got| when exact is zero.
func RelErr(got float64, exact *big.Float) float64 {
	if exact.Sign() == 0 {
		return math.Abs(got)
	}
	if math.IsNaN(got) || math.IsInf(got, 0) {
		return math.Inf(1)
	}
	g := newFloat(exact.Prec() + 64).SetFloat64(got)
	g.Sub(g, exact)
	f, _ := g.Quo(g, exact).Float64()
	return math.Abs(f)
}
