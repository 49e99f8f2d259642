// This file implements the pass with full statistics over one worker's segments.

package compare

import (
	"math"
)

// measures of the worst lists.
const (
	byAbs = iota
	byRel
	byULP
	byRatio
	measures
)

// sums are the sums of one segment, kept apart until all segments are done.
type sums struct{ abs, rel, ulp sum }

// shared is written by all workers, each in the entries of its own segments.
type shared struct {
	sums  []sums
	wrong bitmap
}

// bitmap marks wrong elements by position, a slice of words per segment that is made at the segment's first one.
type bitmap [][]uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+segmentElems-1)/segmentElems) }

func (b bitmap) set(i int) {
	s := &b[i/segmentElems]
	if *s == nil {
		*s = make([]uint64, segmentElems/64)
	}
	(*s)[i%segmentElems/64] |= 1 << (i % 64)
}

func (b bitmap) has(i int) bool {
	s := b[i/segmentElems]
	return s != nil && s[i%segmentElems/64]>>(i%64)&1 != 0
}

// fullPass compares with all statistics.
type fullPass struct {
	p       *plan
	out     *shared
	buf     *buffers
	ulp     []uint64
	scratch []byte
	counts  Counts
	stats   Stats // maxima and counts
	hist    histogram
	tops    [measures]top
	class   []int // positions of the first wrong elements without a numeric error
	errors  *ErrorMap
}

func newFullPass(p *plan, out *shared) *fullPass {
	n := min(p.n, chunkElems)
	f := &fullPass{p: p, out: out, errors: newErrorMap(p.want.Shape)}
	if !p.integer {
		f.buf, f.ulp, f.scratch = newBuffers(n), make([]uint64, n), make([]byte, 8*n)
	}
	for i := range f.tops {
		f.tops[i] = newTop(p.opt.Worst)
	}
	return f
}

func (f *fullPass) segment(lo, hi int) error {
	s := &f.out.sums[lo/segmentElems]
	f.counts.Total += hi - lo
	for ; lo < hi; lo += chunkElems {
		n := min(chunkElems, hi-lo)
		var err error
		if f.p.integer {
			err = f.integerChunk(lo, n, s)
		} else {
			err = f.floatChunk(lo, n, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fullPass) floatChunk(lo, n int, s *sums) error {
	c := f.buf.load(f.p, lo, n)
	size := f.p.d.Size()
	f.p.ulps(f.ulp[:n], f.p.got[lo*size:(lo+n)*size], c.want, f.scratch)
	var sumAbs, sumRel, sumULP, maxWant float64
	accepted, relCount := 0, 0
	got, want, bound, ulp := c.got[:n], c.want[:n], c.bound[:n], f.ulp[:n]
	for i := range got {
		w := want[i]
		d := math.Abs(got[i] - w)
		wrong := false
		if !(d <= bound[i] && d <= math.MaxFloat64) || c.undetermined != nil && c.undetermined[i] {
			counted, bad, err := f.odd(&c, i)
			if err != nil {
				return err
			}
			if !counted {
				continue
			}
			wrong, d = bad, maxFloat(d)
		} else {
			accepted++
		}
		sumAbs += d
		f.hist.add(d)
		a := math.Abs(w)
		maxWant = max(maxWant, a)
		if w != 0 {
			relCount++
		}
		if d == 0 {
			continue // got equals want: all errors are 0
		}
		u := ulp[i]
		sumULP += float64(u)
		r := 0.0
		if w != 0 {
			r = maxFloat(d / a)
			sumRel += r
		}
		f.rank(d, r, u, bound[i], lo+i, wrong)
	}
	f.counts.Of[Accepted] += accepted
	f.stats.MaxWant = max(f.stats.MaxWant, maxWant)
	f.stats.RelCount += relCount
	s.abs.add(sumAbs)
	s.rel.add(sumRel)
	s.ulp.add(sumULP)
	return nil
}

// rank updates the maxima and offers an element with an error to the lists of worst elements.
func (f *fullPass) rank(d, r float64, u uint64, bound float64, at int, wrong bool) {
	f.stats.MaxAbs = max(f.stats.MaxAbs, d)
	f.stats.MaxRel = max(f.stats.MaxRel, r)
	f.stats.MaxULP = max(f.stats.MaxULP, u)
	if t := &f.tops[byAbs]; d > t.limit || wrong && d > t.limitWrong {
		t.offer(entry{d, at, wrong})
	}
	if t := &f.tops[byRel]; r > t.limit || wrong && r > t.limitWrong {
		t.offer(entry{r, at, wrong})
	}
	if t := &f.tops[byULP]; float64(u) > t.limit || wrong && float64(u) > t.limitWrong {
		t.offer(entry{float64(u), at, wrong})
	}
	// d/bound > x implies d > x*bound, and then d is not below the rounded product: divide only when it may matter.
	t := &f.tops[byRatio]
	if wrong || d >= min(t.limit, f.stats.MaxRatio)*bound {
		q := ratio(d, bound)
		f.stats.MaxRatio = max(f.stats.MaxRatio, q)
		if q > t.limit || wrong && q > t.limitWrong {
			t.offer(entry{q, at, wrong})
		}
	}
}

// ratio is d/bound, saturated, and 0 for no error whatever the bound.
func ratio(d, bound float64) float64 {
	if d == 0 {
		return 0
	}
	return maxFloat(d / bound)
}

// odd judges an element that is not simply finite and within its bound. It reports whether the element has a numeric
// error to count, and whether it is wrong.
func (f *fullPass) odd(c *chunk, i int) (counted, wrong bool, err error) {
	k, ok := f.p.judge(c.got[i], c.want[i], c.bound[i], c.undetermined != nil && c.undetermined[i])
	if !ok {
		return false, false, f.p.badBound(c.lo+i, c.bound[i])
	}
	wrong = f.p.count(&f.counts, k)
	if wrong {
		f.markWrong(c.lo+i, k)
	}
	return k == BeyondBound || k == Accepted, wrong, nil
}

// markWrong notes the place of a wrong element.
func (f *fullPass) markWrong(at int, k Kind) {
	f.out.wrong.set(at)
	f.errors.add(at)
	if k != BeyondBound && len(f.class) < f.p.opt.Worst {
		f.class = append(f.class, at)
	}
}
