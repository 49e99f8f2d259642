// Package bigmath computes elementary functions to any precision with math/big.
//
// It is the measure that internal/libm and the oracles are tested against, and is imported by tests only. It favours
// being plainly right over being fast: each function is an exact identity that moves the argument to where a power
// series (or, for erfc, a continued fraction) converges, and the sum of that series, with guard bits. It shares no code
// and no reductions with internal/libm.
//
// The main type is [Math]. Arguments are finite; results are relatively accurate to the precision asked for. A [Math]
// is never changed after [New], so tests may share one between goroutines.
package bigmath

import (
	"math"
	"math/big"
)

// guard is how many bits more than the result every intermediate value carries. Each sum here has fewer than 2^12 terms
// and each identity loses at most a dozen bits (where it loses more, the function adds them), so half would do.
const guard = 64

// constBits is how many bits more than the intermediate values the stored constants carry: enough for reducing
// arguments up to 2^63 and for the cancellation in erfc.
const constBits = 160

// piBits is the same for π, enough for reducing every float64 number.
const piBits = 1280

// Math computes functions to a fixed precision.
type Math struct {
	prec uint // bits of results
	ln2  *big.Float
	pi   *big.Float
}

// New returns a Math whose results carry prec bits.
func New(prec uint) *Math {
	return &Math{prec: prec, ln2: ln2(prec + guard + constBits), pi: pi(prec + guard + piBits)}
}

// Prec returns the precision of results in bits.
func (m *Math) Prec() uint { return m.prec }

// FromFloat64 returns x, exactly, as a number of m's working precision.
func (m *Math) FromFloat64(x float64) *big.Float { return newFloat(m.work()).SetFloat64(x) }

// Pi returns the circle constant.
func (m *Math) Pi() *big.Float { return m.round(m.pi) }

// Ln2 returns the natural logarithm of 2.
func (m *Math) Ln2() *big.Float { return m.round(m.ln2) }

func (m *Math) work() uint { return m.prec + guard }

func (m *Math) round(x *big.Float) *big.Float { return newFloat(m.prec).Set(x) }

func newFloat(prec uint) *big.Float { return new(big.Float).SetPrec(prec) }

func fromInt(n int64, prec uint) *big.Float { return newFloat(prec).SetInt64(n) }

// scale returns x·2^n.
func scale(x *big.Float, n int) *big.Float { return newFloat(x.Prec()).SetMantExp(x, n) }

// exponent returns e with 2^(e-1) <= |x| < 2^e; zero counts as the smallest of all.
func exponent(x *big.Float) int {
	if x.Sign() == 0 {
		return math.MinInt32
	}
	return x.MantExp(nil)
}

// negligible reports whether adding term leaves a sum of w bits as it is.
func negligible(term, sum *big.Float, w uint) bool {
	return term.Sign() == 0 || exponent(term) < exponent(sum)-int(w)
}

// nearest returns the integer nearest to x.
func nearest(x *big.Float) *big.Int {
	half := big.NewFloat(0.5)
	if x.Sign() < 0 {
		half.Neg(half)
	}
	n, _ := newFloat(x.Prec()+2).Add(x, half).Int(nil)
	return n
}

// atanhSeries returns y + y³/3 + y⁵/5 + …, for |y| <= 1/2.
func atanhSeries(y *big.Float, w uint) *big.Float {
	square := newFloat(w).Mul(y, y)
	power := newFloat(w).Set(y)
	sum := newFloat(w).Set(y)
	for n := int64(3); ; n += 2 {
		power.Mul(power, square)
		term := newFloat(w).Quo(power, fromInt(n, w))
		if negligible(term, sum, w) {
			return sum
		}
		sum.Add(sum, term)
	}
}

// atanInverse returns atan(1/n) = 1/n - 1/(3n³) + 1/(5n⁵) - ….
func atanInverse(n int64, w uint) *big.Float {
	square := fromInt(-n*n, w)
	power := newFloat(w).Quo(fromInt(1, w), fromInt(n, w))
	sum := newFloat(w).Set(power)
	for d := int64(3); ; d += 2 {
		power.Quo(power, square)
		term := newFloat(w).Quo(power, fromInt(d, w))
		if negligible(term, sum, w) {
			return sum
		}
		sum.Add(sum, term)
	}
}

// ln2 returns log(2) = 2 atanh(1/3), with w bits.
func ln2(w uint) *big.Float {
	third := newFloat(w+guard).Quo(fromInt(1, w+guard), fromInt(3, w+guard))
	return newFloat(w).Set(scale(atanhSeries(third, w+guard), 1))
}

// pi returns π = 16 atan(1/5) - 4 atan(1/239) (Machin), with w bits.
func pi(w uint) *big.Float {
	a := scale(atanInverse(5, w+guard), 4)
	b := scale(atanInverse(239, w+guard), 2)
	return newFloat(w).Sub(a, b)
}

// taylor returns the sum of x^n/n! for n = first, first+step, …, with the sign of the terms alternating if alternate.
func taylor(x *big.Float, first, step int64, alternate bool, w uint) *big.Float {
	power := newFloat(w).Set(x)
	if step == 2 {
		power.Mul(x, x)
	}
	if alternate {
		power.Neg(power)
	}
	term := fromInt(1, w)
	if first == 1 {
		term.Set(x)
	}
	sum := newFloat(w).Set(term)
	for n := first + step; ; n += step {
		term.Mul(term, power)
		divisor := n
		if step == 2 {
			divisor *= n - 1
		}
		term.Quo(term, fromInt(divisor, w))
		if negligible(term, sum, w) {
			return sum
		}
		sum.Add(sum, term)
	}
}

// exp returns e^x with w bits: x = k·ln2 + 2^8·r, and e^r by its series.
func (m *Math) exp(x *big.Float, w uint) *big.Float {
	const halvings = 8
	if exponent(x) > 30 {
		panic("bigmath: the exponent of e^x does not fit")
	}
	w += guard
	k := nearest(newFloat(w).Quo(x, m.ln2)).Int64()
	r := newFloat(w).Mul(fromInt(k, w), m.ln2)
	r.Sub(x, r)
	sum := taylor(scale(r, -halvings), 0, 1, false, w)
	for range halvings {
		sum.Mul(sum, sum)
	}
	return scale(sum, int(k))
}

// Exp returns e^x, for |x| < 2^30.
func (m *Math) Exp(x *big.Float) *big.Float { return m.round(m.exp(x, m.work())) }

// Exp2 returns 2^x, for |x| < 2^30.
func (m *Math) Exp2(x *big.Float) *big.Float {
	w := m.work()
	return m.round(m.exp(newFloat(w+guard).Mul(x, m.ln2), w))
}

func (m *Math) expm1(x *big.Float, w uint) *big.Float {
	if x.Sign() == 0 {
		return newFloat(w)
	}
	if exponent(x) <= -3 {
		return taylor(newFloat(w+guard).Set(x), 1, 1, false, w+guard)
	}
	e := m.exp(x, w)
	return e.Sub(e, fromInt(1, w))
}

// Expm1 returns e^x - 1, for |x| < 2^30.
func (m *Math) Expm1(x *big.Float) *big.Float { return m.round(m.expm1(x, m.work())) }

// log returns log(x) with w bits: x = 2^k·c with c in [0.7, 1.4], and log c = 2 atanh((c-1)/(c+1)).
func (m *Math) log(x *big.Float, w uint) *big.Float {
	if x.Sign() <= 0 {
		panic("bigmath: logarithm of a number that is not positive")
	}
	w += guard
	c := new(big.Float)
	k := x.MantExp(c)
	if c.Cmp(big.NewFloat(0.7)) < 0 {
		c.SetMantExp(c, 1)
		k--
	}
	one := fromInt(1, w)
	num := newFloat(max(w, x.Prec()+2)).Sub(c, one)
	den := newFloat(max(w, x.Prec()+2)).Add(c, one)
	sum := newFloat(w).Mul(fromInt(int64(k), w), m.ln2)
	if num.Sign() == 0 {
		return sum
	}
	return sum.Add(sum, scale(atanhSeries(newFloat(w).Quo(num, den), w), 1))
}

// Log returns the natural logarithm of x, for x > 0.
func (m *Math) Log(x *big.Float) *big.Float { return m.round(m.log(x, m.work())) }

// Log2 returns the binary logarithm of x, for x > 0.
func (m *Math) Log2(x *big.Float) *big.Float {
	l := m.log(x, m.work())
	return m.round(l.Quo(l, m.ln2))
}

// Log1p returns log(1 + x), for x > -1.
func (m *Math) Log1p(x *big.Float) *big.Float {
	w := m.work() + guard
	if exponent(x) > -2 {
		return m.round(m.log(newFloat(max(w, x.Prec())+guard).Add(x, fromInt(1, w)), w))
	}
	if x.Sign() == 0 {
		return m.round(x)
	}
	den := newFloat(w).Add(x, fromInt(2, w))
	return m.round(scale(atanhSeries(newFloat(w).Quo(x, den), w), 1))
}

// Tanh returns the hyperbolic tangent of x. From |x| = 2^12 on it returns ±1: 1 - |tanh| is below 2^-11000.
func (m *Math) Tanh(x *big.Float) *big.Float {
	if exponent(x) > 12 {
		return fromInt(int64(x.Sign()), m.prec)
	}
	e := m.expm1(scale(newFloat(m.work()).Set(x), 1), m.work())
	den := newFloat(m.work()).Add(e, fromInt(2, m.work()))
	return m.round(e.Quo(e, den))
}

// Sqrt returns the square root of x, for x >= 0.
func (m *Math) Sqrt(x *big.Float) *big.Float { return m.round(newFloat(m.work()).Sqrt(x)) }

// Pow returns x^y, for x > 0 and |y·log x| < 2^30.
func (m *Math) Pow(x, y *big.Float) *big.Float {
	w := m.work()
	l := m.log(x, w)
	return m.round(m.exp(newFloat(w+guard).Mul(l, y), w))
}
