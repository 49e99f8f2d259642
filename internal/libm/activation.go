// This file implements activations in one piece, accurate in their tails where the usual formulas cancel or overflow.

package libm

import "math"

// MaxActivationULP bounds the errors of SiLU, Gelu, GeluTanh and Softplus, in units in the last place.
const MaxActivationULP = 4.0

// Arguments of exp from here down have results so small that a product with them is formed in two halves: the
// exponential alone would be subnormal and lose its digits.
const halvesBelow = -700

// product returns a·b = hi + lo; lo is right to 25 bits and more. Zeros and numbers near the ends of the range have
// a lo of no use, and callers stay away from them.
func product(a, b float64) (hi, lo float64) {
	hi = float64(a * b)
	ah := math.Float64frombits(math.Float64bits(a) &^ halfBits)
	bh := math.Float64frombits(math.Float64bits(b) &^ halfBits)
	lo = float64(ah*bh) - hi + float64(ah*(b-bh)) + float64((a-ah)*b)
	return hi, lo
}

// twoSum returns a + b = s + e, exactly (Knuth, TAOCP 4.2.2).
func twoSum(a, b float64) (s, e float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// timesExp returns f·e^(x+dx), rounded to a subnormal number once, for x <= 0 and a small dx.
func timesExp(f, x, dx float64) float64 {
	e := Exp(x * 0.5)
	g := float64(f * e)
	return float64(mad(g, dx, g) * e)
}

// SiLU returns x/(1 + e^-x), and at -Inf its limit -0.
func SiLU(x float64) float64 {
	switch {
	case x < -2000:
		return math.Copysign(0, -1)
	case x < halvesBelow:
		return timesExp(x, x, 0)
	}
	return x / (1 + Exp(-x))
}

const (
	invSqrt2Hi = 0x1.6a09e667f3bcdp-1 // 1/√2
	invSqrt2Lo = -0x1.bdd3413b26456p-55
	density0   = 0x1.9884533d43651p-2 // 1/√(2π), which is density0·(1 + density0Lo)
	density0Lo = -0x1.cbc0d30ebfd15p-56 / density0
	// geluFar is where erfc(-x/√2) is about to become subnormal.
	geluFar = -37.5
)

// Gelu returns x/2·(1 + erf(x/√2)) = x/2·erfc(-x/√2), and at -Inf its limit -0.
func Gelu(x float64) float64 {
	switch {
	case x >= 0:
		return float64(x * float64(0.5*Erfc(-float64(x*invSqrt2Hi))))
	case x < -40:
		return math.Copysign(0, -1)
	case x < geluFar:
		// -φ(x)·(1 - 1/x² + 3/x⁴ - 15/x⁶ + …) (DLMF 7.12.1); the first term left out is below 2^-57.
		square, rest := product(x, x)
		w := 1 / square
		s := 1 - float64(w*(1-float64(w*(3-float64(w*(15-float64(w*(105-float64(w*(945-float64(w*10395)))))))))))
		return timesExp(-float64(density0*s), -0.5*square, density0Lo-float64(0.5*rest))
	}
	// The relative slope of erfc at z is about -(z + √(z²+2)): what z lacks of -x/√2 counts that often.
	z, dz := product(-x, invSqrt2Hi)
	dz -= float64(x * invSqrt2Lo)
	e := Erfc(z)
	e -= float64(e * float64(dz*(z+math.Sqrt(float64(z*z)+2))))
	return float64(x * float64(0.5*e))
}

const (
	geluTanhHi  = -0x1.9884533d43651p+0 // -2√(2/π)
	geluTanhLo  = 0x1.cbc0d30ebfd15p-54
	geluCubeHi  = -0x1.2444f2a4d8b4bp-4 // -2√(2/π)·0.044715
	geluCubeLo  = 0x1.6c843a29d1c70p-61
	geluTanhFar = 22 // from here on GeluTanh is x or underflows
)

// GeluTanh returns x/2·(1 + tanh(√(2/π)(x + 0.044715x³))) = x/(1 + e^(-2√(2/π)(x + 0.044715x³))), and at -Inf its
// limit -0.
func GeluTanh(x float64) float64 {
	switch {
	case x > geluTanhFar:
		return x
	case x < -geluTanhFar:
		return math.Copysign(0, -1)
	}
	// The exponent is w + dw. A relative error of it is w times as large in the result.
	square, ds := product(x, x)
	c, dc := product(square, geluCubeHi)
	dc += float64(square*geluCubeLo) + float64(ds*geluCubeHi)
	c, e := twoSum(geluTanhHi, c)
	e += dc + geluTanhLo
	w, dw := product(c, x)
	dw += float64(e * x)
	if w > -halvesBelow {
		return timesExp(x, -w, -dw)
	}
	t := Exp(w)
	return x / (1 + mad(t, dw, t))
}

// Softplus returns log(1 + e^(βx))/β.
func Softplus(x, beta float64) float64 {
	b := float64(beta * x)
	if b > 0 {
		return x + Log1p(Exp(-b))/beta
	}
	lo := 0.0
	if b > -0x1p12 {
		_, lo = product(beta, x)
	}
	if b < halvesBelow {
		return timesExp(1/beta, b, lo)
	}
	e := Exp(b)
	return Log1p(mad(e, lo, e)) / beta
}
