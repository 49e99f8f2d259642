package dtype

// This file implements the parameters of the formats and the limits that follow from them.

import "math"

// floatFormat describes a binary floating-point format narrower than float64.
type floatFormat struct {
	manBits   uint    // stored significand bits
	minExp    int     // exponent of the smallest normal
	signBit   uint64  // mask of the sign
	infBits   uint64  // magnitude that overflow gives: the infinity, or the NaN of a format without infinities
	maxBits   uint64  // magnitude of the largest finite value
	nanBits   uint64  // magnitude of the quiet NaN with an empty payload
	maxFinite float64 // value of maxBits
	overflow  float64 // halfway from maxFinite to the value that would follow it; 0: no float64 is that large
}

// formats is indexed by DType. float8_e4m3fn spends the top exponent on numbers: only the all-ones code is a NaN
// (OCP 8-bit Floating Point Specification 1.0, table 1).
var formats = [Float8E5M2 + 1]floatFormat{
	Float64: {52, -1022, 1 << 63, 0x7ff << 52, 0x7ff<<52 - 1, 0xfff << 51, math.MaxFloat64, 0},
	Float32: {23, -126, 1 << 31, 0x7f800000, 0x7f7fffff, 0x7fc00000,
		math.MaxFloat32, 0x1.ffffffp127},
	Float16:      {10, -14, 1 << 15, 0x7c00, 0x7bff, 0x7e00, 65504, 65520},
	BFloat16:     {7, -126, 1 << 15, 0x7f80, 0x7f7f, 0x7fc0, 0x1.fep127, 0x1.ffp127},
	Float8E4M3FN: {3, -6, 1 << 7, 0x7f, 0x7e, 0x7f, 448, 464},
	Float8E5M2:   {2, -14, 1 << 7, 0x7c, 0x7b, 0x7e, 57344, 61440},
}

// MaxFinite returns the largest finite value. For 64-bit integers it is the largest float64 that is one of their
// values, for Bool 1, for Invalid 0.
func (d DType) MaxFinite() float64 {
	switch d.kind() {
	case kindFloat:
		return formats[d].maxFinite
	case kindInt, kindUint:
		limit := math.Ldexp(1, d.valueBits())
		if d.valueBits() > 53 {
			return math.Nextafter(limit, 0)
		}
		return limit - 1
	case kindBool:
		return 1
	}
	return 0
}

// valueBits returns the number of bits of an integer format without its sign.
func (d DType) valueBits() int {
	if d.kind() == kindInt {
		return 8*d.Size() - 1
	}
	return 8 * d.Size()
}

// OverflowThreshold returns the least magnitude that Bits does not round to a finite value: halfway between MaxFinite
// and the value that would follow it. A magnitude of exactly the threshold overflows, because MaxFinite is odd, with
// one exception: in Float8E4M3FN it ties to the even 448, and only larger ones give NaN. For Float64 it is +Inf,
// since every finite float64 is a value; for integers it is where saturation sets in on the positive side; a Bool
// never overflows (+Inf).
func (d DType) OverflowThreshold() float64 {
	switch d.kind() {
	case kindFloat:
		if d != Float64 {
			return formats[d].overflow
		}
	case kindInt, kindUint:
		if d.valueBits() > 52 {
			return math.Ldexp(1, d.valueBits())
		}
		return d.MaxFinite() + 0.5
	}
	return math.Inf(1)
}

// SmallestNormal returns the smallest positive normal value; 1 for integers and Bool.
func (d DType) SmallestNormal() float64 {
	switch d.kind() {
	case kindFloat:
		return math.Ldexp(1, formats[d].minExp)
	case kindInvalid:
		return 0
	}
	return 1
}

// SmallestSubnormal returns the smallest positive value; 1 for integers and Bool.
func (d DType) SmallestSubnormal() float64 {
	switch d.kind() {
	case kindFloat:
		return math.Ldexp(1, formats[d].minExp-int(formats[d].manBits))
	case kindInvalid:
		return 0
	}
	return 1
}

// UnitRoundoff returns 2^-p for a format with p significand bits (the hidden one included): the largest relative
// error of rounding to nearest in the normal range. It is 0 for formats that are not floating-point.
func (d DType) UnitRoundoff() float64 {
	if d.kind() != kindFloat {
		return 0
	}
	return math.Ldexp(1, -int(formats[d].manBits)-1)
}

// HalfULP returns a bound on the rounding error of Bits for every real of magnitude at most |x|: half the distance
// from |x| to the next larger value. It grows with |x|, and is half the subnormal spacing at the bottom. It goes on
// beyond MaxFinite as if exponents had no end; whether something overflows is OverflowThreshold's question. Float64's
// half spacing below 2^-1021 is not a float64 and is returned as 2^-1074, the next larger one. Integers have 0.5.
// Infinities, NaNs, Bool and Invalid have 0.
func (d DType) HalfULP(x float64) float64 {
	x = math.Abs(x)
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return 0
	case d.IsInteger():
		return 0.5
	case !d.IsFloat():
		return 0
	}
	// The exponent field of the carrier gives floor(log2 x) of a normal x; a subnormal x is below every minExp.
	exp := max(int(math.Float64bits(x)>>52)-1023, formats[d].minExp)
	exp -= int(formats[d].manBits) + 1
	if exp < -1074 {
		return math.SmallestNonzeroFloat64
	}
	if exp < -1022 {
		return math.Float64frombits(1 << uint(exp+1074))
	}
	return math.Float64frombits(uint64(exp+1023) << 52)
}
