// This file implements normalisation of runs of ordinary values; norm.go has it for single ones.

package oracle

import (
	"math"

	"gpuemu/internal/dtype"
)

// normalise fills out[at:] with normalised values, in runs where the moments are ordinary. wb gives weight and bias.
func (c *call) normalise(out *result, at int, x []float64, mean, rstd num, wb func(i int) (w, b num)) {
	inRuns := mean.clean() && rstd.clean() && (c.T == dtype.Float32 || c.T == dtype.Float64)
	var r *normRun
	if inRuns {
		r = newNormRun(c, mean, rstd)
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
			out.set(at+lo+i, c.normalised(c.input(v), mean, rstd, w, b))
		}
	}
}

// A normRun is what normalising runs of one row needs.
type normRun struct {
	*call
	buf           []float64
	mean, rstd    bulk // one value each
	x, w, b, d, s bulk
	plain, other  bulk
}

func newNormRun(c *call, mean, rstd num) *normRun {
	const n = runElems
	r := &normRun{call: c, buf: borrow(14 * n), mean: same(mean), rstd: same(rstd)}
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
	ok := r.subAll(d, x, r.mean) &&
		r.mulAll(plain, d, r.rstd) && r.mulAll(plain, plain, w) && r.addAll(plain, plain, b) &&
		r.mulAll(other, d, w) && r.mulAll(other, other, r.rstd) && r.addAll(other, other, b)
	if !ok {
		return plain, false
	}
	eitherAll(plain, other)
	ok = r.mulAll(s, r.rstd, w) && r.mulAll(other, r.mean, s) && r.subAll(other, b, other) &&
		r.mulAll(d, x, s) && r.addAll(other, d, other)
	if ok {
		eitherAll(plain, other)
	}
	return plain, ok
}

// eitherAll is either, of a and b in a.
func eitherAll(a, b bulk) {
	be, bv, ae := b.e[:len(a.v)], b.v[:len(a.v)], a.e[:len(a.v)]
	for i, v := range a.v {
		ae[i] = max(ae[i], be[i]+math.Abs(v-bv[i]))
	}
}
