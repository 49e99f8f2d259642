// This file implements the sum of exponentials, in two passes or online, and the ops made of it.

package honest

import (
	"math"
	"slices"
)

// expSum returns the maximum m of x and the sum of exp(x-m). With AltMain the maximum is a running one and the sum is
// rescaled whenever it grows. Of a row without any score above -Inf the sum is not a number.
func (m *Machine) expSum(x []float64) (top, sum float64) {
	if m.alt(AltMain) {
		return m.expSumOnline(x)
	}
	top = m.RowMax(x)
	return top, m.Sum(m.exps(x, top))
}

// exps returns exp(x-top) in scratch memory.
func (m *Machine) exps(x []float64, top float64) []float64 {
	ex := m.scratch(4, len(x))
	for i, v := range x {
		ex[i] = m.expWrong(m.Sub(v, top))
	}
	return ex
}

// expSumOnline goes element by element, or in tiles of 32 where the order is a tree.
func (m *Machine) expSumOnline(x []float64) (top, sum float64) {
	top = math.Inf(-1)
	step := 1
	if m.style.Order == Pairwise || m.style.Order == Blocked {
		step = lanes
	}
	keep, skip := m.dropped(len(x))
	full := x
	x = x[:keep]
	for i := 0; i < len(x); i += step {
		part := x[i:min(i+step, len(x))]
		if m.style.Order == Reversed {
			part = x[len(x)-1-i : len(x)-i]
		}
		if skip >= i && skip < i+step { // DropTerm: the maximum sees the term, the sum does not
			top = m.raise(top, &sum, m.RowMax(part))
			for j, v := range part {
				if i+j != skip && top > math.Inf(-1) {
					sum = m.acc(sum, m.expWrong(m.Sub(v, top)))
				}
			}
			continue
		}
		top = m.raise(top, &sum, m.RowMax(part))
		switch {
		case math.IsInf(top, -1): // nothing above -Inf yet: exp(-Inf+Inf) would be NaN
		case step == 1:
			sum = m.acc(sum, m.expWrong(m.Sub(part[0], top)))
		default:
			sum = m.acc(sum, m.sumPairs(m.exps(part, top)))
		}
	}
	if math.IsInf(top, -1) || len(full) > keep {
		top = m.raise(top, &sum, m.RowMax(full))
	}
	return top, sum
}

// raise returns the new running maximum and rescales the sum to it.
func (m *Machine) raise(top float64, sum *float64, v float64) float64 {
	t := m.Max(top, v)
	if t != top && !math.IsInf(t, -1) {
		m.inner++ // rescaling belongs to the running sum
		*sum = m.Mul(*sum, m.expWrong(m.Sub(top, t)))
		m.inner--
	}
	return t
}

// softmaxRow is exp(x-m)/sum.
func (e *eval) softmaxRow(dst, x []float64) {
	top, sum := e.expSum(x)
	for i, v := range x {
		dst[i] = e.Div(e.expWrong(e.Sub(v, top)), sum)
	}
}

// logSoftmaxRow is (x-m)-log(sum).
func (e *eval) logSoftmaxRow(dst, x []float64) {
	top, sum := e.expSum(x)
	l := e.Log(sum)
	for i, v := range x {
		dst[i] = e.Sub(e.Sub(v, top), l)
	}
}

// logSumExpRow is m+log(sum); of nothing but -Inf it is -Inf, and with AltNorm it is +Inf where the maximum is.
func (e *eval) logSumExpRow(x []float64) float64 {
	top, sum := e.expSum(x)
	if math.IsInf(top, -1) || e.alt(AltNorm) && math.IsInf(top, 1) && !slices.ContainsFunc(x, math.IsNaN) {
		return top
	}
	return e.Add(top, e.Log(sum))
}
