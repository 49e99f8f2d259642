// This file implements the elementwise ops: activations and gated products.

package honest

import "math"

const (
	invSqrt2     = 1 / math.Sqrt2
	sqrt2OverPi  = 0x1.9884533d43651p-1 // sqrt(2/pi) = 0.7978845608028654
	geluTanhCube = 0.044715
)

// unary makes an op of a function of one number.
func unary(f func(*Machine, float64) float64) func(*eval) {
	return func(e *eval) {
		a, ok := e.in("input", 3)
		out := e.out("output", len(a.X))
		if !ok || out == nil {
			return
		}
		for i, x := range a.X {
			out[i] = f(e.Machine, x)
		}
	}
}

func (m *Machine) relu(x float64) float64 { return m.Max(x, 0) }

// leakyReLU selects, or adds the positive and the scaled negative part (AltMain).
func leakyReLU(e *eval) {
	alpha := e.Const(e.float("alpha", 0.01) * e.k)
	unary(func(m *Machine, x float64) float64 {
		switch {
		case m.fault == SwallowNaN && x != x:
			return 0
		case m.alt(AltMain):
			neg := -m.Max(-x, 0)
			return m.MulAdd(alpha, neg, m.Max(x, 0))
		case x >= 0:
			return x
		}
		return m.Mul(alpha, x)
	})(e)
}

func elu(e *eval) {
	alpha := e.Const(e.float("alpha", 1) * e.k)
	unary(func(m *Machine, x float64) float64 {
		switch {
		case x > 0:
			return x
		case m.alt(AltMain):
			return m.Mul(alpha, m.Expm1(x))
		}
		return m.Mul(alpha, m.Sub(m.Exp(x), 1))
	})(e)
}

// vanishes reports whether x·g(x), where g goes to 0, is given its limit 0: at -Inf with AltNorm.
func (m *Machine) vanishes(x float64) bool { return m.alt(AltNorm) && math.IsInf(x, -1) }

// gelu is 0.5x(1+erf(x/sqrt(2))), with the half first or last, or 0.5x·erfc(-x/sqrt(2)) with AltNorm.
func (m *Machine) gelu(x float64) float64 {
	if m.vanishes(x) {
		return 0
	}
	u := m.Mul(x, m.Const(invSqrt2))
	if m.alt(AltMain) {
		u = m.Div(x, m.Const(math.Sqrt2))
	}
	if m.alt(AltNorm) {
		return m.halfTimes(x, m.Erfc(-u))
	}
	return m.halfTimes(x, m.Add(1, m.Erf(u)))
}

// halfTimes is 0.5*x*y in either order. Not x*y first: that overflows for large x.
func (m *Machine) halfTimes(x, y float64) float64 {
	half := m.Const(0.5 * m.k)
	if m.alt(AltPad) {
		return m.Mul(x, m.Mul(half, y))
	}
	return m.Mul(m.Mul(half, x), y)
}

// geluTanh forms the cubic as x+c·x³, or as x·(1+c·x²) with AltMain.
func (m *Machine) geluTanh(x float64) float64 {
	if m.vanishes(x) {
		return 0
	}
	cube, s := m.Const(geluTanhCube*m.k), m.Const(sqrt2OverPi)
	var u float64
	if m.alt(AltMain) {
		u = m.Mul(m.Mul(s, x), m.MulAdd(m.Mul(cube, x), x, 1))
	} else {
		u = m.Mul(s, m.MulAdd(m.Mul(m.Mul(x, x), x), cube, x))
	}
	return m.halfTimes(x, m.Add(1, m.Tanh(u)))
}

// expWrong is exp with log2(e) wrong under WrongConstant.
func (m *Machine) expWrong(x float64) float64 {
	if m.fault == WrongConstant {
		x = m.Mul(x, m.Const(m.k))
	}
	return m.Exp(x)
}

// silu is x/(1+exp(-x)), or x·(1/(1+exp(-x))) with AltMain.
func (m *Machine) silu(x float64) float64 {
	if m.vanishes(x) {
		return 0
	}
	d := m.Add(1, m.expWrong(-x))
	if m.alt(AltMain) && m.fast {
		return m.Mul(x, m.Div(1, d))
	}
	return m.Div(x, d)
}

func (m *Machine) sigmoid(x float64) float64 { return m.Div(1, m.Add(1, m.expWrong(-x))) }

func (m *Machine) tanhOp(x float64) float64 {
	if m.fault == WrongConstant {
		x = m.Mul(x, m.Const(m.k))
	}
	return m.Tanh(x)
}

func (m *Machine) expOp(x float64) float64 { return m.expWrong(x) }

func (m *Machine) logOp(x float64) float64 {
	r := m.Log(x)
	if m.fault == WrongConstant {
		r = m.Mul(r, m.Const(m.k))
	}
	return r
}

func softplus(e *eval) {
	beta, threshold := e.Const(e.float("beta", 1)*e.k), e.Const(e.float("threshold", 20))
	unary(func(m *Machine, x float64) float64 {
		bx := m.Mul(beta, x)
		switch {
		case bx > threshold:
			return x
		case m.alt(AltNorm) && bx > 0:
			return m.Add(x, m.Div(m.Log1p(m.Exp(-bx)), beta))
		}
		ex := m.Exp(bx)
		if m.alt(AltMain) {
			return m.Div(m.Log1p(ex), beta)
		}
		return m.Div(m.Log(m.Add(1, ex)), beta)
	})(e)
}

// binary makes an op of a function of two numbers.
func binary(first, second string, f func(e *eval, x, y float64) float64) func(*eval) {
	return func(e *eval) {
		a, _ := e.in(first, 3)
		b, ok := e.in(second, 3)
		out := e.out("output", len(a.X))
		if !ok || out == nil {
			return
		}
		if len(b.X) != len(a.X) {
			e.fail("inputs have shapes %s and %s", a.Shape, b.Shape)
			return
		}
		for i, x := range a.X {
			out[i] = f(e, x, b.X[i])
		}
	}
}

func (e *eval) addOp(x, y float64) float64 { return e.Add(x, y) }
func (e *eval) mulOp(x, y float64) float64 { return e.Mul(x, y) }

// swiglu may round silu(gate) to the case's dtype before the product.
func (e *eval) swiglu(gate, up float64) float64 { return e.Mul(e.round(e.silu(gate)), up) }

func (e *eval) geglu(gate, up float64) float64 { return e.Mul(e.round(e.gelu(gate)), up) }
