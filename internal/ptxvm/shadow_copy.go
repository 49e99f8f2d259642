package ptxvm

import "bytes"

// This file implements races of asynchronous copies. A copy is in no program order with what comes after it (PTX ISA,
// "Asynchronous operations"), so it is judged twice.
//
// When it is asked for, what it reads and overwrites is compared with what its thread has behind it; accesses from then
// until it was waited for are hazards (shadow_async.go). When somebody has waited for it, its accesses are entered as
// those of the thread that waited, which is the first one to have them behind it. Waiting at a barrier in shared memory
// also publishes them there, and nothing else that the thread did: their marks have a shape of their own.

// inBuffer counts the copies under way in a buffer.
type inBuffer struct {
	sources int // copies that read it
	targets int // copies that write it
}

// sides are those of a copy.
type sides uint8

const (
	readSide sides = 1 << iota
	writeSide
	bothSides = readSide | writeSide
)

// away counts sides of a copy in or out of the buffers that they concern.
func (b *blockShadow) away(t *transfer, of sides, by int) {
	if b.outside == nil {
		return
	}
	m, use := b.cta.grid.memory, t.in.copy
	if of&readSide != 0 && use.from.space == globalSpace && t.read > 0 {
		if from := m.find(t.from); from != nil {
			b.outside[from.index].sources += by
		}
	}
	if of&writeSide != 0 && use.to.space == globalSpace {
		if to := m.find(t.to); to != nil {
			b.outside[to.index].targets += by
		}
	}
}

// undisturbed reports whether no copy under way concerns the bytes of a load or a store, as far as that is seen
// quickly.
func (b *blockShadow) undisturbed(s *sweep, write bool) bool {
	if b.outside == nil || s.buffer == nil {
		return true
	}
	n := &b.outside[s.buffer.index]
	return n.targets == 0 && (!write || n.sources == 0)
}

// disturbs are the copies that an access of global memory comes in between of: one that writes its bytes, or reads
// what it writes.
func (b *blockShadow) disturbs(in *ins, t *touch) (target, source bool) {
	if t.buffer == nil || b.outside == nil || b.outside[t.buffer.index] == (inBuffer{}) {
		return false, false
	}
	from := t.buffer.base + t.offset
	to := from + uint64(len(t.data))
	look := func(c *transfer) {
		use := c.in.copy
		if use.to.space == globalSpace && c.to < to && from < c.to+uint64(c.size) &&
			(use.reduce == nil || !in.facts.strong) {
			target = true
		}
		if t.write && !c.made && use.from.space == globalSpace && c.from < to && from < c.from+uint64(c.read) {
			source = true
		}
	}
	for _, w := range b.cta.warps {
		for kind := range w.async {
			for lane := range w.async[kind] {
				for i := range w.async[kind][lane].list {
					look(&w.async[kind][lane].list[i])
				}
			}
		}
		for i := range w.flights.list {
			source = source || t.write && w.flights.list[i].reads(t)
		}
	}
	for i := range b.cta.bulk {
		look(&b.cta.bulk[i].transfer)
	}
	return target, source
}

// reads reports whether a flight is still to read bytes of an access.
func (f *flight) reads(t *touch) bool {
	if f.buffer != t.buffer {
		return false
	}
	for m := f.mask; m != 0; m &= m - 1 {
		from := f.from[firstLane(m)&31]
		if from != nothingRead && from < t.offset+uint64(len(t.data)) && t.offset < from+uint64(f.size) {
			return true
		}
	}
	return false
}

// overwrites judges what a copy is to overwrite when it is asked for. Compilers let several threads copy the same to
// one place, so words that cp.async does not change are left out; nobody does that with bulk copies.
func (x *warpShadow) overwrites(w *warp, lane int, t *transfer) {
	if !x.block.worker.race || t.size <= 0 {
		return
	}
	r, use := &x.block.racing, t.in.copy
	at := touch{lane: lane}
	if !at.reach(w, t) || at.buffer != nil && (at.buffer.readOnly || at.buffer.unwritten) {
		return
	}
	var source []byte
	if !t.in.barred() {
		source = w.sourceOf(t)
	}
	a := accessing{w: w, in: t.in, t: &at, changed: true}
	if at.space == sharedSpace {
		r.settleReads()
	}
	me := newMark(r.worker.stamp, w.index, t.in)
	if use.reduce != nil {
		me |= strongMark
	}
	r.pieces(&at, func(word int, from, to int, bytesOf uint8, c cell) {
		if source != nil && bytes.Equal(source[from:to], at.data[from:to]) {
			return
		}
		a.word, a.me = word, me.by(lane, bytesOf)
		if r.worker.following != nil {
			r.followedReaders(&a)
		}
		r.judge(&a, c, c.writer(), "writes", "written", nil)
		r.judge(&a, c, c.reader(), "writes", "read", nil)
		r.judge(&a, c, c.other(), "writes", "read", nil)
		r.judgeOverflow(&a, c)
	})
}

// reach makes an access what a copy writes. It reports false where that is not all in memory: that is another finding.
func (t *touch) reach(w *warp, c *transfer) bool {
	t.space, t.buffer, t.write, t.offset = c.in.copy.to.space, nil, true, c.to
	var data []byte
	if t.space == sharedSpace {
		data = w.cta.shared
	} else if t.buffer = w.cta.grid.memory.find(c.to); t.buffer != nil {
		t.offset -= t.buffer.base
		data = t.buffer.data
	}
	n := uint64(c.size)
	if t.offset >= uint64(len(data)) || n > uint64(len(data))-t.offset {
		return false
	}
	t.data = data[t.offset : t.offset+n]
	return true
}

// arrived is for a copy that was made when its source was waited for, and is now waited for as a whole.
func (x *warpShadow) arrived(w *warp, c *transfer, lane int) {
	x.block.mark(c, writeSide, false)
	x.block.away(c, writeSide, -1)
	if t := (touch{lane: lane, by: c.in}); t.reach(w, c) {
		x.landed = append(x.landed, t)
	}
}

// barred reports whether an instruction is a copy that others than its thread may wait for, or that counts in groups of
// bulk copies.
func (in *ins) barred() bool { return in.copy != nil && (in.src.Has("bulk") || in.src.Op == "st") }

// sourceOf is what a copy is to bring, as far as it can be seen in one piece; zeros for what is not read.
func (w *warp) sourceOf(t *transfer) []byte {
	piece := make([]byte, t.size)
	if b := w.cta.grid.memory.find(t.from); t.read > 0 && b != nil && t.from-b.base+uint64(t.read) <= uint64(len(b.data)) {
		copy(piece, b.data[t.from-b.base:][:t.read])
	}
	return piece
}

// pieces calls visit for the words of an access: which one of them it is, its bytes in the access and in the word.
func (r *blockRacing) pieces(t *touch, visit func(word, from, to int, bytes uint8, c cell)) {
	done, at := 0, int(t.offset%4)
	for i := range (at + len(t.data) + 3) / 4 {
		n := min(4-at, len(t.data)-done)
		visit(i, done, done+n, (1<<n-1)<<at, r.cell(t, t.offset/4+uint64(i)))
		at, done = 0, done+n
	}
}

// enterCopy enters an access of a copy that was waited for, and was judged when it began.
func (r *blockRacing) enterCopy(w *warp, t *touch) {
	if t.space != sharedSpace && (t.buffer == nil || t.buffer.readOnly || t.buffer.unwritten) {
		return
	}
	r.mark(w)
	if t.space == sharedSpace {
		r.settleReads()
	}
	strong := t.by.copy.reduce != nil
	me := newMark(r.worker.stamp, w.index, t.by) | ofCopy
	if strong && t.write {
		me |= strongMark
	}
	x := accessing{w: w, in: t.by, t: t, changed: true}
	r.pieces(t, func(word, from, to int, bytes uint8, c cell) {
		x.word, x.me = word, me.by(t.lane, bytes)
		switch {
		case !t.write:
			r.enter(w, c, x.me, 0, t.space == sharedSpace)
		case strong:
			old := r.former(c.writer(), t.space == sharedSpace)
			r.enterStrong(&x, c, &old)
		default:
			r.unpublish(w, t, t.offset+uint64(from), to-from)
			r.setWriter(c, x.me)
			r.forget(c)
		}
	})
}

// completed lets those who wait at a barrier in shared memory know of the copies that it has counted.
func (r *blockRacing) completed(w *warp, lane int, barrier uint64) {
	at := r.key(w, &touch{space: sharedSpace}, barrier<<5|8)
	p := r.released[at]
	if p == nil {
		p = &released{block: r.block}
		r.published(&touch{space: sharedSpace}, at, p)
	}
	if p.block != r.block {
		p.block, p.narrow, p.serial[0] = r.block, nil, nil
	}
	p.narrow = r.worker.join(p.narrow, r.worker.newClock(
		clock{block: r.block, warp: w.index, lanes: 1 << lane, stamp: r.worker.stamp, copies: true}))
}

// enterLanded enters the accesses of bulk copies that somebody has waited for.
func (x *warpShadow) enterLanded(w *warp) {
	r, first := &x.block.racing, true
	for i := range x.landed {
		t := &x.landed[i]
		if !x.block.worker.race || !t.by.barred() {
			continue
		}
		if first {
			r.worker.tick()
			first = false
		}
		r.enterCopy(w, t)
	}
	if !first {
		for _, c := range x.counted {
			r.completed(w, c.lane, c.barrier)
		}
		r.worker.tick()
	}
	x.landed, x.counted = x.landed[:0], x.counted[:0]
}

// counted is a barrier that has counted copies when a lane asked.
type counted struct {
	lane    int
	barrier uint64
}
