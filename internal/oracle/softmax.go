// This file implements the softmax family.

package oracle

import (
	"gpuemu/internal/libm"
	"gpuemu/internal/opspec"
)

// markRow says that the contract does not decide a row of an output.
func (r *result) markRow(lo, hi int) {
	for i := lo; i < hi; i++ {
		r.mark(i)
	}
}

// rowScratch is what one goroutine needs for a row of scores.
type rowScratch struct {
	terms       []num     // for rows that are not ordinary; made when the first one comes
	buf         []float64 // what x, d and t are parts of
	x, d, t     bulk      // scores, differences from the maximum, exponentials
	top, spread bulk      // one value each
}

func newRowScratch(width int) *rowScratch {
	n := bulkLen(width)
	s := &rowScratch{buf: borrow(6 * n), top: newBulk(bulkLanes), spread: newBulk(bulkLanes)}
	part := func(i int) bulk { return bulk{v: s.buf[2*i*n : (2*i+1)*n], e: s.buf[(2*i+1)*n : (2*i+2)*n]} }
	s.x, s.d, s.t = part(0), part(1), part(2)
	return s
}

// slow returns the terms for the way of num.
func (s *rowScratch) slow(n int) []num {
	if s.terms == nil {
		s.terms = make([]num, n)
	}
	return s.terms
}

// set makes b a run of one value.
func (b bulk) set(x num) {
	for i := range b.v {
		b.v[i], b.e[i] = x.v, x.e
	}
}

// expSumAll is expSum for a row without anything special. It leaves x - max in s.d and the exponentials in s.t.
func (m *arith) expSumAll(x []float64, s *rowScratch) (top, total num, ok bool) {
	ext := extentOf(x)
	if !ext.finite || ext.least < m.flush || len(x) == 0 {
		return top, total, false
	}
	top = exact(ext.max)
	if top.v == 0 {
		top = m.maxRow(x) // the first of several zeros gives the sign
	}
	s.x.fill(x)
	s.top.set(top)
	if !m.subAll(s.d, s.x, s.top) || !m.expAll(s.t, s.d) {
		return top, total, false
	}
	m.capAll(s.t, 1)
	var all sum
	all.addPositive(s.t, len(x))
	total = all.total(m)
	total.e += m.rescaling(x, func(i int) float64 { return s.t.v[i] }, total.v)
	return top, total, total.clean()
}

// logOfSum returns log Σexp(x-top), where total is the sum with the errors it may have and t are the exponentials. The
// maximum contributes exactly 1, so the value is log1p of what the others add up to: next to a dominating element it
// keeps all digits, which a sum rounded beside 1 has lost.
func (m *arith) logOfSum(x []float64, top, total num, t []float64) num {
	return m.log(total).valued(libm.Log1p(restSum(x, top.v, t)))
}

// restSum returns Σexp(x-top) without the first maximum, of the exponentials t of the rounded differences: each is
// corrected by what its difference lacks, and the sum by what its additions lose (Knuth's TwoSum).
func restSum(x []float64, top float64, t []float64) float64 {
	sum, lost, found := 0.0, 0.0, false
	for i, v := range x {
		e := t[i]
		if v == top && !found {
			found = true
			continue
		}
		if e == 0 { // the difference may be infinite
			continue
		}
		d := v - top
		back := d - v
		e += float64(e * ((v - (d - back)) - (top + back)))
		s := sum + e
		back = s - sum
		lost += (sum - (s - back)) + (e - back)
		sum = s
	}
	return sum + lost
}

// values returns the values of terms, in dst.
func values(dst []float64, terms []num) []float64 {
	for i, t := range terms {
		dst[i] = t.v
	}
	return dst[:len(terms)]
}

// softmaxRow fills out[at:] with exp(x-m)/Σexp(x-m). The difference is formed before it is scaled by log2 e, so its
// error is relative to the difference and not to the scores.
func (c *call) softmaxRow(out *result, at int, x []float64, s *rowScratch) {
	if _, total, ok := c.expSumAll(x, s); ok {
		s.spread.set(total)
		if c.divLeastAll(s.t, s.t, s.spread, leastExpSum) {
			out.setAll(at, s.t, len(x))
			return
		}
	}
	terms := s.slow(len(x))
	_, total := c.expSum(x, terms)
	for i := range x {
		out.set(at+i, c.divLeast(terms[i], total, leastExpSum))
	}
	if openRow(x) {
		out.markRow(at, at+len(x))
	}
}

// logSoftmaxRow fills out[at:] with (x-m) - log Σexp(x-m).
func (c *call) logSoftmaxRow(out *result, at int, x []float64, s *rowScratch) {
	if top, total, ok := c.expSumAll(x, s); ok {
		if l := c.logOfSum(x, top, total, s.t.v); l.clean() {
			s.spread.set(l)
			if c.subAll(s.d, s.d, s.spread) {
				out.setAll(at, s.d, len(x))
				return
			}
		}
	}
	terms := s.slow(len(x))
	top, total := c.expSum(x, terms)
	l := c.logOfSum(x, top, total, values(s.t.v, terms))
	for i, v := range x {
		out.set(at+i, c.sub(c.sub(c.input(v), top), l))
	}
	if openRow(x) {
		out.markRow(at, at+len(x))
	}
}

func softmaxOps() []*Op {
	const contract = "row maximum subtracted before scaling by log2 e; float32 accumulation (float64 for float64) in " +
		"any order, one rounding to the output type; rows with +Inf or without a finite score undetermined"
	row := func(name, doc string, f func(c *call, out *result, at int, x []float64, s *rowScratch)) *Op {
		return &Op{
			Name: name, Family: "softmax", Doc: doc, Contract: contract,
			Schema: rowwise(nil, opspec.Output{Name: "output", Dims: bsh()}),
			ref: func(c *call) error {
				w, x, out := c.dim("H"), c.data("input"), c.out("output")
				out.Unit = w
				parallel(len(x)/w, 8*w, func(lo, hi int) {
					s := newRowScratch(w)
					for r := lo; r < hi; r++ {
						f(c, out, r*w, x[r*w:(r+1)*w], s)
					}
					giveBack(s.buf)
				})
				return nil
			},
			setsAll: true,
		}
	}
	return []*Op{
		row("softmax", "exp(x - m) / sum(exp(x - m)), m the row maximum", (*call).softmaxRow),
		row("log_softmax", "(x - m) - log(sum(exp(x - m))), m the row maximum", (*call).logSoftmaxRow),
	}
}
