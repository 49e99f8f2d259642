package ptxmath

import (
	"math"
	"math/bits"
)

// This file implements the arithmetic of f64. To nearest it is the CPU's; the other directions are rare and computed
// with integers, where nothing overflows and nothing is lost.

func isNaN64(a uint64) bool { return a&^sign64 > inf64 }

// AddRN64 is add.rn.f64.
func AddRN64(a, b uint64) uint64 {
	s := math.Float64frombits(a) + math.Float64frombits(b)
	if s != s {
		return nan64(a, b)
	}
	return math.Float64bits(s)
}

// MulRN64 is mul.rn.f64.
func MulRN64(a, b uint64) uint64 {
	p := math.Float64frombits(a) * math.Float64frombits(b)
	if p != p {
		return nan64(a, b)
	}
	return math.Float64bits(p)
}

// FmaRN64 is fma.rn.f64.
func FmaRN64(a, b, c uint64) uint64 {
	s := math.FMA(math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c))
	if s != s {
		return nanFma64(a, b, c)
	}
	return math.Float64bits(s)
}

// nan64 is the NaN of a result: b made quiet if it is NaN, else a, or the one of invalid operations.
func nan64(a, b uint64) uint64 {
	switch {
	case isNaN64(b):
		return b | quiet
	case isNaN64(a):
		return a | quiet
	}
	return NaN64
}

// nanFma64 is nan64 for three operands.
func nanFma64(a, b, c uint64) uint64 {
	if isNaN64(c) && !isNaN64(b) {
		return c | quiet
	}
	return nan64(a, b)
}

// Add64 is add.f64.
func Add64(a, b uint64, r Round) uint64 {
	s := math.Float64frombits(a) + math.Float64frombits(b)
	if s != s {
		return nan64(a, b)
	}
	if r == RN || (a&inf64 == inf64) || (b&inf64 == inf64) {
		return math.Float64bits(s)
	}
	return sum64(unpack64(a).wide(), unpack64(b).wide(), r)
}

// Sub64 is sub.f64. The sign of a NaN operand stays.
func Sub64(a, b uint64, r Round) uint64 {
	if isNaN64(b) {
		return b | quiet
	}
	return Add64(a, b^sign64, r)
}

// Mul64 is mul.f64.
func Mul64(a, b uint64, r Round) uint64 {
	p := math.Float64frombits(a) * math.Float64frombits(b)
	if p != p {
		return nan64(a, b)
	}
	if r == RN || (a&inf64 == inf64) || (b&inf64 == inf64) {
		return math.Float64bits(p)
	}
	return times64(a, b).round(r)
}

// Fma64 is fma.f64.
func Fma64(a, b, c uint64, r Round) uint64 {
	s := math.FMA(math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c))
	if s != s {
		return nanFma64(a, b, c)
	}
	if r == RN || (a&inf64 == inf64) || (b&inf64 == inf64) || (c&inf64 == inf64) {
		return math.Float64bits(s)
	}
	return sum64(times64(a, b), unpack64(c).wide(), r)
}

// Div64 is div.f64.
func Div64(a, b uint64, r Round) uint64 {
	q := math.Float64frombits(a) / math.Float64frombits(b)
	if q != q {
		return nan64(b, a)
	}
	if r == RN || q == 0 && a&^sign64 == 0 || (a&inf64 == inf64) || (b&inf64 == inf64) || b&^sign64 == 0 {
		return math.Float64bits(q)
	}
	x, y := unpack64(a), unpack64(b)
	// Both significands have 64 bits with the first one set: half of x over y is below 1, so the quotient fits.
	high, rest := bits.Div64(x.sig>>1, x.sig<<63, y.sig)
	w := wide64{negative: x.negative != y.negative, exp: x.exp - y.exp, hi: high}
	if rest != 0 {
		w.lo = 1
	}
	return w.normal().round(r)
}

// Rcp64 is rcp.f64 with a rounding.
func Rcp64(a uint64, r Round) uint64 { return Div64(one64, a, r) }

// Sqrt64 is sqrt.f64. The argument is scaled to [1, 4), where the remainder is exact; a root is never subnormal.
func Sqrt64(a uint64, r Round) uint64 {
	s := math.Sqrt(math.Float64frombits(a))
	if s != s {
		return nan64(a, a)
	}
	if r == RN || s-s != 0 || s == 0 {
		return math.Float64bits(s)
	}
	x := unpack64(a)
	exp := x.exp & 1
	v := math.Float64frombits(uint64(1023+exp)<<52 | x.sig>>11&(1<<52-1))
	s = math.Sqrt(v)
	rest := math.FMA(-s, s, v)
	u := math.Float64bits(s) + uint64((x.exp-exp)/2)<<52
	if rest < 0 && r != RP {
		u--
	} else if rest > 0 && r == RP {
		u++
	}
	return u
}

// parts64 is a finite number sig·2^(exp-63), the first bit of sig set unless it is zero.
type parts64 struct {
	negative bool
	exp      int
	sig      uint64
}

func unpack64(a uint64) parts64 {
	p := parts64{negative: a>>63 != 0, exp: int(a >> 52 & 0x7ff), sig: a & (1<<52 - 1)}
	if p.exp != 0 {
		p.sig |= 1 << 52
	} else {
		p.exp = 1
	}
	n := bits.LeadingZeros64(p.sig)
	p.exp -= 1023 + n - 11
	p.sig <<= n
	return p
}

func (p parts64) wide() wide64 { return wide64{negative: p.negative, exp: p.exp, hi: p.sig} }

// wide64 is a finite number (hi·2^64 + lo)·2^(exp-127), the first bit of hi set unless it is zero. The last bit of lo
// is also set where smaller bits are missing.
type wide64 struct {
	negative bool
	exp      int
	hi, lo   uint64
}

// times64 is the exact product of two finite numbers.
func times64(a, b uint64) wide64 {
	x, y := unpack64(a), unpack64(b)
	w := wide64{negative: x.negative != y.negative, exp: x.exp + y.exp + 1}
	w.hi, w.lo = bits.Mul64(x.sig, y.sig)
	return w.normal()
}

func (w wide64) isZero() bool { return w.hi|w.lo == 0 }

// normal moves the first bit to its place.
func (w wide64) normal() wide64 {
	if w.hi == 0 {
		if w.lo == 0 {
			return w
		}
		w.hi, w.lo, w.exp = w.lo, 0, w.exp-64
	}
	n := bits.LeadingZeros64(w.hi)
	w.hi, w.lo, w.exp = w.hi<<n|w.lo>>(64-n), w.lo<<n, w.exp-n
	return w
}

// right moves the bits of w down by n and keeps in the last one that something was lost.
func (w wide64) right(n int) wide64 {
	switch {
	case n == 0:
	case n < 64:
		lost := w.lo << (64 - n)
		w.lo, w.hi = w.lo>>n|w.hi<<(64-n), w.hi>>n
		w.stick(lost)
	case n < 128:
		lost := w.lo | w.hi<<(128-n)
		w.lo, w.hi = w.hi>>(n-64), 0
		w.stick(lost)
	default:
		lost := w.hi | w.lo
		w.hi, w.lo = 0, 0
		w.stick(lost)
	}
	w.exp += n
	return w
}

func (w *wide64) stick(lost uint64) {
	if lost != 0 {
		w.lo |= 1
	}
}

// sum64 adds two numbers and rounds. A product has at most 106 bits, so one bit of each is free for the carry, and
// where bits are lost the operands are so far apart that at most one leading bit cancels.
func sum64(x, y wide64, r Round) uint64 {
	switch {
	case x.isZero() && y.isZero():
		x.negative = x.negative && y.negative || r == RM && (x.negative || y.negative)
		return x.round(r)
	case x.isZero():
		return y.round(r)
	case y.isZero():
		return x.round(r)
	}
	if x.exp < y.exp {
		x, y = y, x
	}
	y = y.right(1 + x.exp - y.exp)
	x = x.right(1)
	var carry uint64
	if x.negative == y.negative {
		x.lo, carry = bits.Add64(x.lo, y.lo, 0)
		x.hi, _ = bits.Add64(x.hi, y.hi, carry)
		return x.normal().round(r)
	}
	x.lo, carry = bits.Sub64(x.lo, y.lo, 0)
	x.hi, carry = bits.Sub64(x.hi, y.hi, carry)
	if carry != 0 {
		x.negative = !x.negative
		x.lo, carry = bits.Sub64(0, x.lo, 0)
		x.hi, _ = bits.Sub64(0, x.hi, carry)
	}
	if x.isZero() {
		x.negative = r == RM
	}
	return x.normal().round(r)
}

// round gives the f64 of w.
func (w wide64) round(r Round) uint64 {
	var sign uint64
	if w.negative {
		sign = sign64
	}
	if w.isZero() {
		return sign
	}
	drop := 11
	field := w.exp + 1022 // one less than the exponent: the significand's first bit adds it
	if w.exp < -1022 {
		drop = min(drop-1022-w.exp, 64)
		field = 0
	}
	q, rest := w.hi>>drop, w.hi<<(64-drop)
	if drop == 64 {
		rest = w.hi | w.lo // less than the last place, and its middle is of no interest
	} else {
		rest |= w.lo
	}
	up := rest != 0 && (r == RM && w.negative || r == RP && !w.negative)
	if up {
		q++
	}
	q += uint64(field) << 52
	if q >= inf64 {
		q = inf64
		if r == RZ || r == RM && !w.negative || r == RP && w.negative {
			q--
		}
	}
	return sign | q
}
