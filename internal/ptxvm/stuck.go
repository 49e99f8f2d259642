package ptxvm

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
)

// This file implements the recognition of threads that wait in a loop for what never comes. Execution is deterministic:
// where all blocks that are left and memory are in a state in which they have been before, they go round for ever. The
// state is compared with one that is remembered, and that one is replaced after twice as many instructions each time
// (Brent, "An improved Monte Carlo factorization algorithm", 1980), so any period is found at last.

// circle remembers a state of the blocks of a worker.
type circle struct {
	since uint64 // instructions of the worker when the state was remembered, or blocks began
	next  uint64 // instructions from then until the next state is remembered
	known bool
	off   bool // blocks go round, but wait for nothing: the budget ends them
	freed bool // lanes had to depart: others are likely to have to, soon
	parts [stateParts]uint64
	hash  state
}

// firstLook is how many instructions warps execute before anybody looks: a state is large, and most blocks end before.
const firstLook = 1 << 16

// Where lanes had to depart, as those of a warp do that each take a lock in turn, the next ones will have to. Then
// warps have short turns, of a number of instructions that the periods of short loops divide, and somebody looks after
// a few of them. What a look costs grows with the state: an instruction is paid for every freedBytes.
const (
	freedLook    = 1 << 8
	freedBytes   = 1 << 12
	freedQuantum = 120
)

// restart forgets the state: blocks have begun or ended, or lanes have departed.
func (c *circle) restart(w *worker, active []*cta) {
	c.known, c.off, c.since, c.next = false, false, w.steps, firstLook
	if c.freed {
		c.next = min(firstLook, uint64(freedLook+stateBytes(w, active)/freedBytes))
	}
}

// stateBytes is about how large a state is.
func stateBytes(w *worker, active []*cta) (n int) {
	for _, b := range w.grid.memory.buffers {
		if !b.readOnly {
			n += len(b.data)
		}
	}
	for _, c := range active {
		n += len(c.shared)
		for _, x := range c.warps {
			n += len(x.local) + warpSize*(4*len(x.r32)+8*len(x.r64))
		}
	}
	return n
}

// closed reports whether blocks are in the state that is remembered. Among several workers, global memory cannot be
// looked at: a worker whose blocks seem to go round waits until it is alone, and looks again.
func (c *circle) closed(w *worker, active []*cta) bool {
	if c.off {
		return false
	}
	same := c.known
	for i := 0; same && i < stateParts; i++ {
		same = c.hash.part(i, w, active) == c.parts[i]
	}
	if same && w.grid.several && !w.alone {
		w.wait()
		c.restart(w, active)
		return false
	}
	if !same && w.steps-c.since >= c.next {
		c.known, c.since, c.next = true, w.steps, 2*c.next
		for i := range c.parts {
			c.parts[i] = c.hash.part(i, w, active)
		}
	}
	return same
}

// crowd is several workers, of which some wait until the others have ended. Then they go on one after the other.
type crowd struct {
	busy sync.WaitGroup // workers that neither wait nor have ended
	turn sync.Mutex     // of those that waited
}

// wait returns when no other worker executes anything until this one has ended.
func (w *worker) wait() {
	w.grid.crowd.busy.Done()
	w.grid.crowd.busy.Wait()
	w.grid.crowd.turn.Lock()
	w.alone = true
}

// leave is what a worker does at its end.
func (w *worker) leave() {
	if w.alone {
		w.grid.crowd.turn.Unlock()
	} else {
		w.grid.crowd.busy.Done()
	}
}

// state takes what decides how threads go on.
type state struct{ maphash.Hash }

// stateParts are control, registers of one thread, all registers and memory. The first ones nearly always differ, and
// are quickly looked at.
const stateParts = 4

func (h *state) part(i int, w *worker, active []*cta) uint64 {
	h.Reset()
	switch i {
	case 0:
		h.control(active)
	case 1:
		h.thread(active[0].warps[0])
	case 2:
		h.registers(active)
	default:
		h.memory(w, active)
	}
	return h.Sum64()
}

func (h *state) number(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	h.Write(b[:])
}

func (h *state) numbers(list ...int) {
	for _, n := range list {
		h.number(uint64(n))
	}
}

func (h *state) control(active []*cta) {
	for _, c := range active {
		h.numbers(c.number, len(c.bulk))
		for i := range c.barriers {
			b := &c.barriers[i]
			h.numbers(b.arrived, b.expected, b.yes, b.no, len(b.waiting))
		}
		for _, w := range c.warps {
			h.numbers(int(w.alive), len(w.ready), len(w.met), len(w.paths))
			h.numbers(w.ready...)
			h.numbers(w.met...)
			for i := range w.paths {
				p := &w.paths[i]
				h.numbers(p.pc, p.rejoin, int(p.mask), p.parent, p.kids, len(p.calls))
				h.numbers(p.calls...)
			}
		}
	}
}

// thread takes the registers of the first lane, among which are counters of loops.
func (h *state) thread(w *warp) {
	for i := range w.r32 {
		h.number(uint64(w.r32[i][0]))
	}
	for i := range w.r64 {
		h.number(w.r64[i][0])
	}
}

func (h *state) registers(active []*cta) {
	for _, c := range active {
		for _, w := range c.warps {
			for i := range w.r32 {
				for lane := 0; lane < warpSize; lane += 2 {
					h.number(uint64(w.r32[i][lane]) | uint64(w.r32[i][lane+1])<<32)
				}
			}
			for i := range w.r64 {
				for lane := range warpSize {
					h.number(w.r64[i][lane])
				}
			}
			for _, p := range w.p {
				h.number(uint64(p))
			}
		}
	}
}

func (h *state) memory(w *worker, active []*cta) {
	for _, b := range w.grid.memory.buffers {
		if !b.readOnly && (!w.grid.several || w.alone) {
			h.Write(b.data)
		}
	}
	for _, c := range active {
		h.Write(c.shared)
		for _, w := range c.warps {
			h.Write(w.local)
		}
	}
}

// depart lets lanes go on that wait where a loop ends for others that are still in it, and reports whether there are
// any: the others may wait for what these do next, such as to give a lock back. Since sm_70, lanes make progress by
// themselves.
func depart(active []*cta) (some bool) {
	for _, c := range active {
		for _, w := range c.warps {
			for _, i := range slices.Clone(w.ready) {
				some = w.depart(w.paths[i].parent) || some
			}
		}
	}
	return some
}

// depart makes a path of its own of the lanes of a path that wait for its children.
func (w *warp) depart(i int) bool {
	if i < 0 {
		return false
	}
	lanes := w.paths[i].mask & w.alive
	for k := range w.paths {
		if p := &w.paths[k]; p.parent == i && !slices.Contains(w.free, k) {
			lanes &^= p.mask
		}
	}
	if lanes == 0 {
		return false
	}
	for k := range w.paths {
		if p := &w.paths[k]; p.parent == i {
			p.left &^= lanes
		}
	}
	next := w.paths[i]
	w.paths[i].mask &^= lanes
	next.mask, next.kids = lanes, 0
	if next.parent >= 0 {
		w.paths[next.parent].kids++
	}
	w.newPath(next)
	return true
}

// reportStuck reports that blocks go round for ever, at the memory that a thread looks at in its loop. It reports false
// where nobody looks at memory: such a loop waits for nothing.
func (w *worker) reportStuck(active []*cta) bool {
	for _, c := range active {
		for _, x := range c.warps {
			if len(x.ready) == 0 {
				continue
			}
			in, mask := x.waitsAt()
			if in == nil {
				continue
			}
			x.report(in, firstLane(mask), Deadlock, "%d threads of warp %d wait in a loop for memory that never changes: all "+
				"threads of the %d blocks that are left wait, too", bits.OnesCount32(mask), x.index, len(active))
			w.stopped = true
			return true
		}
	}
	return false
}

// circleSteps is how many instructions are looked at in search of the loop of a warp.
const circleSteps = 1 << 12

// waitsAt executes the loop of a warp once more and returns the first access to memory in it, and the lanes that make
// it.
func (w *warp) waitsAt() (in *ins, mask uint32) {
	for range circleSteps {
		if len(w.ready) == 0 {
			break
		}
		p := &w.paths[w.ready[len(w.ready)-1]]
		here := &w.cta.grid.prog.code[p.pc]
		if here.mem != nil && p.pc != p.rejoin && (in == nil || here.index < in.index) {
			in, mask = here, p.mask
		}
		w.run(1)
	}
	return in, mask
}
