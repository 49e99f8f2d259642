package ptxvm

import "slices"

// This file implements observation (PTX ISA, "Causality Order"): a strong write is ordered before what comes after a
// strong read of its value. The value may have passed through read-modify-writes, so who draws the last ticket of a
// counter may reset it by a plain store.

// after gives a strong load or store a stamp of its own if the last strong write of the word has the present one. Which
// of the two came first decides who has observed what; read-modify-writes need none, for the last one is the writer.
func (r *blockRacing) after(in *ins, t *touch) {
	if in.facts.rule != loads && in.facts.rule != stores {
		return
	}
	if last := r.cell(t, t.offset/4).writer(); last.strong() && last.stamp() == r.worker.stamp {
		r.worker.tick()
	}
}

// observed reports whether somebody has read what a write left in a word, by a strong access that is ordered before one
// now. A plain write has no observers, but who reads it by a strong access and does not race has it behind.
func (r *blockRacing) observed(x *accessing, c cell, m mark) bool {
	p, shared := r.worker.grid.prog, x.t.space == sharedSpace
	if m.strong() && !p.writes(m) || !m.strong() && m != c.writer() {
		return false
	}
	if m.strong() && r.worker.blind[r.key(x.w, x.t, x.t.offset/4+uint64(x.word))] {
		return true
	}
	old := r.former(m, shared)
	for _, z := range c.kept() {
		if z == m || !p.observes(z) || m.strong() && !c.follows(z, m) {
			continue
		}
		by := r.former(z, shared)
		by.lanes = c.lanes(z)
		if m.strong() && (!r.alike(&old, &by) || c.replaced(p, m, z)) {
			continue
		}
		if by.block == r.block && z.warp() == x.w.index && z.shape() == someLanes || // this lane may be one of them
			r.before(x.w, x.t.lane, &by, x.me.bytes()) {
			return true
		}
	}
	return false
}

// forgets reports whether a word has no room for a strong read, or has to forget one for it: without it a write would
// look as if nobody had observed it.
func (r *blockRacing) forgets(x *accessing, c cell) bool {
	shared := x.t.space == sharedSpace
	free := func(m mark) bool {
		_, joins := m.with(x.me, x.in.size())
		return m == 0 || joins || m.has(x.me) || r.again(x.me, m, shared) || r.passed(x.w, m, shared)
	}
	if free(c.reader()) || free(c.other()) {
		return false
	}
	of := c.overflow()
	return of != nil && !slices.ContainsFunc(of.marks[:], free)
}

// seen reports whether another thread has read what a strong write left in a word, or may have.
func (c cell) seen(p *Program, m mark) bool {
	for _, z := range c.kept() {
		if z != m && p.observes(z) && c.follows(z, m) && (z^m)&(31<<laneAt|31<<warpAt) != 0 {
			return true
		}
	}
	return false
}

// kept are the accesses that a word remembers.
func (c cell) kept() (list [columns + overflowSize]mark) {
	list[0], list[1], list[2] = c.writer(), c.reader(), c.other()
	if x := c.overflow(); x != nil {
		copy(list[columns:], x.marks[:])
	}
	return list
}

// follows reports whether a strong access came after a strong write: lanes of one instruction come one after the other,
// and the last one that writes is the writer.
func (c cell) follows(z, m mark) bool {
	return z.stamp() > m.stamp() || z.stamp() == m.stamp() && z == c.writer()
}

// replaced reports whether a strong store, which passes nothing on, came between a strong write and a later access.
func (c cell) replaced(p *Program, m, z mark) bool {
	for _, s := range c.kept() {
		if s != m && s != z && p.stores(s) && c.follows(s, m) && (s.stamp() < z.stamp() || z == c.writer()) {
			return true
		}
	}
	return false
}

// alike reports whether two strong accesses are strong for each other.
func (r *blockRacing) alike(x, y *former) bool {
	p := r.worker.grid.prog
	return x.bytes() == y.bytes() && p.unit(x.mark) == p.unit(y.mark) &&
		(x.block == y.block || !p.narrow(x.mark) && !p.narrow(y.mark))
}
