// This file implements sine and cosine.

package libm

import (
	"math"
	"math/bits"
)

// quarterPi is the largest argument that needs no reduction.
const quarterPi = 0x1.921fb54442d18p-1

// reduce returns n mod 4 and hi + lo = x - n·π/2 with |hi| <= π/4 (and a rounding more), for finite |x| > π/4. The
// relative error of hi + lo is below 2^-68.
//
// Up to 2^20, n·π/2 is subtracted in three parts, the first two products being exact (Cody and Waite). Larger
// arguments, and those that almost cancel, go the long way.
func reduce(x float64) (n int, hi, lo float64) {
	if math.Abs(x) < 0x1p20 {
		z := mad(x, twoOverPi, expShift)
		n = int(int32(math.Float64bits(z)))
		z -= expShift
		t := x - float64(z*piHalf1)
		if math.Abs(t) > 0x1p-12 { // hence |t| exceeds the second product
			w := float64(z * piHalf2)
			a := t - w
			b := t - a - w - float64(z*piHalf3)
			hi = a + b
			return n, hi, a - hi + b
		}
	}
	return reduceLong(x)
}

// reduceLong is reduce with 192 binary digits of 2/π, starting where the multiples of 4 end (Payne and Hanek): for
// x = m·2^e these digits, times m, have an error below 2^-137, and no float64 number comes closer than 2^-62 to a
// multiple of π/2.
func reduceLong(x float64) (n int, hi, lo float64) {
	ix := math.Float64bits(x)
	m := ix&(1<<52-1) | 1<<52
	first := uint(ix>>52&0x7ff) - 1023 - 52 + 62 // index of the digit with weight 2 in x·(2/π)/m; |x| > 2^-10
	w, shift := first/64, first%64
	d := twoOverPiBits[w : w+4 : w+4]
	d0 := d[0]<<shift | d[1]>>1>>(63-shift)
	d1 := d[1]<<shift | d[2]>>1>>(63-shift)
	d2 := d[2]<<shift | d[3]>>1>>(63-shift)
	// p0 p1 p2 = m·d mod 2^192: two binary digits before the point, 190 behind it.
	c2, p2 := bits.Mul64(m, d2)
	c1, p1 := bits.Mul64(m, d1)
	p1, carry := bits.Add64(p1, c2, 0)
	p0 := m*d0 + c1 + carry
	n = int(p0 >> 62)
	p0 = p0<<2 | p1>>62
	p1 = p1<<2 | p2>>62
	p2 <<= 2
	negative := p0>>63 != 0 // the fraction is above 1/2: take the next n
	if negative {
		n++
		var borrow uint64
		p2, borrow = bits.Sub64(0, p2, 0)
		p1, borrow = bits.Sub64(0, p1, borrow)
		p0, _ = bits.Sub64(0, p0, borrow)
	}
	exp := -64
	if p0 == 0 {
		p0, p1, p2 = p1, p2, 0
		exp = -128
	}
	zeros := uint(bits.LeadingZeros64(p0))
	p0 = p0<<zeros | p1>>1>>(63-zeros)
	p1 = p1<<zeros | p2>>1>>(63-zeros)
	exp -= int(zeros)
	// f + fl is the fraction, f having 32 bits so that its product with the first 21 bits of π/2 is exact.
	f := float64(p0>>32<<32) * power2(exp)
	fl := float64(p0<<32>>32)*power2(exp) + float64(p1)*power2(exp-64)
	a := float64(f * piHalf21)
	b := float64(f*piHalfRest) + float64(fl*piHalf)
	hi = a + b
	lo = a - hi + b
	if negative != (x < 0) {
		hi, lo = -hi, -lo
	}
	if x < 0 {
		n = -n
	}
	return n, hi, lo
}

// sinPoly returns sin(x + dx), for |x| <= π/4 and dx below the last bit of x.
func sinPoly(x, dx float64) float64 {
	t := float64(x * x)
	t2 := float64(t * t)
	p := mad(t, sinC1, sinC0) + float64(t2*(mad(t, sinC3, sinC2)+float64(t2*mad(t, sinC5, sinC4))))
	return x + (float64(float64(x*t)*p) + (dx - float64(float64(t*0.5)*dx)))
}

// cosPoly returns cos(x + dx), for |x| <= π/4 and dx below the last bit of x.
func cosPoly(x, dx float64) float64 {
	t := float64(x * x)
	t2 := float64(t * t)
	p := mad(t, cosC1, cosC0) + float64(t2*(mad(t, cosC3, cosC2)+float64(t2*mad(t, cosC5, cosC4))))
	h := float64(t * 0.5)
	w := 1 - h
	return w + ((1 - w - h) + (float64(t2*p) - float64(x*dx)))
}

// Sin returns the sine of x radians. Its error is below 0.8 ulp for all arguments, however large.
func Sin(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a <= quarterPi:
		if a < 0x1p-30 {
			return x // -0 and subnormal numbers too
		}
		return sinPoly(x, 0)
	case a <= math.MaxFloat64:
		return quadrant(reduce(x))
	}
	return math.NaN()
}

// Cos returns the cosine of x radians. Its error is below 0.8 ulp for all arguments, however large.
func Cos(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a <= quarterPi:
		return cosPoly(x, 0)
	case a <= math.MaxFloat64:
		n, hi, lo := reduce(x)
		return quadrant(n+1, hi, lo)
	}
	return math.NaN()
}

// Sincos returns Sin(x), Cos(x).
func Sincos(x float64) (sin, cos float64) {
	a := math.Abs(x)
	switch {
	case a < 0x1p-30:
		return x, 1
	case a <= quarterPi:
		return sinPoly(x, 0), cosPoly(x, 0)
	case a <= math.MaxFloat64:
		n, hi, lo := reduce(x)
		return quadrant(n, hi, lo), quadrant(n+1, hi, lo)
	}
	return math.NaN(), math.NaN()
}

// quadrant returns sin(n·π/2 + x + dx).
func quadrant(n int, x, dx float64) float64 {
	var y float64
	if n&1 == 0 {
		y = sinPoly(x, dx)
	} else {
		y = cosPoly(x, dx)
	}
	if n&2 != 0 {
		return -y
	}
	return y
}
