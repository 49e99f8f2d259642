// This file implements the elementary functions and where they land inside their documented bounds.

package honest

import (
	"math"

	"gpuemu/internal/libm"
)

// Documented bounds of the approximate instructions (spec/ptx.md 3.2). An error in ulp counts steps from the correctly
// rounded result, as the CUDA documentation defines it, not from the exact one.
const (
	divULP  = 2 // div.full, div.approx
	rcpULP  = 1 // rcp.approx
	ex2ULP  = 2 // ex2.approx
	elemULP = 2 // elementary functions of a library: erf, expm1, log1p; under math="ieee" all of them

	sqrtRel  = 0x1p-23
	rsqrtRel = 0x1.125fbee250664p-23 // 2^-22.9, rounded down
	lg2Err   = 0x1p-22               // absolute in (0.5, 2), relative elsewhere
	tanhRel  = 0x1p-11

	log2E = math.Log2E
	ln2   = math.Ln2
)

// step moves a finite x by k float32 values up (down if k < 0). It never passes zero and never becomes infinite.
func step(x float32, k int) float32 {
	if x < 0 {
		return -step(-x, -k)
	}
	b := int64(math.Float32bits(x)) + int64(k)
	return math.Float32frombits(uint32(min(max(b, 0), int64(math.Float32bits(maxFloat32)))))
}

// nudge moves a correctly rounded result by up to ulp steps. Special results are documented to be exact, and a result
// that underflows to zero stays zero.
func (m *Machine) nudge(r float32, ulp int) float32 {
	if r == 0 || r-r != 0 {
		return r
	}
	switch m.approx {
	case High:
		return step(r, ulp)
	case Low:
		return step(r, -ulp)
	case Random:
		return step(r, int(m.random()%uint64(2*ulp+1))-ulp)
	}
	return r
}

// within returns a float32 whose distance from exact is at most rel*|exact|+abs: the farthest one in the machine's
// direction, or the nearest one to exact where the bound is finer than float32.
func (m *Machine) within(exact, rel, abs float64) float32 {
	nearest := float32(exact)
	slack := float64(rel*math.Abs(exact)) + abs
	if m.approx == Exact || slack == 0 || exact-exact != 0 || nearest-nearest != 0 {
		return nearest
	}
	target := exact
	switch m.approx {
	case High:
		target = exact + slack
	case Low:
		target = exact - slack
	case Random:
		target = exact + float64(slack*(float64(int64(m.random())>>11)*0x1p-52))
	}
	// Round towards exact, so that the bound is kept.
	r := float32(target)
	if d := float64(r); d > exact && d > target {
		r = math.Nextafter32(r, float32(math.Inf(-1)))
	} else if d < exact && d < target {
		r = math.Nextafter32(r, float32(math.Inf(1)))
	}
	if d := math.Abs(float64(r) - exact); d > slack || r-r != 0 {
		return nearest
	}
	return r
}

// elem is a library's elementary function: the exact value (to float64's precision) rounded to A and moved by up to
// elemULP steps. In float64 the value itself may be off by one ulp, so that one step is left.
func (m *Machine) elem(exact float64) float64 {
	if !m.f64 {
		return m.out32(m.nudge(float32(exact), elemULP))
	}
	if exact == 0 || exact-exact != 0 || m.approx == Exact {
		return exact
	}
	to := math.Inf(1)
	if m.approx == Low || m.approx == Random && m.random()&1 == 0 {
		to = math.Inf(-1)
	}
	if r := math.Nextafter(exact, to); !math.IsInf(r, 0) {
		return r
	}
	return exact
}

// arg is the operand of an elementary function.
func (m *Machine) arg(x float64) float64 {
	if m.f64 {
		return x
	}
	return float64(m.in32(x))
}

// approximate reports whether the approximate instructions are in use.
func (m *Machine) approximate() bool { return m.fast && m.approx != Exact }

// Exp2 returns 2^x: ex2.approx (2 ulp) or a library function.
func (m *Machine) Exp2(x float64) float64 {
	x = m.arg(x)
	if x == 0 {
		return 1
	}
	if m.fast {
		return m.out32(m.nudge(float32(libm.Exp2(x)), ex2ULP))
	}
	return m.elem(libm.Exp2(x))
}

// Exp returns e^x. Approximately it is ex2(x*log2(e)), whose argument carries the error of a product.
func (m *Machine) Exp(x float64) float64 {
	if m.composite() {
		return m.whole(func() float64 { return m.Exp(x) })
	}
	if m.approximate() {
		return m.Exp2(m.Mul(x, m.Const(log2E)))
	}
	x = m.arg(x)
	if x == 0 {
		return 1
	}
	return m.elem(libm.Exp(x))
}

// Expm1 returns e^x-1.
func (m *Machine) Expm1(x float64) float64 { return m.elem(libm.Expm1(m.arg(x))) }

// Lg2 returns the binary logarithm: lg2.approx, off by 2^-22, absolutely in (0.5, 2), even where the result is 0.
func (m *Machine) Lg2(x float64) float64 {
	x = m.arg(x)
	if !m.approximate() {
		return m.elem(libm.Log2(x))
	}
	rel, abs := lg2Err, 0.0
	if x > 0.5 && x < 2 {
		rel, abs = 0, lg2Err
	}
	return m.out32(m.within(libm.Log2(x), rel, abs))
}

// Log returns the natural logarithm, approximately lg2(x)*ln(2).
func (m *Machine) Log(x float64) float64 {
	if m.composite() {
		return m.whole(func() float64 { return m.Log(x) })
	}
	if m.approximate() {
		return m.Mul(m.Lg2(x), m.Const(ln2))
	}
	return m.elem(libm.Log(m.arg(x)))
}

// Log1p returns log(1+x).
func (m *Machine) Log1p(x float64) float64 { return m.elem(libm.Log1p(m.arg(x))) }

// Erf returns the error function.
func (m *Machine) Erf(x float64) float64 { return m.saturating(libm.Erf, x) }

// Erfc returns the complementary error function.
func (m *Machine) Erfc(x float64) float64 { return m.elem(libm.Erfc(m.arg(x))) }

// saturating is elem for functions with the limits -1 and 1 at the infinities, which are exact.
func (m *Machine) saturating(f func(float64) float64, x float64) float64 {
	x = m.arg(x)
	if math.IsInf(x, 0) {
		return math.Copysign(1, x)
	}
	return m.elem(f(x))
}

// Tanh returns the hyperbolic tangent: tanh.approx (within 2^-11 of its value), 1-2/(exp(2x)+1) or a library function.
// The infinities give exactly -1 and 1.
func (m *Machine) Tanh(x float64) float64 {
	if m.composite() {
		return m.whole(func() float64 { return m.Tanh(x) })
	}
	switch {
	case math.IsInf(x, 0):
		return math.Copysign(1, x)
	case m.fast && m.alt(AltFold):
		e := m.Exp(m.Mul(2, x))
		return m.Sub(1, m.Div(2, m.Add(e, 1)))
	case m.approximate():
		return m.out32(m.within(libm.Tanh(m.arg(x)), tanhRel, 0))
	}
	return m.saturating(libm.Tanh, x)
}
