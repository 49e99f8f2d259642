package ptxmath

import "math"

// This file implements what looks at numbers without computing new ones: comparisons, min, max, abs, neg, copysign,
// testp.

// Cmp is a comparison of setp and set on floats. The first six are false when an operand is NaN, the next six true.
type Cmp uint8

// The comparisons, as PTX spells them.
const (
	EQ Cmp = iota
	NE
	LT
	LE
	GT
	GE
	EQU
	NEU
	LTU
	LEU
	GTU
	GEU
	NUM // both operands are numbers
	NAN // an operand is NaN
)

// floats compares two numbers.
func (c Cmp) floats(a, b float64) bool {
	switch c {
	case EQ:
		return a == b
	case NE:
		return a < b || a > b
	case LT:
		return a < b
	case LE:
		return a <= b
	case GT:
		return a > b
	case GE:
		return a >= b
	case EQU:
		return !(a < b || a > b)
	case NEU:
		return a != b
	case LTU:
		return !(a >= b)
	case LEU:
		return !(a > b)
	case GTU:
		return !(a <= b)
	case GEU:
		return !(a < b)
	case NUM:
		return a == a && b == b
	}
	return a != a || b != b
}

// F64 compares two f64.
func (c Cmp) F64(a, b uint64) bool { return c.floats(math.Float64frombits(a), math.Float64frombits(b)) }

// F32 compares two f32.
func (c Cmp) F32(a, b uint32, ftz bool) bool {
	if ftz {
		a, b = Flush32(a), Flush32(b)
	}
	return c.floats(f32(a), f32(b))
}

// F16 compares two f16.
func (c Cmp) F16(a, b uint16, ftz bool) bool {
	if ftz {
		a, b = Flush16(a), Flush16(b)
	}
	return c.floats(wideF16(a), wideF16(b))
}

// BF16 compares two bf16.
func (c Cmp) BF16(a, b uint16) bool { return c.floats(wideBF16(a), wideBF16(b)) }

// Sel is what the modifiers of min and max say.
type Sel struct {
	FTZ     bool
	NaN     bool // .NaN: a NaN operand makes the result NaN; without it the other operand wins
	XorSign bool // .xorsign.abs: of the magnitudes, with the product of the signs
}

// less32 orders bit patterns as numbers, -0 before +0. None is NaN.
func less32(a, b uint32) bool {
	return int32(a)^int32(a)>>31&math.MaxInt32 < int32(b)^int32(b)>>31&math.MaxInt32
}

// Min32 is min.f32.
func Min32(a, b uint32, s Sel) uint32 { return pick32(a, b, s, false) }

// Max32 is max.f32.
func Max32(a, b uint32, s Sel) uint32 { return pick32(a, b, s, true) }

func pick32(a, b uint32, s Sel, larger bool) uint32 {
	if s.FTZ {
		a, b = Flush32(a), Flush32(b)
	}
	sign := uint32(0)
	if s.XorSign {
		sign = (a ^ b) & sign32
		a, b = a&^sign32, b&^sign32
	}
	nanA, nanB := a&^sign32 > inf32, b&^sign32 > inf32
	switch {
	case nanA && nanB || s.NaN && (nanA || nanB):
		return NaN32
	case nanA:
		return b | sign
	case nanB:
		return a | sign
	}
	if less32(b, a) != larger {
		return b | sign
	}
	return a | sign
}

// MinF16 is min.f16.
func MinF16(a, b uint16, s Sel) uint16 { return pick16(a, b, s, false, uint16(fmtF16.inf)) }

// MaxF16 is max.f16.
func MaxF16(a, b uint16, s Sel) uint16 { return pick16(a, b, s, true, uint16(fmtF16.inf)) }

// MinBF16 is min.bf16.
func MinBF16(a, b uint16, s Sel) uint16 { return pick16(a, b, s, false, uint16(fmtBF16.inf)) }

// MaxBF16 is max.bf16.
func MaxBF16(a, b uint16, s Sel) uint16 { return pick16(a, b, s, true, uint16(fmtBF16.inf)) }

// pick16 is pick32 for a 16-bit format whose infinity has the given bits.
func pick16(a, b uint16, s Sel, larger bool, inf uint16) uint16 {
	if s.FTZ {
		a, b = Flush16(a), Flush16(b)
	}
	sign := uint16(0)
	if s.XorSign {
		sign = (a ^ b) & sign16
		a, b = a&^sign16, b&^sign16
	}
	nanA, nanB := a&^sign16 > inf, b&^sign16 > inf
	switch {
	case nanA && nanB || s.NaN && (nanA || nanB):
		return NaN16
	case nanA:
		return b | sign
	case nanB:
		return a | sign
	}
	if less32(uint32(b)<<16, uint32(a)<<16) != larger {
		return b | sign
	}
	return a | sign
}

// Min64 is min.f64.
func Min64(a, b uint64) uint64 { return pick64(a, b, false) }

// Max64 is max.f64.
func Max64(a, b uint64) uint64 { return pick64(a, b, true) }

func pick64(a, b uint64, larger bool) uint64 {
	nanA, nanB := isNaN64(a), isNaN64(b)
	switch {
	case nanA && nanB:
		return b | quiet
	case nanA:
		return b
	case nanB:
		return a
	}
	less := int64(b)^int64(b)>>63&math.MaxInt64 < int64(a)^int64(a)>>63&math.MaxInt64
	if less != larger {
		return b
	}
	return a
}

// Abs32 is abs.f32.
func Abs32(a uint32, ftz bool) uint32 { return signed32(a&^sign32, ftz) }

// Neg32 is neg.f32.
func Neg32(a uint32, ftz bool) uint32 { return signed32(a^sign32, ftz) }

func signed32(a uint32, ftz bool) uint32 {
	if a&^sign32 > inf32 {
		return NaN32
	}
	if ftz {
		return Flush32(a)
	}
	return a
}

// Abs64 is abs.f64. A NaN keeps its sign.
func Abs64(a uint64) uint64 {
	if isNaN64(a) {
		return a | quiet
	}
	return a &^ sign64
}

// Neg64 is neg.f64. A NaN keeps its sign.
func Neg64(a uint64) uint64 {
	if isNaN64(a) {
		return a | quiet
	}
	return a ^ sign64
}

// AbsF16 is abs.f16.
func AbsF16(a uint16, ftz bool) uint16 { return signed16(a&^sign16, ftz, uint16(fmtF16.inf)) }

// NegF16 is neg.f16.
func NegF16(a uint16, ftz bool) uint16 { return signed16(a^sign16, ftz, uint16(fmtF16.inf)) }

// AbsBF16 is abs.bf16.
func AbsBF16(a uint16) uint16 { return signed16(a&^sign16, false, uint16(fmtBF16.inf)) }

// NegBF16 is neg.bf16.
func NegBF16(a uint16) uint16 { return signed16(a^sign16, false, uint16(fmtBF16.inf)) }

func signed16(a uint16, ftz bool, inf uint16) uint16 {
	if a&^sign16 > inf {
		return NaN16
	}
	if ftz {
		return Flush16(a)
	}
	return a
}

// Copysign32 is copysign.f32 d, a, b: the sign of a and the rest of b.
func Copysign32(a, b uint32) uint32 { return a&sign32 | b&^sign32 }

// Copysign64 is copysign.f64 d, a, b: the sign of a and the rest of b.
func Copysign64(a, b uint64) uint64 { return a&sign64 | b&^sign64 }

// Test is a property that testp asks for.
type Test uint8

// The properties of testp. Zero counts as normal.
const (
	Finite Test = iota
	Infinite
	Number
	NotANumber
	Normal
	Subnormal
)

// F32 is testp on an f32.
func (t Test) F32(a uint32) bool {
	return t.fields(a&^sign32 == 0, a&inf32 == 0, a&inf32 == inf32, a&(1<<23-1) != 0)
}

// F64 is testp on an f64.
func (t Test) F64(a uint64) bool {
	return t.fields(a&^sign64 == 0, a&inf64 == 0, a&inf64 == inf64, a&(1<<52-1) != 0)
}

// fields decides from the fields: whether the number is zero, its exponent is all zeros or all ones, and its fraction
// is not zero.
func (t Test) fields(zero, low, high, fraction bool) bool {
	switch t {
	case Finite:
		return !high
	case Infinite:
		return high && !fraction
	case Number:
		return !(high && fraction)
	case NotANumber:
		return high && fraction
	case Normal:
		return zero || !high && !low
	}
	return low && !zero
}
