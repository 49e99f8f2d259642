// This file implements x^y.

package libm

import "math"

// Pow returns x^y. Its error is below 0.52 ulp, for subnormal results too.
//
// Special cases (C99 F.9.4.4): x^±0 = 1 and 1^y = 1 for all arguments, NaN included; a negative x with a finite y that
// is not an integer gives NaN; the sign of a zero or infinite x matters for odd integers y only.
func Pow(x, y float64) float64 {
	ix, iy := math.Float64bits(x), math.Float64bits(y)
	negative := false
	if ix-logLeastNormal >= logInf-logLeastNormal || iy>>52&0x7ff-powTiny >= powHuge-powTiny {
		z, ok := powSpecial(x, y)
		if ok {
			return z
		}
		negative = x < 0 && isOdd(y)
		x = math.Abs(x)
		if ix = math.Float64bits(x); ix < logLeastNormal {
			ix = math.Float64bits(x*0x1p52) - 52<<52
		}
	}
	hi, lo := powLog(ix)
	// y·(hi + lo) is p + pl.
	p := float64(y * hi)
	yh := math.Float64frombits(iy &^ halfBits)
	hh := math.Float64frombits(math.Float64bits(hi) &^ halfBits)
	yl, hl := y-yh, hi-hh
	pl := float64(yh*hh) - p + float64(yh*hl) + float64(yl*hh) + (float64(yl*hl) + float64(y*lo))
	var z float64
	switch {
	case p > 710:
		z = math.Inf(1)
	case p < -746:
		z = 0
	default:
		s, sl, k := expParts(p, pl)
		z = scaleSum(s, sl, k)
	}
	if negative {
		return -z
	}
	return z
}

// The exponents, as float64 stores them, of the y that need no special care: 2^-65 <= |y| < 2^64.
const (
	powTiny = 1023 - 65
	powHuge = 1023 + 64
)

// powSpecial returns the result for special arguments, and for y so large or small that it decides. It returns false
// for numbers x (negative only if y is an integer) with 2^-65 <= |y| < 2^64.
func powSpecial(x, y float64) (float64, bool) {
	a := math.Abs(x)
	switch {
	case y == 0 || x == 1:
		return 1, true
	case x != x || y != y:
		return math.NaN(), true
	case a == 0 || a > math.MaxFloat64:
		z := a
		if y < 0 {
			z = 1 / a
		}
		if math.Signbit(x) && isOdd(y) {
			z = -z
		}
		return z, true
	case math.Abs(y) >= 0x1p64: // an even integer, or infinite
		switch {
		case a == 1:
			return 1, true
		case a > 1 == (y > 0):
			return math.Inf(1), true
		}
		return 0, true
	case x < 0 && y != math.Trunc(y):
		return math.NaN(), true
	case math.Abs(y) < 0x1p-65:
		return 1, true
	}
	return 0, false
}

// isOdd reports whether y is an odd integer.
func isOdd(y float64) bool {
	return math.Abs(y) < 0x1p53 && y == math.Trunc(y) && int64(y)&1 != 0
}

// powLog returns log(x) = hi + lo with a relative error below 2^-67, for the x with these bits, as [Log] does it; the
// exponent may be below that of the least normal number. It differs in that r²/2 is computed in two parts.
func powLog(ix uint64) (hi, lo float64) {
	off := ix - logOff
	e := &logTable[off>>44%256]
	k := float64(int64(off) >> 52)
	iz := ix - off&(0xfff<<52)
	zh := math.Float64frombits(iz &^ logLowBits)
	rh := float64(zh*e.inv) - 1
	rl := float64((math.Float64frombits(iz) - zh) * e.inv)
	r := rh + rl
	rl += rh - r
	// (r + rl)²/2 is q + ql, with q exact.
	rh = math.Float64frombits(math.Float64bits(r) &^ halfBits)
	q := float64(float64(rh*rh) * 0.5)
	ql := float64(float64((r-rh)*(r+rh))*0.5) + float64(r*rl)
	s := float64(k*logLn2Hi) + e.ln
	a := s + r
	b := a - q
	lo = s - a + r + (a - b - q) + (rl + mad(k, logLn2Lo, e.lnLo) - ql)
	r2 := float64(r * r)
	p := mad(r, powC1, powC0) + float64(r2*(mad(r, powC3, powC2)+float64(r2*powC4)))
	lo += float64(float64(r2*r) * p)
	hi = b + lo
	return hi, b - hi + lo
}
