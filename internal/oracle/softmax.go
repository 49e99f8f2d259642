// This file implements the softmax family.

package oracle

import "gpuemu/internal/opspec"

// markRow says that the contract does not decide a row of an output.
func (r *result) markRow(lo, hi int) {
	for i := lo; i < hi; i++ {
		r.mark(i)
	}
}

// softmaxRow fills out[at:] with exp(x-m)/Σexp(x-m). The difference is formed before it is scaled by log2 e, so its
// error is relative to the difference and not to the scores.
func (c *call) softmaxRow(out *result, at int, x []float64, terms []num) {
	_, total := c.expSum(x, terms)
	for i := range x {
		out.set(at+i, c.divLeast(terms[i], total, leastExpSum))
	}
	if !hasFinite(x) {
		out.markRow(at, at+len(x))
	}
}

// logSoftmaxRow fills out[at:] with (x-m) - log Σexp(x-m).
func (c *call) logSoftmaxRow(out *result, at int, x []float64, terms []num) {
	top, total := c.expSum(x, terms)
	l := c.log(total)
	for i, v := range x {
		out.set(at+i, c.sub(c.sub(c.input(v), top), l))
	}
	if !hasFinite(x) {
		out.markRow(at, at+len(x))
	}
}

func softmaxOps() []*Op {
	const contract = "row maximum subtracted before scaling by log2 e; float32 accumulation (float64 for float64) in " +
		"any order, one rounding to the output type; rows without a finite score undetermined"
	row := func(name, doc string, f func(c *call, out *result, at int, x []float64, terms []num)) *Op {
		return &Op{
			Name: name, Family: "softmax", Doc: doc, Contract: contract,
			Schema: rowwise(nil, opspec.Output{Name: "output", Dims: bsh()}),
			ref: func(c *call) error {
				w, x, out := c.dim("H"), c.data("input"), c.out("output")
				parallel(len(x)/w, 64*w, func(lo, hi int) {
					terms := make([]num, w)
					for r := lo; r < hi; r++ {
						f(c, out, r*w, x[r*w:(r+1)*w], terms)
					}
				})
				return nil
			},
		}
	}
	return []*Op{
		row("softmax", "exp(x - m) / sum(exp(x - m)), m the row maximum", (*call).softmaxRow),
		row("log_softmax", "(x - m) - log(sum(exp(x - m))), m the row maximum", (*call).logSoftmaxRow),
	}
}
