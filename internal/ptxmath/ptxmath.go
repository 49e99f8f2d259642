// Package ptxmath is the scalar arithmetic of PTX instructions, on bit patterns.
//
// Every function takes and returns the bits of registers: uint16 for f16 and bf16, uint32 for f32 and pairs, uint64 for
// f64. Instructions that PTX defines exactly give the defined bits; the approximate ones give the correctly rounded
// value of the exact result, and [Approx] says how far a GPU may be from it. Nothing allocates, and nothing depends on
// the CPU.
//
// What PTX leaves open is filled in as an H200 (sm_90, driver 580) does it: the tests compare with what was recorded
// there (testdata/vectors/ptx, made by bench/device/instructions.sh). NaN results:
//
//   - f32, f16, bf16: arithmetic gives one NaN, [NaN32] or [NaN16], whatever came in.
//   - f64: a NaN operand comes out quiet, with its sign and payload. Of two, b wins over c and c over a, except that in
//     div a wins. An invalid operation gives [NaN64].
//   - Conversions differ from each other: see [Cvt].
//
// Flushing (.ftz) takes subnormal operands and results to the zero of their sign; a result is subnormal if it would be
// below the smallest normal number after rounding to the format's precision with an unbounded exponent. Saturation
// (.sat) clamps to [+0, 1] and takes NaN to +0.
package ptxmath

import "math"

// This file implements the rounding modes and the rounding of a float64 to a narrower format.

// Round is a rounding direction.
type Round uint8

// The rounding directions of PTX, in the order of the manual; RNA, to nearest with ties away from zero, is for tf32
// only.
const (
	RN  Round = iota // to nearest, ties to even
	RZ               // towards zero
	RM               // towards minus infinity
	RP               // towards plus infinity
	RNA              // to nearest, ties away from zero
)

// Mode is what the modifiers of an instruction say. The zero value is .rn and nothing else.
type Mode struct {
	Round     Round
	Integral  bool // .rni, .rzi, .rmi, .rpi: round to an integer
	FTZ       bool // .ftz
	Sat       bool // .sat
	Relu      bool // .relu: a negative result becomes +0
	SatFinite bool // .satfinite: an overflow becomes the largest finite number
}

// The NaN that arithmetic makes.
const (
	NaN16 uint16 = 0x7fff // f16 and bf16
	NaN32 uint32 = 0x7fffffff
	NaN64 uint64 = 0xfff8000000000000 // of invalid operations only
)

const (
	sign16 = 1 << 15
	sign32 = 1 << 31
	sign64 = 1 << 63
	inf32  = 0x7f800000
	inf64  = 0x7ff << 52
	one32  = 0x3f800000
	one64  = 0x3ff << 52
	quiet  = 1 << 51 // of a float64 NaN
	min32  = 0x00800000
)

// format is a binary floating-point format of at most 32 bits.
type format struct {
	man  uint   // explicit bits of the significand
	emin int    // exponent of the smallest normal number
	inf  uint64 // bits of infinity: results from here on have overflowed
	max  uint64 // bits of the largest finite number
	sign uint64 // the sign bit
}

var (
	fmtF16  = format{man: 10, emin: -14, inf: 0x7c00, max: 0x7bff, sign: sign16}
	fmtBF16 = format{man: 7, emin: -126, inf: 0x7f80, max: 0x7f7f, sign: sign16}
	fmtF32  = format{man: 23, emin: -126, inf: inf32, max: inf32 - 1, sign: sign32}
	fmtTF32 = format{man: 10, emin: -126, inf: inf32 >> 13, max: inf32>>13 - 1, sign: sign32 >> 13}
	// Both fp8 formats only appear with .satfinite: inf is the first pattern that does not stand for a number.
	fmtE4M3 = format{man: 3, emin: -6, inf: 0x7f, max: 0x7e, sign: 1 << 7}
	fmtE5M2 = format{man: 2, emin: -14, inf: 0x7c, max: 0x7b, sign: 1 << 7}
)

// narrow rounds x, which is not NaN, to the format. x may be the round-to-odd of the exact value: float64 has more than
// two bits beyond every format here, so rounding once more is right.
func (f *format) narrow(x float64, r Round) uint64 {
	u := math.Float64bits(x)
	a := u &^ sign64
	negative := u>>63 != 0
	var sign uint64
	if negative {
		sign = f.sign
	}
	switch {
	case a == 0:
		return sign
	case a == inf64:
		return sign | f.inf
	}
	e := int(a>>52) - 1023
	sig := a&(1<<52-1) | 1<<52
	drop := 52 - f.man
	base := uint64(0)
	if e < f.emin {
		drop = min(drop+uint(f.emin-e), 63) // the significand has 53 bits, so beyond 54 nothing changes
	} else {
		base = uint64(e-f.emin) << f.man
	}
	q, rest, half := sig>>drop, sig&(1<<drop-1), uint64(1)<<(drop-1)
	switch r {
	case RN:
		if rest > half || rest == half && q&1 != 0 {
			q++
		}
	case RM:
		if negative && rest != 0 {
			q++
		}
	case RP:
		if !negative && rest != 0 {
			q++
		}
	case RNA:
		if rest >= half {
			q++
		}
	}
	q += base
	if q >= f.inf {
		q = f.inf
		if r == RZ || r == RM && !negative || r == RP && negative {
			q = f.max
		}
	}
	return sign | q
}

// twoSum returns the rounded sum and what it lacks. Both are exact together (Knuth) for finite a and b without
// overflow.
func twoSum(a, b float64) (s, e float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// odd moves s, the nearest float64 of s + e, to the one with an odd last bit if e is not zero: the round-to-odd of the
// exact value. It keeps, in the last bit, that something is missing.
func odd(s, e float64) float64 {
	u := math.Float64bits(s)
	if e == 0 || u&1 != 0 {
		return s
	}
	if (e > 0) == (s > 0) {
		return math.Float64frombits(u + 1)
	}
	return math.Float64frombits(u - 1)
}

// oddSum is the round-to-odd of a + b, and the sum itself where it is not finite.
func oddSum(a, b float64) float64 {
	s, e := twoSum(a, b)
	if e != e { // an infinity among the operands
		return s
	}
	return odd(s, e)
}

// tiny reports whether .ftz flushes x, the odd result before rounding. smallest is the smallest normal number; just
// below it, numbers of the same precision would be smallest·gap apart, and what is rounded up from there counts as
// normal.
func tiny(x, smallest, gap float64, r Round) bool {
	a := math.Abs(x)
	switch {
	case a >= smallest:
		return false
	case r == RN:
		return a < smallest*(1-gap/2)
	case r == RM && x < 0 || r == RP && x > 0:
		return a <= smallest*(1-gap)
	}
	return true
}
