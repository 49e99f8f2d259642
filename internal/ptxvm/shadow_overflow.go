package ptxvm

import (
	"math/bits"

	"gpuemu/internal/ptx"
)

// This file implements what words remember beyond three accesses. Where blocks meet as a whole, who writes is unordered
// with one of any two others that no synchronization orders, so two are enough. Barriers of some warps, and release and
// acquire, order a writer with some of those before it and not with others: words of kernels that have them remember
// more, and so do words with strong loads and stores. Where masks of bar.warp.sync leave lanes out, words also remember
// which lanes a mark stands for.

// overflowSize is how many more accesses there are: with reader and other, those of the eight warps of most blocks.
const overflowSize = 6

// overflow is the accesses to a word beyond reader and other, without gaps.
type overflow struct {
	marks [overflowSize]mark
	lanes [2 + overflowSize]uint32 // lanes that reader, other and these stand for; 0 where the mark alone says it
}

// Overflows are reserved in the memory of the launch by the chunk.
const (
	overflowChunk = 64
	overflowBytes = 8*overflowSize + 4*(2+overflowSize)
)

// someMeet reports whether an instruction is a bar.warp.sync that may leave lanes out.
func someMeet(in *ins) bool {
	return in.kind == together && in.src.Op == "bar" && in.members != allLanes
}

// partial reports whether an instruction may order a thread with some threads of a block, or of other blocks, and not
// with all of them.
func partial(in *ins) bool {
	o := &in.facts.order
	switch in.src.Op {
	case "bar", "barrier":
		if in.kind == together {
			return someMeet(in)
		}
		args := in.src.Args
		return in.src.Has("arrive") || in.src.Has("sync") && len(args) > 1 && args[1].Kind != ptx.IntArg
	}
	return o.fence != nobody || o.release != nobody || o.acquire != nobody
}

// someWait reports whether barriers are for a number of threads other than that of a block.
func (p *Program) someWait(threads int) bool {
	for i := range p.code {
		in := &p.code[i]
		if in.kind == together || in.src == nil || in.src.Op != "bar" && in.src.Op != "barrier" || !in.src.Has("sync") {
			continue
		}
		if a := in.src.Args; len(a) > 1 && a[1].Kind == ptx.IntArg && int(a[1].Value) < threads {
			return true
		}
	}
	return false
}

// overflow is what a word remembers beyond three accesses; nil for nothing.
func (c cell) overflow() *overflow {
	if c.page.overflows == nil {
		return nil
	}
	return c.page.overflows[c.at%pageWords]
}

// strong reports whether some of the accesses are strong.
func (x *overflow) strong() bool {
	if x == nil {
		return false
	}
	all := mark(0)
	for _, m := range x.marks {
		all |= m
	}
	return all.strong()
}

// lanes are those that a mark of a word stands for; 0 where the mark alone says it.
func (c cell) lanes(m mark) uint32 {
	x := c.overflow()
	switch {
	case x == nil || m.shape() != someLanes:
	case m == c.reader():
		return x.lanes[0]
	case m == c.other():
		return x.lanes[1]
	default:
		for i, in := range x.marks {
			if in == m {
				return x.lanes[2+i]
			}
		}
	}
	return 0
}

// disperse forgets the overflow of words.
func (p *page) disperse(words int) {
	if p.overflows == nil {
		return
	}
	for _, x := range p.overflows[:words] {
		if x != nil {
			*x = overflow{}
		}
	}
}

// makeOverflow is the overflow of a word, which comes into being here; nil where there is no memory for it.
func (r *blockRacing) makeOverflow(c cell) *overflow {
	if x := c.overflow(); x != nil {
		return x
	}
	w := r.worker
	if c.page.overflows == nil {
		if !w.grid.reserve(columnBytes, forChecks) {
			return nil
		}
		c.page.overflows = new([pageWords]*overflow)
	}
	if len(w.overflows) == 0 {
		if !w.grid.reserve(overflowChunk*overflowBytes, forChecks) {
			return nil
		}
		w.overflows = make([]overflow, overflowChunk)
	}
	x := &w.overflows[0]
	w.overflows = w.overflows[1:]
	c.page.overflows[c.at%pageWords] = x
	return x
}

// joinLanes adds the lane of an access to those that a mark of a word stands for, which was another one before. Where
// those of a mark are not known they stay so.
func (r *blockRacing) joinLanes(c cell, before, merged, me mark, at int) {
	if merged.shape() != someLanes || me.shape() == someLanes {
		return
	}
	if x := r.makeOverflow(c); x != nil {
		switch {
		case before.shape() == oneLane:
			x.lanes[at] = 1<<before.lane() | 1<<me.lane()
		case x.lanes[at] != 0:
			x.lanes[at] |= 1 << me.lane()
		}
	}
}

// replaceReader makes an access the reader of a word. The former one becomes the other, or is forgotten.
func (r *blockRacing) replaceReader(c cell, me mark, keep bool) {
	x := c.overflow()
	if keep {
		r.setOther(c, c.reader())
		if x != nil {
			x.lanes[1] = x.lanes[0]
		}
	}
	if x != nil {
		x.lanes[0] = 0
	}
	r.setReader(c, me)
}

// enterOverflow makes an access the reader of a word and moves the former reader to the overflow, where the word has to
// remember its other access, too. It reports false where there is no need or no room.
func (r *blockRacing) enterOverflow(w *warp, c cell, me mark, shared bool) bool {
	if c.other() == 0 || r.passed(w, c.other(), shared) {
		return false
	}
	x := r.makeOverflow(c)
	if x == nil {
		return false
	}
	old := c.reader()
	if r.superseded(c.other(), old, x.lanes[1], x.lanes[0], shared) {
		r.replaceReader(c, me, true)
		return true
	}
	for i, m := range x.marks {
		if m == 0 || r.again(me, m, shared) || r.superseded(m, old, x.lanes[2+i], x.lanes[0], shared) ||
			r.passed(w, m, shared) {
			x.marks[i], x.lanes[2+i] = old, x.lanes[0]
			r.replaceReader(c, me, false)
			return true
		}
	}
	return false
}

// enterWeak is enter for a plain load of shared memory, where lanes of marks are not kept. A later load of the same
// lanes takes the place of an earlier one.
func (r *blockRacing) enterWeak(c cell, me, later mark) {
	const place = strongMark | shapeMask | bytesMask | 31<<laneAt | 31<<warpAt
	free := func(m mark) bool { return m < later || (m^me)&place == 0 }
	switch {
	case free(c.reader()):
		r.setReader(c, me)
		return
	case free(c.other()):
		r.setOther(c, me)
		return
	}
	if x := r.makeOverflow(c); x != nil {
		for i, m := range x.marks {
			if free(m) {
				x.marks[i] = me
				return
			}
		}
	}
}

// superseded reports whether the lanes of an access have made it once more: who is not ordered after the first one is
// not ordered after the second one either.
func (r *blockRacing) superseded(old, now mark, oldLanes, nowLanes uint32, shared bool) bool {
	lanes := func(m mark, known uint32) uint32 {
		switch m.shape() {
		case oneLane:
			return 1 << m.lane()
		case someLanes:
			return known
		}
		return 0
	}
	first, second := lanes(old, oldLanes), lanes(now, nowLanes)
	return first != 0 && first&^second == 0 && old.warp() == now.warp() && old.bytes()&^now.bytes() == 0 &&
		old.strong() == now.strong() && (!old.strong() || old.instr() == now.instr()) &&
		(shared || r.worker.blockOf(old.stamp()) == r.worker.blockOf(now.stamp()))
}

// judgeOverflow judges a write beside the overflow of its word.
func (r *blockRacing) judgeOverflow(x *accessing, c cell) {
	overflow := c.overflow()
	if overflow == nil {
		return
	}
	for _, m := range overflow.marks {
		r.judge(x, c, m, "writes", "read", nil)
	}
}

// overflowBefore reports whether an overflow is ordered before a write of a lane, as far as that is seen quickly.
func (r *blockRacing) overflowBefore(w *warp, lane int, x *overflow, later mark, shared bool, bytes uint8) bool {
	for _, m := range x.marks {
		if m.strong() || m != 0 && (!shared && !r.mine(m.stamp()) || m >= later && !r.past(w, lane, m, bytes)) {
			return false
		}
	}
	return true
}

// allBefore is before for an access whose lanes are known. One that is not ordered becomes the one that the access
// stands for.
func (r *blockRacing) allBefore(w *warp, lane int, f *former) bool {
	x := r.lanes[w.index]
	own := f.block == r.block && f.warp() == w.index
	if f.block == r.block && f.stamp() <= r.rows[w.index][f.warp()] {
		return true
	}
	for m := f.lanes; m != 0; m &= m - 1 {
		other := bits.TrailingZeros32(m)
		if own && (other == lane || x != nil && x.met != nil && f.stamp() <= x.met[lane][other]) {
			continue
		}
		one := former{mark: f.mark&^(31<<laneAt|shapeMask) | mark(other)<<laneAt, block: f.block}
		if x == nil || !x.acquired[lane].knows(&one) {
			*f = one
			return false
		}
	}
	return true
}
