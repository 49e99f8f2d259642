package ptxmath

import "math"

// This file implements cvt among the integers and f16, bf16, f32 and f64.

// Type is the type of an operand or result of cvt.
type Type uint8

// The types of cvt.
const (
	U8 Type = iota
	S8
	U16
	S16
	U32
	S32
	U64
	S64
	F16
	BF16
	F32
	F64
)

func (t Type) isInt() bool    { return t < F16 }
func (t Type) isSigned() bool { return t&1 != 0 }
func (t Type) bits() uint     { return 8 << (t >> 1) } // of an integer type

// extend reads the low bits of x as an integer of type t: 64 bits, and whether they are negative.
func (t Type) extend(x uint64) (v uint64, negative bool) {
	shift := 64 - t.bits()
	if t.isSigned() {
		s := int64(x<<shift) >> shift
		return uint64(s), s < 0
	}
	return x << shift >> shift, false
}

// Cvt is cvt.dst.src: x holds the source in its low bits, and so does the result; signed integers are extended to the
// whole word, as the register that takes them expects. Where the hardware keeps a NaN and where it makes its own:
//
//   - to f64 and from f64: sign and leading payload stay, quiet; with .ftz an f32 is [NaN32] first.
//   - bf16 to f32, and f32 or f64 to themselves without a modifier: every bit stays.
//   - all others: [NaN16] or [NaN32].
//
// To an integer NaN is 0, as the manual says, except that only the highest bit is set if the source is f64 or the
// result has 64 bits.
func Cvt(dst, src Type, m Mode, x uint64) uint64 {
	switch {
	case src.isInt() && dst.isInt():
		return cvtInt(dst, src, m.Sat, x)
	case src.isInt():
		return intToFloat(dst, src, m, x)
	case dst.isInt():
		return floatToInt(dst, src, m, x)
	}
	return floatToFloat(dst, src, m, x)
}

// cvtInt is cvt between integers.
func cvtInt(dst, src Type, sat bool, x uint64) uint64 {
	v, negative := src.extend(x)
	if sat {
		most := uint64(math.MaxUint64) >> (64 - dst.bits())
		if dst.isSigned() {
			most >>= 1
		}
		switch {
		case !negative && v > most:
			v = most
		case negative && !dst.isSigned():
			v = 0
		case negative && int64(v) < -int64(most)-1:
			v = ^most
		}
	}
	d, _ := dst.extend(v)
	return d
}

// intToFloat is cvt from an integer.
func intToFloat(dst, src Type, m Mode, x uint64) uint64 {
	v, negative := src.extend(x)
	if negative {
		v = -v
	}
	// Up to 53 bits are exact in float64. Of larger numbers f64 itself is rounded once, in its direction; the others are
	// made odd first.
	if dst == F64 {
		w := wideInt(v, negative, m.Round)
		if m.Sat {
			w = max(0, min(w, 1))
		}
		return math.Float64bits(w)
	}
	if v >= 1<<53 {
		lost := v & (1<<11 - 1)
		v &^= 1<<11 - 1
		if lost != 0 {
			v |= 1 << 11
		}
	}
	w := float64(v)
	if negative {
		w = -w
	}
	return finishCvt(w, dst, m)
}

// wideInt rounds an integer to float64.
func wideInt(v uint64, negative bool, r Round) float64 {
	w := float64(v)
	if v >= 1<<53 && r != RN {
		up := r == RM && negative || r == RP && !negative
		var back uint64
		if w < 0x1p64 {
			back = uint64(w)
		}
		switch {
		case up && w < 0x1p64 && back < v:
			w = math.Float64frombits(math.Float64bits(w) + 1)
		case !up && (w == 0x1p64 || back > v):
			w = math.Float64frombits(math.Float64bits(w) - 1)
		}
	}
	if negative {
		return -w
	}
	return w
}

// floatToInt is cvt to an integer: rounded, then clamped.
func floatToInt(dst, src Type, m Mode, x uint64) uint64 {
	v := wide(src, x, m.FTZ)
	if v != v {
		if dst >= U64 || src == F64 {
			return nanInt(dst)
		}
		return 0
	}
	v = integral(v, m.Round)
	n := dst.bits()
	if dst.isSigned() {
		limit := math.Float64frombits(uint64(1023+n-1) << 52)
		switch {
		case v >= limit:
			return 1<<(n-1) - 1
		case v < -limit:
			return -(1 << (n - 1))
		}
		return uint64(int64(v))
	}
	switch limit := math.Float64frombits(uint64(1023+n) << 52); {
	case v <= 0:
		return 0
	case v >= limit:
		return math.MaxUint64 >> (64 - n)
	}
	return uint64(v)
}

// nanInt is the integer of a NaN where it is not 0.
func nanInt(dst Type) uint64 {
	v, _ := dst.extend(1 << (dst.bits() - 1))
	return v
}

// integral rounds to an integer.
func integral(v float64, r Round) float64 {
	switch r {
	case RZ:
		return math.Trunc(v)
	case RM:
		return math.Floor(v)
	case RP:
		return math.Ceil(v)
	}
	return math.RoundToEven(v)
}

// wide is the value of a float.
func wide(src Type, x uint64, ftz bool) float64 {
	switch src {
	case F16:
		return wideF16(uint16(x))
	case BF16:
		return wideBF16(uint16(x))
	case F32:
		a := uint32(x)
		if ftz {
			a = Flush32(a)
		}
		return f32(a)
	}
	return math.Float64frombits(x)
}

// floatToFloat is cvt between floats.
func floatToFloat(dst, src Type, m Mode, x uint64) uint64 {
	plain := !m.Integral && !m.FTZ && !m.Sat
	switch {
	case src == BF16 && dst == F32 && plain:
		return x << 16 & math.MaxUint32
	case src == dst && plain && (dst == F32 || dst == F64):
		return x
	}
	v := wide(src, x, m.FTZ && dst != F16) // to f16, .ftz does nothing
	if v != v {
		return nanFloat(dst, src, m, x)
	}
	if m.Integral {
		v = integral(v, m.Round)
	}
	if dst == F64 {
		if m.Sat {
			v = max(0, min(v, 1))
		}
		return math.Float64bits(v)
	}
	return finishCvt(v, dst, m)
}

// nanFloat is the result of cvt for a NaN.
func nanFloat(dst, src Type, m Mode, x uint64) uint64 {
	if m.Sat {
		return 0
	}
	switch {
	case dst == F64 && src == F64:
		return x | quiet
	case dst == F64 && src == F32 && m.FTZ:
		return 0x7fffffffe0000000
	case dst == F64 && src == F32:
		return x<<32&sign64 | inf64 | quiet | x<<29&(1<<52-1)
	case dst == F64 && src == BF16:
		return x<<48&sign64 | inf64 | quiet | x<<45&(1<<52-1)
	case dst == F64:
		return x<<48&sign64 | inf64 | quiet | x<<42&(1<<52-1)
	case dst == F32 && src == F64:
		return x>>32&sign32 | 0x7fc00000 | x>>29&(1<<23-1)
	case dst == BF16 && src == F64:
		return x>>48&sign16 | 0x7fc0 | x>>45&(1<<7-1)
	case dst == F16 && src == F64:
		return x>>48&sign16 | 0x7e00 | x>>42&(1<<10-1)
	case dst == F32:
		return uint64(NaN32)
	}
	return uint64(NaN16)
}

// finishCvt rounds x, which is odd where it is not exact, to a type of at most 32 bits.
func finishCvt(x float64, dst Type, m Mode) uint64 {
	if m.Sat {
		x = max(0, min(x, 1))
	}
	if m.Relu && math.Signbit(x) {
		return 0
	}
	var f *format
	switch dst {
	case F16:
		f = &fmtF16
	case BF16:
		f = &fmtBF16
	default:
		f = &fmtF32
	}
	d := f.narrow(x, m.Round)
	if m.SatFinite && d&^f.sign == f.inf {
		d--
	}
	if m.FTZ && dst == F32 {
		d = uint64(Flush32(uint32(d)))
	}
	return d
}

// F16ToF32 is cvt.f32.f16.
func F16ToF32(h uint16) uint32 {
	if h&0x7fff > 0x7c00 {
		return NaN32
	}
	return math.Float32bits(float32(wideF16(h)))
}

// F32ToF16 is cvt.rn.f16.f32.
func F32ToF16(a uint32) uint16 {
	if a&^sign32 > inf32 {
		return NaN16
	}
	return uint16(fmtF16.narrow(f32(a), RN))
}

// F32ToBF16 is cvt.rn.bf16.f32.
func F32ToBF16(a uint32) uint16 {
	if a&^sign32 > inf32 {
		return NaN16
	}
	return uint16((a + 0x7fff + a>>16&1) >> 16) // the exponent field is the same: carries and subnormals come out right
}
