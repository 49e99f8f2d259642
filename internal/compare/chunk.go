// This file implements the reading of one chunk of elements as float64, and the distribution of chunks over workers.

package compare

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"gpuemu/internal/dtype"
)

const (
	// chunkElems is how many elements are widened at a time: three float64 buffers of it fit a second-level cache.
	// It is a multiple of 64, so that a chunk starts at a word of the mismatch bitmap.
	chunkElems = 2048
	// segmentElems is the unit of work of one worker. Sums are formed per segment and joined in the order of the
	// segments, so that they do not depend on who computed which.
	segmentElems = 64 * chunkElems
)

// chunk is a run of elements as float64.
type chunk struct {
	lo           int // position of the first element
	got          []float64
	want         []float64 // what is expected: clamped to the range of the dtype where the conversion saturates
	bound        []float64
	undetermined []bool // nil: none in this chunk
}

// buffers hold the parts of a chunk that have to be computed; the others alias the caller's arrays. Each is made when
// it is first needed: a small comparison would spend more time on clearing them than on its elements.
type buffers struct {
	most             int // elements of a chunk
	got, want, bound []float64
}

func newBuffers(n int) *buffers { return &buffers{most: min(n, chunkElems)} }

// use returns the first n elements of one of the buffers.
func (b *buffers) use(buf *[]float64, n int) []float64 {
	if *buf == nil {
		*buf = make([]float64, b.most)
	}
	return (*buf)[:n]
}

// load reads n elements from position lo.
func (b *buffers) load(p *plan, lo, n int) chunk {
	c := chunk{lo: lo, got: b.use(&b.got, n)}
	size := p.d.Size()
	dtype.Decode(c.got, p.d, p.got[lo*size:(lo+n)*size])
	b.loadExpected(p, &c, n)
	c.undetermined = p.marks(lo, n)
	return c
}

// loadExpected reads what is wanted and the bounds.
func (b *buffers) loadExpected(p *plan, c *chunk, n int) {
	c.want = b.loadWant(p, c.lo, n)
	if !p.want.Saturating {
		c.bound = b.loadBound(p, c.want, c.lo, n)
		return
	}
	inf := make([]int, 0, 8)
	for i, w := range c.want {
		if math.IsInf(w, 0) {
			inf = append(inf, i)
		}
	}
	c.want = b.saturate(p, c.want)
	c.bound = b.loadBound(p, c.want, c.lo, n)
	if len(inf) > 0 {
		own := b.use(&b.bound, n)
		copy(own, c.bound)
		c.bound = own
		for _, i := range inf {
			c.bound[i] = 0 // an infinity becomes the largest finite value exactly
		}
	}
}

func (b *buffers) loadWant(p *plan, lo, n int) []float64 {
	if p.want.Value != nil {
		return p.want.Value[lo : lo+n]
	}
	t := p.want.Stored
	if t == nil {
		t = p.want.Exact
	}
	size := t.DType.Size()
	out := b.use(&b.want, n)
	dtype.Decode(out, t.DType, p.stored[lo*size:(lo+n)*size])
	return out
}

// loadBound returns the bounds of a chunk at what is wanted there.
func (b *buffers) loadBound(p *plan, want []float64, lo, n int) []float64 {
	if p.regime == Bound && p.want.Bound != nil && !p.wantULP {
		return p.want.Bound[lo : lo+n]
	}
	out := b.use(&b.bound, n)
	switch {
	case p.regime != Bound:
		atol, rtol := p.tol.Abs, p.tol.Rel
		for i, w := range want[:len(out)] {
			out[i] = atol + float64(rtol*math.Abs(w))
		}
		if p.spread != nil {
			for i, s := range p.spread[lo : lo+n] {
				out[i] += s
			}
		}
	case p.want.Bound == nil:
		clear(out)
	default:
		copy(out, p.want.Bound[lo:lo+n])
	}
	if p.wantULP {
		for i, w := range want[:len(out)] {
			out[i] += p.opt.WantDType.HalfULP(w)
		}
	}
	return out
}

// marks returns the marks of a chunk, or nil when none is set.
func (p *plan) marks(lo, n int) []bool {
	if p.want.Undetermined == nil {
		return nil
	}
	marks := p.want.Undetermined[lo : lo+n]
	for _, m := range marks {
		if m {
			return marks
		}
	}
	return nil
}

// saturate clamps what is wanted to the range of the dtype. Clamping moves no two numbers apart, so that the bound of
// the unclamped value still holds.
func (b *buffers) saturate(p *plan, raw []float64) []float64 {
	out, low, high := b.use(&b.want, len(raw)), p.minFinite(), p.maxFinite
	for i, w := range raw {
		out[i] = max(low, min(high, w))
	}
	return out
}

// minFinite is the least value of the output dtype.
func (p *plan) minFinite() float64 {
	switch {
	case p.d.IsFloat():
		return -p.maxFinite
	case p.d.IsSigned():
		return -math.Ldexp(1, 8*p.d.Size()-1)
	}
	return 0
}

// pass is the work on segments by one worker.
type pass interface {
	segment(lo, hi int) error
}

// run gives every segment to one of the passes that start makes, at most one per worker. Each worker takes segments in
// rising order. The error is that of the lowest segment that has one, whoever met it.
func run(n, workers int, start func() pass) ([]pass, error) {
	segments := (n + segmentElems - 1) / segmentElems
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = max(1, min(workers, segments))
	passes := make([]pass, workers)
	for k := range passes {
		passes[k] = start()
	}
	errs := make([]error, workers)
	at := make([]int, workers)
	var next atomic.Int64
	together(workers, func(k int) {
		for {
			s := int(next.Add(1)) - 1
			if s >= segments {
				return
			}
			if err := passes[k].segment(s*segmentElems, min(n, (s+1)*segmentElems)); err != nil {
				errs[k], at[k] = err, s
				return
			}
		}
	})
	first := -1
	for k, err := range errs {
		if err != nil && (first < 0 || at[k] < at[first]) {
			first = k
		}
	}
	if first >= 0 {
		return nil, errs[first]
	}
	return passes, nil
}

// together calls work(k) for every k below workers at the same time, the first in the calling goroutine. When one of
// them panics, together does, but not before all have stopped: the data is the caller's again then.
func together(workers int, work func(k int)) {
	if workers == 1 {
		work(0)
		return
	}
	var fault atomic.Value // a panic of ours reaches the caller, who may be a server that goes on
	guarded := func(k int) {
		defer func() {
			if r := recover(); r != nil {
				fault.CompareAndSwap(nil, fmt.Sprintf("%v\n%s", r, debug.Stack()))
			}
		}()
		work(k)
	}
	var wg sync.WaitGroup
	for k := 1; k < workers; k++ {
		wg.Go(func() { guarded(k) })
	}
	guarded(0)
	wg.Wait()
	if r := fault.Load(); r != nil {
		panic(r)
	}
}
