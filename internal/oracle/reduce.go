// This file implements the family of reductions over the last axis.

package oracle

import (
	"math"

	"gpuemu/internal/compare"
	"gpuemu/internal/opspec"
)

// rowwise returns the schema of an operator on input [B, S, H] whose output has the given dims.
func rowwise(attrs []opspec.Attr, outputs ...opspec.Output) *opspec.Schema {
	return &opspec.Schema{
		Dims: bshDims(), Attrs: attrs, DTypes: plainFloats(), Outputs: outputs,
		Inputs: []opspec.Input{{Name: "input", Dims: bsh()}},
	}
}

// rows calls f on every row of the input, many rows at once.
func (c *call) rows(name string, width int, f func(r int, x []float64)) {
	x := c.data(name)
	if width == 0 {
		for r := range c.out("output").Value {
			f(r, nil)
		}
		return
	}
	parallel(len(x)/width, 32*width, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			f(r, x[r*width:(r+1)*width])
		}
	})
}

// sumRow returns the sum of a row of inputs.
func (m *arith) sumRow(x []float64) num {
	var s sum
	if ext := extentOf(x); ext.finite && ext.least >= m.flush {
		s.addExact(x)
		return s.total(m)
	}
	for _, v := range x {
		s.add(m.input(v))
	}
	return s.total(m)
}

// meanRow returns the sum divided by the count, or times its rounded reciprocal.
func (m *arith) meanRow(x []float64) num { return m.mean(m.sumRow(x), len(x)) }

func (m *arith) mean(total num, n int) num { return m.div(total, exact(float64(n))) }

// selection is the contract of operators that choose among their inputs.
const selection = "exact; subnormals kept or flushed, in comparisons too"

// maxRow returns the maximum of a row, an exact selection but for subnormals: they may be flushed, and where
// comparisons take them for zero any of them may be chosen. NaN propagates.
func (m *arith) maxRow(x []float64) num {
	top := math.Inf(-1)
	for _, v := range x {
		if v != v {
			return exact(v)
		}
		if v > top {
			top = v
		}
	}
	n := m.input(top)
	if abs(top) < m.flush {
		for _, v := range x {
			if abs(v) < m.flush {
				n.e = math.Max(n.e, top-v)
			}
		}
	}
	return n
}

// deviations holds the mean of a row and the sum of squares about it.
type deviations struct {
	mean, square num
}

// deviationsRow returns mean and Σ(x-μ)², by two passes or by Welford's updates. Below r = √(Σx²/n).
//
// Mean: a sum and a division, or running means M_k = M_(k-1) + δ_k/k. There an error made at step k is damped by k/n,
// so the roundings of M_k add up to (u/n)·Σk|M_k| <= (2/3)·n·u·r (Cauchy: k|M_k| <= √k·‖x‖), and those of δ_k and its
// quotient to (u+quot)/n·Σ|δ_k| <= 3(u+quot)·r: (n+20)·u·r covers both, and merging partial results. Squares, two
// passes: with a mean off by ε each computed deviation is d-ε, so Σ(d-ε)² = Σd² + nε² because Σd = 0; on top come the
// rounding of each difference and square (3u) and of the sum: (n+3)u·(Σd²+nε²) + nε². Squares, Welford: Chan, Golub
// and LeVeque (1983) bound the relative error by a multiple of n·u·κ with κ = √(Σx²/Σd²), that is n·u·‖x‖·‖d‖; the
// multiple is taken as 2, and 40 more for approximate quotients.
func (m *arith) deviationsRow(x []float64) deviations {
	n := float64(len(x))
	mu := m.meanRow(x)
	if !mu.clean() {
		var s sum
		for _, v := range x {
			d := m.sub(m.input(v), mu)
			s.add(m.mul(d, d))
		}
		out := deviations{mean: mu, square: s.total(m)}
		if len(x) == 1 {
			out.square.w |= clsFinite &^ classOf(out.square.v) // Welford's first deviation is zero, whatever the value
		}
		return out
	}
	var sq, all, flushed float64
	for _, v := range x {
		d := v - mu.v
		sq += float64(d * d)
		all += float64(v * v)
		if v != 0 && abs(v) < m.flush {
			flushed += float64(2*float64(abs(v)*abs(d))) + float64(v*v)
		}
	}
	mu.e = math.Max(mu.e, float64(m.gamma(len(x)+20)*math.Sqrt(all/n))+m.tiny)
	mu2 := float64(mu.e * mu.e)
	e := float64(m.gamma(len(x)+3)*(sq+float64(n*mu2))) + float64(n*mu2) +
		float64(m.gamma(2*len(x)+40)*math.Sqrt(float64(sq*all))) + flushed + float64(2*float64(n*m.tiny))
	out := deviations{mean: mu, square: num{v: sq, e: e}}
	if sq-sq != 0 || all-all != 0 || float64(sq*all)-float64(sq*all) != 0 {
		out.square = num{v: 0, w: clsPosInf | clsNaN} // fp64 itself overflowed
		return out
	}
	top := m.widest(x, mu)
	if sq+e >= m.limit || float64(top*float64(top*n)) >= m.limit {
		// Merging with an empty part multiplies a squared difference of means by a count of zero: Inf·0.
		out.square.w = clsPosInf | clsNaN
	}
	if top >= m.limit { // a difference from a running mean may itself overflow
		out.mean.w = clsPosInf | clsNegInf | clsNaN
	}
	out.square = m.storedSquares(out.square, x, mu)
	return out
}

// widest returns the largest magnitude that a difference from a running mean of finite values may reach.
func (m *arith) widest(x []float64, mu num) float64 {
	return float64(2*extentOf(x).largest()) + mu.e
}

// expSum returns the maximum of a row and Σexp(x-max), filling terms with the exponentials, none of which exceeds 1.
func (m *arith) expSum(x []float64, terms []num) (top, total num) {
	top = m.maxRow(x)
	var s sum
	for i, v := range x {
		terms[i] = capped(m.exp(m.sub(m.input(v), top)), 1)
		s.add(terms[i])
	}
	return top, s.total(m)
}

// leastExpSum is below every computed Σexp(x-max): the maximum itself contributes exp(0) = 1 to it.
const leastExpSum = 0.5

// hasFinite reports whether a row has a finite score; where it has none (all infinite) implementations disagree by
// convention and the contract does not decide. A NaN counts: it decides the row.
func hasFinite(x []float64) bool {
	for _, v := range x {
		if !math.IsInf(v, 0) {
			return true
		}
	}
	return len(x) == 0
}

func (c *call) logSumExp(r int, x []float64) {
	out := c.out("output")
	nan, inf := false, false
	for _, v := range x {
		nan = nan || v != v
		inf = inf || math.IsInf(v, 1)
	}
	if !nan && (inf || !hasFinite(x)) {
		// With an infinite maximum the formula gives NaN, PyTorch the infinity.
		out.Value[r] = math.Inf(-1)
		if inf {
			out.Value[r] = math.Inf(1)
		}
		out.mark(r)
		return
	}
	top, total := c.expSum(x, make([]num, len(x)))
	out.set(r, c.add(top, c.log(total)))
}

func (c *call) variance(r int, x []float64) {
	n := len(x) - c.attrs.Int("correction")
	d := c.deviationsRow(x)
	if n <= 0 { // one element: its deviation is zero, or NaN where it is not finite, and NaN over zero either way
		c.out("output").Value[r] = math.NaN()
		return
	}
	c.out("output").set(r, c.div(d.square, exact(float64(n))))
}

// argmaxRow returns the first index of the maximum; NaN is greater than everything, as in PyTorch.
func argmaxRow(x []float64) int {
	at := 0
	for i, v := range x {
		if v != v {
			return i
		}
		if v > x[at] {
			at = i
		}
	}
	return at
}

func (c *call) argmax() error {
	w, out := c.dim("H"), c.out("output")
	c.rows("input", w, func(r int, x []float64) { out.setExact(r, float64(argmaxRow(x))) })
	if c.attrs.Str("ties") != "first" {
		x := c.data("input")
		out.Ties = &compare.Ties{Rows: len(out.Value), K: 1, N: w, Score: x, Slack: c.inputs(x).e, Ordered: true}
	}
	return nil
}

// cumsum: element k is a sum of k+1 terms in some tree, whatever the scan.
func (c *call) cumsum() error {
	w, out := c.dim("H"), c.out("output")
	c.rows("input", w, func(r int, x []float64) {
		var s sum
		for i, v := range x {
			s.add(c.input(v))
			out.set(r*w+i, s.total(&c.arith))
		}
	})
	return nil
}

func reduceOps() []*Op {
	const anyOrder = "float32 accumulation (float64 for float64) in any order, one rounding to the output type"
	reduced := opspec.Output{Name: "output", Dims: []string{"B", "S"}}
	row := func(name, doc, contract string, f func(c *call, r int, x []float64), attrs ...opspec.Attr) *Op {
		return &Op{
			Name: name, Family: "reduce", Doc: doc, Contract: contract, Schema: rowwise(attrs, reduced),
			ref: func(c *call) error {
				c.rows("input", c.dim("H"), func(r int, x []float64) { f(c, r, x) })
				return nil
			},
		}
	}
	total := row("sum", "sum over the last axis", anyOrder,
		func(c *call, r int, x []float64) { c.out("output").set(r, c.sumRow(x)) })
	total.Schema.Dims[2].Empty = true
	index := reduced
	index.DType = "int64"
	return []*Op{
		total,
		row("mean", "sum over the last axis divided by its length", anyOrder+"; division or product by 1/n",
			func(c *call, r int, x []float64) { c.out("output").set(r, c.meanRow(x)) }),
		row("max", "maximum over the last axis; NaN propagates", selection,
			func(c *call, r int, x []float64) { c.out("output").set(r, c.maxRow(x)) }),
		{
			Name: "argmax", Family: "reduce", Doc: "index of the maximum over the last axis; NaN is the greatest",
			Contract: "exact; any tied index unless ties = first",
			Schema: rowwise([]opspec.Attr{{
				Name: "ties", Kind: opspec.String, Values: []any{"any", "first"}, Fixed: true,
				Doc: "which index of equal maxima is right",
			}}, index),
			ref: (*call).argmax,
		},
		row("var", "sum of squared deviations over (length - correction)", anyOrder+"; two passes or Welford's updates",
			(*call).variance, opspec.Attr{
				Name: "correction", Kind: opspec.Int, Values: []any{0, 1}, Doc: "0: biased, 1: Bessel's correction",
			}),
		row("logsumexp", "m + log(sum(exp(x - m))), m the row maximum",
			anyOrder+"; rows without a finite score or with +Inf undetermined", (*call).logSumExp),
		{
			Name: "cumsum", Family: "reduce", Doc: "running sum over the last axis", Contract: anyOrder + " (any scan)",
			Schema: rowwise(nil, opspec.Output{Name: "output", Dims: bsh()}), ref: (*call).cumsum,
		},
	}
}
