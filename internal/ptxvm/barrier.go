package ptxvm

import (
	"fmt"
	"math/bits"
	"strings"
)

// This file implements barriers: what arrives, who waits, and what is said where that does not end.

// barrierState is what has arrived at a barrier since it was last complete.
type barrierState struct {
	arrived  int     // threads
	expected int     // threads; 0 for all of the block that are alive
	yes      int     // threads whose predicate was true, and
	no       int     // false, of bar.red
	left     arrival // what those brought who did not wait
	waiting  []waiting
}

type waiting struct {
	warp *warp
	path int
	mask uint32 // lanes that wait
	in   *ins

	apart bool   // all lanes of the warp should be there; those that are not here may still come to the same instruction
	live  uint32 // lanes of the warp that had not ended when these came
}

// deadlock reports that no thread of a block can go on: who waits, and where.
func (c *cta) deadlock() {
	for _, w := range c.warps {
		if len(w.met) > 0 {
			w.missing()
			return
		}
	}
	var first *waiting
	var who []string
	for id := range c.barriers {
		b := &c.barriers[id]
		for i := range b.waiting {
			x := &b.waiting[i]
			if here := b.lanes(x); x.apart && here != x.warp.alive {
				x.warp.diverges(x.in, here, nil)
				return
			}
			if first == nil {
				first = x
			}
			if len(who) == maxWaiting {
				who = append(who, "and others")
			}
			if len(who) > maxWaiting {
				continue
			}
			who = append(who, fmt.Sprintf("%d threads of warp %d wait at barrier %d (%s), where %d of %d threads are",
				countLanes(x.mask), x.warp.index, id, c.grid.prog.spot(x.in), b.arrived, c.expected(b)))
		}
	}
	if first == nil {
		panic("ptxvm: internal error: nothing moves and nothing waits")
	}
	first.warp.stop(first.in, firstLane(first.mask), Deadlock, "no thread of the block can go on: %s",
		strings.Join(who, "; "))
}

// maxWaiting is how many groups of waiting threads a message names.
const maxWaiting = 8

func firstLane(mask uint32) int { return bits.TrailingZeros32(mask) & 31 }

// arrive counts lanes at a barrier and lets them wait until it is complete, if they are to wait. It reports whether the
// path goes on at once.
func (w *warp) arrive(i int, in *ins, mask uint32) bool {
	if mask == 0 {
		return true
	}
	if in.bar.cluster {
		return w.atCluster(i, in, mask)
	}
	if w.shadow != nil {
		w.shadow.operands(w, in, mask, "an operand of a barrier")
	}
	lane := firstLane(mask)
	id := w.get(in.a, lane)
	if id > 15 {
		w.stop(in, lane, BarrierDivergence, "barrier %d does not exist", id)
		return false
	}
	apart := in.bar.aligned && mask != w.alive
	if other := w.elsewhere(mask, in); apart && (other != nil || in.bar.goesOn) {
		w.diverges(in, mask, other)
		return false
	}
	b := &w.cta.barriers[id]
	count := countLanes(mask)
	if in.b != noRef {
		if !w.agrees(in, lane, b) {
			return false
		}
		b.expected = int(w.get(in.b, lane))
		if here := mask | b.lanes(&waiting{warp: w, in: in}); here == w.alive {
			count += warpSize - countLanes(here) // a warp counts as a whole, also one that is not full (PTX ISA 9.7.13.1)
		}
	}
	b.arrived += count
	if in.c != noRef {
		yes := countLanes((w.p[in.c.index()] ^ in.flipC) & mask)
		b.yes, b.no = b.yes+yes, b.no+countLanes(mask)-yes
	}
	if in.bar.goesOn {
		w.cta.shadow.leaves(b, w, mask)
	} else {
		b.waiting = append(b.waiting, waiting{w, i, mask, in, apart, w.alive})
		w.ready = w.ready[:len(w.ready)-1]
	}
	w.cta.settle(b)
	return false // paths of this warp may have become ready
}

// agrees reports whether the number of threads that an instruction says for a barrier is one of whole warps, and the
// same as those say that are there already. Else it stops the block: what follows means nothing (PTX ISA 9.7.13.1).
func (w *warp) agrees(in *ins, lane int, b *barrierState) bool {
	n := int(w.get(in.b, lane))
	said := ""
	switch {
	case !w.cta.grid.checks.has(CheckBarrier):
		return true
	case n%warpSize != 0 || n == 0 && in.bar.goesOn:
		said = fmt.Sprintf("waits for %d threads, which is not a number of whole warps", n)
	case b.arrived > 0 && b.expected != 0 && b.expected != n:
		said = fmt.Sprintf("waits for %d threads, where others wait for %d", n, b.expected)
		if len(b.waiting) > 0 {
			said += " (" + w.cta.grid.prog.spot(b.waiting[0].in) + ")"
		}
	default:
		return true
	}
	w.stop(in, lane, BarrierDivergence, "%s", said)
	return false
}

// lanes are those of a warp that wait at the same instruction. Threads that part in a loop need not meet before it,
// where one of the ways leads to a return.
func (b *barrierState) lanes(x *waiting) (mask uint32) {
	for i := range b.waiting {
		if other := &b.waiting[i]; other.warp == x.warp && other.in == x.in {
			mask |= other.mask
		}
	}
	return mask
}

// elsewhere is where other lanes of a warp wait at a barrier, but for one instruction; nil if they do not.
func (w *warp) elsewhere(mask uint32, but *ins) *waiting {
	for id := range w.cta.barriers {
		list := w.cta.barriers[id].waiting
		for i := range list {
			if list[i].warp == w && list[i].mask&^mask != 0 && list[i].in != but {
				return &list[i]
			}
		}
	}
	return nil
}

// diverges reports that lanes arrive at a barrier without the others of their warp, and stops the block: what follows
// means nothing.
func (w *warp) diverges(in *ins, mask uint32, other *waiting) {
	where := "are not there"
	if other != nil {
		where = "wait at " + w.cta.grid.prog.spot(other.in)
	}
	w.stop(in, firstLane(mask), BarrierDivergence,
		"lanes %#08x arrive, but all of a warp must arrive together, and lanes %#08x %s", mask, w.alive&^mask, where)
}

// expected is how many threads a barrier waits for.
func (c *cta) expected(b *barrierState) int {
	if b.expected != 0 {
		return b.expected
	}
	n := 0
	for _, w := range c.warps {
		n += countLanes(w.alive)
	}
	return n
}

// settle lets the threads at a barrier go on if it is complete.
func (c *cta) settle(b *barrierState) {
	if b.arrived < c.expected(b) {
		return
	}
	for i := range b.waiting {
		if x := &b.waiting[i]; x.apart && b.lanes(x)&x.live != x.live {
			x.warp.report(x.in, firstLane(x.mask), BarrierDivergence,
				"lanes %#08x arrive, but all of a warp must arrive together, and others have ended elsewhere", x.mask)
		}
	}
	c.shadow.barrier(b)
	for _, x := range b.waiting {
		x.warp.ready = append(x.warp.ready, x.path)
		if x.in.d == noRef {
			continue
		}
		result := uint64(b.yes)
		switch x.in.combine {
		case "and":
			result = truth(b.no == 0)
		case "or":
			result = truth(b.yes != 0)
		}
		for m := x.mask; m != 0; m &= m - 1 {
			x.warp.set(x.in.d, firstLane(m), result)
		}
	}
	*b = barrierState{waiting: b.waiting[:0]}
}

// gone completes the barriers at which everybody who is left waits, after threads have finished.
func (c *cta) gone() {
	for id := range c.barriers {
		switch b := &c.barriers[id]; {
		case b.arrived == 0 || b.expected != 0:
		case id == clusterBarrier:
			c.settleCluster()
		default:
			c.settle(b)
		}
	}
}

func countLanes(mask uint32) int { return bits.OnesCount32(mask) }
