// This file implements losses.

package oracle

import (
	"math"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
)

// A rowLoss is the loss of one row: that of the target, and with smoothing the mean over all classes of the same.
type rowLoss struct {
	target, smooth num
	open           bool // the contract does not decide
}

// crossEntropyRow returns the loss of one row: lse - x[t], formed from lse = m + log Σ or from log Σ and x[t] - m;
// log-probabilities may have been rounded to the type of the case before their mean is taken.
func (c *call) crossEntropyRow(x []float64, target int, terms []num) rowLoss {
	top, total := c.expSum(x, terms)
	l := c.logOfSum(x, top, total, values(make([]float64, len(x)), terms))
	lse := c.add(top, l)
	at := c.input(x[target])
	// The value is log Σ + (m - x[t]), both terms of which are positive.
	loss := either(c.sub(lse, at), c.sub(l, c.sub(at, top))).valued(l.v + (top.v - at.v))
	if c.attrs.Float("label_smoothing") == 0 {
		return rowLoss{target: loss}
	}
	var each sum
	for _, v := range x {
		each.add(c.cast(c.sub(lse, c.input(v))))
	}
	smooth := either(c.mean(each.total(&c.arith), len(x)), c.sub(lse, c.meanRow(x))).valued(l.v + meanGap(x, top.v))
	return rowLoss{target: loss, smooth: smooth}
}

// smoothed mixes the two parts of a loss.
func (c *call) smoothed(l rowLoss) num {
	eps := c.attrs.Float("label_smoothing")
	if eps == 0 {
		return l.target
	}
	return c.add(c.cast(c.scale(c.cast(l.target), 1-eps)), c.cast(c.scale(c.cast(l.smooth), eps)))
}

// reduced returns the sum or the mean of the losses of n rows, which may have been rounded to the type of the case
// before, as PyTorch does: the mean as one division or as a division of every term. Smoothing mixes rows or totals.
func (c *call) reduced(losses []num, mean bool) num {
	var all, shares sum
	for _, l := range losses {
		l = c.cast(l)
		all.add(l)
		if mean {
			shares.add(c.div(l, exact(float64(len(losses)))))
		}
	}
	total := all.total(&c.arith)
	if !mean {
		return total
	}
	return either(c.mean(total, len(losses)), shares.total(&c.arith))
}

// crossEntropyReduced returns one loss for all rows that are not ignored. Without any, their mean is 0/0 and their sum
// is 0.
func (c *call) crossEntropyReduced(rows []rowLoss, mean bool) num {
	if len(rows) == 0 {
		if mean {
			return exact(math.NaN())
		}
		return exact(0)
	}
	mixed, target, smooth := make([]num, len(rows)), make([]num, len(rows)), make([]num, len(rows))
	for i, l := range rows {
		if l.open {
			l.target, l.smooth = anything(l.target), anything(l.smooth)
		}
		mixed[i], target[i], smooth[i] = c.smoothed(l), l.target, l.smooth
	}
	x := c.reduced(mixed, mean)
	if c.attrs.Float("label_smoothing") == 0 {
		return x
	}
	return either(x, c.smoothed(rowLoss{target: c.reduced(target, mean), smooth: c.reduced(smooth, mean)}))
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
	reduction := c.attrs.Str("reduction")
	rows := make([]rowLoss, len(targets))
	parallel(len(targets), 64*w, func(lo, hi int) {
		terms := make([]num, w)
		for r := lo; r < hi; r++ {
			if targets[r] == ignore {
				continue
			}
			row := x[r*w : (r+1)*w]
			rows[r] = c.crossEntropyRow(row, int(targets[r]), terms)
			rows[r].open = openRow(row)
		}
	})
	if reduction == "none" {
		for r, l := range rows {
			if targets[r] == ignore {
				out.setExact(r, 0)
				continue
			}
			out.set(r, c.smoothed(l))
			if l.open {
				out.mark(r)
			}
		}
		return nil
	}
	kept := rows[:0]
	for r, l := range rows {
		if targets[r] != ignore {
			kept = append(kept, l)
		}
	}
	out.set(0, c.crossEntropyReduced(kept, reduction == "mean"))
	return nil
}

// clsAny are all classes.
const clsAny = clsFinite | clsPosInf | clsNegInf | clsNaN

// anything returns a value on which the contract does not decide.
func anything(x num) num {
	x.w = clsAny &^ classOf(x.v)
	return x.unbounded()
}

func lossOps() []*Op {
	return []*Op{{
		Name: "cross_entropy", Family: "loss",
		Doc: "log(sum(exp(x))) - x[target], one loss a row; ignored rows are 0, and do not count in the mean",
		Contract: "row maximum subtracted; float32 accumulation (float64 for float64) in any order, one rounding to the " +
			"output type (with smoothing or a reduction, log-probabilities may be rounded to it first); the mean of no " +
			"rows is NaN; rows with +Inf or without a finite logit undetermined",
		Schema: &opspec.Schema{
			Dims: []opspec.Dim{
				{Name: "R", Candidates: []int{1, 3, 16, 65}, Empty: true},
				{Name: "C", Candidates: []int{1, 2, 100, 257, 1000}, Min: 1, Tile: 256, Reduced: true},
			},
			DTypes: plainFloats(),
			Attrs: []opspec.Attr{
				{Name: "ignore_index", Kind: opspec.Int, Values: []any{-100, 0}, Doc: "target whose rows have loss 0"},
				floatAttr("label_smoothing", "weight of the mean over all classes", 0.0, 0.1),
				{
					Name: "reduction", Kind: opspec.String, Values: []any{"none", "mean", "sum"}, Fixed: true,
					Doc: "none: a loss a row; mean: one number, over the rows that are not ignored; sum: one number",
				},
			},
			Inputs: []opspec.Input{
				{Name: "logits", Dims: []string{"R", "C"}},
				{
					Name: "target", Dims: []string{"R"}, DType: "int64", Role: opspec.RoleIndex,
					Domain: opspec.Domain{Below: "C"},
				},
			},
			Outputs: []opspec.Output{{Name: "output", Dims: []string{"R"}, Variants: []opspec.Variant{
				{Attr: "reduction", Value: "mean"}, {Attr: "reduction", Value: "sum"},
			}}},
		},
		ref: (*call).crossEntropy,
	}}
}
