package bigref

// This file implements softmax, its logarithm and the cross entropy.

import (
	"math"
	"math/big"
)

func (t *task) softmax() {
	out := t.exact("output")
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		_, es, sum := t.exponentials(numbers(in.X[r*length : (r+1)*length]))
		for i, e := range es {
			out.Big[r*length+i] = t.quo(e, sum)
		}
	}
}

func (t *task) logSoftmax() {
	out := t.summed("output")
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		xs := numbers(in.X[r*length : (r+1)*length])
		m, log := t.logOfSum(xs)
		for i, x := range xs {
			both := t.total()
			t.accumulate(both, t.sub(x, m))
			t.accumulate(both, neg(log))
			out.Big[r*length+i], out.Scale[r*length+i] = both.value, both.scale
		}
	}
}

// crossEntropy is (1-ε)(lse - x[target]) + ε(lse - mean x), and 0 for ignored rows; lse - x is log Σ + (m - x), which
// does not cancel. Reduced, it is the sum of all rows, or that over the number of rows that are not ignored.
func (t *task) crossEntropy() {
	out := t.summed("output")
	losses := out
	n, _ := rows(t.in["logits"].Shape)
	if len(out.Big) != n || t.attrs.Str("reduction") != "none" {
		losses = &Result{Big: make([]*big.Float, n), Scale: make([]*big.Float, n)}
	}
	count := t.lossRows(losses)
	if losses == out {
		return
	}
	sum, scale := t.totalOf(losses.Big), t.totalOf(losses.Scale)
	out.Big[0], out.Scale[0] = sum.value, scale.value
	if t.attrs.Str("reduction") == "mean" {
		if count == 0 {
			out.Big[0], out.F[0] = nil, math.NaN()
			return
		}
		out.Big[0], out.Scale[0] = t.quo(sum.value, integer(count)), t.quo(scale.value, integer(count))
	}
}

// lossRows computes the loss of each row and counts those that are not ignored.
func (t *task) lossRows(out *Result) (count int) {
	in, target := t.in["logits"], t.in["target"].X
	n, length := rows(in.Shape)
	smoothing := num(t.attrs.Float("label_smoothing"))
	for r := range n {
		if int(target[r]) == t.attrs.Int("ignore_index") {
			out.Big[r], out.Scale[r] = zero(), zero()
			continue
		}
		count++
		xs := numbers(in.X[r*length : (r+1)*length])
		m, log := t.logOfSum(xs)
		picked := t.add(log, t.sub(m, xs[int(target[r])]))
		mean := t.quo(t.totalOf(xs).value, integer(length))
		spread := t.add(log, t.sub(m, mean))
		out.Big[r] = t.add(t.mul(t.sub(one(), smoothing), picked), t.mul(smoothing, spread))
		out.Scale[r] = t.magnitudes(m, log, xs[int(target[r])], mean)
	}
	return count
}

// magnitudes adds up |x|.
func (t *task) magnitudes(xs ...*big.Float) *big.Float { return t.totalOf(xs).scale }
