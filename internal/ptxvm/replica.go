package ptxvm

import (
	"math/bits"
	"slices"
	"sync"
	atomics "sync/atomic"

	"gpuemu/internal/ptx"
)

// This file implements the recognition of replicas: threads that hold the same element of a tensor and store it to the
// same place.
//
// Compilers of tensor programs let several lanes and warps compute one element and store it redundantly. Where a
// reduction exchanges partial sums by shfl.bfly, LLVM may contract the product of one side into the addition. Lane l
// then holds fma(a, b, a'·b') and its partner fma(a', b', a·b): the same sum, with another last bit. Which of the two
// is stored depends on which thread is last. No author can do anything about that, and it is not reported.
//
// Whether threads are replicas is a question about the program and not about the values at hand. The backward slice of
// the address and of the stored value (replica_slice.go) is evaluated for all threads of a block in real arithmetic,
// that is, in float64 (replica_value.go). What the slice begins with gets random numbers: one for each address that a
// load reads, one for each parameter of the launch; thread indices are what they are. Threads whose results are equal
// up to the rounding of float64 then compute the same function of the same data, with probability 1. This is identity
// testing by random evaluation (Schwartz, "Fast Probabilistic Algorithms for Verification of Polynomial Identities",
// 1980).
//
// Values that merely happen to be close, or equal in the launch at hand, do not count: a lane that stores x[lane] to
// out[0], or the sum of its own warp, is no replica of another one.
//
// A register that joins the values of several ways through the program varies with the thread if one of them does, or
// if a branch that decides among them does.

// invariance is a set of bits of the index of a thread in its block: flipping them leaves a value as it is, up to
// rounding. Bits 0 to 4 are those of the lane, the others those of the warp.
type invariance uint32

const (
	threadBits            = 10 // a block has at most 1,024 threads
	everyBit   invariance = 1<<threadBits - 1
	laneBits   invariance = warpSize - 1
	warpBits              = everyBit &^ laneBits
)

// covers reports whether two threads that differ in some bits hold the same.
func (v invariance) covers(differ uint32) bool { return differ&^uint32(v) == 0 }

// replicaCache has what is known about the stores of a program. Workers share it.
type replicaCache struct {
	mu    sync.Mutex
	known map[replicaKey]sameOperands // guarded by mu
	slice *slicer                     // guarded by mu; nil until a store is asked about
	last  atomics.Pointer[replicaAnswer]
}

// replicaAnswer is the last one that was given: lanes that race by one instruction ask one after the other.
type replicaAnswer struct {
	replicaKey
	sameOperands
}

// replicaKey is a store in blocks of a size.
type replicaKey struct {
	instr int32
	block Dim
}

// sameOperands says in which bits threads of a block may differ that access one place by an instruction, and in which
// those that have the same values.
type sameOperands struct{ address, values invariance }

// replicas reports whether two threads of a block, by their indices, store the same element of a tensor by an
// instruction.
func (p *Program) replicas(in *ins, block Dim, x, y int) bool {
	if x == y {
		return false
	}
	differ := uint32(x ^ y)
	known := p.sameOperands(in, block)
	switch {
	case in.facts.rule == stores:
		return known.address.covers(differ) && known.values.covers(differ)
	case in.src.Op == "stmatrix":
		values, ok := matrixLanes(in, differ)
		return ok && known.address.covers(differ) && known.values.covers(values)
	}
	return false
}

// matrixLanes says in which bits lanes differ that hold two rows of 8 x 8 matrices, from those in which the lanes
// differ that give their addresses (PTX ISA, "stmatrix"): lane 4·i + c holds the elements 2·c and 2·c + 1 of row i, or
// of column i. Rows of different matrices come from different registers, and columns side by side from different
// halves.
func matrixLanes(in *ins, differ uint32) (lanes uint32, ok bool) {
	row, warps := differ&31, differ&^31
	if !in.src.Has("trans") {
		return row<<2 | warps, row < 8
	}
	return row>>1 | warps, row < 8 && row&1 == 0
}

// scalar reports whether all threads of a block load the same element by an instruction: a scalar of the program.
func (p *Program) scalar(in *ins, block Dim) bool {
	return in.facts.rule == loads && p.sameOperands(in, block).address == everyBit
}

// sameOperands is what is known about an instruction in blocks of a size. Nothing is the same where the slice is too
// large, or the instruction is not one of the kernel itself.
func (p *Program) sameOperands(in *ins, block Dim) sameOperands {
	c, key := p.replica, replicaKey{in.index, block}
	if last := c.last.Load(); last != nil && last.replicaKey == key {
		return last.sameOperands
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.known[key]
	if !ok {
		known = c.slicer(p).sameOperands(in.src, block)
		c.known[key] = known
	}
	c.last.Store(&replicaAnswer{key, known})
	return known
}

// slicer is that of the program. The caller holds mu.
func (c *replicaCache) slicer(p *Program) *slicer {
	if c.slice == nil {
		c.slice = newSlicer(p.Kernel)
	}
	return c.slice
}

// sameOperands evaluates the operands of an instruction.
func (s *slicer) sameOperands(in *ptx.Instr, block Dim) (same sameOperands) {
	if !s.has(in) {
		return same
	}
	var address, values []*sliceNode
	for i := range in.Args {
		switch a := &in.Args[i]; {
		case a.Kind == ptx.AddressArg:
			address = append(address, s.operand(a, in.Index)...)
		case in.Op != "ld":
			values = append(values, s.operand(a, in.Index)...)
		}
	}
	nodes, ok := s.collect(slices.Concat(address, values))
	if !ok {
		return same
	}
	e := newEvaluation(block)
	for round := 0; round <= threadBits*(len(nodes)+1); round++ {
		if !e.step(nodes) {
			return sameOperands{e.common(address), e.common(values)}
		}
	}
	return same
}

// step evaluates the slice, and reports whether a joined value turned out to vary more than was assumed. At first none
// of them is taken to vary.
func (e *evaluation) step(nodes []*sliceNode) (changed bool) {
	for _, n := range nodes {
		if n.joins == nil {
			continue
		}
		if now := e.stays(n) & e.common(n.joins) & e.common(n.decides); now != e.stays(n) {
			e.joined[n], changed = now, true
		}
	}
	if changed {
		for i := range e.values {
			clear(e.values[i])
		}
	}
	return changed
}

// common is what leaves all of some values as they are, with the numbers of all ranges.
func (e *evaluation) common(list []*sliceNode) invariance {
	v := everyBit
	for e.seed = range numberRanges {
		for _, n := range list {
			v &= e.invariance(e.value(n))
		}
	}
	return v
}

// invariance compares the values of threads that differ in one bit.
func (e *evaluation) invariance(v *slicedValue) invariance {
	if !v.compared {
		v.compared = true
		for bit := range threadBits {
			if e.sameUnder(v, 1<<bit) {
				v.same |= 1 << bit
			}
		}
	}
	return v.same
}

func (e *evaluation) sameUnder(v *slicedValue, flip int) bool {
	for t := range e.threads {
		if other := t ^ flip; other > t && other < e.threads && !v.equal(t, other) {
			return false
		}
	}
	return true
}

// threadOf is the index of a lane in its block.
func threadOf(warp, lane int) int { return warp<<bits.TrailingZeros(warpSize) | lane }
