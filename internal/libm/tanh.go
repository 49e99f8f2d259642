// This file implements the hyperbolic tangent.

package libm

import "math"

// Tanh returns the hyperbolic tangent of x. Its error is below 0.75 ulp.
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
			float64(t4*(mad(t, tanhC5, tanhC4)+float64(t2*mad(t, tanhC7, tanhC6))+
				float64(t4*(mad(t, tanhC9, tanhC8)+float64(t2*tanhC10)))))
		return x + float64(float64(x*t)*p)
	case a < 20:
		// 1 - 2/(e^(2a) + 1), the denominator being d + dl.
		hi, lo, k := expParts(2*a, 0)
		hi *= power2(k)
		lo *= power2(k)
		b := hi + 1
		lo += hi - b + 1
		d := b + lo
		dl := b - d + lo
		q := 2 / d
		y := 1 - q
		y += (1 - y - q) + float64(float64(q*q)*float64(dl*0.5))
		return math.Copysign(y, x)
	case x == x:
		return math.Copysign(1, x)
	}
	return math.NaN()
}
