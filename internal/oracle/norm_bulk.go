// This file implements normalisation of runs of ordinary values; norm.go has it for single ones.

package oracle

import (
	"math"

	"gpuemu/internal/dtype"
)

// normalise fills out[at:] with normalised values, in runs where the moments are ordinary. wb gives weight and bias.
func (c *call) normalise(out *result, at int, x []float64, by moments, wb func(i int) (w, b num)) {
	inRuns := by.mean.clean() && by.rstd.clean() && (c.T == dtype.Float32 || c.T == dtype.Float64)
	var r *normRun
	if inRuns {
		r = newNormRun(c, by)
		defer giveBack(r.buf)
	}
	for lo := 0; lo < len(x); lo += runElems {
		part := x[lo:min(lo+runElems, len(x))]
		if inRuns {
			if y, ok := r.of(part, lo, wb); ok {
				out.setAll(at+lo, y, len(part))
				continue
			}
		}
		for i, v := range part {
			w, b := wb(lo + i)
			out.set(at+lo+i, c.normalised(c.input(v), by.mean, by.low, by.rstd, w, b))
		}
	}
}

// A normRun is what normalising runs of one row needs.
type normRun struct {
	*call
	buf           []float64
	mean, rstd    bulk // one value each
	low           float64
	x, w, b, d, s bulk
	plain, other  bulk
}

func newNormRun(c *call, by moments) *normRun {
	const n = runElems
	r := &normRun{call: c, buf: borrow(14 * n), mean: same(by.mean), rstd: same(by.rstd), low: by.low}
	for i, part := range []*bulk{&r.x, &r.w, &r.b, &r.d, &r.s, &r.plain, &r.other} {
		*part = bulk{v: r.buf[2*i*n : (2*i+1)*n], e: r.buf[(2*i+1)*n : (2*i+2)*n]}
	}
	return r
}

// of is normalised, for elements from lo on of a row, without the rounding of narrow types in between.
func (r *normRun) of(part []float64, lo int, wb func(i int) (w, b num)) (bulk, bool) {
	n := len(part)
	x, w, b, d, s, plain, other := r.x.of(n), r.w.of(n), r.b.of(n), r.d.of(n), r.s.of(n), r.plain.of(n), r.other.of(n)
	for i := range x.v {
		j := min(i, n-1) // what is left of the last group repeats the last element
		in := r.input(part[j])
		wj, bj := wb(lo + j)
		x.v[i], x.e[i], w.v[i], w.e[i], b.v[i], b.e[i] = in.v, in.e, wj.v, wj.e, bj.v, bj.e
	}
	if !r.subAll(d, x, r.mean) {
		return plain, false
	}
	for i := range d.v {
		d.v[i] -= r.low
	}
	ok := r.mulAll(plain, d, r.rstd) && r.mulAll(plain, plain, w) && r.addAll(plain, plain, b) &&
		r.mulAll(other, d, w) && r.mulAll(other, other, r.rstd) && r.addAll(other, other, b)
	if !ok {
		return plain, false
	}
	eitherAll(plain, other)
	if !r.mulAll(s, r.rstd, w) {
		return plain, false
	}
	mean := r.mean.at(0)
	for i, y := range plain.v {
		e := r.foldedError(y, x.at(i), mean, s.at(i), b.at(i))
		if !(e < noBound) {
			return plain, false
		}
		plain.e[i] = math.Max(plain.e[i], e)
	}
	return plain, true
}

// eitherAll is either, of a and b in a.
func eitherAll(a, b bulk) {
	be, bv, ae := b.e[:len(a.v)], b.v[:len(a.v)], a.e[:len(a.v)]
	for i, v := range a.v {
		ae[i] = max(ae[i], be[i]+math.Abs(v-bv[i]))
	}
}
