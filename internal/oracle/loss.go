// This file implements losses.

package oracle

import (
	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
)

// crossEntropyRow returns the loss of one row: lse - x[t], formed from lse = m + log Σ or from log Σ and x[t] - m;
// smoothing mixes in the mean over all classes of the same, log-probabilities possibly rounded to the type of the case
// first.
func (c *call) crossEntropyRow(x []float64, target int, terms []num) num {
	top, total := c.expSum(x, terms)
	l := c.logOfSum(x, top, total, values(make([]float64, len(x)), terms))
	lse := c.add(top, l)
	at := c.input(x[target])
	// The value is log Σ + (m - x[t]), both terms of which are positive.
	loss := either(c.sub(lse, at), c.sub(l, c.sub(at, top))).valued(l.v + (top.v - at.v))
	eps := c.attrs.Float("label_smoothing")
	if eps == 0 {
		return loss
	}
	var each sum
	for _, v := range x {
		each.add(c.cast(c.sub(lse, c.input(v))))
	}
	smooth := either(c.mean(each.total(&c.arith), len(x)), c.sub(lse, c.meanRow(x))).valued(l.v + meanGap(x, top.v))
	return c.add(c.cast(c.scale(c.cast(loss), 1-eps)), c.cast(c.scale(c.cast(smooth), eps)))
}

// meanGap returns the mean of top - x, none of which is negative; the sum is corrected by what its additions lose.
func meanGap(x []float64, top float64) float64 {
	sum, lost := 0.0, 0.0
	for _, v := range x {
		d := top - v
		s := sum + d
		back := s - sum
		lost += (sum - (s - back)) + (d - back)
		sum = s
	}
	return (sum + lost) / float64(len(x))
}

func (c *call) crossEntropy() error {
	x, targets, out := c.data("logits"), c.data("target"), c.out("output")
	w, ignore := c.dim("C"), float64(c.attrs.Int("ignore_index"))
	for r, t := range targets {
		if t != ignore && (t < 0 || t >= float64(w)) {
			return diag.Errorf(IndexRange, "", "input \"target\" element %d is %g, outside [0, %d) and not ignore_index %g",
				r, t, w, ignore)
		}
	}
	parallel(len(targets), 64*w, func(lo, hi int) {
		terms := make([]num, w)
		for r := lo; r < hi; r++ {
			if targets[r] == ignore {
				out.setExact(r, 0)
				continue
			}
			row := x[r*w : (r+1)*w]
			out.set(r, c.crossEntropyRow(row, int(targets[r]), terms))
			if openRow(row) {
				out.mark(r)
			}
		}
	})
	return nil
}

func lossOps() []*Op {
	return []*Op{{
		Name: "cross_entropy", Family: "loss",
		Doc: "log(sum(exp(x))) - x[target], one loss a row; ignored rows are 0",
		Contract: "row maximum subtracted; float32 accumulation (float64 for float64) in any order, one rounding to the " +
			"output type (with smoothing, log-probabilities may be rounded to it first); rows with +Inf or without a " +
			"finite logit undetermined",
		Schema: &opspec.Schema{
			Dims: []opspec.Dim{
				{Name: "R", Candidates: []int{1, 3, 16, 65}, Empty: true},
				{Name: "C", Candidates: []int{1, 2, 100, 257, 1000}, Min: 1, Tile: 256, Reduced: true},
			},
			DTypes: plainFloats(),
			Attrs: []opspec.Attr{
				{Name: "ignore_index", Kind: opspec.Int, Values: []any{-100, 0}, Doc: "target whose rows have loss 0"},
				floatAttr("label_smoothing", "weight of the mean over all classes", 0.0, 0.1),
			},
			Inputs: []opspec.Input{
				{Name: "logits", Dims: []string{"R", "C"}},
				{
					Name: "target", Dims: []string{"R"}, DType: "int64", Role: opspec.RoleIndex,
					Domain: opspec.Domain{Below: "C"},
				},
			},
			Outputs: []opspec.Output{{Name: "output", Dims: []string{"R"}}},
		},
		ref: (*call).crossEntropy,
	}}
}
