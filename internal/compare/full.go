// This file implements the pass with full statistics over one worker's segments.

package compare

import (
	"math"
	"math/bits"
	"slices"
	"sync"

	"gpuemu/internal/dtype"
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
	work    *workspace // diff, ulp and the histogram's memory are of it; nil: none
	diff    []float64  // errors of a chunk, 0 for odd elements
	odd     [chunkElems / 64]uint64
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
		w, _ := workspaces.Get().(*workspace)
		f.buf, f.diff, f.ulp, f.hist.counts = newBuffers(n), w.diff[:n], w.ulp[:n], w.counts[:0]
		f.work, f.hist.page = w, &w.page
		if p.d != dtype.Float32 && p.d != dtype.Float64 {
			f.scratch = make([]byte, 8*n)
		}
	} else {
		f.hist.page = new(pageTable)
	}
	for i := range f.tops {
		f.tops[i] = newTop(p.opt.Worst)
	}
	return f
}

// workspace is memory of a pass that no report keeps. A small comparison would take longer to get and clear it than to
// look at its elements.
type workspace struct {
	diff   [chunkElems]float64
	ulp    [chunkElems]uint64
	page   pageTable
	counts []uint32 // pages of a histogram, not cleared
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// release gives the memory back. Nothing of the pass but its results may be used any more.
func (f *fullPass) release() {
	if f.work != nil {
		f.work.counts = f.hist.counts
		clear(f.work.page[f.hist.spread[0]:f.hist.spread[1]])
		workspaces.Put(f.work)
		f.work, f.diff, f.ulp, f.hist.counts, f.hist.page = nil, nil, nil, nil, nil
	}
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

// floatChunk takes a chunk in four steps: a sweep over all elements, which sets aside those that are not simply finite
// and within their bound; the histogram; a look at single elements when one may enter a list; and the odd ones.
func (f *fullPass) floatChunk(lo, n int, s *sums) error {
	c := chunk{lo: lo}
	size := f.p.d.Size()
	got := f.p.got[lo*size : (lo+n)*size]
	odd := f.odd[:(n+63)/64]
	var st sweepState
	if f.p.d == dtype.Float32 && f.p.marks(lo, n) == nil {
		f.buf.loadExpected(f.p, &c, n)
		sweep32(got, c.want, c.bound, f.diff[:n], &st, odd)
	} else {
		c = f.buf.load(f.p, lo, n)
		sweep64(c.got, c.want, c.bound, c.undetermined, f.diff[:n], &st, odd)
		f.sweepULP(got, &c, &st, odd)
	}
	accepted := n - ones(odd)
	f.hist.addAll(f.diff[:n])
	f.hist.forgetZeros(n - accepted) // the sweep leaves 0 for odd elements
	f.counts.Of[Accepted] += accepted
	f.stats.MaxWant = max(f.stats.MaxWant, slices.Max(st.maxWant[:]))
	f.stats.RelCount += int(fold(st.relCount))
	s.abs.add(fold(st.sumAbs))
	s.rel.add(fold(st.sumRel))
	s.ulp.add(float64(fold(st.sumULP)))
	s.ulp.add(float64(0x1p64 * float64(st.carryULP)))
	f.rankAll(&c, got, &st)
	if accepted < n {
		return f.judgeOdd(&c, got, odd, s)
	}
	return nil
}

// fold adds up the lanes of a sweep, in an order that the assembly and the Go code share.
func fold[T float64 | uint64](x [8]T) T {
	return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
}

func ones(words []uint64) int {
	n := 0
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return n
}

// rankAll enters the maxima of a sweep, and looks for the elements that enter a list where a maximum says that there
// are some.
func (f *fullPass) rankAll(c *chunk, got []byte, st *sweepState) {
	maxAbs, maxRel := slices.Max(st.maxAbs[:]), slices.Max(st.maxRel[:])
	maxRatio, maxULP := slices.Max(st.maxRatio[:]), max(st.maxULP, uint64(slices.Max(st.maxULP32[:])))
	f.stats.merge(&Stats{MaxAbs: maxAbs, MaxRel: maxRel, MaxRatio: maxRatio, MaxULP: maxULP})
	if f.p.opt.WrongOnly {
		return // a sweep accepts what it counts
	}
	diff := f.diff[:len(c.want)] // 0 for odd elements, which cannot enter so
	if t := &f.tops[byAbs]; maxAbs > t.limit {
		for i, d := range diff {
			if d > t.limit {
				t.offer(entry{d, c.lo + i, false})
			}
		}
	}
	if t := &f.tops[byRel]; maxRel > t.limit {
		t.offerQuotients(diff, c.want, c.lo, func(d, want float64) float64 {
			_, r, _ := errorsOf(d, want, 1)
			return r
		})
	}
	if t := &f.tops[byRatio]; maxRatio > t.limit {
		t.offerQuotients(diff, c.bound, c.lo, ratio)
	}
	if t := &f.tops[byULP]; float64(maxULP) > t.limit {
		ulp := f.ulp[:len(diff)]
		f.p.ulps(ulp, got, c.want, f.scratch)
		for i, d := range diff {
			if u := float64(ulp[i]); u > t.limit && d > 0 {
				t.offer(entry{u, c.lo + i, false})
			}
		}
	}
}

// judgeOdd judges the elements that the sweep set aside.
func (f *fullPass) judgeOdd(c *chunk, got []byte, odd []uint64, s *sums) error {
	size := f.p.d.Size()
	var sumAbs, sumRel, sumULP float64
	for k, word := range odd {
		for ; word != 0; word &= word - 1 {
			i := 64*k + bits.TrailingZeros64(word)
			raw := got[i*size : (i+1)*size]
			g, w, b := f.p.d.Float64(f.p.d.Load(raw)), c.want[i], c.bound[i]
			kind, ok := f.p.judge(g, w, b, c.undetermined != nil && c.undetermined[i])
			if !ok {
				return f.p.badBound(c.lo+i, b)
			}
			wrong := f.p.count(&f.counts, kind)
			if wrong {
				f.markWrong(c.lo+i, kind)
			}
			if kind != BeyondBound && kind != Accepted {
				continue
			}
			d, r, _ := errorsOf(g-w, w, b)
			u := f.ulp[:1]
			f.p.ulps(u, raw, c.want[i:i+1], f.scratch)
			f.hist.add(d)
			sumAbs += d
			sumRel += r
			sumULP += float64(u[0])
			f.stats.MaxWant = max(f.stats.MaxWant, math.Abs(w))
			if w != 0 {
				f.stats.RelCount++
			}
			f.rank(d, r, u[0], b, c.lo+i, wrong)
		}
	}
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
	q := ratio(d, bound)
	f.stats.MaxRatio = max(f.stats.MaxRatio, q)
	if !wrong && f.p.opt.WrongOnly {
		return
	}
	if t := &f.tops[byAbs]; d > t.limit || wrong && d > t.limitWrong {
		t.offer(entry{d, at, wrong})
	}
	if t := &f.tops[byRel]; r > t.limit || wrong && r > t.limitWrong {
		t.offer(entry{r, at, wrong})
	}
	if t := &f.tops[byULP]; float64(u) > t.limit || wrong && float64(u) > t.limitWrong {
		t.offer(entry{float64(u), at, wrong})
	}
	if t := &f.tops[byRatio]; q > t.limit || wrong && q > t.limitWrong {
		t.offer(entry{q, at, wrong})
	}
}

// ratio is d/bound, saturated, and 0 for no error whatever the bound.
func ratio(d, bound float64) float64 {
	if d == 0 {
		return 0
	}
	return maxFloat(d / bound)
}

// markWrong notes the place of a wrong element.
func (f *fullPass) markWrong(at int, k Kind) {
	f.out.wrong.set(at)
	f.errors.add(at)
	if k != BeyondBound && len(f.class) < f.p.opt.Worst {
		f.class = append(f.class, at)
	}
}
