package ptxvm

// This file implements the check for asynchronous copies: nobody may read or write what a copy is to deliver before
// somebody has waited for it, nor write what a copy has not read yet.

// issue marks the bytes of shared memory that a copy is to deliver, or is to read.
func (x *warpShadow) issue(w *warp, lane int, t transfer) {
	x.block.mark(t, true)
	if t.in.copy.from.space == sharedSpace {
		x.unfencedSource(w, t.in, lane, t.from, t.read)
	}
	if t.in.copy.to.space == sharedSpace && t.in.src.Has("bulk") {
		x.unfenced(w, t.in, lane, t.to, t.size, "writes")
	}
	if t.in.copy.to.space == sharedSpace && x.block.isRead(t.to, t.size) {
		w.report(t.in, lane, AsyncHazard, "writes byte %d of shared memory, which a product may not have read yet", t.to)
	}
}

// mark begins or ends a copy.
func (b *blockShadow) mark(t transfer, on bool) {
	if t.in.copy.to.space == sharedSpace {
		b.arriving.markRange(t.to, t.size, on)
	}
	if t.in.copy.from.space == sharedSpace {
		b.leaving.markRange(t.from, t.read, on)
	}
}

// land ends a copy whose accesses are the touches from before on: the bytes are defined, and written by the thread that
// waits.
func (x *warpShadow) land(t transfer, before int) {
	x.block.mark(t, false)
	for i := range x.touches[before:] {
		if c := &x.touches[before+i]; c.write {
			x.set(c, true)
			x.landed = append(x.landed, *c)
		}
	}
	x.touches = x.touches[:before]
}

// quickCopy judges a copy of the threads of a warp when it begins, and marks what it is to deliver. As the other quick
// checks it gives up, and marks nothing, where something is not as it should be.
func (x *warpShadow) quickCopy(w *warp, f *flight) bool {
	b, facts := x.block, &f.in.facts
	if !x.plain || b.reading != nil || b.worker.uninit && (!x.all(facts.address, f.mask) || !x.all(facts.reads, f.mask)) {
		return false
	}
	s := &w.swept
	*s = sweep{space: globalSpace, buffer: f.buffer}
	for m := f.mask; m != 0; m &= m - 1 {
		lane := firstLane(m)
		if w.at[lane&31] = f.from[lane&31]; w.at[lane&31] != nothingRead {
			s.all |= 1 << lane
		}
	}
	if s.all != 0 && b.worker.race && !b.racing.reads(w, f.in, s, f.size) {
		return false
	}
	for m := f.mask; m != 0; m &= m - 1 {
		b.arriving.mark(uint64(f.to[firstLane(m)&31]), f.size, true)
	}
	x.judged = true
	return true
}

// quickLanding enters the writes of a copy that somebody waits for, before they are made, if there is no race.
func (x *warpShadow) quickLanding(w *warp, in *ins, f *flight) bool {
	if !x.block.worker.race {
		return true
	}
	mask, s := w.mask, &w.swept
	defer func() { w.mask = mask }()
	w.mask, *s = f.mask, sweep{space: sharedSpace}
	for lane := range w.at {
		w.at[lane] = uint64(f.to[lane])
	}
	r := &x.block.racing
	if !r.ordered(w, s, f.size) {
		return false
	}
	shared, source := w.cta.shared, f.source()
	r.enterWrites(w, in, s, f.size, func(lane, word, _ int) bool {
		at, from := f.to[lane]+uint32(4*word), f.from[lane]
		if from == nothingRead {
			return getBytes(shared[at:], 4) == 0
		}
		return getBytes(shared[at:], 4) == getBytes(source[from+uint64(4*word):], 4)
	})
	return true
}

// arrive is land for bytes of shared memory, before they are written. Those that are judged are done with.
func (x *warpShadow) arrive(lane int, to uint64, data []byte, judged bool) {
	x.block.arriving.mark(to, len(data), false)
	x.block.shared.mark(to, len(data), true)
	if judged {
		return
	}
	n := len(x.landed)
	if n == cap(x.landed) {
		x.landed = append(x.landed, touch{})
	} else {
		x.landed = x.landed[:n+1]
	}
	t := &x.landed[n]
	t.space, t.lane, t.write, t.buffer, t.offset, t.data = sharedSpace, lane, true, nil, to, data
	t.settled, t.changed = false, false
	copy(t.old[:], data)
}

// hazards judges the accesses of an instruction.
func (x *warpShadow) hazards(w *warp, in *ins) {
	b := x.block
	if in.facts.strong || in.src.Op == "mbarrier" {
		b.proxy.sync()
	}
	for i := range x.touches {
		t := &x.touches[i]
		if t.space != sharedSpace {
			continue
		}
		verb := "reads"
		if t.write {
			verb = "writes"
		}
		var f *Finding
		switch n := len(t.data); {
		case b.arriving.any(t.offset, n):
			f = w.report(in, t.lane, AsyncHazard,
				"%s byte %d of shared memory, where nobody has waited for an asynchronous copy", verb, t.offset)
		case t.write && b.leaving.any(t.offset, n):
			f = w.report(in, t.lane, AsyncHazard,
				"writes byte %d of shared memory, which an asynchronous copy may not have read yet", t.offset)
		case t.write && b.isRead(t.offset, n):
			f = w.report(in, t.lane, AsyncHazard,
				"writes byte %d of shared memory, which a product may not have read yet", t.offset)
		}
		if f != nil {
			f.Address, f.Buffer = t.offset, "shared memory"
		}
		if t.write && b.reading != nil && in.src.Op != "cp" {
			b.proxy.wrote(w.index, t)
		}
	}
}

// arrivals hands what has landed to the check for races. Waiting for groups of one's own makes a thread the writer, and
// so does an arrival in their place, which publishes them. Barriers in memory order what bulk copies deliver for
// everybody who waits there.
func (x *warpShadow) arrivals(w *warp, in *ins) {
	waits := in.src.Op == "cp" && !in.src.Has("bulk") &&
		(in.src.Has("wait_group") || in.src.Has("wait_all") || arrivesAsync(in.src))
	if waits && x.block.worker.race {
		for i := range x.landed {
			x.landed[i].copied = true
			x.block.racing.touch(w, in, &x.landed[i])
		}
	}
	x.landed = x.landed[:0]
}
