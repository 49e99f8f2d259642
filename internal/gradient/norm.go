// This file implements the gradients of normalisations.

package gradient

import "math"

// standardised is a row, or a group of channels, normalised by its own moments.
type standardised struct {
	xhat []val
	rstd val
	// reach is (|x|+|μ|)·rstd: what a kernel that multiplies out (x-μ)·rstd, or Σg(x-μ), rounds beside.
	reach []float64
}

// standardise returns (x-μ)/√(var+eps). The moments are kept in the given arithmetic between forward and backward pass.
//
// A mean that is off by ε makes Σ(x-μ)² too large by nε² only, since the deviations sum to zero. Welford's updates are
// off by n·u·‖x‖·‖d‖ (Chan, Golub and LeVeque, 1983).
func (c *call) standardise(x []val, eps float64, moments prec) standardised {
	n := float64(len(x))
	mu := c.meanOf(x)
	mu = moments.rounded(mu.v, mu.e)
	out := standardised{xhat: make([]val, len(x)), reach: make([]float64, len(x))}
	squares, all := 0.0, 0.0
	for i, v := range x {
		d := v.v - mu.v
		out.reach[i] = math.Abs(v.v) + math.Abs(mu.v)
		out.xhat[i] = val{d, v.e + mu.e + float64(c.acc.r*out.reach[i]) + c.acc.tiny}
		squares += float64(d * d)
		all += float64(v.v * v.v)
	}
	off := float64(c.acc.u * mu.e)
	e := float64(c.acc.r*((depth(len(x))+3)*squares+float64(depth(len(x))*math.Sqrt(float64(squares*all))))) +
		float64(n*float64(off*off))/c.acc.u
	variance := c.acc.add(c.acc.div(val{squares, e + float64(n*c.acc.tiny)}, val{v: n}), val{eps, eps})
	if !(all < c.acc.limit) {
		variance = open(variance.v)
	}
	rstd := c.acc.div(val{v: 1}, c.acc.sqrt(variance))
	out.rstd = moments.rounded(rstd.v, rstd.e)
	for i := range out.xhat {
		out.xhat[i] = c.acc.mul(out.xhat[i], out.rstd)
		out.reach[i] *= out.rstd.v
	}
	return out
}

// back fills out with rstd·(gw - mean(gw) - x̂·mean(gw·x̂)), gw the gradient times the weight.
func (s *standardised) back(c *call, gw, out []val) {
	n := val{v: float64(len(gw))}
	var plain, crossed sum
	for i, v := range gw {
		plain.add(v)
		crossed.addAs(c.acc.mul(v, s.xhat[i]), float64(math.Abs(v.v)*s.reach[i]))
	}
	first, second := c.acc.div(plain.total(c.acc), n), c.acc.div(crossed.total(c.acc), n)
	for i, v := range gw {
		inner := c.acc.sub(c.acc.sub(v, first), c.acc.mul(s.xhat[i], second))
		out[i] = c.kept(c.acc.mul(s.rstd, inner))
	}
}

// channelSums gather the gradients of weight and bias, which are shared by rows.
type channelSums struct{ weight, bias []sum }

func newChannelSums(n int) channelSums { return channelSums{make([]sum, n), make([]sum, n)} }

func (t *channelSums) add(c *call, ch int, g, xhat val, reach float64) {
	t.weight[ch].addAs(c.acc.mul(g, xhat), float64(math.Abs(g.v)*reach))
	t.bias[ch].add(g)
}

func (t *channelSums) store(c *call) {
	for i := range t.weight {
		c.out["weight"][i] = c.kept(t.weight[i].total(c.acc))
		if c.out["bias"] != nil {
			c.out["bias"][i] = c.kept(t.bias[i].total(c.acc))
		}
	}
}

func layernormBack(c *call) error {
	x, g, weight, w := c.in["input"], c.g["output"], c.in["weight"], c.dim("H")
	sums, gw := newChannelSums(w), make([]val, w)
	for r := range len(x) / w {
		s := c.standardise(row(x, r, w), c.attrs.Float("eps"), c.acc)
		gr := row(g, r, w)
		for i := range gr {
			gw[i] = c.work.mul(gr[i], weight[i])
			sums.add(c, i, gr[i], s.xhat[i], s.reach[i])
		}
		s.back(c, gw, row(c.out["input"], r, w))
	}
	sums.store(c)
	return nil
}

func groupnormBack(c *call) error {
	x, g, weight := c.in["input"], c.g["output"], c.in["weight"]
	length, groups := c.dim("L"), c.attrs.Int("groups")
	channels := c.dim("C") / groups
	w := channels * length
	moments := c.acc
	if c.attrs.Str("moments") == "output" {
		moments = c.work
	}
	sums, gw := newChannelSums(len(weight)), make([]val, w)
	for r := range len(x) / w {
		s := c.standardise(row(x, r, w), c.attrs.Float("eps"), moments)
		gr := row(g, r, w)
		for i := range gr {
			ch := r%groups*channels + i/length
			gw[i] = c.work.mul(gr[i], weight[ch])
			sums.add(c, ch, gr[i], s.xhat[i], s.reach[i])
		}
		s.back(c, gw, row(c.out["input"], r, w))
	}
	sums.store(c)
	return nil
}

// squaresOf returns Σx² in the accumulation type.
func (c *call) squaresOf(x []val) val {
	var s sum
	for _, v := range x {
		s.add(c.acc.mul(v, v))
	}
	return s.total(c.acc)
}

// rmsnormBack is r(gw - x·r²·mean(gw·x)), r = 1/√(mean(x²)+eps). An eager framework keeps the normalised x in its type.
func rmsnormBack(c *call) error {
	x, g, weight, w := c.in["input"], c.g["output"], c.in["weight"], c.dim("H")
	eps := c.attrs.Float("eps")
	sums, gw := newChannelSums(w), make([]val, w)
	n := val{v: float64(w)}
	for r := range len(x) / w {
		xs, gr, out := row(x, r, w), row(g, r, w), row(c.out["input"], r, w)
		rstd := c.acc.div(val{v: 1}, c.acc.sqrt(c.acc.add(c.acc.div(c.squaresOf(xs), n), val{eps, eps})))
		var crossed sum
		xhat := make([]val, w)
		for i := range xs {
			xhat[i] = c.kept(c.acc.mul(xs[i], rstd))
			gw[i] = c.work.mul(gr[i], weight[i])
			crossed.add(c.acc.mul(gw[i], xhat[i]))
			sums.add(c, i, gr[i], xhat[i], math.Abs(xhat[i].v))
		}
		mean := c.acc.div(crossed.total(c.acc), n)
		for i := range xs {
			out[i] = c.kept(c.acc.mul(rstd, c.acc.sub(gw[i], c.acc.mul(xhat[i], mean))))
		}
	}
	sums.store(c)
	return nil
}

// l2normBack is (g - y·Σgy)/‖x‖ with y = x/‖x‖, and g/eps where the norm is below eps.
func l2normBack(c *call) error {
	w, eps := c.dim("H"), c.attrs.Float("eps")
	for r := range len(c.in["input"]) / w {
		x, g, out := row(c.in["input"], r, w), row(c.g["output"], r, w), row(c.out["input"], r, w)
		norm := c.kept(c.acc.sqrt(c.squaresOf(x)))
		small := norm.v < eps
		if near := math.Abs(norm.v - eps); near <= float64(2*c.work.u*norm.e) {
			norm = open(norm.v) // both sides of the kink
		} else if small {
			norm = val{eps, eps}
		}
		var crossed sum
		y := make([]val, w)
		for i := range x {
			y[i] = c.work.div(x[i], norm)
			crossed.add(c.work.mul(g[i], y[i]))
		}
		along := c.kept(crossed.total(c.acc))
		for i := range x {
			out[i] = c.work.div(g[i], norm)
			if !small {
				out[i] = c.work.sub(out[i], c.work.mul(c.work.div(y[i], norm), along))
			}
		}
	}
	return nil
}
