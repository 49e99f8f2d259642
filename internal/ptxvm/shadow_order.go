package ptxvm

import "gpuemu/internal/ptx"

// This file implements what orders accesses beside barriers of blocks (PTX ISA, "Memory Consistency Model"). An atomic
// operation says nothing about other memory by itself: what a thread wrote before it is published by a fence in
// between, or by .release or .acq_rel of the operation. A reader's fence is not asked for: it reads what it reads
// because of the value it has seen, and examples of the CUDA C++ Programming Guide leave that fence out.

// audience says for whom something is ordered.
type audience uint8

const (
	nobody     audience = iota
	ownBlock            // .cta
	everyBlock          // .gpu, .cluster, .sys
)

// ordering is how an instruction orders accesses.
type ordering struct {
	fence   audience
	release audience // of a store or an atomic operation: what came before it is published with it
	narrow  bool     // an atomic operation or a strong access that only threads of one block see as such
}

// orderingOf reads the ordering of an instruction.
func orderingOf(in *ptx.Instr) (o ordering) {
	scope := everyBlock
	if in.Has("cta") {
		scope = ownBlock
	}
	switch {
	case in.Op == "membar" && !in.Has("proxy"), in.Op == "fence" && !in.Has("proxy") && !in.Has("acquire"):
		o.fence = scope
	case in.Op == "mbarrier": // made for this; relaxed forms are taken to order, too
		o.release = everyBlock
	case in.Has("release") || in.Has("acq_rel"):
		o.release = scope
	}
	o.narrow = scope == ownBlock && (in.Op == "atom" || in.Op == "red" || in.Has("relaxed") || in.Has("release") ||
		in.Has("acquire"))
	return o
}

// fences are the stamps of the latest fences that a warp knows of, for its block and for the device: what came before
// them is published by its next atomic operation.
type fences [2]uint32

func (f *fences) join(other *fences) {
	for i := range f {
		f[i] = max(f[i], other[i])
	}
}

// fence publishes what a warp did and knows.
func (r *blockRacing) fence(w *warp, to audience) {
	for i := range int(to) {
		r.fences[w.index][i] = r.worker.clock
	}
	r.worker.clock++
}

// published is the stamp up to which an atomic operation or a store of a warp publishes accesses.
func (r *blockRacing) published(w *warp, in *ins, to audience) uint32 {
	if in.facts.order.release >= to {
		return r.worker.clock
	}
	return r.fences[w.index][to-1]
}

// acquire lets a warp know of what was published with the last atomic operations on a word, if it can see their result.
// Threads of one block that meet in global memory are taken to be ordered without fences.
func (r *blockRacing) acquire(w *warp, in *ins, t *touch, c *cell) {
	if in.src.Op == "red" || in.src.Op == "st" {
		return
	}
	stamp := c.released
	if t.space != sharedSpace { // there, nobody but the own block publishes anything
		r.others = max(r.others, stamp)
	}
	if old := &c.writer; old.block == uint32(w.cta.number)+1 && old.flags&strongAccess != 0 {
		if t.space != sharedSpace {
			stamp = max(stamp, old.stamp)
		}
		if int(old.warp) == w.index {
			w.paths[w.current].met = w.steps
		}
	}
	known := r.known[w.index]
	for i := range known {
		known[i] = max(known[i], stamp)
	}
	r.learned(w.index)
}

// clash reports whether two accesses concern the same bytes and are not both atomic for each other.
func clash(a, b *former) bool {
	both := a.flags | b.flags
	switch {
	case a.bytes&b.bytes == 0:
		return false
	case a.flags&b.flags&strongAccess == 0:
		return true
	case a.block != b.block:
		return both&(narrowAccess|plainForBlocks) != 0
	}
	return a.warp != b.warp && both&plainForWarps != 0
}

// inherit keeps a plain write in sight that an atomic operation of the same block follows before anything has published
// it: for others the word counts as written plainly.
func (r *blockRacing) inherit(w *warp, in *ins, old, me *former) {
	if me.flags&strongAccess == 0 || old.block != me.block {
		return
	}
	plain := old.flags&strongAccess == 0
	if (plain || old.flags&plainForBlocks != 0) && old.stamp > r.published(w, in, everyBlock) {
		me.flags |= plainForBlocks
	}
	if (plain || old.flags&plainForWarps != 0) && old.stamp > r.published(w, in, ownBlock) {
		me.flags |= plainForWarps
	}
}

// keeps reports whether a former reader stays in sight behind an atomic operation of its block, which other blocks or
// warps may follow with others: nothing has published the read yet.
func (r *blockRacing) keeps(w *warp, in *ins, t *touch, reader, me *former) bool {
	to := everyBlock
	if t.space == sharedSpace {
		to = ownBlock
	}
	return me.flags&strongAccess != 0 && reader.flags&strongAccess == 0 && reader.block == me.block &&
		reader.stamp > r.published(w, in, to)
}

// parted reports whether a lane of the warp has been on another path than the current one since before a step of the
// warp, with no instruction in between at which the two met. Lanes that go the same way are taken to be ordered: PTX
// does not say so, but compilers and kernels rely on it.
func (w *warp) parted(lane int, step uint32) bool {
	p := &w.paths[w.current]
	met := p.met
	for p.mask>>lane&1 == 0 {
		if p.left>>lane&1 != 0 || p.parent < 0 {
			return false
		}
		since := p.born
		p = &w.paths[p.parent]
		if p.mask>>lane&1 != 0 {
			return step > uint32(since) && step > uint32(met)
		}
		met = max(met, p.met)
	}
	return false
}
