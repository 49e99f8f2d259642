package ptxmath

import "math"

// This file implements the arithmetic of f32. A product of two float32 is exact in float64; a sum, quotient or root is
// made odd there and rounded again, which is right in every direction.

func f32(a uint32) float64 { return float64(math.Float32frombits(a)) }

// Flush32 is what .ftz does to an operand or result of f32.
func Flush32(a uint32) uint32 {
	if a&inf32 == 0 {
		return a & sign32
	}
	return a
}

// finish32 rounds x, which is odd where it is not exact, and applies the modifiers.
func finish32(x float64, m Mode) uint32 {
	if x != x {
		if m.Sat {
			return 0
		}
		return NaN32
	}
	if m.FTZ && tiny(x, 0x1p-126, 0x1p-24, m.Round) {
		x = math.Copysign(0, x)
	}
	var d uint32
	if m.Round == RN {
		d = math.Float32bits(float32(x))
	} else {
		d = uint32(fmtF32.narrow(x, m.Round))
	}
	if m.Sat {
		d = Sat32(d)
	}
	return d
}

// Sat32 is .sat: NaN and what is not above zero become +0, what is above one becomes 1.
func Sat32(a uint32) uint32 {
	switch {
	case a&sign32 != 0 || a > inf32:
		return 0
	case a > one32:
		return one32
	}
	return a
}

// AddRN32 is add.rn.f32.
func AddRN32(a, b uint32) uint32 {
	s := math.Float32frombits(a) + math.Float32frombits(b)
	if s != s {
		return NaN32
	}
	return math.Float32bits(s)
}

// SubRN32 is sub.rn.f32.
func SubRN32(a, b uint32) uint32 {
	s := math.Float32frombits(a) - math.Float32frombits(b)
	if s != s {
		return NaN32
	}
	return math.Float32bits(s)
}

// MulRN32 is mul.rn.f32.
func MulRN32(a, b uint32) uint32 {
	p := math.Float32frombits(a) * math.Float32frombits(b)
	if p != p {
		return NaN32
	}
	return math.Float32bits(p)
}

// FmaRN32 is fma.rn.f32. The product is exact in float64 and the sum is rounded there; rounding again goes wrong only
// when the first rounding landed on the middle between two float32, or below the normal numbers, where the middles are
// elsewhere.
func FmaRN32(a, b, c uint32) uint32 {
	s := f32(a)*f32(b) + f32(c) // fused or not: the product is exact
	if math.Float64bits(s)&(1<<29-1) != 1<<28 && (s >= 0x1p-126 || s <= -0x1p-126 || s == 0) {
		return math.Float32bits(float32(s))
	}
	return Fma32(a, b, c, Mode{})
}

// Add32 is add.f32 with modifiers.
func Add32(a, b uint32, m Mode) uint32 {
	if m.FTZ {
		a, b = Flush32(a), Flush32(b)
	}
	return sum32(f32(a), f32(b), m)
}

// Sub32 is sub.f32 with modifiers.
func Sub32(a, b uint32, m Mode) uint32 { return Add32(a, b^sign32, m) }

// sum32 adds two numbers that are exact in float64.
func sum32(x, y float64, m Mode) uint32 {
	s := oddSum(x, y)
	if s == 0 && m.Round == RM && (math.Signbit(x) || math.Signbit(y)) {
		s = math.Copysign(0, -1) // an exact zero of two signs
	}
	return finish32(s, m)
}

// Mul32 is mul.f32 with modifiers.
func Mul32(a, b uint32, m Mode) uint32 {
	if m.FTZ {
		a, b = Flush32(a), Flush32(b)
	}
	return finish32(f32(a)*f32(b), m)
}

// Fma32 is fma.f32 with modifiers.
func Fma32(a, b, c uint32, m Mode) uint32 {
	if m.FTZ {
		a, b, c = Flush32(a), Flush32(b), Flush32(c)
	}
	return sum32(float64(f32(a)*f32(b)), f32(c), m)
}

// Div32 is div.f32 with modifiers. The remainder of a quotient in float64 is exact, and its sign says where the exact
// quotient lies.
func Div32(a, b uint32, m Mode) uint32 {
	if m.FTZ {
		a, b = Flush32(a), Flush32(b)
	}
	if m.Round == RN && !m.FTZ {
		return finish32(float64(math.Float32frombits(a)/math.Float32frombits(b)), m)
	}
	x, y := f32(a), f32(b)
	q := x / y
	if q-q == 0 && q != 0 {
		e := math.FMA(-q, y, x)
		if y < 0 {
			e = -e
		}
		q = odd(q, e)
	}
	return finish32(q, m)
}

// Rcp32 is rcp.f32 with a rounding.
func Rcp32(a uint32, m Mode) uint32 { return Div32(one32, a, m) }

// Sqrt32 is sqrt.f32 with a rounding.
func Sqrt32(a uint32, m Mode) uint32 {
	if m.FTZ {
		a = Flush32(a)
	}
	x := f32(a)
	s := math.Sqrt(x)
	if m.Round != RN && s-s == 0 && s != 0 { // to nearest, 53 bits are enough to round twice, and no root is subnormal
		s = odd(s, math.FMA(-s, s, x))
	}
	return finish32(s, m)
}
