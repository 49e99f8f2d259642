// This file implements sine and cosine.

package libm

import (
	"math"
	"math/bits"
)

// reduce returns n mod 4 and hi + lo = x - n·π/2 with |hi| <= π/4 (and a rounding more), for finite x. The relative
// error of hi + lo is below 2^-68.
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
		if n == 0 {
			return 0, x, 0
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
	fl := float64(float64(p0<<32>>32)*power2(exp)) + float64(float64(p1)*power2(exp-64))
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

// circleEntry is a table value for an angle: see circleTable.
type circleEntry struct {
	sin, sinLo, cos, cosLo, cosLess1 float64
}

// turn returns the sine of a + da + n·π/2, and the cosine, for |a| <= π/4 and da below the last bit of a. With
// |a| = i/32 + d it is sin(i/32)·cos(d) + cos(i/32)·sin(d), and the like. Both are computed for all arguments: the
// quadrant of random numbers is random, and a branch on it would cost more.
func turn(n int, a, da float64) (sin, cos float64) {
	sign := math.Float64bits(a) & signBit
	a = math.Abs(a)
	da = math.Float64frombits(math.Float64bits(da) ^ sign)
	z := mad(a, 32, expShift)
	e := &circleTable[math.Float64bits(z)%32]
	d := a - float64((z-expShift)*(1.0/32)) // exact
	d2 := float64(d * d)
	sd := float64(float64(d*d2) * (mad(d2, sinC1, sinC0) + float64(float64(d2*d2)*sinC2))) // sin(d) - d
	cd := float64(d2 * mad(d2, mad(d2, cosC1, cosC0), -0.5))                               // cos(d) - 1
	// The table value and d are added exactly, so that small sines are accurate too.
	h := e.sin + d
	l := e.sin - h + d
	s := h + (l + (e.sinLo + da + mad(e.cosLess1, d+da, float64(e.sin*cd)+float64(e.cos*sd))))
	c := e.cos + (e.cosLo + float64(e.cos*cd) - float64(e.sin*(d+(da+sd))))
	// A turn by π/2 takes (sin, cos) to (cos, -sin).
	bs, bc := math.Float64bits(s)^sign, math.Float64bits(c)
	swap := (bs ^ bc) & -uint64(n&1)
	bs ^= swap ^ uint64(n&2)<<62
	bc ^= swap ^ uint64((n+1)&2)<<62
	return math.Float64frombits(bs), math.Float64frombits(bc)
}

const signBit = 1 << 63

// tinyAngle is where the sine of a number begins to differ from it, and more.
const tinyAngle = 0x1p-30

// Sin returns the sine of x radians. Its error is below 0.54 ulp for all arguments, however large.
func Sin(x float64) float64 {
	sin, _ := Sincos(x)
	return sin
}

// Cos returns the cosine of x radians. Its error is below 0.54 ulp for all arguments, however large.
func Cos(x float64) float64 {
	_, cos := Sincos(x)
	return cos
}

// Sincos returns Sin(x), Cos(x), which take as long each as both together.
func Sincos(x float64) (sin, cos float64) {
	a := math.Abs(x)
	if a > tinyAngle && a <= math.MaxFloat64 {
		return turn(reduce(x))
	}
	if a <= tinyAngle {
		return x, 1 // -0 and subnormal numbers too
	}
	return math.NaN(), math.NaN()
}
