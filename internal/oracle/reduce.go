// This file implements the family of reductions over the last axis.

package oracle

import (
	"math"

	"gpuemu/internal/compare"
	"gpuemu/internal/libm"
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
		s.addExact(x, ext.largest())
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

// expSum returns the maximum of a row and Σexp(x-max), filling terms with the exponentials, none of which exceeds 1.
func (m *arith) expSum(x []float64, terms []num) (top, total num) {
	top = m.maxRow(x)
	var s sum
	for i, v := range x {
		terms[i] = capped(m.exp(m.sub(m.input(v), top)), 1)
		s.add(terms[i])
	}
	total = s.total(m)
	if total.v-total.v == 0 {
		total.e += m.rescaling(x, func(i int) float64 { return terms[i].v }, total.v)
	}
	return top, total
}

// leastExpSum is below every computed Σexp(x-max): the maximum itself contributes exp(0) = 1 to it.
const leastExpSum = 0.5

// openRow reports whether the contract leaves a row of scores open: with +Inf among them, or nothing but -Inf, the
// formula subtracts an infinity from itself, and implementations guard against that or not. NaN decides a row.
func openRow(x []float64) bool {
	inf, finite := false, len(x) == 0
	for _, v := range x {
		if v != v {
			return false
		}
		inf, finite = inf || math.IsInf(v, 1), finite || v-v == 0
	}
	return inf || !finite
}

func (c *call) logSumExp(r int, x []float64) {
	out := c.out("output")
	if openRow(x) {
		// The formula gives NaN, PyTorch the infinity.
		out.Value[r] = math.Inf(-1)
		if extentOf(x).max > 0 {
			out.Value[r] = math.Inf(1)
		}
		out.mark(r)
		return
	}
	terms := make([]num, len(x))
	top, total := c.expSum(x, terms)
	l := c.logOfSum(x, top, total, values(make([]float64, len(x)), terms))
	y := c.add(top, l)
	if top.v < 0 && abs(y.v) < l.v/2 { // the sum cancels: Σexp(x) is next to 1
		y = y.valued(libm.Log1p(libm.ExpSumLess1(x)))
	}
	out.set(r, y)
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
				c.out("output").Unit = 1
				c.rows("input", c.dim("H"), func(r int, x []float64) { f(c, r, x) })
				return nil
			},
		}
	}
	total := row("sum", "sum over the last axis", anyOrder,
		func(c *call, r int, x []float64) { c.out("output").set(r, c.sumRow(x)) })
	total.Schema.Dims[2].Empty = true
	spread := row("var", "sum of squared deviations over (length - correction)",
		anyOrder+"; two passes or Welford's updates", (*call).variance, opspec.Attr{
			Name: "correction", Kind: opspec.Int, Values: []any{0, 1}, Doc: "0: biased, 1: Bessel's correction",
		})
	spread.Schema.Inputs[0] = centred("input", bsh()...)
	index := reduced
	index.DType, index.AlsoDTypes = "int64", []string{"int32"}
	return []*Op{
		total,
		row("mean", "sum over the last axis divided by its length", anyOrder+"; division or product by 1/n",
			func(c *call, r int, x []float64) { c.out("output").set(r, c.meanRow(x)) }),
		row("max", "maximum over the last axis; NaN propagates", selection,
			func(c *call, r int, x []float64) { c.out("output").set(r, c.maxRow(x)) }),
		{
			Name: "argmax", Family: "reduce", Doc: "index of the maximum over the last axis; NaN is the greatest",
			Contract: "exact; any tied index unless ties = first; int64 or int32 indexes",
			Schema: rowwise([]opspec.Attr{{
				Name: "ties", Kind: opspec.String, Values: []any{"any", "first"}, Fixed: true,
				Doc: "which index of equal maxima is right",
			}}, index),
			ref: (*call).argmax,
		},
		spread,
		row("logsumexp", "m + log(sum(exp(x - m))), m the row maximum",
			anyOrder+"; rows with +Inf or without a finite score undetermined", (*call).logSumExp),
		{
			Name: "cumsum", Family: "reduce", Doc: "running sum over the last axis",
			Contract: "float32 accumulation (float64 for float64), any scan, one rounding to the output type",
			Schema:   rowwise(nil, opspec.Output{Name: "output", Dims: bsh()}), ref: (*call).cumsum,
		},
	}
}
