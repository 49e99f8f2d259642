package ptxmath

import "math"

// This file implements the arithmetic of f16 and bf16: products are exact in float64, sums are made odd there, and one
// rounding follows. A pair (f16x2, bf16x2) is two numbers in 32 bits, the first in the low half: see [Pair].

// wideF16 is the value of an f16. The fields move to those of a float64; subnormals lose the hidden bit they get by an
// exact subtraction.
func wideF16(h uint16) float64 {
	sign := uint64(h>>15) << 63
	u := uint64(h&0x7fff) << 42
	switch {
	case u >= 31<<52:
		return math.Float64frombits(sign | inf64 | u&(1<<52-1))
	case u >= 1<<52:
		return math.Float64frombits(sign | (u + (1023-15)<<52))
	}
	v := math.Float64frombits(u+(1023-14)<<52) - 0x1p-14
	return math.Float64frombits(sign | math.Float64bits(v))
}

// wideBF16 is the value of a bf16.
func wideBF16(h uint16) float64 { return f32(uint32(h) << 16) }

// Flush16 is what .ftz does to an operand or result of f16.
func Flush16(a uint16) uint16 {
	if a&0x7c00 == 0 {
		return a & sign16
	}
	return a
}

// finish16 rounds x, which is odd where it is not exact, to nearest and applies the modifiers.
func finish16(x float64, f *format, m Mode) uint16 {
	if x != x {
		if m.Sat {
			return 0
		}
		return NaN16
	}
	if m.Sat {
		x = max(0, min(x, 1))
	}
	if m.Relu && math.Signbit(x) {
		return 0
	}
	if m.FTZ && tiny(x, 0x1p-14, 0x1p-11, RN) {
		x = math.Copysign(0, x)
	}
	return uint16(f.narrow(x, RN))
}

// AddF16 is add.f16.
func AddF16(a, b uint16, m Mode) uint16 {
	if m.FTZ {
		a, b = Flush16(a), Flush16(b)
	}
	return finish16(wideF16(a)+wideF16(b), &fmtF16, m) // 40 bits span all f16, so the sum is exact
}

// SubF16 is sub.f16.
func SubF16(a, b uint16, m Mode) uint16 { return AddF16(a, b^sign16, m) }

// MulF16 is mul.f16.
func MulF16(a, b uint16, m Mode) uint16 {
	if m.FTZ {
		a, b = Flush16(a), Flush16(b)
	}
	return finish16(wideF16(a)*wideF16(b), &fmtF16, m)
}

// FmaF16 is fma.f16.
func FmaF16(a, b, c uint16, m Mode) uint16 {
	if m.FTZ {
		a, b, c = Flush16(a), Flush16(b), Flush16(c)
	}
	return finish16(oddSum(float64(wideF16(a)*wideF16(b)), wideF16(c)), &fmtF16, m)
}

// AddBF16 is add.bf16.
func AddBF16(a, b uint16, m Mode) uint16 {
	return finish16(oddSum(wideBF16(a), wideBF16(b)), &fmtBF16, m)
}

// SubBF16 is sub.bf16.
func SubBF16(a, b uint16, m Mode) uint16 { return AddBF16(a, b^sign16, m) }

// MulBF16 is mul.bf16.
func MulBF16(a, b uint16, m Mode) uint16 { return finish16(wideBF16(a)*wideBF16(b), &fmtBF16, m) }

// FmaBF16 is fma.bf16.
func FmaBF16(a, b, c uint16, m Mode) uint16 {
	return finish16(oddSum(float64(wideBF16(a)*wideBF16(b)), wideBF16(c)), &fmtBF16, m)
}

// outOfBounds is the NaN, of either sign, that stands for an element outside a tensor (fma.oob).
const outOfBounds = 0x7ff7

// FmaOOBF16 is fma.rn.oob.f16: +0 where a or b is the mark of an element out of bounds.
func FmaOOBF16(a, b, c uint16, m Mode) uint16 {
	if a&^sign16 == outOfBounds || b&^sign16 == outOfBounds {
		return 0
	}
	return FmaF16(a, b, c, m)
}

// FmaOOBBF16 is fma.rn.oob.bf16.
func FmaOOBBF16(a, b, c uint16, m Mode) uint16 {
	if a&^sign16 == outOfBounds || b&^sign16 == outOfBounds {
		return 0
	}
	return FmaBF16(a, b, c, m)
}

// Pair packs two halves, lo in the low one.
func Pair(lo, hi uint16) uint32 { return uint32(lo) | uint32(hi)<<16 }

// Halves takes a pair apart.
func Halves(p uint32) (lo, hi uint16) { return uint16(p), uint16(p >> 16) }
