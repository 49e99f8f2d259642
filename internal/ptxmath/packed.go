package ptxmath

// This file implements the conversions of pairs: f16x2, bf16x2 and fp8 from two f32, fp8 to f16x2, tf32 and cvt.pack.

// tf32Low are the bits of an f32 that tf32 does not have. The hardware leaves them zero.
const tf32Low = 1<<13 - 1

// CvtTF32 is cvt.tf32.f32 with m.Round one of RNA, RN and RZ. With RNA a NaN keeps its leading bits, and may so become
// an infinity, or with .satfinite a number; the others make the canonical NaN.
func CvtTF32(a uint32, m Mode) uint32 {
	var d uint32
	switch nan := a&^sign32 > inf32; {
	case nan && m.Round == RNA:
		d = a &^ tf32Low
	case nan:
		return NaN32 &^ tf32Low
	case m.Relu && a&sign32 != 0:
		return 0
	default:
		d = uint32(fmtTF32.narrow(f32(a), m.Round)) << 13
	}
	if m.SatFinite && d&inf32 == inf32 {
		d -= tf32Low + 1
	}
	return d
}

// CvtF16x2 is cvt.f16x2.f32 d, a, b: a goes to the high half.
func CvtF16x2(a, b uint32, m Mode) uint32 {
	return Pair(uint16(Cvt(F16, F32, m, uint64(b))), uint16(Cvt(F16, F32, m, uint64(a))))
}

// CvtBF16x2 is cvt.bf16x2.f32 d, a, b: a goes to the high half.
func CvtBF16x2(a, b uint32, m Mode) uint32 {
	return Pair(uint16(Cvt(BF16, F32, m, uint64(b))), uint16(Cvt(BF16, F32, m, uint64(a))))
}

// FP8 is one of the two 8-bit floats.
type FP8 uint8

// The 8-bit floats.
const (
	E4M3 FP8 = iota
	E5M2
)

// FromF32 is one half of cvt.rn.satfinite.e4m3x2.f32 and its like: what overflows becomes the largest number, NaN 0x7f.
func (t FP8) FromF32(a uint32, relu bool) uint8 { return t.from(f32(a), relu) }

// FromF16 is one half of cvt.rn.satfinite.e4m3x2.f16x2 and its like.
func (t FP8) FromF16(a uint16, relu bool) uint8 { return t.from(wideF16(a), relu) }

func (t FP8) from(x float64, relu bool) uint8 {
	f := &fmtE4M3
	if t == E5M2 {
		f = &fmtE5M2
	}
	if x != x {
		return 0x7f
	}
	d := f.narrow(x, RN)
	if relu && d&f.sign != 0 {
		return 0
	}
	if d&^f.sign == f.inf {
		d = d&f.sign | f.max
	}
	return uint8(d)
}

// ToF16 is one half of cvt.rn.f16x2.e4m3x2 and its like; it is exact.
func (t FP8) ToF16(a uint8, relu bool) uint16 {
	if relu && a&0x80 != 0 && !t.isNaN(a) {
		return 0
	}
	switch {
	case t.isNaN(a):
		return NaN16
	case t == E5M2:
		return uint16(a) << 8
	}
	return uint16(fmtF16.narrow(wideE4M3(a), RN))
}

func (t FP8) isNaN(a uint8) bool {
	if t == E4M3 {
		return a&0x7f == 0x7f
	}
	return a&0x7f > 0x7c
}

// wideE4M3 is the value of an e4m3 that is not NaN.
func wideE4M3(a uint8) float64 {
	x := float64(a&7) * 0x1p-9
	if e := a >> 3 & 15; e != 0 {
		x = (float64(a&7) + 8) * float64(uint32(1)<<e) * 0x1p-10
	}
	if a&0x80 != 0 {
		return -x
	}
	return x
}

// Pack is cvt.pack.sat: a and b clamped to integers of the given width, a above b, and above both what c has in its low
// end (nothing for 16 bits, which has no c).
func Pack(a, b int32, c uint32, width uint, signed bool) uint32 {
	x := uint32(clamp(a, width, signed))<<width | uint32(clamp(b, width, signed))
	return c<<(2*width) | x
}

// clamp gives the low width bits of a, clamped.
func clamp(a int32, width uint, signed bool) uint32 {
	lo, hi := int32(0), int32(1)<<width-1
	if signed {
		lo, hi = -1<<(width-1), 1<<(width-1)-1
	}
	return uint32(max(lo, min(a, hi))) & (1<<width - 1)
}
