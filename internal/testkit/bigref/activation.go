package bigref

// This file implements the activations and the operators of two inputs.

import (
	"math"
	"math/big"
)

// elementwise applies f to the input, element by element.
func elementwise(f func(*task, *big.Float) *big.Float) func(*task) {
	return func(t *task) {
		out := t.exact("output")
		for i, x := range t.in["input"].X {
			out.Big[i] = f(t, num(x))
		}
	}
}

func (t *task) relu() {
	out := t.selected("output")
	for i, x := range t.in["input"].X {
		out.F[i] = x
		if x < 0 {
			out.F[i] = 0
		}
	}
}

func (t *task) leakyReLU(x *big.Float) *big.Float {
	if x.Sign() >= 0 {
		return x
	}
	return t.mul(num(t.attrs.Float("alpha")), x)
}

func (t *task) elu(x *big.Float) *big.Float {
	if x.Sign() > 0 {
		return x
	}
	return t.mul(num(t.attrs.Float("alpha")), t.expm1(x))
}

// gelu is x/2·(1 + erf(x/√2)) = x/2·erfc(-x/√2): the form without cancellation.
func (t *task) gelu(x *big.Float) *big.Float {
	return t.mul(half(x), t.erfc(neg(t.quo(x, t.sqrt(num(2))))))
}

// geluTanh is x/2·(1 + tanh u) = x/(1 + exp(-2u)): the form without cancellation.
func (t *task) geluTanh(x *big.Float) *big.Float {
	cube := t.mul(x, t.mul(x, x))
	coefficient := t.quo(integer(44715), integer(1000000))
	root := t.sqrt(t.quo(num(2), t.funcs.Pi()))
	u := t.mul(root, t.add(x, t.mul(coefficient, cube)))
	return t.quo(x, t.add(one(), t.exp(t.mul(num(-2), u))))
}

func (t *task) silu(x *big.Float) *big.Float { return t.mul(x, t.sigmoid(x)) }

// sigmoid is 1/(1 + exp(-x)). The exponential may be too large for any format, which is not worth a record in peak:
// the quotient is then 0.
func (t *task) sigmoid(x *big.Float) *big.Float {
	return t.quo(one(), wide().Add(one(), t.funcs.Exp(near(neg(x)))))
}

func (t *task) hyperbolic(x *big.Float) *big.Float { return t.tanh(x) }

func (t *task) softplus(x *big.Float) *big.Float {
	beta := num(t.attrs.Float("beta"))
	scaled := t.mul(beta, x)
	if scaled.Cmp(num(t.attrs.Float("threshold"))) > 0 {
		return x
	}
	return t.quo(t.log1p(t.exp(scaled)), beta)
}

func (t *task) exponential(x *big.Float) *big.Float { return t.exp(x) }

func (t *task) logarithm() {
	out := t.exact("output")
	for i, x := range t.in["input"].X {
		switch {
		case t.flushed(x):
			out.open(i)
		case x > 0:
			out.Big[i] = t.log(num(x))
		case x == 0:
			out.F[i] = math.Inf(-1)
		default:
			out.F[i] = math.NaN()
		}
	}
}

// flushed reports whether hardware may take the input x for a zero of its sign: subnormals of float32 under math
// "gpu". The result is then an infinity instead of a number or of NaN.
func (t *task) flushed(x float64) bool {
	return x != 0 && math.Abs(x) < 0x1p-126 && !t.in["input"].Wide && t.attrs.Str("math") == "gpu"
}

func (t *task) reciprocalRoot() {
	out := t.exact("output")
	for i, x := range t.in["input"].X {
		switch {
		case t.flushed(x):
			out.open(i)
		case x > 0:
			out.Big[i] = t.quo(one(), t.sqrt(num(x)))
		case x == 0:
			out.F[i] = math.Inf(int(math.Copysign(1, x)))
		default:
			out.F[i] = math.NaN()
		}
	}
}

func (t *task) sumOfTwo() {
	out := t.summed("output")
	a, b := t.in["a"].X, t.in["b"].X
	for i := range a {
		sum := t.total()
		t.accumulate(sum, num(a[i]))
		t.accumulate(sum, num(b[i]))
		out.Big[i], out.Scale[i] = sum.value, sum.scale
	}
}

func (t *task) productOfTwo() {
	out := t.exact("output")
	a, b := t.in["a"].X, t.in["b"].X
	for i := range a {
		out.Big[i] = t.mul(num(a[i]), num(b[i]))
	}
}

// gated is act(gate)·up.
func gated(act func(*task, *big.Float) *big.Float) func(*task) {
	return func(t *task) {
		out := t.exact("output")
		gate, up := t.in["gate"].X, t.in["up"].X
		for i := range gate {
			out.Big[i] = t.mul(act(t, num(gate[i])), num(up[i]))
		}
	}
}
