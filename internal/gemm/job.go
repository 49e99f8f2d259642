package gemm

// This file implements the division of a product into blocks and the goroutines that work on them.

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Block sizes, in elements. A kBlock×12 panel of b (24 KiB) stays in the first-level cache while the rows of a
// block pass by, an mBlock×kBlock block of a (256 KiB) in the second level, a kBlock×nBlock block of b (4 MiB) in
// the third.
const (
	kBlock = 256
	mBlock = 128            // a multiple of tileRows
	nBlock = 170 * tileCols // 2040
)

// Smallest blocks worth giving to another goroutine: below these, packing twice costs more than 5 %.
const (
	minRows = 64
	minCols = 8 * tileCols
)

// A job is one product in work. Its goroutines, at most threads, claim blocks of c in turn; a block belongs to
// the one that claimed it, from the first step of its chains to the last, so nobody waits for anybody until the
// end.
type job struct {
	problem
	rows, cols int // size of a block
	across     int // blocks side by side
	blocks     int

	next  atomic.Int64 // the next block to claim
	done  sync.WaitGroup
	work  func()       // claims and computes until nothing is left; stored so that starting a goroutine allocates nothing
	fault atomic.Value // a panic of ours reaches the caller, who may be a server that goes on
}

var jobs = sync.Pool{New: func() any {
	j := new(job)
	j.work = func() {
		defer j.done.Done()
		defer func() {
			if r := recover(); r != nil {
				j.fault.CompareAndSwap(nil, fmt.Sprintf("%v\n%s", r, debug.Stack()))
			}
		}()
		j.claim()
	}
	return j
}}

func newJob(p problem, threads int) *job {
	j := jobs.Get().(*job)
	j.problem = p
	j.divide(threads)
	j.next.Store(0)
	return j
}

func (j *job) release() {
	j.problem = problem{} // keep no one's matrices alive
	jobs.Put(j)
}

// divide chooses the block size: as large as the caches allow, then halved until there are three blocks for each
// goroutine, so that one that is held up leaves its share to the others.
func (j *job) divide(threads int) {
	j.rows, j.cols = roundUp(j.m, tileRows), min(roundUp(j.n, tileCols), nBlock)
	if threads > 1 {
		j.rows = min(j.rows, 2*mBlock)
	}
	if j.transB && j.m <= 2*inPlaceB {
		j.cols = min(j.cols, minCols) // few rows read each panel: it should still be in the nearest cache then
	}
	for threads > 1 && ceilDiv(j.m, j.rows)*ceilDiv(j.n, j.cols) < 3*threads && j.halve() {
	}
	j.across = ceilDiv(j.n, j.cols)
	j.blocks = ceilDiv(j.m, j.rows) * j.across
}

// halve halves the longer side of a block, or the one that is long enough, and reports whether there was one.
func (j *job) halve() bool {
	switch wide, tall := j.cols >= 2*minCols, j.rows >= 2*minRows; {
	case wide && (j.cols >= j.rows || !tall):
		j.cols = roundUp(j.cols/2, tileCols)
	case tall:
		j.rows = roundUp(j.rows/2, tileRows)
	default:
		return false
	}
	return true
}

// run works on the job with the calling goroutine and threads-1 others. When one of them panics, run does, but not
// before all have stopped: the matrices are the caller's again then.
func (j *job) run(threads int) {
	workers := min(threads, j.blocks)
	if workers <= 1 {
		j.claim()
		return
	}
	j.done.Add(workers)
	for range workers - 1 {
		go j.work()
	}
	j.work()
	j.done.Wait()
	if r := j.fault.Load(); r != nil {
		panic(r)
	}
}

// claim computes blocks until all are taken.
func (j *job) claim() {
	s := scratches.Get().(*scratch)
	s.r.vector, s.m.vector = j.vector, j.vector
	for {
		i := int(j.next.Add(1)) - 1
		if i >= j.blocks {
			break
		}
		i0, j0 := i/j.across*j.rows, i%j.across*j.cols
		blk := block{i0: i0, i1: min(i0+j.rows, j.m), j0: j0, j1: min(j0+j.cols, j.n)}
		switch {
		case j.m <= fewRows && !j.transB && j.n >= rowCols:
			s.rowBlock(&j.problem, blk)
		case j.m <= fewRows && j.transB && j.k >= dotsSteps && j.vector:
			s.dotsBlock(&j.problem, blk)
		default:
			s.tileBlock(&j.problem, blk)
		}
	}
	s.t, s.r, s.m = tile{}, row{}, mover{}
	scratches.Put(s)
}

func ceilDiv(x, y int) int { return (x + y - 1) / y }

func roundUp(x, y int) int { return ceilDiv(x, y) * y }
