package ptxvm

// This file implements the check for asynchronous copies: nobody may read or write what a copy is to deliver before
// somebody has waited for it, nor write what a copy has not read yet.

// issue marks the bytes of shared memory that a copy is to deliver, or is to read.
func (x *warpShadow) issue(w *warp, lane int, t transfer) {
	bulk := t.in.barred()
	if to := t.in.copy.to; bulk && t.in.copy.reduce == nil && to.space == sharedSpace &&
		x.block.worker.async && x.block.arriving.anyRange(t.to, t.size) {
		w.report(t.in, lane, AsyncHazard, "writes byte %d of shared memory, where nobody has waited for an asynchronous copy",
			t.to)
	}
	x.overwrites(w, lane, &t)
	x.block.mark(&t, bothSides, true)
	x.block.away(&t, bothSides, 1)
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

// mark begins or ends sides of a copy.
func (b *blockShadow) mark(t *transfer, of sides, on bool) {
	if of&writeSide != 0 && t.in.copy.to.space == sharedSpace {
		b.arriving.markRange(t.to, t.size, on)
	}
	if of&readSide != 0 && t.in.copy.from.space == sharedSpace {
		b.leaving.markRange(t.from, t.read, on)
	}
}

// land ends sides of a copy whose accesses are the touches from before on: the bytes are defined, and written by the
// thread that waits.
func (x *warpShadow) land(w *warp, t *transfer, before int, done sides) {
	x.block.mark(t, done, false)
	x.block.away(t, done, -1)
	for i := range x.touches[before:] {
		c := &x.touches[before+i]
		if c.write {
			x.set(c, true)
		}
		c.by = t.in
		if c.write && done&writeSide != 0 || !c.write && t.in.barred() {
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
	if b.worker.race {
		x.quickOverwrites(w, f)
	}
	if b.outside != nil && f.buffer != nil {
		b.outside[f.buffer.index].sources++
	}
	for m := f.mask; m != 0; m &= m - 1 {
		b.arriving.mark(uint64(f.to[firstLane(m)&31]), f.size, true)
	}
	x.judged = true
	return true
}

// quickOverwrites is overwrites for the copies of the threads of a warp.
func (x *warpShadow) quickOverwrites(w *warp, f *flight) {
	s := &w.swept
	*s = sweep{space: sharedSpace}
	for lane := range w.at {
		w.at[lane] = uint64(f.to[lane])
	}
	if x.block.racing.ordered(w, s, f.size) {
		return
	}
	for m := f.mask; m != 0; m &= m - 1 {
		lane := firstLane(m) & 31
		t := transfer{in: f.in, to: uint64(f.to[lane]), size: f.size}
		if f.from[lane] != nothingRead {
			t.from, t.read = f.buffer.base+f.from[lane], f.size
		}
		x.overwrites(w, lane, &t)
	}
}

// quickLanding enters the writes of a copy that somebody waits for, before they are made, if there is no race.
func (x *warpShadow) quickLanding(w *warp, f *flight) bool {
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
	r.enterWrites(w, f.in, s, f.size, func(lane, word, _ int) bool {
		at, from := f.to[lane]+uint32(4*word), f.from[lane]
		if from == nothingRead {
			return getBytes(shared[at:], 4) == 0
		}
		return getBytes(shared[at:], 4) == getBytes(source[from+uint64(4*word):], 4)
	})
	return true
}

// arrive is land for bytes of shared memory, before they are written. Those that are judged are done with.
func (x *warpShadow) arrive(by *ins, lane int, to uint64, data []byte, judged bool) {
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
	t.settled, t.changed, t.copied, t.by = false, false, true, by
	copy(t.old[:], data)
}

// outsideHazard judges an access of global memory beside copies that are under way.
func (x *warpShadow) outsideHazard(w *warp, in *ins, t *touch) {
	target, source := x.block.disturbs(in, t)
	if !target && !source {
		return
	}
	verb, what := "reads", "where nobody has waited for an asynchronous copy"
	if t.write {
		verb = "writes"
	}
	if !target {
		what = "which an asynchronous copy may not have read yet"
	}
	if f := w.report(in, t.lane, AsyncHazard, "%s byte %d of %s, %s", verb, t.offset, t.buffer.name, what); f != nil {
		f.Address, f.Buffer = t.buffer.base+t.offset, t.buffer.name
	}
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
			x.outsideHazard(w, in, t)
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
			if t := &x.landed[i]; !t.by.barred() {
				t.copied = true
				x.block.racing.touch(w, t.by, t)
			}
		}
	}
	x.enterLanded(w)
}
