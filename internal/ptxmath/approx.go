package ptxmath

import (
	"math"

	"gpuemu/internal/libm"
)

// This file implements the instructions that PTX bounds instead of defining: their correctly rounded results, the
// bounds, and the results at the edges of the bounds.

// Approx is an approximate instruction with its type.
type Approx uint8

// The approximate instructions. Those without another type in their name are f32; .ftz is an argument.
const (
	Ex2 Approx = iota
	Lg2
	Sin
	Cos
	RcpApprox
	RsqrtApprox
	SqrtApprox
	Tanh
	DivApprox
	DivFull
	Ex2F16
	TanhF16
	Ex2BF16 // always .ftz
	TanhBF16
	RcpF64    // rcp.approx.ftz.f64: the high word of the argument, to a high word
	RsqrtF64  // rsqrt.approx.ftz.f64: likewise
	RsqrtWide // rsqrt.approx.f64, without .ftz: all bits
	numApprox
)

// Bound says how far a result may be from the exact value: the largest of an absolute error, an error relative to the
// exact value and a number of units in the last place of the correctly rounded result.
type Bound struct {
	Abs, Rel float64
	ULP      int
}

// bounds are those of the PTX ISA manual, except where the hardware exceeds them: the comment then says what an H200
// did over all arguments. Sin, Cos and Lg2 depend on the argument: see [Approx.Bound].
var bounds = [numApprox]Bound{
	Ex2:         {ULP: 2},
	Lg2:         {Rel: 0x1p-22},
	RcpApprox:   {ULP: 1},
	RsqrtApprox: {Rel: 1.2789769243681803e-07}, // 2^-22.9
	SqrtApprox:  {Rel: 0x1p-23},
	Tanh:        {Rel: 0x1p-11},
	DivApprox:   {ULP: 2},
	DivFull:     {ULP: 2},
	Ex2F16:      {Rel: 0.0010466537720080985, Abs: 0x1p-24}, // 2^-9.9, and a place below the normal numbers
	TanhF16:     {Abs: 0x1p-10},                             // the manual says 2^-10.987, less than the rounding takes
	Ex2BF16:     {Rel: 0x1p-7},
	TanhBF16:    {Rel: 0x1p-7}, // the manual says 2^-8; tanh(1) is 2^-7.6 off
	RcpF64:      {Rel: 0x1p-20},
	RsqrtF64:    {Rel: 0x1p-20},
	RsqrtWide:   {ULP: 2},
}

// The steps of the bound of sin and cos. Cosine is up to 2^-20.43 off in the first range, where the manual says 2^-20.5
// for both.
const (
	circleNear   = 6.743495761743039e-07  // 2^-20.5, up to 2π
	circleCosine = 7.1e-07                // cos up to 2π
	circleFar    = 3.7572490769711406e-05 // 2^-14.7, up to 100π
	circleNone   = 2                      // beyond, any number between -1 and 1
)

// Bound is how far the result for x (and y, for quotients) may be off.
func (a Approx) Bound(x, y uint64) Bound {
	switch v := math.Abs(a.value(x)); a {
	case Lg2:
		if v > 0.5 && v < 2 {
			return Bound{Abs: 0x1p-22}
		}
	case Sin, Cos:
		switch {
		case v > 100*math.Pi:
			return Bound{Abs: circleNone}
		case v > 2*math.Pi:
			return Bound{Abs: circleFar}
		case a == Cos:
			return Bound{Abs: circleCosine}
		}
		return Bound{Abs: circleNear}
	}
	return bounds[a]
}

// value is the number in an operand.
func (a Approx) value(x uint64) float64 {
	switch a {
	case Ex2F16, TanhF16:
		return wideF16(uint16(x))
	case Ex2BF16, TanhBF16:
		return wideBF16(uint16(x))
	case RcpF64, RsqrtF64:
		x &^= math.MaxUint32
		if x&inf64 == 0 {
			x &= sign64
		}
		return math.Float64frombits(x)
	case RsqrtWide:
		return math.Float64frombits(x)
	}
	return f32(uint32(x))
}

// exact is the result in float64, with an error far below the bounds.
func (a Approx) exact(x, y float64) float64 {
	switch a {
	case Ex2, Ex2F16, Ex2BF16:
		return libm.Exp2(x)
	case Lg2:
		return libm.Log2(x)
	case Sin:
		return libm.Sin(x)
	case Cos:
		return libm.Cos(x)
	case RcpApprox, RcpF64:
		return 1 / x
	case RsqrtApprox, RsqrtF64, RsqrtWide:
		return 1 / math.Sqrt(x)
	case SqrtApprox:
		return math.Sqrt(x)
	case Tanh, TanhF16, TanhBF16:
		return libm.Tanh(x)
	case DivApprox:
		if b := math.Abs(y); b > 0x1p126 && b < 0x1p128 {
			return x * math.Copysign(0, y) // the reciprocal is flushed: zero, and NaN for an infinity
		}
	}
	return x / y
}

// Eval is the correctly rounded result. y is the divisor of quotients.
func (a Approx) Eval(x, y uint64, ftz bool) uint64 {
	return a.round(a.compute(x, y, ftz), ftz, x)
}

// Lanes sets d[i] to Eval(x[i], 0, ftz): an f32 instruction with one operand, for all lanes of a warp.
func (a Approx) Lanes(d, x *[32]uint32, ftz bool) {
	var v [32]float64
	for i, bits := range x {
		if ftz {
			bits = Flush32(bits)
		}
		v[i] = f32(bits)
	}
	switch a {
	case Ex2:
		libm.Exp2Slice(v[:], v[:])
	case Tanh:
		libm.TanhSlice(v[:], v[:])
	default:
		for i := range v {
			v[i] = a.exact(v[i], 0)
		}
	}
	for i, y := range v {
		bits := math.Float32bits(float32(y))
		switch {
		case y != y:
			bits = NaN32
		case ftz:
			bits = Flush32(bits)
		}
		d[i] = bits
	}
}

// compute is the exact result after flushing the operands.
func (a Approx) compute(x, y uint64, ftz bool) float64 {
	switch {
	case ftz && a.isF32():
		x, y = uint64(Flush32(uint32(x))), uint64(Flush32(uint32(y)))
	case a == Ex2BF16 && x&0x7f80 == 0:
		x &= sign16
	}
	if a == DivApprox || a == DivFull {
		return a.exact(a.value(x), a.value(y))
	}
	return a.exact(a.value(x), 0)
}

func (a Approx) isF32() bool { return a < Ex2F16 }

// round gives the bits of a result; x is the operand, whose NaN rsqrt.approx.f64 keeps.
func (a Approx) round(v float64, ftz bool, x uint64) uint64 {
	nan := v != v
	switch a {
	case Ex2F16, TanhF16:
		if nan {
			return uint64(NaN16)
		}
		return fmtF16.narrow(v, RN)
	case Ex2BF16, TanhBF16:
		if nan {
			return uint64(NaN16)
		}
		d := fmtBF16.narrow(v, RN)
		if a == Ex2BF16 && d&0x7f80 == 0 {
			d &= sign16
		}
		return d
	case RcpF64, RsqrtF64:
		if nan {
			return math.MaxUint32 << 32 &^ sign64
		}
		return highWord(v)
	case RsqrtWide:
		if nan {
			return nan64(x, x)
		}
		return math.Float64bits(v)
	}
	if nan {
		return uint64(NaN32)
	}
	d := math.Float32bits(float32(v))
	if ftz {
		d = Flush32(d)
	}
	return uint64(d)
}

// highWord rounds to the 20 fraction bits of the high word; subnormal numbers are flushed.
func highWord(v float64) uint64 {
	u := math.Float64bits(v)
	switch {
	case u&inf64 == inf64:
		return u
	case u&inf64 == 0:
		return u & sign64
	}
	return (u + 1<<31 - 1 + u>>32&1) &^ math.MaxUint32
}

// Worst is the largest (up) or smallest result that the bound allows. Where the result is not finite, the exact one is
// zero, or the argument is zero, it stays as it is.
func (a Approx) Worst(x, y uint64, ftz, up bool) uint64 {
	v := a.compute(x, y, ftz)
	d := a.round(v, ftz, x)
	overflow := d == a.round(math.Inf(1), false, x) || d == a.round(math.Inf(-1), false, x)
	if v-v != 0 || v == 0 || a.value(x) == 0 || overflow {
		return d
	}
	bound := a.Bound(x, y)
	if bound.ULP > 0 {
		moved := a.step(d, bound.ULP, up)
		if moved < 0 != (v < 0) {
			moved = math.Copysign(0, v) // a result does not cross zero
		}
		return a.round(moved, ftz, x)
	}
	w := max(bound.Abs, bound.Rel*math.Abs(v))
	if !up {
		w = -w
	}
	t := v + w
	if a == Sin || a == Cos {
		t = max(-1, min(t, 1)) // the hardware stays between them
	}
	return a.edge(d, v, t, ftz, up)
}

// step is d moved by n units in the last place.
func (a Approx) step(d uint64, n int, up bool) float64 {
	to := math.Inf(-1)
	if up {
		to = math.Inf(1)
	}
	if a == RsqrtWide {
		v := math.Float64frombits(d)
		for range n {
			v = math.Nextafter(v, to)
		}
		return v
	}
	v := math.Float32frombits(uint32(d))
	for range n {
		v = math.Nextafter32(v, float32(to))
	}
	return float64(v)
}

// edge is the last number of the result's format from v to t, which lies above v if up, d if there is none.
func (a Approx) edge(d uint64, v, t float64, ftz, up bool) uint64 {
	r := RM
	if !up {
		r = RP
	}
	var e uint64
	switch a {
	case Ex2F16, TanhF16:
		e = fmtF16.narrow(t, r)
	case Ex2BF16, TanhBF16:
		e = fmtBF16.narrow(t, r)
		if a == Ex2BF16 && e&0x7f80 == 0 {
			e &= sign16
		}
	case RcpF64, RsqrtF64:
		u := math.Float64bits(t)
		if up != (u>>63 == 0) {
			u += math.MaxUint32 // towards v is away from zero
		}
		e = highWord(math.Float64frombits(u &^ math.MaxUint32))
	default:
		e = fmtF32.narrow(t, r)
		if ftz {
			e = uint64(Flush32(uint32(e)))
		}
	}
	if g := a.value(e); up && g < v || !up && g > v {
		return d
	}
	return e
}
