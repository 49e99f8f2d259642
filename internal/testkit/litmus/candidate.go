package litmus

import "slices"

// This file implements candidate executions: one trace for each thread, who reads from whom, and the relations that
// follow before coherence order is chosen.

// initially stands for the write that a byte's first value comes from.
const initially = -1

// candidate is one choice of traces, grown step by step into an execution.
type candidate struct {
	x        *expander
	traces   []trace // by thread
	events   []event
	pieces   [][]int  // by event: what its place consists of
	overlaps relation // between accesses
	po       relation
	strong   relation // morally strong
	fixed    relation // what precedes in base causality order whatever is read
	rf       [][]int  // by event and piece: the write that is read from, or initially
	sc       [][2]int // pairs of morally strong fences, each in the order of one execution
	obs      relation
	base     relation
	cause    relation // between overlapping accesses
	release  [][2]int // patterns: their first operation, and the write
	acquire  [][2]int // patterns: the read, and their last operation
}

func newCandidate(x *expander, traces []trace) *candidate {
	c := &candidate{x: x, traces: traces}
	for _, t := range traces {
		first := len(c.events)
		for _, e := range t.events {
			deps := set{}
			for d := range e.deps.all {
				deps.add(first + d)
			}
			e.deps = deps
			e.covered = slices.Clone(e.covered)
			for i := range e.covered {
				e.covered[i] += first
			}
			c.events = append(c.events, e)
		}
	}
	n := len(c.events)
	if n > setLimit {
		panic("litmus: internal error: too many events")
	}
	c.overlaps, c.po, c.strong, c.fixed = newRelation(n), newRelation(n), newRelation(n), newRelation(n)
	c.pieces, c.rf = make([][]int, n), make([][]int, n)
	for a := range c.events {
		c.pieces[a] = slices.Collect(c.events[a].place.all)
		c.rf[a] = make([]int, len(c.pieces[a]))
		for b := range c.events {
			c.relate(a, b)
		}
	}
	c.patterns()
	for i := range c.events {
		for j := range i {
			if c.events[i].kind == fence && c.events[j].kind == fence && c.events[i].sem == SC &&
				c.events[j].sem == SC && c.events[i].thread != c.events[j].thread && c.strong[i].has(j) {
				c.sc = append(c.sc, [2]int{j, i})
			}
		}
	}
	return c
}

// relate fills what two events are to each other by themselves.
func (c *candidate) relate(a, b int) {
	x, y := &c.events[a], &c.events[b]
	if a != b && x.place.meets(y.place) {
		c.overlaps[a].add(b)
	}
	together := x.thread == y.thread && x.pair != 0 && x.pair == y.pair // in no order (8.2.2)
	if x.thread == y.thread && a < b && !together {
		switch {
		case !x.async && !y.async:
			c.po[a].add(b)
			c.fixed[a].add(b)
		case !x.async, y.async && y.stmt == x.stmt, slices.Contains(y.covered, a):
			c.fixed[a].add(b)
		}
	}
	inOrder := x.thread == y.thread && !x.async && !y.async && !together
	if a == b || !inOrder && !(x.strong() && y.strong() && c.includes(x, y) && c.includes(y, x)) {
		return
	}
	if x.kind == access && y.kind == access && x.place != y.place {
		return
	}
	c.strong[a].add(b)
}

// includes reports whether the scope of x includes the thread of y.
func (c *candidate) includes(x, y *event) bool {
	bx, by := c.block(x.thread), c.block(y.thread)
	return bx == by || x.scope == GPU || x.scope == Sys
}

func (c *candidate) block(thread int) int { return c.x.prog.Warps[c.x.threads[thread].warp].Block }

// patterns lists release and acquire patterns.
func (c *candidate) patterns() {
	for a := range c.events {
		x := &c.events[a]
		if x.kind == access && x.write && x.release() {
			c.release = append(c.release, [2]int{a, a})
		}
		if x.kind == access && x.read && !x.red && x.acquire() {
			c.acquire = append(c.acquire, [2]int{a, a})
		}
		for b := range c.po[a].all {
			y := &c.events[b]
			same := x.kind == fence || x.kind == access && x.place == y.place
			if x.strong() && x.release() && same && y.kind == access && y.write && y.strong() {
				c.release = append(c.release, [2]int{a, b})
			}
			same = y.kind == fence || y.kind == access && x.place == y.place
			if y.strong() && y.acquire() && same && x.kind == access && x.read && !x.red && x.strong() {
				c.acquire = append(c.acquire, [2]int{a, b})
			}
		}
	}
}

// sources are the writes that a read may take a piece from by value.
func (c *candidate) sources(r, piece int) []int {
	var out []int
	x := &c.events[r]
	fits := func(v value, start int) bool {
		return !x.got.known || v.known && c.x.part(v.n, start, piece) == c.x.part(x.got.n, x.start, piece)
	}
	for w := range c.events {
		y := &c.events[w]
		if w != r && y.write && y.place.has(piece) && !c.fixed[r].has(w) && fits(y.put, y.start) {
			out = append(out, w)
		}
	}
	if !x.got.known || c.x.initial(piece) == c.x.part(x.got.n, x.start, piece) {
		out = append(out, initially)
	}
	return out
}

// slot is one piece of one read.
type slot struct{ read, at int }

// slots lists the pieces of reads that are strong, or of those that are not. What weak reads read makes no order.
func (c *candidate) slots(strong bool) []slot {
	var out []slot
	for i := range c.events {
		if c.events[i].read && c.events[i].strong() == strong {
			for k := range c.pieces[i] {
				out = append(out, slot{i, k})
			}
		}
	}
	return out
}

// orders calls visit for every choice of what strong reads read and of the order of fence.sc, with the relations that
// follow. It ends when visit returns false.
func (c *candidate) orders(visit func() bool) bool {
	slots := c.slots(true)
	sources := make([][]int, len(slots))
	for i, s := range slots {
		sources[i] = c.sources(s.read, c.pieces[s.read][s.at])
		if len(sources[i]) == 0 {
			return true
		}
	}
	var choose func(i int) bool
	choose = func(i int) bool {
		if i == len(slots) {
			return c.selfReading() || c.fences(visit)
		}
		s := slots[i]
		for _, w := range sources[i] {
			c.rf[s.read][s.at] = w
			if !choose(i + 1) {
				return false
			}
		}
		return true
	}
	return choose(0)
}

// selfReading reports whether atomic operations read from each other in a circle: values out of thin air.
func (c *candidate) selfReading() bool {
	for i := range c.events {
		seen := 0
		for at := i; c.events[at].atomic; at = c.rf[at][0] {
			if seen++; seen > len(c.events) {
				return true
			}
			if c.rf[at][0] == initially {
				break
			}
		}
	}
	return false
}

// fences goes through the orders of fence.sc.
func (c *candidate) fences(visit func() bool) bool {
	c.observe()
	for bits := range 1 << len(c.sc) {
		base := c.fixed.clone()
		c.synchronize(base)
		for i, pair := range c.sc {
			if bits>>i&1 != 0 {
				base[pair[1]].add(pair[0])
			} else {
				base[pair[0]].add(pair[1])
			}
		}
		base.close()
		if base.cyclic() {
			continue
		}
		c.base = base
		c.causality()
		if !visit() {
			return false
		}
	}
	return true
}

// observe fills observation order.
func (c *candidate) observe() {
	c.obs = newRelation(len(c.events))
	for r := range c.events {
		if !c.events[r].read || !c.events[r].strong() {
			continue
		}
		for at, hops := r, 0; hops <= len(c.events); hops++ {
			w := c.rf[at][0]
			for _, other := range c.rf[at] {
				if other != w {
					w = initially
				}
			}
			if w == initially || !c.strong[w].has(at) {
				break
			}
			c.obs[w].add(r)
			if !c.events[w].atomic {
				break
			}
			at = w
		}
	}
}

// synchronize adds what release and acquire patterns order.
func (c *candidate) synchronize(base relation) {
	for _, rel := range c.release {
		for _, acq := range c.acquire {
			first, last := rel[0], acq[1]
			if c.obs[rel[1]].has(acq[0]) && c.events[first].thread != c.events[last].thread && c.strong[first].has(last) {
				base[first].add(last)
			}
		}
	}
}

// causality fills causality order between overlapping accesses.
func (c *candidate) causality() {
	n := len(c.events)
	c.cause = newRelation(n)
	for a := range n {
		for b := range c.overlaps[a].all {
			if c.base[a].has(b) {
				c.cause[a].add(b)
			}
		}
		for z := range c.obs[a].all {
			for b := range c.overlaps[z].all {
				if c.base[z].has(b) && c.overlaps[a].has(b) {
					c.cause[a].add(b)
				}
			}
		}
	}
}

// racing gives the verdict on the execution, and a pair that has it.
func (c *candidate) racing() (worst Verdict, pair [2]int) {
	worst = Silent
	for a := range c.events {
		for b := range c.overlaps[a].all {
			x, y := &c.events[a], &c.events[b]
			if b < a || !x.write && !y.write || c.cause[a].has(b) || c.cause[b].has(a) || c.strong[a].has(b) {
				continue
			}
			if v := c.race(x, y); v > worst {
				worst, pair = v, [2]int{a, b}
			}
		}
	}
	return worst, pair
}

// race says what a race of two accesses is.
func (c *candidate) race(x, y *event) Verdict {
	switch {
	case x.read || y.read || x.place != y.place || !x.put.known || !y.put.known || x.put.n != y.put.n:
		return Race
	case x.stmt == y.stmt && c.x.threads[x.thread].warp == c.x.threads[y.thread].warp:
		return Note
	}
	return SameValue
}
