// This file implements activations of runs of ordinary values; activation.go has them for single ones.

package oracle

import (
	"math"

	"gpuemu/internal/libm"
)

// runElems is how many elements are taken at a time: a run and its intermediates stay in the first-level cache.
const runElems = 256

// A run is what one goroutine needs for an activation of runElems elements: the inputs and intermediates.
type run struct {
	*call
	buf  []float64
	x    bulk
	tmp  [3]bulk
	near []float64
}

func newRun(c *call) *run {
	const n = runElems
	r := &run{call: c, buf: borrow(9 * n)}
	part := func(i int) bulk { return bulk{v: r.buf[2*i*n : (2*i+1)*n], e: r.buf[(2*i+1)*n : (2*i+2)*n]} }
	r.x, r.tmp = part(0), [3]bulk{part(1), part(2), part(3)}
	r.near = r.buf[8*n:]
	return r
}

// of returns the first groups of a run, for n elements.
func (b bulk) of(n int) bulk { return bulk{v: b.v[:bulkLen(n)], e: b.e[:bulkLen(n)]} }

// same returns a run of one value.
func same(x num) bulk {
	return bulk{v: []float64{x.v, x.v, x.v, x.v}, e: []float64{x.e, x.e, x.e, x.e}}
}

// unaryAll is unary with a way for runs without NaN, infinities and subnormals. all returns the result, or false where
// the run has to go the way of f.
func unaryAll(f func(c *call, x num) num, all func(r *run, x bulk) (bulk, bool)) func(c *call) error {
	return func(c *call) error {
		x, out := c.data("input"), c.out("output")
		parallel(len(x), 32, func(lo, hi int) {
			r := newRun(c)
			for ; lo < hi; lo += runElems {
				part := x[lo:min(lo+runElems, hi)]
				if ext := extentOf(part); ext.finite && ext.least >= c.flush {
					in := r.x.of(len(part))
					in.fill(part)
					if y, ok := all(r, in); ok {
						out.setAll(lo, y, len(part))
						continue
					}
				}
				for i, v := range part {
					out.set(lo+i, f(c, c.input(v)))
				}
			}
			giveBack(r.buf)
		})
		return nil
	}
}

// sigmoidAll is sigmoid, but for arguments that take its other form.
func (r *run) sigmoidAll(x bulk) (bulk, bool) {
	a, b := r.tmp[0].of(len(x.v)), r.tmp[1].of(len(x.v))
	for i, v := range x.v {
		if v < -40 {
			return a, false
		}
		a.v[i] = -v
	}
	copy(a.e, x.e)
	one := same(exact(1))
	ok := r.expAll(b, a) && r.addAll(b, one, b) && r.divLeastAll(b, one, b, 0)
	return b, ok
}

// siluAll is silu.
func (r *run) siluAll(x bulk) (bulk, bool) {
	s, ok := r.sigmoidAll(x)
	return s, ok && r.mulAll(s, x, s)
}

// geluTanhAll is geluTanh.
func (r *run) geluTanhAll(x bulk) (bulk, bool) {
	a, b := r.tmp[0].of(len(x.v)), r.tmp[1].of(len(x.v))
	ok := r.mulAll(a, x, x) && r.mulAll(a, a, x) && r.mulAll(a, a, same(r.constant(0.044715))) &&
		r.addAll(a, x, a) && r.mulAll(a, a, same(r.constant(sqrt2OverPi))) && r.tanhAll(b, a) &&
		r.mulAll(a, same(exact(0.5)), x) && r.addAll(b, same(exact(1)), b) && r.mulAll(b, a, b)
	if !ok {
		return b, false
	}
	for i, n := range x.v {
		v := libm.GeluTanh(n)
		b.e[i] += math.Abs(v - b.v[i])
		b.v[i] = v
	}
	return b, true
}

// tanhAll is tanh. dst is not a.
func (r *run) tanhAll(dst, a bulk) bool {
	near := r.near[:len(a.v)]
	for i, v := range a.v {
		near[i] = math.Max(0, math.Abs(v)-a.e[i])
	}
	libm.TanhSlice(dst.v, a.v)
	libm.TanhSlice(near, near)
	for i, n := range near {
		slope := min(1, (1-float64(n*n))+4*ownFunc)
		e := min(float64(a.e[i]*slope), 2-n)
		if n > 0 {
			e = min(e, 1-n+2*ownFunc)
		}
		if !dst.put(i, r.rounded(dst.v[i], e+r.tanhAbs, r.tanhRel)) {
			return false
		}
	}
	return true
}
