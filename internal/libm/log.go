// This file implements the logarithms of x to the bases e and 2, and of 1 + x.

package libm

import "math"

// logEntry belongs to an interval of z around some c: inv is 1/c to 21 bits, ln + lnLo is -log(inv) and
// log2 + log2Lo is -log2(inv), ln and log2 being multiples of 2^-42.
type logEntry struct {
	inv, ln, lnLo, log2, log2Lo float64
}

const (
	logLeastNormal = 0x0010000000000000
	logInf         = 0x7ff0000000000000
	logLowBits     = 1<<21 - 1 // of a z; the upper 32 bits times inv are exact
	halfBits       = 1<<27 - 1 // of a number; two numbers without them have an exact product
)

// logSpecial returns log(x) to any base for x that is not a positive number, and false for positive numbers.
func logSpecial(x float64) (float64, bool) {
	switch {
	case x == 0:
		return math.Inf(-1), true
	case x > math.MaxFloat64:
		return x, true
	case x > 0:
		return 0, false
	}
	return math.NaN(), true
}

// Log returns the natural logarithm of x. Its error is below 0.51 ulp.
func Log(x float64) float64 {
	ix := math.Float64bits(x)
	if ix-logLeastNormal >= logInf-logLeastNormal {
		if y, ok := logSpecial(x); ok {
			return y
		}
		ix = math.Float64bits(x*0x1p52) - 52<<52
	}
	// x = 2^k·z, and z·inv = 1 + r + rl. Both products and the difference are exact.
	off := ix - logOff
	e := &logTable[off>>44%256]
	k := float64(int64(off) >> 52)
	iz := ix - off&(0xfff<<52)
	zh := math.Float64frombits(iz &^ logLowBits)
	rh := float64(zh*e.inv) - 1
	rl := float64((math.Float64frombits(iz) - zh) * e.inv)
	r := rh + rl
	rl += rh - r
	// k·ln2 + log(c) + r is hi + lo, the rest of log(1+r) is p.
	s := float64(k*logLn2Hi) + e.ln
	hi := s + r
	lo := s - hi + r + (rl + mad(k, logLn2Lo, e.lnLo))
	r2 := float64(r * r)
	p := mad(r, logC0, -0.5) + float64(r2*(mad(r, logC2, logC1)+float64(r2*logC3)))
	return hi + (lo + float64(r2*p))
}

// Log2 returns the binary logarithm of x. Its error is below 0.51 ulp; powers of two give exact results.
func Log2(x float64) float64 {
	ix := math.Float64bits(x)
	if ix-logLeastNormal >= logInf-logLeastNormal {
		if y, ok := logSpecial(x); ok {
			return y
		}
		ix = math.Float64bits(x*0x1p52) - 52<<52
	}
	off := ix - logOff
	e := &logTable[off>>44%256]
	k := float64(int64(off) >> 52)
	iz := ix - off&(0xfff<<52)
	zh := math.Float64frombits(iz &^ logLowBits)
	rh := float64(zh*e.inv) - 1
	rl := float64((math.Float64frombits(iz) - zh) * e.inv)
	r := rh + rl
	rl += rh - r
	// (r + rl)/ln2 is t + tl, with t exact.
	rh = math.Float64frombits(math.Float64bits(r) &^ halfBits)
	t := float64(rh * logInvLn2Hi)
	tl := float64(rh*logInvLn2Lo) + float64((r-rh+rl)*(logInvLn2Hi+logInvLn2Lo))
	s := k + e.log2
	hi := s + t
	lo := s - hi + t + (tl + e.log2Lo)
	r2 := float64(r * r)
	p := mad(r, logC0, -0.5) + float64(r2*(mad(r, logC2, logC1)+float64(r2*logC3)))
	return hi + (lo + float64(float64(r2*p)*(logInvLn2Hi+logInvLn2Lo)))
}

// Log1p returns the natural logarithm of 1 + x. Its error is below 0.52 ulp.
func Log1p(x float64) float64 {
	if math.Abs(x) < 0x1p-9 {
		if math.Abs(x) < 0x1p-54 {
			return x // -0 and subnormal numbers too
		}
		x2 := float64(x * x)
		return x + float64(x2*(mad(x, logC0, -0.5)+float64(x2*(mad(x, logC2, logC1)+float64(x2*logC3)))))
	}
	// 1 + x = u + du, exactly.
	u := 1 + x
	ix := math.Float64bits(u)
	if ix-logLeastNormal >= logInf-logLeastNormal { // u is normal, zero or special
		y, _ := logSpecial(u)
		return y
	}
	t := u - 1
	du := (1 - (u - t)) + (x - t)
	off := ix - logOff
	e := &logTable[off>>44%256]
	n := int64(off) >> 52
	k := float64(n)
	iz := ix - off&(0xfff<<52)
	zh := math.Float64frombits(iz &^ logLowBits)
	rh := float64(zh*e.inv) - 1
	rl := float64((math.Float64frombits(iz) - zh) * e.inv)
	r := rh + rl
	rl += rh - r
	dr := float64(float64(du*e.inv) * math.Float64frombits(uint64(max(1023-n, 0))<<52)) // 0 for the largest u
	rl += dr - float64(dr*r)                                                            // du/u, as 1/(1+r) = 1 - r
	s := float64(k*logLn2Hi) + e.ln
	hi := s + r
	lo := s - hi + r + (rl + mad(k, logLn2Lo, e.lnLo))
	r2 := float64(r * r)
	p := mad(r, logC0, -0.5) + float64(r2*(mad(r, logC2, logC1)+float64(r2*logC3)))
	return hi + (lo + float64(r2*p))
}
