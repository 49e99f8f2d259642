// This file implements the hyperbolic tangent.

package libm

import "math"

// Tanh returns the hyperbolic tangent of x. Its error is below 0.57 ulp.
func Tanh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a <= tanhSmall:
		if a < 0x1p-28 {
			return x // -0 and subnormal numbers too
		}
		t := float64(x * x)
		t2 := float64(t * t)
		t4 := float64(t2 * t2)
		p := mad(t, tanhC1, tanhC0) + float64(t2*mad(t, tanhC3, tanhC2)) +
			float64(t4*(mad(t, tanhC5, tanhC4)+float64(t2*mad(t, tanhC7, tanhC6))))
		return x + float64(float64(x*t)*p)
	case a < 20:
		return math.Copysign(tanhLarge(a), x)
	case x == x:
		return math.Copysign(1, x)
	}
	return math.NaN()
}

// tanhLarge is Tanh for 1/4 <= a < 20, as 1 - 2/(e^(2a) + 1).
func tanhLarge(a float64) float64 {
	hi, lo, k := expParts(2*a, 0)
	hi = float64(hi * power2(k))
	lo = float64(lo * power2(k))
	// The denominator is d + dl.
	b := hi + 1
	lo += hi - b + 1
	d := b + lo
	dl := b - d + lo
	// The quotient is q + ql: what q·(d + dl) lacks of 2, divided by d.
	q := 2 / d
	qh := math.Float64frombits(math.Float64bits(q) &^ halfBits)
	dh := math.Float64frombits(math.Float64bits(d) &^ halfBits)
	lack := 2 - float64(qh*dh) - float64(qh*(d-dh)) - float64((q-qh)*d) - float64(q*dl)
	ql := float64(lack * float64(q*0.5))
	y := 1 - q
	return y + ((1 - y - q) - ql)
}
