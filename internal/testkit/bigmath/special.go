package bigmath

import (
	"math"
	"math/big"
)

// fractionFrom is where erfc changes from 1 - erf to its continued fraction: below, the fraction is slow; above, the
// difference cancels x²/ln2 bits and more.
const fractionFrom = 5

// gauss returns 2/√π·e^(-x²).
func (m *Math) gauss(x *big.Float, w uint) *big.Float {
	square := newFloat(2*x.Prec()+guard).Mul(x, x)
	e := m.exp(square.Neg(square), w)
	e.SetMantExp(e, 1)
	return e.Quo(e, newFloat(w).Sqrt(newFloat(w).Set(m.pi)))
}

// erf returns erf(x) = 2/√π·e^(-x²)·Σ 2^n·x^(2n+1)/(1·3·…·(2n+1)) (DLMF 7.6.2), whose terms all have the same sign.
func (m *Math) erf(x *big.Float, w uint) *big.Float {
	w += guard
	square := newFloat(w).Mul(x, x)
	square.SetMantExp(square, 1)
	term := newFloat(w).Set(x)
	sum := newFloat(w).Set(x)
	for n := int64(3); ; n += 2 {
		term.Mul(term, square)
		term.Quo(term, fromInt(n, w))
		if negligible(term, sum, w) {
			return sum.Mul(sum, m.gauss(x, w))
		}
		sum.Add(sum, term)
	}
}

// Erf returns the error function of x.
func (m *Math) Erf(x *big.Float) *big.Float {
	if x.Sign() == 0 {
		return m.round(x)
	}
	if exponent(x) > 3 { // |x| >= 8
		one := fromInt(1, m.work())
		if x.Sign() < 0 {
			return m.round(one.Sub(m.erfcFraction(newFloat(m.work()).Neg(x), m.work()), one))
		}
		return m.round(one.Sub(one, m.erfcFraction(x, m.work())))
	}
	return m.round(m.erf(x, m.work()))
}

// erfcFraction returns erfc(x), for x >= [fractionFrom], by the continued fraction (DLMF 7.9.1)
//
//	√π·e^(x²)·erfc(x) = 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + …)))).
//
// The solutions of its recurrence grow in step n by the factors (x ± √(x²+2n))/2, and each step gains the logarithm of
// their ratio, from which the depth follows; the test compares the result with 1 - erf.
func (m *Math) erfcFraction(x *big.Float, w uint) *big.Float {
	if exponent(x) > 14 {
		return newFloat(w) // below 2^-(2^27)
	}
	w += guard
	f, _ := x.Float64()
	depth := int64(1)
	for bits := 0.0; bits < float64(w); depth++ {
		root := math.Sqrt(f*f + 2*float64(depth))
		bits += math.Log2((root + f) / (root - f))
	}
	tail := newFloat(w).Set(x)
	for n := depth; n > 0; n-- {
		tail.Quo(scale(fromInt(n, w), -1), tail)
		tail.Add(tail, x)
	}
	g := m.gauss(x, w)
	return g.Quo(scale(g, -1), tail)
}

// Erfc returns the complementary error function of x, for |x| < 2^13 (and 0 or 2 beyond).
func (m *Math) Erfc(x *big.Float) *big.Float {
	if x.Cmp(fromInt(fractionFrom, 8)) >= 0 {
		return m.round(m.erfcFraction(x, m.work()))
	}
	w := m.work()
	if x.Sign() > 0 {
		w += 40 // erfc(5) > 2^-40
	}
	one := fromInt(1, w)
	if x.Cmp(fromInt(-fractionFrom, 8)) <= 0 {
		return m.round(one.Sub(fromInt(2, w), m.erfcFraction(newFloat(w).Neg(x), w)))
	}
	if x.Sign() == 0 {
		return one
	}
	return m.round(one.Sub(one, m.erf(x, w)))
}

// quadrant returns n mod 4 and r = x - n·π/2 with n the integer nearest to x/(π/2), r relatively accurate to w bits.
func (m *Math) quadrant(x *big.Float, w uint) (int, *big.Float) {
	w += guard
	if x.Sign() == 0 {
		return 0, newFloat(w)
	}
	for cancel := uint(80); ; cancel *= 2 {
		need := w + cancel + uint(max(exponent(x), 0))
		half := m.pi
		if need > half.Prec() {
			half = pi(need)
		}
		half = scale(newFloat(need).Set(half), -1)
		n := nearest(newFloat(need).Quo(x, half))
		r := newFloat(need).SetInt(n)
		r.Mul(r, half)
		r.Sub(newFloat(need).Set(x), r)
		if exponent(r) > exponent(x)-int(cancel) && r.Sign() != 0 || n.Sign() == 0 {
			q := new(big.Int).And(n, big.NewInt(3)) // two's complement, so right for negative n
			return int(q.Int64()), newFloat(w).Set(r)
		}
	}
}

func (m *Math) circular(x *big.Float, shift int) *big.Float {
	w := m.work()
	q, r := m.quadrant(x, w)
	q = (q + shift) % 4
	var y *big.Float
	switch {
	case q%2 == 1:
		y = taylor(r, 0, 2, true, w)
	case r.Sign() == 0:
		y = r
	default:
		y = taylor(r, 1, 2, true, w)
	}
	if q >= 2 {
		y.Neg(y)
	}
	return m.round(y)
}

// Sin returns the sine of x radians.
func (m *Math) Sin(x *big.Float) *big.Float { return m.circular(x, 0) }

// Cos returns the cosine of x radians.
func (m *Math) Cos(x *big.Float) *big.Float { return m.circular(x, 1) }
