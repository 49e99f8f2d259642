// This file implements the gradients of operators that work on each element by itself.

package gradient

import (
	"math"

	"gpuemu/internal/libm"
)

// formulas are the gradients that have one. Each fills out of the call from in, index and g.
var formulas = map[string]func(c *call) error{
	"relu": slope(reluSlope), "leaky_relu": slope(leakySlope), "elu": slope(eluSlope), "gelu": slope(geluSlope),
	"gelu_tanh": slope(geluTanhSlope), "silu": slope(siluSlope), "sigmoid": slope(sigmoidSlope),
	"tanh": slope(tanhSlope), "softplus": slope(softplusSlope), "exp": slope(expSlope), "log": slope(logSlope),
	"rsqrt": slope(rsqrtSlope),
	"add":   addBack, "mul": mulBack, "swiglu": gated(siluValue, siluSlope), "geglu": gated(geluValue, geluSlope),
	"sum": sumBack, "mean": meanBack, "var": varBack, "logsumexp": logSumExpBack, "cumsum": cumsumBack,
	"softmax": softmaxBack, "log_softmax": logSoftmaxBack, "cross_entropy": crossEntropyBack,
	"layernorm": layernormBack, "groupnorm": groupnormBack, "rmsnorm": rmsnormBack, "l2norm": l2normBack,
	"matmul": matmulBack, "batched_matmul": matmulBack, "matmul_bias_act": matmulBiasActBack,
	"attention": attentionBack, "causal_attention": attentionBack, "window_attention": attentionBack,
	"gqa_attention": attentionBack, "decode_attention": decodeAttentionBack, "rope": ropeBack,
	"embedding": embeddingBack, "gather": gatherBack, "scatter_add": scatterAddBack,
	"conv1d": conv1dBack, "conv2d": conv2dBack, "depthwise_conv2d": depthwiseConv2dBack, "avg_pool2d": avgPoolBack,
}

// slope lifts the derivative of a function of one value to the whole input.
func slope(d func(c *call, x val) val) func(c *call) error {
	return func(c *call) error {
		x, g, out := c.in["input"], c.g["output"], c.out["input"]
		for i := range x {
			out[i] = c.work.mul(g[i], d(c, x[i]))
		}
		return nil
	}
}

// step returns 1 above zero and low below. At zero every value between is a subgradient, so nothing is known there,
// nor where a framework may flush the argument to zero (XLA on a CPU does); where the argument is uncertain by more
// than its value, both sides are right.
func (c *call) step(x val, low float64) val {
	d := val{v: 1}
	if x.v < 0 {
		d.v = low
	}
	if flushed := float64(c.acc.tiny * c.acc.u); math.Abs(x.v) < flushed && x.e == 0 || !finite(x.e) {
		return open(d.v)
	}
	if math.Abs(x.v) <= float64(2*c.work.u*x.e) {
		d.e = math.Abs(1-low) / c.work.u
	}
	return d
}

func reluSlope(c *call, x val) val { return c.step(x, 0) }

func leakySlope(c *call, x val) val {
	alpha := c.attrs.Float("alpha")
	d := c.step(x, alpha)
	if d.v != 1 {
		d.e += float64(c.acc.r * math.Abs(alpha))
	}
	return d
}

func eluSlope(c *call, x val) val {
	alpha := c.attrs.Float("alpha")
	switch {
	case x.v > 0:
		return val{1, x.e}
	case x.v == 0 && alpha != 1:
		return open(1)
	}
	// Some keep the output y and use y+alpha, where y is rounded beside alpha.
	d := c.work.times(c.work.exp(x), alpha)
	d.e += math.Abs(alpha)
	return d
}

func geluValue(c *call, x val) val {
	p := c.work
	return p.valued(p.mul(half(x), p.add(val{v: 1}, p.erf(p.times(x, math.Sqrt2/2)))), libm.Gelu(x.v))
}

// gateOf returns g(x) of f(x) = x·g(x), with g(0) = 1/2. Far out on the negative side f keeps its digits where the
// formula of g cancels; next to zero f may be subnormal.
func gateOf(f func(x float64) float64, x float64) float64 {
	if math.Abs(x) < 0x1p-900 {
		return 0.5
	}
	return f(x) / x
}

// geluSlope is Φ(x) + x·φ(x).
func geluSlope(c *call, x val) val {
	p := c.work
	cdf := p.valued(half(p.add(val{v: 1}, p.erf(p.times(x, math.Sqrt2/2)))), gateOf(libm.Gelu, x.v))
	square := p.mul(x, x)
	pdf := p.times(p.exp(half(val{-square.v, square.e})), 0.39894228040143267794) // 1/√(2π)
	return p.add(cdf, p.mul(x, pdf))
}

// geluTanhSlope is (1+t)/2 + x/2·(1-t²)·√(2/π)(1+3·0.044715x²), t the tanh of the formula.
func geluTanhSlope(c *call, x val) val {
	const sqrt2OverPi, cubic = 0.79788456080286535588, 0.044715
	p := c.work
	square := p.mul(x, x)
	t := p.tanh(p.times(p.add(x, p.times(p.mul(square, x), cubic)), sqrt2OverPi))
	inner := p.times(p.add(val{v: 1}, p.times(square, 3*cubic)), sqrt2OverPi)
	gate, other := gateOf(libm.GeluTanh, x.v), gateOf(libm.GeluTanh, -x.v) // (1±t)/2
	rise := p.valued(p.sub(val{v: 1}, p.mul(t, t)), float64(4*gate)*other)
	rest := p.mul(p.mul(half(x), rise), inner)
	return p.add(p.valued(half(p.add(val{v: 1}, t)), gate), rest)
}

func siluValue(c *call, x val) val { return c.work.mul(x, c.work.sigmoid(x)) }

// siluSlope is s(1 + x(1-s)), s the sigmoid.
func siluSlope(c *call, x val) val {
	p := c.work
	s := p.sigmoid(x)
	return p.mul(s, p.add(val{v: 1}, p.mul(x, p.sub(val{v: 1}, s))))
}

// bell returns e^-|x|/(1 + e^-|x|)², the slope of the sigmoid without the cancellation of 1 - s.
func bell(x float64) float64 {
	t := libm.Exp(-math.Abs(x))
	return t / float64((1+t)*(1+t))
}

func sigmoidSlope(c *call, x val) val {
	s := c.work.sigmoid(x)
	return c.work.valued(c.work.mul(s, c.work.sub(val{v: 1}, s)), bell(x.v))
}

func tanhSlope(c *call, x val) val {
	t := c.work.tanh(x)
	return c.work.valued(c.work.sub(val{v: 1}, c.work.mul(t, t)), 4*bell(2*x.v))
}

// softplusSlope is sigmoid(βx), or 1 beyond the threshold. Next to it both branches are right.
func softplusSlope(c *call, x val) val {
	bx := c.work.times(x, c.attrs.Float("beta"))
	threshold := c.attrs.Float("threshold")
	s := c.work.sigmoid(bx)
	if near := math.Abs(bx.v - threshold); near <= float64(2*c.work.u*bx.e) {
		s.e += math.Abs(1-s.v) / c.work.u
		return s
	}
	if bx.v > threshold {
		return val{1, x.e}
	}
	return s
}

func expSlope(c *call, x val) val { return c.work.exp(x) }

func logSlope(c *call, x val) val { return c.work.div(val{v: 1}, x) }

// rsqrtSlope is -1/2·x^(-3/2), usually made of the output: -y³/2.
func rsqrtSlope(c *call, x val) val {
	if !(x.v > 0) {
		return open(math.NaN())
	}
	y := c.work.div(val{v: 1}, c.work.sqrt(x))
	cube := c.work.mul(c.work.mul(y, y), y)
	return val{-0.5 * cube.v, 0.5 * cube.e}
}

func addBack(c *call) error {
	copy(c.out["a"], c.g["output"])
	copy(c.out["b"], c.g["output"])
	return nil
}

func mulBack(c *call) error {
	a, b, g := c.in["a"], c.in["b"], c.g["output"]
	for i := range g {
		c.out["a"][i], c.out["b"][i] = c.work.mul(g[i], b[i]), c.work.mul(g[i], a[i])
	}
	return nil
}

// gated is the gradient of f(gate)·up.
func gated(f, slope func(c *call, x val) val) func(c *call) error {
	return func(c *call) error {
		gate, up, g := c.in["gate"], c.in["up"], c.g["output"]
		for i := range g {
			c.out["gate"][i] = c.work.mul(c.work.mul(g[i], up[i]), slope(c, gate[i]))
			c.out["up"][i] = c.work.mul(g[i], f(c, gate[i]))
		}
		return nil
	}
}

// activate returns the derivative of a fused epilogue at z.
func (c *call) activate(name string, z val) val {
	switch name {
	case "relu":
		return reluSlope(c, z)
	case "gelu":
		return geluSlope(c, z)
	case "gelu_tanh":
		return geluTanhSlope(c, z)
	case "silu":
		return siluSlope(c, z)
	}
	return val{v: 1}
}

// ropeBack turns the gradient back by the same angle. The tables have gradients, too: sums over batch and heads.
func ropeBack(c *call) error {
	x, cos, sin, g := c.in["input"], c.in["cos"], c.in["sin"], c.g["output"]
	s, h, d := c.dim("S"), c.dim("H"), c.dim("D")
	width := d / 2
	cosSums, sinSums := make([]sum, len(cos)), make([]sum, len(sin))
	p := c.work
	for r := range len(x) / d {
		pos := r / h % s
		for i := range width {
			a, b := r*d+i, r*d+i+width
			if c.attrs.Bool("interleaved") {
				a, b = r*d+2*i, r*d+2*i+1
			}
			at := pos*width + i
			c.out["input"][a] = p.add(p.mul(g[a], cos[at]), p.mul(g[b], sin[at]))
			c.out["input"][b] = p.sub(p.mul(g[b], cos[at]), p.mul(g[a], sin[at]))
			cosSums[at].add(p.mul(g[a], x[a]))
			cosSums[at].add(p.mul(g[b], x[b]))
			sinSums[at].add(p.mul(g[b], x[a]))
			crossed := p.mul(g[a], x[b])
			sinSums[at].add(val{-crossed.v, crossed.e})
		}
	}
	for i := range cosSums {
		c.out["cos"][i], c.out["sin"][i] = c.kept(cosSums[i].total(c.acc)), c.kept(sinSums[i].total(c.acc))
	}
	return nil
}
