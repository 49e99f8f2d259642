package bigref

// This file implements the reductions over the last axis.

import (
	"math"
	"math/big"
)

// numbers converts a slice.
func numbers(xs []float64) []*big.Float {
	out := make([]*big.Float, len(xs))
	for i, x := range xs {
		out[i] = num(x)
	}
	return out
}

// totalOf adds up.
func (t *task) totalOf(xs []*big.Float) *total {
	sum := t.total()
	for _, x := range xs {
		t.accumulate(sum, x)
	}
	return sum
}

func (t *task) sum() {
	out := t.summed("output")
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		sum := t.totalOf(numbers(in.X[r*length : (r+1)*length]))
		out.Big[r], out.Scale[r] = sum.value, sum.scale
	}
}

func (t *task) mean() {
	out := t.summed("output")
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		sum := t.totalOf(numbers(in.X[r*length : (r+1)*length]))
		out.Big[r], out.Scale[r] = t.quo(sum.value, integer(length)), t.quo(sum.scale, integer(length))
	}
}

func (t *task) maximum() {
	out := t.selected("output")
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		row := in.X[r*length : (r+1)*length]
		out.F[r] = row[greatest(row)]
	}
}

func (t *task) argmax() {
	out := t.selected("output")
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		out.F[r] = float64(greatest(in.X[r*length : (r+1)*length]))
	}
}

// greatest returns the first index of the greatest element; NaN is greater than all numbers.
func greatest(xs []float64) int {
	best := 0
	for i, x := range xs {
		if x > xs[best] || math.IsNaN(x) && !math.IsNaN(xs[best]) {
			best = i
		}
	}
	return best
}

// moments returns the mean of xs and the sum of the squared distances from it.
func (t *task) moments(xs []*big.Float) (mean, squares *big.Float) {
	mean = t.quo(t.totalOf(xs).value, integer(len(xs)))
	squares = zero()
	for _, x := range xs {
		d := t.sub(x, mean)
		squares = t.add(squares, t.mul(d, d))
	}
	return mean, squares
}

func (t *task) variance() {
	out := t.exact("output")
	in := t.in["input"]
	n, length := rows(in.Shape)
	divisor := length - t.attrs.Int("correction")
	for r := range n {
		_, squares := t.moments(numbers(in.X[r*length : (r+1)*length]))
		if divisor <= 0 {
			out.F[r] = math.NaN()
			continue
		}
		out.Big[r] = t.quo(squares, integer(divisor))
	}
}

// exponentials returns the maximum m of a row of at least one element, exp(x - m) of each and their sum.
func (t *task) exponentials(xs []*big.Float) (m *big.Float, es []*big.Float, sum *big.Float) {
	m = xs[0]
	for _, x := range xs {
		m = larger(m, x)
	}
	es = make([]*big.Float, len(xs))
	sum = zero()
	for i, x := range xs {
		es[i] = t.exp(t.sub(x, m))
		sum = t.add(sum, es[i])
	}
	return m, es, sum
}

// logOfSum returns log Σexp(x - m) as log1p of the sum without the first maximum: next to a dominating element the sum
// itself would have to carry more digits than any precision has.
func (t *task) logOfSum(xs []*big.Float) (m, log *big.Float) {
	m, es, _ := t.exponentials(xs)
	rest, found := zero(), false
	for i, x := range xs {
		if !found && x.Cmp(m) == 0 {
			found = true
			continue
		}
		rest = t.add(rest, es[i])
	}
	return m, t.log1p(rest)
}

func (t *task) logSumExp() {
	out := t.summed("output")
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		m, log := t.logOfSum(numbers(in.X[r*length : (r+1)*length]))
		both := t.total()
		t.accumulate(both, m)
		t.accumulate(both, log)
		out.Big[r], out.Scale[r] = both.value, both.scale
	}
}

func (t *task) cumulativeSum() {
	out := t.summed("output")
	in := t.in["input"]
	n, length := rows(in.Shape)
	for r := range n {
		sum := t.total()
		for i := range length {
			t.accumulate(sum, num(in.X[r*length+i]))
			out.Big[r*length+i], out.Scale[r*length+i] = sum.value, sum.scale
		}
	}
}
