// This file implements e^x, 2^x and e^x - 1.

package libm

import "math"

// expEntry is 2^(j/128): see expTable.
type expEntry struct {
	tail  float64
	scale uint64
}

const (
	// expShift added to a number of magnitude below 2^51 leaves its nearest integer in the low bits.
	expShift = 0x1.8p52

	// Beyond these arguments the result is +Inf or rounds to zero.
	expOverflow  = 0x1.62e42fefa39efp+9  // log(2^1024) rounded down
	expUnderflow = -0x1.74910d52d3051p+9 // log(2^-1075) rounded towards zero
)

// The exponents, as float64 stores them, of the arguments that take the short path: 2^-54 <= |x| < 512.
const (
	expTiny  = 1023 - 54
	expLarge = 1023 + 9
)

// Exp returns e^x. Its error is below 0.51 ulp, for subnormal results too.
func Exp(x float64) float64 {
	if uint32(math.Float64bits(x)>>52)&0x7ff-expTiny >= expLarge-expTiny {
		return expRare(x)
	}
	z := mad(x, expInvLn2N, expShift)
	k := math.Float64bits(z)
	z -= expShift
	r := x - float64(z*expLn2HiN) - float64(z*expLn2LoN)
	e := &expTable[k%128]
	s := math.Float64frombits(e.scale + k<<45)
	r2 := float64(r * r)
	p := float64(r2*mad(r, expC0, 0.5)) + float64(float64(r2*r2)*mad(r, expC2, expC1))
	return mad(s, e.tail+r+p, s)
}

// expRare is Exp for tiny, huge and special arguments, and for those with subnormal results.
func expRare(x float64) float64 {
	switch {
	case x != x:
		return math.NaN()
	case x > expOverflow:
		return math.Inf(1)
	case x < expUnderflow:
		return 0
	case math.Abs(x) < 0x1p-54:
		return 1 + x
	}
	hi, lo, k := expParts(x, 0)
	return scaleSum(hi, lo, k)
}

// expParts returns e^(x+dx) = (hi + lo)·2^k with 1 <= hi < 2 and |lo| < 2^-8, for |x| < 2^10 and |dx| < 2^-15. The
// relative error is below 2^-60.
func expParts(x, dx float64) (hi, lo float64, k int) {
	z := mad(x, expInvLn2N, expShift)
	n := math.Float64bits(z)
	z -= expShift
	r := x - float64(z*expLn2HiN) - float64(z*expLn2LoN) + dx
	e := &expTable[n%128]
	hi = math.Float64frombits(e.scale + n%128<<45)
	r2 := float64(r * r)
	p := float64(r2*mad(r, expC0, 0.5)) + float64(float64(r2*r2)*mad(r, expC2, expC1))
	return hi, float64(hi * (e.tail + r + p)), int(int32(n)) >> 7
}

// scaleSum returns (hi + lo)·2^k, rounded once, for 2^-20 < hi + lo < 4 and -1100 < k <= 1024.
func scaleSum(hi, lo float64, k int) float64 {
	if k > 1023 {
		return float64((hi+lo)*2) * 0x1p1023
	}
	if k >= -1000 { // hence the result is normal
		return float64((hi + lo) * power2(k))
	}
	// Let 2^-1022 be 1, so that subnormal results are those below 1 and have the spacing of the numbers above 1.
	hi = float64(hi * power2(k+1022))
	lo = float64(lo * power2(k+1022))
	y := hi + lo
	if y < 1 {
		one := 1 + hi
		y = one + ((1 - one + hi) + lo) - 1
	}
	return float64(y * 0x1p-1022)
}

// power2 returns 2^k, for -1022 <= k <= 1023.
func power2(k int) float64 { return math.Float64frombits(uint64(k+1023) << 52) }

// Exp2 returns 2^x. Its error is below 0.51 ulp, for subnormal results too; integers give exact results.
func Exp2(x float64) float64 {
	rare := uint32(math.Float64bits(x)>>52)&0x7ff-expTiny >= expLarge-expTiny
	if rare {
		switch {
		case x != x:
			return math.NaN()
		case x >= 1024:
			return math.Inf(1)
		case x <= -1075:
			return 0
		case math.Abs(x) < 0x1p-54:
			return 1 + x
		}
	}
	z := float64(x*128) + expShift
	k := math.Float64bits(z)
	r := x - float64((z-expShift)*(1.0/128)) // exact
	e := &expTable[k%128]
	r2 := float64(r * r)
	p := float64(r*exp2C0) + float64(r2*(mad(r, exp2C2, exp2C1)+float64(r2*mad(r, exp2C4, exp2C3)))) + e.tail
	if rare {
		s := math.Float64frombits(e.scale + k%128<<45)
		return scaleSum(s, float64(s*p), int(int32(k))>>7)
	}
	s := math.Float64frombits(e.scale + k<<45)
	return mad(s, p, s)
}

// Expm1 returns e^x - 1. Its error is below 0.62 ulp.
func Expm1(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 0x1p-4:
		if a < 0x1p-54 {
			return x // -0 and subnormal numbers too
		}
		x2 := float64(x * x)
		x4 := float64(x2 * x2)
		p := mad(x, expm1C1, expm1C0) + float64(x2*mad(x, expm1C3, expm1C2)) +
			float64(x4*(mad(x, expm1C5, expm1C4)+float64(x2*mad(x, expm1C7, expm1C6))))
		return x + float64(x2*mad(x, p, 0.5))
	case x != x:
		return math.NaN()
	case x > 40:
		return Exp(x)
	case x < -40:
		return -1
	}
	hi, lo, k := expParts(x, 0)
	hi = float64(hi * power2(k))
	lo = float64(lo * power2(k))
	d := hi - 1
	if hi >= 1 {
		return d + ((hi - d - 1) + lo)
	}
	return d + ((hi - (d + 1)) + lo)
}
