// This file implements the family of activations: functions of one element.

package oracle

import (
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/libm"
	"gpuemu/internal/opspec"
)

// plainFloats returns the types most operators are defined for.
func plainFloats() []dtype.DType {
	return []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64}
}

// bshDims are the dimensions of an activation [B, S, H]: batch, sequence, hidden. Operators on rows reduce over H.
func bshDims() []opspec.Dim {
	return []opspec.Dim{
		{Name: "B", Candidates: []int{1, 2, 4, 8}, Empty: true},
		{Name: "S", Candidates: []int{1, 7, 16, 64, 128}, Empty: true},
		{Name: "H", Candidates: []int{1, 3, 64, 256, 257, 1024, 1025}, Min: 1, Tile: 256, Reduced: true},
	}
}

func bsh() []string { return []string{"B", "S", "H"} }

// rowValues are the distributions that are made for reductions of a row. They tell elementwise operators little: the
// flat parts of activations have nearly equal values everywhere.
func rowValues() []string { return []string{"offset", "rising_max", "cancelling"} }

// elementwise returns the schema of an operator that maps inputs of one shape to an output of that shape.
func elementwise(attrs []opspec.Attr, inputs ...string) *opspec.Schema {
	s := &opspec.Schema{
		Dims: bshDims(), Attrs: attrs, DTypes: plainFloats(),
		Outputs: []opspec.Output{{Name: "output", Dims: bsh()}},
	}
	s.Dims[2].Empty, s.Dims[2].Reduced = true, false
	for _, name := range inputs {
		s.Inputs = append(s.Inputs, opspec.Input{Name: name, Dims: bsh(), Rare: rowValues()})
	}
	return s
}

// floatAttr returns a float attribute; the first value is the default.
func floatAttr(name, doc string, values ...any) opspec.Attr {
	return opspec.Attr{Name: name, Kind: opspec.Float, Values: values, Doc: doc}
}

// unary lifts a function of one value to the whole input.
func unary(f func(c *call, x num) num) func(c *call) error {
	return func(c *call) error {
		x, out := c.data("input"), c.out("output")
		parallel(len(x), 32, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				out.set(i, f(c, c.input(x[i])))
			}
		})
		return nil
	}
}

// sigmoid returns 1/(1+exp(-x)). Where exp(-x) overflows an implementation gets the zero that 1/Inf gives; the value
// itself is taken from the form that does not overflow.
func (m *arith) sigmoid(x num) num {
	if d := x.e + float64((abs(x.v)+x.e)*m.expArg); x.v < -40 && d > 0.5 && x.v+d < 0 && x.w == 0 && x.v-x.v == 0 {
		// So uncertain an argument may make 1+exp(-x) any large number. No implementation gives less than 0, or more
		// than exp of the largest argument with its errors.
		t := libm.Exp(x.v)
		top := float64(libm.Exp(x.v+d)*(1+float64(4*(m.expRel+m.quot)))) + m.tiny
		return num{v: t / (1 + t), e: top}
	}
	n := m.div(exact(1), m.add(exact(1), m.exp(m.neg(x))))
	if x.v < -40 && n.v-n.v == 0 && x.v-x.v == 0 {
		t := libm.Exp(x.v)
		v := t / (1 + t)
		n.e += abs(v-n.v) + m.tiny
		n.v = v
	}
	return n
}

// valued returns a with v as its value, which is nearer to the exact one. Whatever a covers stays covered, so that an
// implementation of the written formula keeps the bound although the formula cancels where v does not.
func (a num) valued(v float64) num {
	if a.v-a.v == 0 && v-v == 0 {
		a.e += abs(v - a.v)
		a.v = v
	}
	return a
}

// gated returns n = x·g(x), where g goes from 0 to 1, with what it is at -Inf: the limit is 0, and the formulas
// multiply an infinity by zero. Both are right.
func gated(x, n num) num {
	switch {
	case math.IsInf(x.v, -1):
		limit := num{w: (n.w | clsNaN) &^ clsFinite}
		if n.w&clsFinite != 0 {
			limit.e = noBound
		}
		return limit
	case x.w&clsNegInf != 0 && n.v-n.v != 0:
		n.w |= clsFinite
	}
	return n
}

// silu returns x·sigmoid(x); dividing x by the denominator directly makes one rounding less.
func (m *arith) silu(x num) num {
	n := m.mul(x, m.sigmoid(x))
	if x.v < -40 {
		n = n.valued(libm.SiLU(x.v)) // the sigmoid may be subnormal where the product is not
	}
	return gated(x, n)
}

// geluErf returns x/2·(1+erf(x/√2)), or x/2·erfc(-x/√2). For negative x the sum cancels and the error of erf stays,
// relative to 1. An erfc has its error relative to 1+erf instead: where |erf| is small that is up to 2u more.
func (m *arith) geluErf(x num) num {
	t := m.erf(m.scale(x, math.Sqrt2/2))
	n := m.mul(m.mul(exact(0.5), x), m.add(exact(1), t))
	if n.v-n.v == 0 {
		n.e += float64(m.erfRel / 2 * abs(n.v))
	}
	return gated(x, n.valued(libm.Gelu(x.v)))
}

const sqrt2OverPi = 0.79788456080286535588 // √(2/π)

// geluTanh returns x/2·(1+tanh(√(2/π)(x+0.044715x³))).
func (m *arith) geluTanh(x num) num {
	cube := m.mul(m.mul(x, x), x)
	t := m.tanh(m.scale(m.add(x, m.scale(cube, 0.044715)), sqrt2OverPi))
	return gated(x, m.mul(m.mul(exact(0.5), x), m.add(exact(1), t)).valued(libm.GeluTanh(x.v)))
}

// elu returns x or α(exp(x)-1). expm1 is more accurate near zero, but may be a few ulp off at -1 like any function.
func (m *arith) elu(x num, alpha float64) num {
	if x.v > 0 {
		return x
	}
	y := m.sub(m.exp(x), exact(1))
	if y.v-y.v == 0 {
		y.e += float64(m.expRel * abs(y.v))
	}
	return m.scale(y.valued(libm.Expm1(x.v)), alpha)
}

// softplus returns log(1+exp(βx))/β, or x beyond the threshold. Where βx is within its own rounding of the threshold,
// or the threshold's, both branches are right; they differ by less than exp(-threshold)/β.
func (m *arith) softplus(x num, beta, threshold float64) num {
	bx := m.scale(x, beta)
	slack := bx.e + float64(m.u*min(abs(threshold), m.limit))
	switch {
	case !bx.clean(): // βx may overflow, which is beyond any threshold that does not
		if float64(x.v*beta) > threshold && threshold < m.limit/2 {
			return x
		}
	case bx.v-slack > threshold:
		return x
	case bx.v+slack > threshold:
		y := m.smoothPlus(x, bx, beta)
		y.e += abs(y.v-x.v) + x.e
		return y
	}
	return m.smoothPlus(x, bx, beta)
}

// smoothPlus returns log(1+exp(βx))/β. log1p is more accurate than the logarithm of a rounded sum, which loses exp(βx)
// below u. Below a large threshold exp(βx) may overflow although the result is about x: it may be infinite there.
func (m *arith) smoothPlus(x, bx num, beta float64) num {
	n := m.div(m.log(m.add(exact(1), m.exp(bx))), m.constant(beta))
	v := libm.Softplus(x.v, beta)
	if n.v-n.v != 0 && v-v == 0 { // fp64 itself overflows
		return num{v: v, e: noBound, w: (n.w | classOf(n.v)) &^ clsFinite}
	}
	return n.valued(v)
}

// atMinusInf is the contract of x·g(x), where g goes to 0, at -Inf.
const atMinusInf = "; -Inf undetermined (the limit 0 or NaN of -Inf times 0)"

func activationOps() []*Op {
	const arithmetic = "float32 arithmetic (float64 for float64), one rounding to the output type"
	inRuns := map[string]func(r *run, x bulk) (bulk, bool){
		"gelu_tanh": (*run).geluTanhAll, "silu": (*run).siluAll, "sigmoid": (*run).sigmoidAll,
		"tanh": func(r *run, x bulk) (bulk, bool) { y := r.tmp[0].of(len(x.v)); return y, r.tanhAll(y, x) },
		"exp":  func(r *run, x bulk) (bulk, bool) { y := r.tmp[0].of(len(x.v)); return y, r.expAll(y, x) },
	}
	op := func(name, doc, contract string, f func(c *call, x num) num, attrs ...opspec.Attr) *Op {
		o := &Op{
			Name: name, Family: "activation", Doc: doc, Contract: contract,
			Schema: elementwise(attrs, "input"), ref: unary(f), setsAll: true,
		}
		if all := inRuns[name]; all != nil {
			o.ref = unaryAll(f, all)
		}
		return o
	}
	alpha := floatAttr("alpha", "slope (leaky_relu) or scale (elu) for negative inputs", 0.01, 0.2)
	eluAlpha := alpha
	eluAlpha.Values = []any{1.0, 0.5}
	gelu := op("gelu", "0.5 x (1 + erf(x/sqrt(2)))", arithmetic+"; erf or erfc within 2 ulp"+atMinusInf,
		func(c *call, x num) num { return c.geluErf(x) })
	silu := op("silu", "x / (1 + exp(-x))", arithmetic+"; as written or x times the sigmoid"+atMinusInf,
		func(c *call, x num) num { return c.silu(x) })
	silu.Aliases = []string{"swish"}
	return []*Op{
		op("relu", "max(x, 0); NaN stays NaN", selection, func(c *call, x num) num {
			if x.v <= 0 {
				return num{e: x.e} // x < 0 may be false of a subnormal number, which is then returned
			}
			return x
		}),
		op("leaky_relu", "x >= 0 ? x : alpha x", arithmetic, func(c *call, x num) num {
			if x.v < 0 {
				return c.scale(x, c.attrs.Float("alpha"))
			}
			return x
		}, alpha),
		op("elu", "x > 0 ? x : alpha (exp(x) - 1)", arithmetic+"; expm1 or exp minus 1",
			func(c *call, x num) num { return c.elu(x, c.attrs.Float("alpha")) }, eluAlpha),
		gelu,
		op("gelu_tanh", "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
			arithmetic+"; tanh as tanh.approx or 1 - 2/(exp(2x)+1). tanh.approx is off by up to 2^-11, about as much as "+
				"this formula differs from gelu: only math=ieee tells the two apart"+atMinusInf,
			func(c *call, x num) num { return c.geluTanh(x) }),
		silu,
		op("sigmoid", "1 / (1 + exp(-x))", arithmetic, func(c *call, x num) num { return c.sigmoid(x) }),
		op("tanh", "tanh(x)", arithmetic+"; tanh.approx or 1 - 2/(exp(2x)+1)",
			func(c *call, x num) num { return c.tanh(x) }),
		op("softplus", "beta x > threshold ? x : log(1 + exp(beta x)) / beta", arithmetic+"; log1p or log of the sum; "+
			"undetermined where exp(beta x) overflows below the threshold",
			func(c *call, x num) num {
				return c.softplus(x, c.attrs.Float("beta"), c.attrs.Float("threshold"))
			},
			floatAttr("beta", "sharpness", 1.0, 2.0), floatAttr("threshold", "linear beyond this value of beta x", 20.0)),
		op("exp", "exp(x)", arithmetic+"; ex2.approx(x log2 e)", func(c *call, x num) num { return c.exp(x) }),
		op("log", "log(x); NaN below zero, -Inf at zero", arithmetic+"; lg2.approx(x) ln 2",
			func(c *call, x num) num { return c.log(x) }),
		op("rsqrt", "1 / sqrt(x); NaN below zero, an infinity of its sign at zero",
			arithmetic+"; rsqrt.approx or the reciprocal of the root",
			func(c *call, x num) num { return c.rsqrt(x) }),
	}
}

// binary lifts a function of two values to whole inputs.
func binary(first, second string, f func(c *call, a, b num) num) func(c *call) error {
	return func(c *call) error {
		a, b, out := c.data(first), c.data(second), c.out("output")
		parallel(len(a), 32, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				out.set(i, f(c, c.input(a[i]), c.input(b[i])))
			}
		})
		return nil
	}
}

// cast adds the error of an intermediate that an implementation may round to the type of the case, and of the
// infinity that rounding may make of it.
func (c *call) cast(x num) num {
	if c.T == dtype.Float32 || c.T == dtype.Float64 || x.v-x.v != 0 || x.v == 0 && x.e == 0 {
		return x
	}
	over := c.T.OverflowThreshold()
	if x.v+x.e >= over {
		x.w |= clsPosInf
	}
	if x.v-x.e <= -over {
		x.w |= clsNegInf
	}
	x.e += c.T.HalfULP(math.Min(abs(x.v)+x.e, c.T.MaxFinite()))
	return x
}

func binaryOps() []*Op {
	const gated = "float32 arithmetic (float64 for float64); the activation may be rounded to the output type before " +
		"the product; a gate of -Inf undetermined unless up is NaN or infinite (NaN)"
	op := func(name, doc, contract, a, b string, f func(c *call, a, b num) num) *Op {
		return &Op{
			Name: name, Family: "binary", Doc: doc, Contract: contract,
			Schema: elementwise(nil, a, b), ref: binary(a, b, f), setsAll: true, once: name == "add" || name == "mul",
		}
	}
	return []*Op{
		op("add", "a + b", "one rounding in float32 (float64 for float64), one to the output type", "a", "b",
			func(c *call, a, b num) num { return c.add(a, b) }),
		op("mul", "a b", "one rounding in float32 (float64 for float64), one to the output type", "a", "b",
			func(c *call, a, b num) num { return c.mul(a, b) }),
		op("swiglu", "silu(gate) up", gated, "gate", "up",
			func(c *call, g, u num) num { return c.mul(c.cast(c.silu(g)), u) }),
		op("geglu", "gelu(gate) up, gelu with erf", gated, "gate", "up",
			func(c *call, g, u num) num { return c.mul(c.cast(c.geluErf(g)), u) }),
	}
}
