// This file implements what a dtype and a domain allow, and bringing values into it.

package gen

import (
	"math"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
)

// usualHalf is half the width of the usual range of values, [-10,10), as in the published fuzzer.
const usualHalf = 10

// limits is what values of one input may be. All fields are exact values of the dtype except mid and half.
type limits struct {
	d         dtype.DType
	lo, hi    float64 // finite values lie within
	mid, half float64 // the usual range: mid ± half lies within lo..hi
	usual     bool    // the usual range is that of a float without a domain
	tiny, sub float64 // smallest normal and subnormal; 1 for integers
	prec      int     // bits of precision
	nonFinite bool    // NaN and infinities are allowed
	nonZero   bool
}

// newLimits intersects dtype and domain. An input with bounds has neither NaN nor infinities: they are not within.
func newLimits(d dtype.DType, dom opspec.Domain, finite bool) (limits, error) {
	l := limits{d: d, tiny: 1, sub: 1, nonZero: dom.NonZero}
	l.nonFinite = d.IsFloat() && !finite && !dom.Finite && !dom.Bounded()
	l.hi = d.MaxFinite()
	switch {
	case d.IsFloat():
		l.lo, l.tiny, l.sub = -l.hi, d.SmallestNormal(), d.SmallestSubnormal()
		l.prec = -math.Ilogb(d.UnitRoundoff())
	case d.IsSigned():
		l.lo, l.prec = -math.Ldexp(1, 8*d.Size()-1), 8*d.Size()-1
	default:
		l.prec = 8 * d.Size()
	}
	if dom.Bounded() {
		lo, hi := atLeast(d, max(dom.Min, l.lo)), atMost(d, min(dom.Max, l.hi))
		if !(lo <= hi) || dom.NonZero && lo == 0 && hi == 0 {
			return l, diag.Errorf(EmptyDomain, "", "no value of %s lies in the domain %v..%v", d, dom.Min, dom.Max)
		}
		l.lo, l.hi = lo, hi
	}
	half := float64(usualHalf)
	wlo, whi := max(l.lo, -half), min(l.hi, half)
	if !d.IsFloat() {
		// 8-bit operands of quantised kernels use their whole range; wider integers stay small enough to be summed.
		half = 128
		wlo, whi = max(l.lo, -half), min(l.hi, half)
		if !d.IsSigned() {
			whi = min(l.hi, 255)
		}
	}
	if !(wlo < whi) || whi-wlo < half/1024 && l.hi-l.lo > half {
		wlo, whi = windowBeside(l.lo, l.hi, half)
	}
	l.mid, l.half = float64(wlo/2)+float64(whi/2), float64(whi/2)-float64(wlo/2)
	l.usual = d.IsFloat() && wlo == -usualHalf && whi == usualHalf
	return l, nil
}

// windowBeside is the usual range of a domain that lies beside the usual range around 0.
func windowBeside(lo, hi, half float64) (float64, float64) {
	if lo >= 0 {
		return lo, min(hi, lo+half+half)
	}
	return max(lo, hi-half-half), hi
}

// atLeast returns the least value of d that is not below x, which is within the range of d.
func atLeast(d dtype.DType, x float64) float64 {
	y := d.Float64(d.Bits(x))
	if y < x {
		return nextUp(d, y)
	}
	return y
}

// atMost returns the greatest value of d that is not above x, which is within the range of d.
func atMost(d dtype.DType, x float64) float64 {
	y := d.Float64(d.Bits(x))
	if y > x {
		return -nextUp(d, -y)
	}
	return y
}

// nextUp returns the value of d above x, itself a value of d; an infinity or NaN above the greatest. For integers
// it may be one that d does not have; callers clamp.
func nextUp(d dtype.DType, x float64) float64 {
	switch {
	case !d.IsFloat():
		return x + 1
	case x == 0:
		return d.SmallestSubnormal()
	case x > 0:
		return d.Float64(d.Bits(x) + 1)
	}
	return d.Float64(d.Bits(x) - 1) // sign and magnitude: towards zero
}

// fit brings values that a distribution made into the limits. Finite values beyond an end are reflected at it (so a
// domain of positive numbers gets magnitudes, not zeros), and clamped where that does not help. Rounding to the dtype
// then cannot leave the domain or overflow: both ends are values of the dtype, and rounding is monotone.
func (l *limits) fit(vals []float64) {
	for i, x := range vals {
		switch {
		case x >= l.lo && x <= l.hi:
		case math.IsNaN(x):
			if !l.nonFinite {
				vals[i] = min(max(0, l.lo), l.hi)
			}
		case math.IsInf(x, 0) && l.nonFinite:
		case x < l.lo:
			if vals[i] = l.lo + (l.lo - x); !(vals[i] <= l.hi) {
				vals[i] = l.lo
			}
		default:
			if vals[i] = l.hi - (x - l.hi); !(vals[i] >= l.lo) {
				vals[i] = l.hi
			}
		}
	}
	if l.nonZero {
		l.awayFromZero(vals)
	}
}

// awayFromZero replaces what rounds to zero, and what a kernel may flush to zero, by the smallest normal number on
// its side (on the other side where the domain has none there).
func (l *limits) awayFromZero(vals []float64) {
	for i, x := range vals {
		if !(math.Abs(x) < l.tiny) {
			continue
		}
		x = math.Copysign(l.tiny, x)
		if x < l.lo || x > l.hi {
			x = -x
		}
		if x < l.lo || x > l.hi { // a domain of subnormals: whatever end is not zero
			x = l.hi
			if x == 0 {
				x = l.lo
			}
		}
		vals[i] = x
	}
}
