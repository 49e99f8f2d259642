// This file implements the gradients of reductions and of the softmax family: operators on the last axis.

package gradient

import "math"

// spread is the gradient of an operator with one output a row: out = g·d, d the derivative by each element of the row.
func (c *call) spread(d func(x []val, i int) val) error {
	x, g, w := c.in["input"], c.g["output"], c.dim("H")
	for r := range g {
		xs, out := row(x, r, w), row(c.out["input"], r, w)
		for i := range out {
			out[i] = c.work.mul(g[r], d(xs, i))
		}
	}
	return nil
}

func sumBack(c *call) error { return c.spread(func([]val, int) val { return val{v: 1} }) }

func meanBack(c *call) error {
	n := val{v: float64(c.dim("H"))}
	return c.spread(func([]val, int) val { return c.acc.div(val{v: 1}, n) })
}

// meanOf returns the mean of a row in the accumulation type.
func (c *call) meanOf(x []val) val {
	var s sum
	for _, v := range x {
		s.add(v)
	}
	return c.acc.div(s.total(c.acc), val{v: float64(len(x))})
}

// varBack is g·2(x-μ)/(n-correction). An eager framework rounds the mean to its type first.
func varBack(c *call) error {
	w := c.dim("H")
	n := val{v: float64(w - c.attrs.Int("correction"))}
	for r, g := range c.g["output"] {
		x, out := row(c.in["input"], r, w), row(c.out["input"], r, w)
		mu := c.kept(c.meanOf(x))
		factor := c.work.div(val{2 * g.v, 2 * g.e}, n)
		for i, v := range x {
			out[i] = c.work.mul(factor, c.work.sub(v, mu))
		}
	}
	return nil
}

// cumsumBack is the running sum from the end.
func cumsumBack(c *call) error {
	w := c.dim("H")
	for r := range len(c.in["input"]) / max(1, w) {
		g, out := row(c.g["output"], r, w), row(c.out["input"], r, w)
		var s sum
		for i := w - 1; i >= 0; i-- {
			s.add(g[i])
			out[i] = c.kept(s.total(c.acc))
		}
	}
	return nil
}

// probabilities are what the family needs of a row of scores.
type probabilities struct {
	p     []val // exp(x-m)/Σexp(x-m), in the accumulation type
	top   val   // m
	total val   // Σexp(x-m)
}

func (c *call) probabilities(x []val) probabilities {
	out := probabilities{p: make([]val, len(x)), top: val{v: math.Inf(-1)}}
	for _, v := range x {
		if v.v > out.top.v {
			out.top = v
		}
	}
	if finite(out.top.e) {
		out.top.e = 0 // the quotient does not depend on what is subtracted
	}
	var s sum
	for i, v := range x {
		out.p[i] = c.acc.weight(c.acc.sub(v, out.top))
		s.add(out.p[i])
	}
	out.total = s.total(c.acc)
	known := finite(out.total.e)
	if known { // the maximum itself contributes exp(0) = 1, so no implementation holds less than a half
		out.total.e = math.Min(out.total.e, math.Max(0, out.total.v-0.5)/c.acc.u)
	}
	for i := range out.p {
		out.p[i] = c.acc.div(out.p[i], out.total)
		if known {
			out.p[i].e = math.Min(out.p[i].e, 1/c.acc.u)
		}
	}
	return out
}

// blurred adds the error of a probability that is made of a logarithm which was rounded beside the magnitude m.
func (c *call) blurred(p val, m float64) val {
	p.e = math.Min(p.e+float64(p.v*m), math.Max(p.e, 1/c.work.u))
	return p
}

// logSumExpBack is g·exp(x - lse). The forward result, rounded to the type of the framework, is what x is reduced by.
func logSumExpBack(c *call) error {
	w := c.dim("H")
	for r, g := range c.g["output"] {
		x, out := row(c.in["input"], r, w), row(c.out["input"], r, w)
		s := c.probabilities(x)
		lse := s.top.v + c.acc.log(s.total).v
		for i := range x {
			p := c.blurred(s.p[i], math.Abs(lse)+math.Abs(x[i].v-lse)+functionError)
			out[i] = c.work.mul(g, p)
		}
	}
	return nil
}

// softmaxBack is p(g - Σpg), p as the forward pass returned it.
func softmaxBack(c *call) error {
	w := c.dim("H")
	for r := range len(c.in["input"]) / w {
		g, out := row(c.g["output"], r, w), row(c.out["input"], r, w)
		p := c.probabilities(row(c.in["input"], r, w)).p
		var s sum
		for i := range p {
			p[i] = c.kept(p[i])
			s.add(c.work.mul(p[i], g[i]))
		}
		mean := c.kept(s.total(c.acc))
		for i := range p {
			out[i] = c.work.mul(p[i], c.work.sub(g[i], mean))
		}
	}
	return nil
}

// logSoftmaxBack is g - exp(y)·Σg, y the forward result in the type of the framework.
func logSoftmaxBack(c *call) error {
	w := c.dim("H")
	for r := range len(c.in["input"]) / w {
		x, g, out := row(c.in["input"], r, w), row(c.g["output"], r, w), row(c.out["input"], r, w)
		s := c.probabilities(x)
		l := c.acc.log(s.total).v
		var all sum
		for i := range g {
			all.add(g[i])
		}
		total := c.kept(all.total(c.acc))
		for i := range x {
			y := math.Abs(x[i].v - s.top.v - l)
			out[i] = c.work.sub(g[i], c.work.mul(c.blurred(s.p[i], y+functionError), total))
		}
	}
	return nil
}

// crossEntropyBack is g(p - (1-ε)·[target] - ε/C). Ignored rows have no gradient. A reduction has one g for all rows,
// and a mean divides it by their number.
func crossEntropyBack(c *call) error {
	reduction, count := c.attrs.Str("reduction"), 0
	for _, target := range c.index["target"] {
		if target != c.attrs.Int("ignore_index") {
			count++
		}
	}
	rowGradient := func(r int) val {
		switch reduction {
		case "mean":
			return c.work.div(c.g["output"][0], val{v: float64(count)})
		case "sum":
			return c.g["output"][0]
		}
		return c.g["output"][r]
	}
	w, ignore, eps := c.dim("C"), c.attrs.Int("ignore_index"), c.attrs.Float("label_smoothing")
	for r, target := range c.index["target"] {
		if target == ignore {
			continue
		}
		x, g, out := row(c.in["logits"], r, w), rowGradient(r), row(c.out["logits"], r, w)
		s := c.probabilities(x)
		l := c.acc.log(s.total).v
		for i := range x {
			y := math.Abs(x[i].v - s.top.v - l)
			hit := val{v: eps / float64(w)}
			if i == target {
				hit.v += 1 - eps
			}
			hit.e = hit.v
			d := c.work.sub(c.blurred(s.p[i], y+functionError), hit)
			out[i] = c.work.mul(g, d)
		}
	}
	return nil
}
