package litmus

// This file implements the axioms: whether what weak reads read and a coherence order can be chosen for a candidate.

// consistent calls visit for each choice that keeps the axioms, with coherence order, until it returns false. Places
// that do not overlap are chosen for one after the other; only values out of thin air connect them.
func (c *candidate) consistent(visit func(co relation) bool) {
	parts := c.components()
	co := newRelation(len(c.events))
	var choose func(i int) bool
	choose = func(i int) bool {
		if i == len(parts) {
			return c.thinAir() || visit(co)
		}
		before := co.clone()
		more := c.coherent(parts[i], co, func() bool { return choose(i + 1) })
		copy(co, before)
		return more
	}
	choose(0)
}

// components gives sets of accesses that overlap, directly or through others.
func (c *candidate) components() []set {
	var out []set
	var seen set
	for i := range c.events {
		if c.events[i].kind != access || seen.has(i) {
			continue
		}
		var part set
		todo := []int{i}
		for len(todo) > 0 {
			at := todo[0]
			todo = todo[1:]
			if seen.has(at) {
				continue
			}
			seen.add(at)
			part.add(at)
			for b := range c.overlaps[at].all {
				todo = append(todo, b)
			}
		}
		out = append(out, part)
	}
	return out
}

// coherent calls visit for all coherence orders of one component, and all that its weak reads may read.
func (c *candidate) coherent(part set, co relation, visit func() bool) bool {
	var writes []int
	for w := range part.all {
		if c.events[w].write {
			writes = append(writes, w)
		}
	}
	for _, w := range writes {
		for _, v := range writes {
			if c.cause[w].has(v) {
				co[w].add(v)
			}
		}
	}
	co.close()
	return c.arrange(part, writes, co, visit)
}

// arrange orders morally strong writes that have no order yet, both ways.
func (c *candidate) arrange(part set, writes []int, co relation, visit func() bool) bool {
	if co.cyclic() {
		return true
	}
	for _, w := range writes {
		for _, v := range writes {
			if w >= v || !c.overlaps[w].has(v) || !c.strong[w].has(v) || co[w].has(v) || co[v].has(w) {
				continue
			}
			before := co.clone()
			for _, pair := range [][2]int{{w, v}, {v, w}} {
				copy(co, before)
				co[pair[0]].add(pair[1])
				co.close()
				if !c.arrange(part, writes, co, visit) {
					return false
				}
			}
			copy(co, before)
			return true
		}
	}
	return c.readings(part, co, visit)
}

// readings chooses what weak reads read.
func (c *candidate) readings(part set, co relation, visit func() bool) bool {
	var slots []slot
	for _, s := range c.slots(false) {
		if part.has(s.read) {
			slots = append(slots, s)
		}
	}
	for r := range part.all { // the strong ones are chosen already
		if c.events[r].read && c.events[r].strong() {
			for k := range c.pieces[r] {
				if !c.readable(r, k, co) {
					return true
				}
			}
		}
	}
	var choose func(i int) bool
	choose = func(i int) bool {
		if i == len(slots) {
			if !c.copyAtomic(part, co) || c.disordered(part, co) {
				return true
			}
			return visit()
		}
		s := slots[i]
		for _, w := range c.sources(s.read, c.pieces[s.read][s.at]) {
			c.rf[s.read][s.at] = w
			if c.readable(s.read, s.at, co) && !choose(i+1) {
				return false
			}
		}
		return true
	}
	return choose(0)
}

// overwritten calls visit for the writes that come after what piece k of a read has read: from-read order.
func (c *candidate) overwritten(r, k int, co relation, visit func(w int) bool) bool {
	from := c.rf[r][k]
	for w := range c.overlaps[r].all {
		later := from == initially || co[from].has(w)
		if later && c.events[w].write && c.events[w].place.has(c.pieces[r][k]) && !visit(w) {
			return false
		}
	}
	return true
}

// readable applies the axioms of causality and of atomic operations to one piece of a read.
func (c *candidate) readable(r, k int, co relation) bool {
	if from := c.rf[r][k]; from != initially && c.cause[r].has(from) {
		return false
	}
	x := &c.events[r]
	return c.overwritten(r, k, co, func(w int) bool {
		return !c.cause[w].has(r) && !(x.atomic && x.write && c.strong[r].has(w) && co[w].has(r))
	})
}

// copyAtomic applies single-copy atomicity: no read takes a byte from a morally strong write and one from before it.
func (c *candidate) copyAtomic(part set, co relation) bool {
	for r := range part.all {
		if !c.events[r].read || len(c.pieces[r]) == 1 {
			continue
		}
		for _, from := range c.rf[r] {
			if from == initially || !c.strong[from].has(r) {
				continue
			}
			for k := range c.pieces[r] {
				if !c.overwritten(r, k, co, func(w int) bool { return w != from }) {
					return false
				}
			}
		}
	}
	return true
}

// disordered reports whether program order at one place contradicts what morally strong operations communicate.
func (c *candidate) disordered(part set, co relation) bool {
	g := newRelation(len(c.events))
	for a := range part.all {
		for b := range c.overlaps[a].all {
			if c.po[a].has(b) || c.strong[a].has(b) && co[a].has(b) {
				g[a].add(b)
			}
		}
		if !c.events[a].read {
			continue
		}
		for k, from := range c.rf[a] {
			if from != initially && c.strong[from].has(a) {
				g[from].add(a)
			}
			c.overwritten(a, k, co, func(w int) bool {
				if c.strong[a].has(w) {
					g[a].add(w)
				}
				return true
			})
		}
	}
	g.close()
	return g.cyclic()
}

// thinAir reports whether values justify themselves.
func (c *candidate) thinAir() bool {
	g := newRelation(len(c.events))
	for i := range c.events {
		if c.events[i].read {
			for _, w := range c.rf[i] {
				if w != initially {
					g[w].add(i)
				}
			}
		}
		for d := range c.events[i].deps.all {
			g[d].add(i)
		}
	}
	g.close()
	return g.cyclic()
}

// interleaved reports whether the execution is one of threads that take turns: program order, synchronization and what
// is communicated fit into one order.
func (c *candidate) interleaved(co relation) bool {
	g := c.base.clone()
	c.communicate(g, co)
	g.close()
	return !g.cyclic()
}

// inTurn reports whether the execution is the one in which threads run one after the other as they are written, and
// every loop sees at once what it waits for.
func (c *candidate) inTurn(co relation) bool {
	g := c.base.clone()
	for a := range c.events {
		if c.events[a].spun {
			return false
		}
		for b := range c.events {
			if c.events[a].thread < c.events[b].thread {
				g[a].add(b)
			}
		}
	}
	c.communicate(g, co)
	g.close()
	return !g.cyclic()
}

// communicate adds coherence order, who reads from whom, and what overwrites what was read.
func (c *candidate) communicate(g, co relation) {
	for a := range c.events {
		g[a] = g[a].union(co[a])
		if !c.events[a].read {
			continue
		}
		for k, from := range c.rf[a] {
			if from != initially {
				g[from].add(a)
			}
			c.overwritten(a, k, co, func(w int) bool {
				g[a].add(w)
				return true
			})
		}
	}
}
