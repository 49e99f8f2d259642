package ptxvm

import (
	"fmt"
	"iter"
	"math/bits"
)

// This file implements warps: threads that execute together, part at branches and meet again.

// warp is 32 threads of a block.
type warp struct {
	file
	cta   *cta
	index int
	mask  uint32 // lanes that execute the current instruction
	alive uint32 // lanes that have not finished
	local []byte // local memory, lane after lane

	paths   []path
	free    []int // paths that are not in use
	ready   []int // paths that can go on, the next one last
	met     []int // paths that wait for other lanes of the warp
	current int   // path that executes
	steps   uint64

	last    *buffer // that the last access was in
	nowhere nowhere

	scratch32 lanes32 // of loops over lanes that are not all active
	scratch64 lanes64
	at        lanes64 // offsets of the current access
	swept     sweep   // memory of the current access

	shadow *warpShadow // nil where no check needs one
	watch  *watch      // nil where nobody counts
	ways   []ways      // by instruction; nil where nobody asks why something was not written
	async  [asyncKinds][warpSize]queue
	copies bool // there are or were some of them

	flights flights // copies of all threads together, unless there are others
	tired   bool    // it asked for what is not there yet

	products products
	saved    [warpSize][]saved // frames of functions that call themselves
}

// path is lanes that go the same way. A path that parts waits for its children, and goes on where they meet.
type path struct {
	pc     int
	rejoin int // where the path ends and its parent goes on; -1 for the first one
	mask   uint32
	parent int
	kids   int
	depth  int   // of calls, where rejoin is
	calls  []int // where functions go back to

	born uint64 // step of the warp
	met  uint64 // last step at which the path and another one waited for each other
	left uint32 // lanes that left the path and wait where it ends
}

// lanes yields the active lanes, the lowest first.
func (w *warp) lanes() iter.Seq[int] {
	return func(yield func(int) bool) {
		for m := w.mask; m != 0; m &= m - 1 {
			if !yield(bits.TrailingZeros32(m)) {
				return
			}
		}
	}
}

// reset makes a warp ready for a block.
func (w *warp) reset(c *cta, index int) {
	p := c.grid.prog
	w.cta, w.index, w.steps, w.watch, w.ways = c, index, 0, c.worker.watch, c.worker.ways
	first := w.r32 == nil
	if first {
		w.r32, w.r64, w.p = make([]lanes32, p.n32), make([]lanes64, p.n64), make([]uint32, p.nPreds)
		w.local = make([]byte, warpSize*p.localBytes)
		for _, k := range p.consts {
			w.broadcast(k.slot, k.value)
		}
		for _, d := range p.dynamic {
			w.broadcast(d.slot, uint64(p.dynamicStart())+d.offset)
		}
	}
	clear(w.local)
	for _, r := range p.unset {
		switch r.class() {
		case class32:
			w.r32[r.index()] = lanes32{}
		case class64:
			w.r64[r.index()] = lanes64{}
		default:
			w.p[r.index()] = 0
		}
	}
	w.alive = w.first()
	if first {
		for name, slot := range p.specials {
			w.special(slot, name)
		}
	}
	for _, v := range p.ofBlock {
		w.broadcast(v.slot, uint64(v.value(w, 0)))
	}
	w.paths = append(w.paths[:0], path{rejoin: -1, mask: w.alive, parent: -1})
	if w.copies {
		w.copies = false
		for kind := range w.async {
			for lane := range w.async[kind] {
				w.async[kind][lane] = queue{list: w.async[kind][lane].list[:0]}
			}
		}
	}
	w.flights = flights{list: w.flights.list[:0]}
	w.products = products{}
	for lane := range w.saved {
		w.saved[lane] = w.saved[lane][:0]
	}
	w.free, w.ready, w.met = w.free[:0], append(w.ready[:0], 0), w.met[:0]
	w.shadow.reset()
}

// newPath adds a path and makes it the next one to go on.
func (w *warp) newPath(p path) {
	p.born = w.steps
	if n := len(w.free); n > 0 {
		i := w.free[n-1]
		w.free = w.free[:n-1]
		w.paths[i] = p
		w.ready = append(w.ready, i)
		return
	}
	w.paths = append(w.paths, p)
	w.ready = append(w.ready, len(w.paths)-1)
}

// rotate gives the other paths their turn: lanes that wait in a loop for other lanes must not keep them from going on.
func (w *warp) rotate() {
	last := len(w.ready) - 1
	next := w.ready[last]
	copy(w.ready[1:], w.ready[:last])
	w.ready[0] = next
}

// run executes until all paths have ended or wait, or the steps are used up.
func (w *warp) run(steps int) {
	code := w.cta.grid.prog.code
	for len(w.ready) > 0 {
		i := w.ready[len(w.ready)-1]
		w.current = i
		p := &w.paths[i]
		for {
			if p.pc == p.rejoin && len(p.calls) == p.depth {
				w.end(i)
				break
			}
			if steps--; steps < 0 {
				w.rotate()
				return
			}
			in := &code[p.pc]
			mask := p.mask
			if in.guard != noRef {
				mask &= w.p[in.guard.index()] ^ in.guardFlip
				if w.shadow != nil {
					w.shadow.guard(w, in, p.mask)
				}
				if w.ways != nil {
					w.noteWays(p.pc, p.mask, mask)
				}
			}
			w.steps++
			if w.watch != nil {
				w.watch.step(w, p.pc, p.mask, mask)
			}
			if in.kind == plain {
				if mask != 0 {
					w.mask = mask
					in.run(w, in)
					if w.shadow != nil {
						if p := in.facts.plain; p != nil && w.shadow.plain {
							w.shadow.passOn(p, mask)
						} else {
							w.shadow.judge(w, in)
						}
					}
					if w.cta.stopped {
						return
					}
				}
				p.pc++
				continue
			}
			if !w.control(i, in, mask) {
				break
			}
			p = &w.paths[i] // new paths may have moved it
		}
		if w.tired {
			w.tired = false
			return
		}
		if len(w.ready) == 0 && len(w.met) > 0 && w.elsewhere(0, nil) == nil { // else a barrier may bring the others here
			w.missing()
		}
		if w.cta.stopped {
			return
		}
	}
}

// end is a path that reaches the place where it meets the others.
func (w *warp) end(i int) {
	p := &w.paths[i]
	w.ready = w.ready[:len(w.ready)-1]
	w.free = append(w.free, i)
	parent := &w.paths[p.parent]
	if parent.kids--; parent.kids == 0 {
		w.resume(p.parent)
	}
}

// resume lets a path go on whose children have ended, or ends it if none of its lanes is alive.
func (w *warp) resume(i int) {
	for {
		p := &w.paths[i]
		if p.mask &= w.alive; p.mask != 0 {
			w.ready = append(w.ready, i)
			return
		}
		w.free = append(w.free, i)
		if p.parent < 0 {
			return
		}
		parent := &w.paths[p.parent]
		if parent.kids--; parent.kids > 0 {
			return
		}
		i = p.parent
	}
}

// control executes an instruction that changes the way of control, and reports whether the path goes on at once.
func (w *warp) control(i int, in *ins, mask uint32) bool {
	p := &w.paths[i]
	switch in.kind {
	case branch:
		return w.branch(i, in, mask)
	case enter:
		p.calls = append(p.calls[:len(p.calls):len(p.calls)], p.pc+1)
		p.pc = in.target
	case leave:
		n := len(p.calls) - 1
		p.pc, p.calls = p.calls[n], p.calls[:n]
	case finish:
		return w.finish(i, mask)
	case indexed:
		if w.shadow != nil {
			w.shadow.operands(w, in, mask, "the index of a branch")
		}
		return w.fan(i, in, mask)
	case barrier:
		p.pc++
		return w.arrive(i, in, mask)
	case together:
		return w.meet(i, in, mask)
	case asks:
		p.pc++
		if mask == 0 {
			return true
		}
		w.exchange(in, mask)
		if w.p[in.d.index()]&mask == 0 {
			w.rotate()
			w.tired = true
			return false
		}
	case lets:
		p.pc++
		if mask != 0 {
			w.exchange(in, mask)
		}
		w.tired = true
		return false
	default:
		panic(fmt.Sprintf("ptxvm: internal error: control %d", in.kind))
	}
	return true
}

// first are the lanes that a warp begins with.
func (w *warp) first() uint32 {
	return allLanes >> (warpSize - min(w.cta.grid.threads-w.index*warpSize, warpSize))
}

// finish ends threads. It reports that the path does not go on at once: other paths may have become ready.
func (w *warp) finish(i int, mask uint32) bool {
	p := &w.paths[i]
	w.landed(mask)
	w.alive &^= mask
	if w.shadow != nil {
		w.shadow.block.racing.exit(w, mask)
	}
	if p.mask &^= mask; p.mask != 0 {
		p.pc++
	} else {
		w.ready = w.ready[:len(w.ready)-1]
		w.resume(i)
	}
	w.reunite()
	if w.alive == 0 {
		w.cta.ended(w)
	}
	w.cta.gone()
	return false
}

func (w *warp) branch(i int, in *ins, taken uint32) bool {
	p := &w.paths[i]
	if in.exits && taken != 0 {
		return w.finish(i, taken)
	}
	stay := p.mask &^ taken
	home := in.rejoin == p.rejoin && len(p.calls) == p.depth
	switch {
	case stay == 0:
		p.pc = in.target
		return true
	case taken == 0 || in.target == p.pc+1: // nobody goes elsewhere
		p.pc++
		return true
	case home && p.pc+1 == in.rejoin: // lanes leave a loop, and wait behind it
		p.left |= stay
		p.mask, p.pc = taken, in.target
		return true
	case home && in.target == in.rejoin:
		p.left |= taken
		p.mask, p.pc = stay, p.pc+1
		return true
	}
	next := p.pc + 1
	p.pc = in.rejoin
	w.ready = w.ready[:len(w.ready)-1]
	calls := p.calls
	for _, kid := range []path{{pc: in.target, mask: taken}, {pc: next, mask: stay}} {
		if kid.pc == in.rejoin {
			continue
		}
		kid.rejoin, kid.parent, kid.calls, kid.depth = in.rejoin, i, calls, len(calls)
		w.paths[i].kids++
		w.newPath(kid)
	}
	return false
}

// fan sends lanes to the places of a list that their indices choose.
func (w *warp) fan(i int, in *ins, mask uint32) bool {
	var kids []path
	add := func(pc int, lanes uint32) {
		for k := range kids {
			if kids[k].pc == pc {
				kids[k].mask |= lanes
				return
			}
		}
		kids = append(kids, path{pc: pc, mask: lanes})
	}
	for m := mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		index := w.get(in.a, lane)
		if index >= uint64(len(in.targets)) {
			w.stop(in, lane, OutOfBoundsRead, "branches to place %d of a list of %d", index, len(in.targets))
			return false
		}
		add(in.targets[index], 1<<lane)
	}
	p := &w.paths[i]
	if stay := p.mask &^ mask; stay != 0 {
		add(p.pc+1, stay)
	}
	if len(kids) == 1 {
		p.pc = kids[0].pc
		return true
	}
	p.pc = in.rejoin
	w.ready = w.ready[:len(w.ready)-1]
	calls := p.calls
	for _, kid := range kids {
		if kid.pc == in.rejoin {
			continue
		}
		kid.rejoin, kid.parent, kid.calls, kid.depth = in.rejoin, i, calls, len(calls)
		w.paths[i].kids++
		w.newPath(kid)
	}
	return false
}
