// This file implements the error function and its complement.

package libm

import "math"

// erfEntry is erf around some c: see erfTable.
type erfEntry struct {
	hi, lo float64
	c      [7]float64
}

// erfcEntry is e^(x²)·erfc(x) around some c: see erfcTable.
type erfcEntry struct {
	hi, lo float64
	c      [9]float64
}

// erfSmall returns erf(x) - 9/8·x, for |x| <= 1/4.
func erfSmall(x float64) float64 {
	t := float64(x * x)
	t2 := float64(t * t)
	p := mad(t, erfC1, erfC0) + float64(t2*(mad(t, erfC3, erfC2)+float64(t2*(mad(t, erfC5, erfC4)+float64(t2*erfC6)))))
	return float64(x * p)
}

// erfParts returns erf(a) = hi + lo, for 1/4 <= a < 6.
func erfParts(a float64) (hi, lo float64) {
	i := int(mad(a, 32, 0.5))
	d := a - float64(float64(i)*(1.0/32))
	e := &erfTable[i-8]
	d2 := float64(d * d)
	d4 := float64(d2 * d2)
	p := mad(d, e.c[1], e.c[0]) + float64(d2*mad(d, e.c[3], e.c[2])) +
		float64(d4*(mad(d, e.c[5], e.c[4])+float64(d2*e.c[6])))
	return e.hi, mad(d, p, e.lo)
}

// Erf returns the error function of x. Its error is below 0.66 ulp.
func Erf(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 0.25:
		if a < 0x1p-900 {
			return erfTiny(x)
		}
		return erfSum(x, erfSmall(x))
	case a < 6:
		hi, lo := erfParts(a)
		return math.Copysign(hi+lo, x)
	case x == x:
		return math.Copysign(1, x)
	}
	return math.NaN()
}

// erfSum returns 9/8·x + small.
func erfSum(x, small float64) float64 {
	hi := x + float64(x*0.125)
	lo := x - hi + float64(x*0.125)
	return hi + (lo + small)
}

// erfTiny is Erf for numbers so small that a product with a coefficient, or its last bit, may be subnormal; and ±0.
func erfTiny(x float64) float64 {
	if math.Abs(x) < 0x1p-1022 {
		return x + float64(x*(0.125+erfC0)) // the product is rounded to the spacing of the result, the sum is exact
	}
	x = float64(x * 0x1p100)
	return float64(erfSum(x, float64(x*erfC0)) * 0x1p-100)
}

// Erfc returns the complementary error function of x. Its error is below 0.62 ulp, for subnormal results too.
func Erfc(x float64) float64 {
	switch {
	case x < 0.5:
		var hi, lo float64
		switch {
		case math.Abs(x) < 0.25:
			hi, lo = x, mad(x, 0.125, erfSmall(x))
		case x <= -6:
			return 2
		default:
			hi, lo = erfParts(math.Abs(x))
			if x < 0 {
				hi, lo = -hi, -lo
			}
		}
		y := 1 - hi
		return y + ((1 - y - hi) - lo)
	case x < 28:
		return erfcLarge(x)
	case x == x:
		return 0
	}
	return math.NaN()
}

// erfcLarge is Erfc for 1/2 <= x < 28, as e^(-x²) times a table value.
func erfcLarge(x float64) float64 {
	ix := math.Float64bits(x)
	e := &erfcTable[ix>>48-0x3fe0]
	d := x - math.Float64frombits(ix>>48<<48|1<<47)
	d2 := float64(d * d)
	d4 := float64(d2 * d2)
	p := mad(d, e.c[1], e.c[0]) + float64(d2*mad(d, e.c[3], e.c[2])) +
		float64(d4*(mad(d, e.c[5], e.c[4])+float64(d2*mad(d, e.c[7], e.c[6]))+float64(d4*e.c[8])))
	w := mad(d, p, e.lo) // the table value is e.hi + w
	xh := math.Float64frombits(ix &^ halfBits)
	s, sl, k := expParts(-float64(xh*xh), -float64((x-xh)*(x+xh)))
	sh := math.Float64frombits(math.Float64bits(s) &^ halfBits)
	hi := float64(sh * e.hi) // exact
	lo := float64((s-sh)*e.hi) + (float64(sl*e.hi) + float64((s+sl)*w))
	return scaleSum(hi, lo, k)
}
