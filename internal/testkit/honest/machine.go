// This file implements the machine's basic arithmetic: correctly rounded operations in float32 or float64, fused
// multiply-add, flushing of subnormals, rounding to other formats.

package honest

import (
	"math"

	"gpuemu/internal/dtype"
)

const (
	minNormal32 = 0x1p-126
	maxFloat32  = math.MaxFloat32
	sign32      = 1 << 31
)

// Machine computes in one arithmetic type A in one style. Its values are float64 numbers that are values of A.
// It is not safe for concurrent use: it owns scratch memory and a random stream.
type Machine struct {
	style  Style
	f64    bool        // A is float64, else float32
	t      dtype.DType // the case's dtype: what tensor cores read and what RoundIntermediates rounds to
	accT   dtype.DType // what NarrowAcc accumulates in: t, float16 for fp8
	ieee   bool        // math="ieee"
	fast   bool        // approximate functions, FTZ and tensor cores are allowed
	ftz    bool
	fma    bool
	tc     TC
	approx Approx
	fault  Fault
	k      float64 // 1, or 1.01 under WrongConstant: multiplies constants
	rnd    uint64
	bufs   [14][]float64

	storage bool // results are rounded to t
	inner   int  // operations under way whose steps are not results
	tf32    TF32
}

// New returns a machine with arithmetic type a, Float32 or Float64 (anything else is Float32).
func New(a dtype.DType, s Style, seed uint64) *Machine {
	m := new(Machine)
	m.Reset(a, s, seed)
	return m
}

// Reset makes the machine what New would return and keeps its scratch memory.
func (m *Machine) Reset(a dtype.DType, s Style, seed uint64) {
	m.style, m.f64 = s, a == dtype.Float64
	m.rnd = seed ^ 0x9e3779b97f4a7c15
	m.setCase(dtype.Float32, false)
	if m.f64 {
		m.t = dtype.Float64
	}
}

// setCase takes the case's dtype and whether it asks for math="ieee".
func (m *Machine) setCase(t dtype.DType, ieee bool) {
	s := &m.style
	m.t, m.accT, m.ieee = t, t, ieee
	if t.Size() == 1 {
		m.accT = dtype.Float16
	}
	m.fast = !m.f64 && !ieee
	m.ftz = s.FTZ && m.fast
	m.fma = s.FMA
	m.approx = s.Approx
	m.fault = s.Fault
	m.tc = NoTC
	if m.fast && isNarrow(t) {
		m.tc = s.TensorCore
	}
	m.setPrecision(t)
	m.k = 1
	if s.Fault == WrongConstant {
		m.k = 1.01
	}
}

// isNarrow reports whether tensor cores multiply operands of dtype d.
func isNarrow(d dtype.DType) bool {
	switch d {
	case dtype.Float16, dtype.BFloat16, dtype.Float8E4M3FN, dtype.Float8E5M2:
		return true
	}
	return false
}

// alt reports whether the variant has this bit.
func (m *Machine) alt(bit int) bool { return m.style.Variant&bit != 0 }

// scratch returns slot i of the machine's scratch memory with n elements of undefined value. The slots of package
// honest: 0-2 Sum and Dot under a fault, 3-5 moments and exponentials, 6-11 the ops themselves, 12-13 TF32 operands.
func (m *Machine) scratch(i, n int) []float64 {
	if cap(m.bufs[i]) < n {
		m.bufs[i] = make([]float64, n+n/2)
	}
	return m.bufs[i][:n]
}

// random returns 64 random bits (splitmix64).
func (m *Machine) random() uint64 {
	m.rnd += 0x9e3779b97f4a7c15
	z := m.rnd
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// flush returns x, or the zero of its sign if x is subnormal.
func flush(x float32) float32 {
	if x < minNormal32 && x > -minNormal32 {
		return math.Float32frombits(math.Float32bits(x) & sign32)
	}
	return x
}

// in32 is an operand as a float32 instruction sees it.
func (m *Machine) in32(x float64) float32 {
	if m.ftz {
		return flush(float32(x))
	}
	return float32(x)
}

// out32 is a result as a float32 instruction writes it.
func (m *Machine) out32(x float32) float64 {
	if m.ftz {
		x = flush(x)
	}
	return m.keep(float64(x))
}

// Const rounds a constant of the source text to A.
func (m *Machine) Const(x float64) float64 {
	if m.f64 {
		return x
	}
	return m.keep(float64(float32(x)))
}

// Cast rounds x to d, to nearest, ties to even.
func (m *Machine) Cast(x float64, d dtype.DType) float64 { return d.Float64(d.Bits(x)) }

// Add returns x+y.
func (m *Machine) Add(x, y float64) float64 {
	if m.f64 {
		return x + y
	}
	return m.out32(m.in32(x) + m.in32(y))
}

// Sub returns x-y.
func (m *Machine) Sub(x, y float64) float64 {
	if m.f64 {
		return x - y
	}
	return m.out32(m.in32(x) - m.in32(y))
}

// Mul returns x*y. The conversions keep the compiler from fusing it with an addition of the caller.
func (m *Machine) Mul(x, y float64) float64 {
	if m.f64 {
		return float64(x * y)
	}
	return m.out32(float32(m.in32(x) * m.in32(y)))
}

// FMA returns x*y+z with one rounding.
func (m *Machine) FMA(x, y, z float64) float64 {
	if m.f64 {
		return math.FMA(x, y, z)
	}
	return m.out32(fma32(m.in32(x), m.in32(y), m.in32(z)))
}

// MulAdd returns x*y+z, fused or not as the style says.
func (m *Machine) MulAdd(x, y, z float64) float64 {
	if m.fma {
		return m.FMA(x, y, z)
	}
	return m.Add(m.Mul(x, y), z)
}

// fma32 is a float32 fused multiply-add. The product is exact in float64. The float64 sum rounds once more than
// allowed only when it lands on the middle between two float32 (or where they are subnormal and the middle is
// elsewhere): there the sum is rounded to odd, which keeps the lost bits visible to the final rounding.
func fma32(x, y, z float32) float32 {
	p, c := float64(float64(x)*float64(y)), float64(z)
	s := p + c
	if math.Float64bits(s)&(1<<29-1) == 1<<28 || (s < minNormal32 && s > -minNormal32) {
		s = addOdd(p, c, s)
	}
	return float32(s)
}

// addOdd returns p+c rounded to odd, given s, the sum rounded to nearest. All are far from the limits of float64.
func addOdd(p, c, s float64) float64 {
	if s-s != 0 {
		return s
	}
	// The error of an addition is exact (Knuth, TAOCP 4.2.2, TwoSum).
	b := s - p
	e := (p - (s - b)) + (c - b)
	u := math.Float64bits(s)
	if e == 0 || u&1 == 1 {
		return s
	}
	if (e > 0) == (s > 0) {
		return math.Float64frombits(u + 1)
	}
	return math.Float64frombits(u - 1)
}

// Abs returns |x|.
func (m *Machine) Abs(x float64) float64 { return math.Abs(x) }

// Max returns the larger of two values, NaN if there is one (max.NaN). Under SwallowNaN the number wins. AltFold
// selects (setp.ftz and selp): subnormals are compared as zeros and returned as they are.
func (m *Machine) Max(x, y float64) float64 {
	a, b := x, y // what is compared
	if m.ftz {
		a, b = float64(flush(float32(x))), float64(flush(float32(y)))
		if !m.alt(AltFold) {
			x, y = a, b
		}
	}
	switch {
	case x != x:
		if m.fault == SwallowNaN {
			return y
		}
		return x
	case y != y:
		if m.fault == SwallowNaN {
			return x
		}
		return y
	case a >= b:
		return x
	}
	return y
}

// Div returns x/y: the correctly rounded quotient, div.full (2 ulp), div.approx (2 ulp, and 0 beyond |y| = 2^126) or
// x*rcp(y).
func (m *Machine) Div(x, y float64) float64 {
	if m.f64 {
		return x / y
	}
	if m.fast && m.alt(AltDiv) {
		if m.composite() {
			return m.whole(func() float64 { return m.Div(x, y) })
		}
		return m.Mul(x, m.Rcp(y))
	}
	a, b := m.in32(x), m.in32(y)
	if !m.fast || m.approx == Exact {
		return m.out32(a / b)
	}
	if ab := math.Abs(float64(b)); m.ftz && ab > 0x1p126 && ab <= maxFloat32 {
		// div.approx: 1/b underflows, so the result is a*0.
		return float64(a * float32(math.Copysign(0, float64(b))))
	}
	return m.out32(m.nudge(a/b, divULP))
}

// Rcp returns 1/x within 1 ulp. Where the result is subnormal it may be zero (ops on |x| > 2^126).
func (m *Machine) Rcp(x float64) float64 {
	if m.f64 {
		return 1 / x
	}
	r := 1 / m.in32(x)
	if !m.fast || m.approx == Exact {
		return m.out32(r)
	}
	if m.alt(AltPad) {
		r = flush(r)
	}
	return m.out32(m.nudge(r, rcpULP))
}

// Sqrt returns the square root, approximately within 2^-23 of its value.
func (m *Machine) Sqrt(x float64) float64 {
	if m.f64 {
		return math.Sqrt(x)
	}
	exact := math.Sqrt(float64(m.in32(x)))
	if !m.fast {
		return m.keep(float64(float32(exact)))
	}
	return m.out32(m.within(exact, sqrtRel, 0))
}

// Rsqrt returns 1/sqrt(x), by rsqrt.approx (within 2^-22.9) or rcp(sqrt).
func (m *Machine) Rsqrt(x float64) float64 {
	if m.f64 {
		return 1 / math.Sqrt(x)
	}
	if m.composite() {
		return m.whole(func() float64 { return m.Rsqrt(x) })
	}
	if !m.fast {
		return m.Div(1, m.Sqrt(x))
	}
	if m.alt(AltDiv) {
		return m.Rcp(m.Sqrt(x))
	}
	return m.out32(m.within(1/math.Sqrt(float64(m.in32(x))), rsqrtRel, 0))
}
