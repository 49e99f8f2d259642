// This file implements operations on runs of ordinary nums, many at a time.

package oracle

import (
	"math"
	"sync"

	"gpuemu/internal/libm"
)

// A bulk is a run of nums whose w is empty: values and errors. Runs are whole groups of bulkLanes; a run of one group
// stands for the same value everywhere.
//
// The operations give exactly what the operations of num give, or report false: then some result is not ordinary (not
// finite, near overflow, of a wide interval), dst holds nothing, and the caller takes the way of num for the whole run.
// They may be more careful than need be; a wrong false costs time, nothing else.
type bulk struct {
	v, e []float64
}

// bulkLanes is how many elements the assembly takes at a time.
const bulkLanes = 4

// bulkLen is the length of a run for n elements.
func bulkLen(n int) int { return (n + bulkLanes - 1) &^ (bulkLanes - 1) }

func newBulk(n int) bulk {
	n = bulkLen(n)
	buf := make([]float64, 2*n)
	return bulk{v: buf[:n:n], e: buf[n:]}
}

// fill sets the run to exact values; what is left of the last group repeats the last one.
func (b bulk) fill(x []float64) {
	n := copy(b.v, x)
	for ; n < len(b.v); n++ {
		b.v[n] = x[len(x)-1]
	}
	clear(b.e)
}

func (b bulk) at(i int) num {
	if len(b.v) == bulkLanes {
		i %= bulkLanes
	}
	return num{v: b.v[i], e: b.e[i]}
}

// put stores x and reports whether it is ordinary.
func (b bulk) put(i int, x num) bool {
	b.v[i], b.e[i] = x.v, x.e
	return x.clean()
}

// addAll is add.
func (m *arith) addAll(dst, a, b bulk) bool {
	if ok, done := m.addFast(dst, a, b, 0); done {
		return ok
	}
	for i := range dst.v {
		if !dst.put(i, m.add(a.at(i), b.at(i))) {
			return false
		}
	}
	return true
}

// subAll is sub.
func (m *arith) subAll(dst, a, b bulk) bool {
	if ok, done := m.addFast(dst, a, b, 1<<63); done {
		return ok
	}
	for i := range dst.v {
		if !dst.put(i, m.sub(a.at(i), b.at(i))) {
			return false
		}
	}
	return true
}

// mulAll is mul.
func (m *arith) mulAll(dst, a, b bulk) bool {
	if ok, done := m.mulFast(dst, a, b); done {
		return ok
	}
	for i := range dst.v {
		if !dst.put(i, m.mul(a.at(i), b.at(i))) {
			return false
		}
	}
	return true
}

// divLeastAll is divLeast.
func (m *arith) divLeastAll(dst, a, b bulk, least float64) bool {
	if ok, done := m.divFast(dst, a, b, least); done {
		return ok
	}
	for i := range dst.v {
		if !dst.put(i, m.divLeast(a.at(i), b.at(i), least)) {
			return false
		}
	}
	return true
}

// expAll is exp. dst is not a.
func (m *arith) expAll(dst, a bulk) bool {
	libm.ExpSlice(dst.v, a.v)
	if ok, done := m.expFast(dst, a); done {
		return ok
	}
	for i := range dst.v {
		if !dst.put(i, m.exp(a.at(i))) {
			return false
		}
	}
	return true
}

// capAll is capped, in place.
func (m *arith) capAll(a bulk, top float64) {
	if capFast(a, top) {
		return
	}
	for i := range a.v {
		a.put(i, capped(a.at(i), top))
	}
}

// addPositive adds n terms that are ordinary and not negative, as add does one by one.
func (s *sum) addPositive(t bulk, n int) {
	v, e, pos, neg, peak := s.v, s.e, s.pos, s.neg, s.peak
	ts, es := t.v[:n], t.e[:n]
	s.variety.seeAll(s.n, ts)
	for i, x := range ts {
		d := es[i]
		v += x
		e += d
		pos += x + d
		neg += d
		if x+d > peak {
			peak = x + d
		}
	}
	s.n += n
	s.v, s.e, s.pos, s.neg, s.peak = v, e, pos, neg, peak
}

// setAll stores ordinary elements from at on.
func (r *result) setAll(at int, x bulk, n int) {
	copy(r.Value[at:at+n], x.v)
	bound := r.Bound[at : at+n]
	copy(bound, x.e)
	if r.rounds {
		most := r.DType.MaxFinite()
		for i, e := range bound {
			bound[i] = e + r.DType.HalfULP(min(abs(x.v[i])+e, most))
		}
	}
}

// extent is what one look at the elements of a slice tells.
type extent struct {
	min, max float64 // of the elements that are not NaN
	least    float64 // magnitude of those that are not zero; +Inf: none
	finite   bool    // all of them
}

// largest returns the largest magnitude, NaN left out; 0 for no elements.
func (x extent) largest() float64 { return math.Max(0, math.Max(x.max, -x.min)) }

// extentOfAll is extentOf with several goroutines.
func extentOfAll(x []float64) extent {
	all := extent{min: math.Inf(1), max: math.Inf(-1), least: math.Inf(1), finite: true}
	var lock sync.Mutex
	parallel(len(x), 1, func(lo, hi int) {
		part := extentOf(x[lo:hi])
		lock.Lock()
		defer lock.Unlock()
		all.min, all.max = math.Min(all.min, part.min), math.Max(all.max, part.max)
		all.least, all.finite = math.Min(all.least, part.least), all.finite && part.finite
	})
	return all
}

func extentOf(x []float64) extent {
	r := extent{min: math.Inf(1), max: math.Inf(-1), least: math.Inf(1), finite: true}
	for _, v := range x[extentFast(x, &r):] {
		r.finite = r.finite && v-v == 0
		if v < r.min {
			r.min = v
		}
		if v > r.max {
			r.max = v
		}
		if a := abs(v); a != 0 && a < r.least {
			r.least = a
		}
	}
	return r
}
