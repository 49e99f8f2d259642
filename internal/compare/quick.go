// This file implements Quick: verdict, counts and maxima at the speed of memory.

package compare

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// Quick compares like Compare, but only for the verdict, the counts and the maxima of the statistics (MaxWant and the
// number of elements with a relative error excepted). They are those of Compare, bit for bit.
func Quick(got *tensor.Tensor, want *Want, opt Options) (*Report, error) {
	p, rep, err := newPlan(got, want, opt)
	if err != nil || rep != nil {
		return rep, err
	}
	if want.Ties != nil || p.integer {
		return p.quickByFull()
	}
	passes, err := run(p.n, opt.Workers, func() pass { return newQuickPass(p) })
	if err != nil {
		return nil, err
	}
	all := passes[0].(*quickPass)
	for _, other := range passes[1:] {
		o := other.(*quickPass)
		all.counts.add(&o.counts)
		all.stats.merge(&o.stats)
		all.fast.merge(&o.fast)
	}
	rep = p.report(all.counts)
	rep.Stats = all.total()
	return rep, nil
}

// quickByFull answers for integers and indexes, where the full pass costs little more.
func (p *plan) quickByFull() (*Report, error) {
	out := &shared{sums: make([]sums, len(newBitmap(p.n))), wrong: newBitmap(p.n)}
	var f *fullPass
	var err error
	if p.want.Ties != nil {
		f = newFullPass(p, out)
		err = f.compareTies()
	} else {
		f, err = p.full(out)
	}
	if err != nil {
		return nil, err
	}
	rep := p.report(f.counts)
	rep.Stats = f.stats
	rep.Stats.Count, rep.Stats.RelCount, rep.Stats.MaxWant = f.hist.total, 0, 0
	return rep, nil
}

// quickState holds the maxima over the elements that a kernel accepted. The assembly keeps one maximum per lane and
// knows the layout: fields, sizes and order.
type quickState struct {
	maxAbs   [4]float64
	maxRel   [4]float64
	maxRatio [4]float64
	maxULP   [8]uint32
	atol     [4]float64 // the tolerance, once per lane
	rtol     [4]float64
}

func (s *quickState) merge(o *quickState) {
	for i := range s.maxAbs {
		s.maxAbs[i] = max(s.maxAbs[i], o.maxAbs[i])
		s.maxRel[i] = max(s.maxRel[i], o.maxRel[i])
		s.maxRatio[i] = max(s.maxRatio[i], o.maxRatio[i])
	}
	for i := range s.maxULP {
		s.maxULP[i] = max(s.maxULP[i], o.maxULP[i])
	}
}

// quickPass compares one worker's segments.
//
// A kernel sees the elements of a chunk and decides the easy case alone: finite on both sides and within the bound.
// Such elements enter the maxima of fast; every other one becomes a bit in odd, and plan.judge decides.
type quickPass struct {
	p       *plan
	buf     *buffers
	ulp     []uint64
	scratch []byte
	odd     [chunkElems / 64]uint64
	fast    quickState
	counts  Counts
	stats   Stats // of the elements that came to judge
	narrow  bool  // float32 against float32 with a tolerance: no buffers are needed
}

func newQuickPass(p *plan) *quickPass {
	n := min(p.n, chunkElems)
	q := &quickPass{p: p, buf: newBuffers(n)}
	if p.d != dtype.Float32 || p.want.Undetermined != nil {
		q.ulp, q.scratch = make([]uint64, n), make([]byte, 8*n)
	}
	for i := range q.fast.atol {
		q.fast.atol[i], q.fast.rtol[i] = p.tol.Abs, p.tol.Rel
	}
	q.narrow = p.d == dtype.Float32 && p.want.Stored != nil && p.want.Stored.DType == dtype.Float32 &&
		p.regime != Bound && p.spread == nil && !p.wantULP && !p.want.Saturating
	return q
}

func (q *quickPass) segment(lo, hi int) error {
	q.counts.Total += hi - lo
	for ; lo < hi; lo += chunkElems {
		if err := q.chunk(lo, min(chunkElems, hi-lo)); err != nil {
			return err
		}
	}
	return nil
}

func (q *quickPass) chunk(lo, n int) error {
	p := q.p
	size := p.d.Size()
	got := p.got[lo*size : (lo+n)*size]
	odd := q.odd[:(n+63)/64]
	if q.narrow && p.marks(lo, n) == nil {
		quick32x32(got, p.stored[4*lo:4*(lo+n)], &q.fast, odd)
		return q.judgeNarrow(lo, n, odd)
	}
	c := chunk{lo: lo}
	if p.d == dtype.Float32 && p.marks(lo, n) == nil {
		q.buf.loadExpected(p, &c, n)
		quick32x64(got, c.want, c.bound, &q.fast, odd)
	} else {
		c = q.buf.load(p, lo, n)
		quick64(c.got, c.want, c.bound, c.undetermined, &q.fast, odd)
		q.maxULP(got, &c, odd)
	}
	accepted := n
	for k, word := range odd {
		accepted -= bits.OnesCount64(word)
		for ; word != 0; word &= word - 1 {
			i := 64*k + bits.TrailingZeros64(word)
			marked := c.undetermined != nil && c.undetermined[i]
			if err := q.judge(lo+i, c.want[i], c.bound[i], marked); err != nil {
				return err
			}
		}
	}
	q.accept(accepted)
	return nil
}

// judgeNarrow judges the odd elements of a chunk of two float32 buffers.
func (q *quickPass) judgeNarrow(lo, n int, odd []uint64) error {
	accepted := n
	for k, word := range odd {
		accepted -= bits.OnesCount64(word)
		for ; word != 0; word &= word - 1 {
			i := lo + 64*k + bits.TrailingZeros64(word)
			w := float64(math.Float32frombits(binary.LittleEndian.Uint32(q.p.stored[4*i:])))
			if err := q.judge(i, w, q.p.tol.At(w), false); err != nil {
				return err
			}
		}
	}
	q.accept(accepted)
	return nil
}

func (q *quickPass) accept(n int) {
	q.counts.Of[Accepted] += n
	q.stats.Count += n
}

// judge decides one element and enters it into the maxima.
func (q *quickPass) judge(at int, want, bound float64, marked bool) error {
	p := q.p
	size := p.d.Size()
	raw := p.got[at*size : (at+1)*size]
	got := p.d.Float64(p.d.Load(raw))
	k, ok := p.judge(got, want, bound, marked)
	if !ok {
		return p.badBound(at, bound)
	}
	p.count(&q.counts, k)
	if k != Accepted && k != BeyondBound {
		return nil
	}
	d, r, ratio := errorsOf(got-want, want, bound)
	var u [1]uint64
	var scratch [8]byte
	p.ulps(u[:], raw, []float64{want}, scratch[:])
	q.stats.merge(&Stats{Count: 1, MaxAbs: d, MaxRel: r, MaxULP: u[0], MaxRatio: ratio})
	return nil
}

// maxULP enters the ULP distances of the elements that the kernel accepted, for dtypes other than float32.
func (q *quickPass) maxULP(got []byte, c *chunk, odd []uint64) {
	ulp := q.ulp[:len(c.want)]
	q.p.ulps(ulp, got, c.want, q.scratch)
	for k, word := range odd {
		for ; word != 0; word &= word - 1 {
			ulp[64*k+bits.TrailingZeros64(word)] = 0
		}
	}
	q.stats.MaxULP = max(q.stats.MaxULP, slices.Max(ulp))
}

// total joins the maxima of the kernels with those of the judged elements.
func (q *quickPass) total() Stats {
	s := q.stats
	f := &q.fast
	s.MaxAbs = max(s.MaxAbs, slices.Max(f.maxAbs[:]))
	s.MaxRel = max(s.MaxRel, slices.Max(f.maxRel[:]))
	s.MaxRatio = max(s.MaxRatio, slices.Max(f.maxRatio[:]))
	s.MaxULP = max(s.MaxULP, uint64(slices.Max(f.maxULP[:])))
	return s
}
