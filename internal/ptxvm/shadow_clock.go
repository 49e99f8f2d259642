package ptxvm

import "slices"

// This file implements vector clocks. Barriers order whole warps, for which a row of stamps per warp is enough
// (shadow_order.go). Release and acquire order single threads, also of different blocks. A release publishes a clock:
// an immutable node that says what one thread did and knew, with links to the clocks that the thread had acquired.
// Joining two clocks costs one node, and a lookup follows the links. Where there are many, a clock gets a table instead
// (shadow_table.go), which the clocks after it share.

// clock is what a thread knows of.
type clock struct {
	block uint32   // of rows and lanes: number + 1
	rows  []uint32 // by warp: up to which stamp the accesses of all its lanes are known
	warp  int
	lanes uint32 // of the warp, whose own accesses up to stamp are known
	stamp uint32
	// copies: only the copies that the lanes have waited for up to stamp are known, and not what they did themselves.
	copies bool
	all    bool // the accesses of everybody up to stamp are known: see clockLimit
	from   []*clock
	depth  int // of links to clocks without a table

	table   *clockTable // all that the clock knows, instead of links; nil for none
	version uint32      // of the table

	// by is the thread whose knowledge this was when it released, and its stamp then. Whoever knows what the thread did
	// up to that stamp has learned it from the thread since, with all that the thread knew, so it knows this clock. The
	// mark is 0 for a clock that is not the knowledge of one thread.
	by former

	asked  former // what was looked up last: lanes that wait in a loop ask the same again and again
	answer bool
}

// clockLimit is how many clocks a launch makes before it becomes coarse: from then on, whoever publishes something
// publishes all that anybody did. Races may be missed then, and memory stays bounded.
const clockLimit = 1 << 18

// Clocks are reserved in the memory of the launch by the chunk; clockBytes is one with its links.
const (
	clockChunk = 1 << 12
	clockBytes = 192
)

// A clock with deeper links than maxClockDepth gets a table, one with more links than maxClockLinks another clock on
// top. Threads that wait for each other in a loop with a fence add a clock in each turn.
const (
	maxClockDepth = 16
	maxClockLinks = 8
)

// copiesKey is added to the key of a thread for the copies that it has waited for.
const copiesKey = 1 << 63

func threadKey(block uint32, warp, lane int) uint64 {
	return uint64(block)<<10 | uint64(warp)<<5 | uint64(lane)
}

// own reports whether a clock says itself that an access is known.
func (c *clock) own(f *former) bool {
	at := f.stamp()
	switch {
	case c.all:
		return at <= c.stamp
	case c.block != f.block:
		return false
	case c.copies && f.shape() != ofCopy:
		return false
	case c.lanes>>f.lane()&1 != 0 && c.warp == f.warp() && at <= c.stamp:
		return true
	}
	return c.rows != nil && at <= c.rows[f.warp()]
}

// knows reports whether an access is known.
func (c *clock) knows(f *former) bool {
	if c == nil {
		return false
	}
	switch {
	case c.table == nil && c.own(f):
		return true
	case c.table == nil && len(c.from) == 0:
		return false
	case c.asked != *f:
		c.asked, c.answer = *f, c.lookUp(f)
	}
	return c.answer
}

// lookUp is knows for a clock with links or a table.
func (c *clock) lookUp(f *former) bool {
	if c.table != nil {
		return c.table.knows(f, c.version)
	}
	var room [seenAtOnce]*clock
	reached := reached{list: append(room[:0], c)}
	for i := 0; i < len(reached.list); i++ {
		x := reached.list[i]
		if x.table != nil && x.table.knows(f, x.version) || x.table == nil && x.own(f) {
			return true
		}
		if reached.add(x.from); len(reached.list) > seenAtOnce {
			c.tabulate(true) // the next ones who ask have it easier
			return c.table.knows(f, c.version)
		}
	}
	return false
}

// reached are the clocks that links lead to, each once.
type reached struct {
	list []*clock
	seen map[*clock]bool // where list is long
}

// seenAtOnce is how many clocks are compared one by one. Most lookups end before, and need no map.
const seenAtOnce = 32

// add adds those of some clocks that are new.
func (r *reached) add(links []*clock) {
	for _, x := range links {
		if r.seen == nil && len(r.list) >= seenAtOnce {
			r.seen = map[*clock]bool{}
			for _, y := range r.list {
				r.seen[y] = true
			}
		}
		switch {
		case r.seen == nil && slices.Contains(r.list, x), r.seen[x]:
			continue
		case r.seen != nil:
			r.seen[x] = true
		}
		r.list = append(r.list, x)
	}
}

// has reports whether a clock is another one, links to it, continues its table, comes after it among coarse ones, or
// knows the thread that it is the knowledge of.
func (c *clock) has(x *clock) bool {
	return c == x || c.table != nil && c.table == x.table && c.version >= x.version ||
		c.all && x.all && c.stamp >= x.stamp || slices.Contains(c.from, x) || x.by.mark != 0 && c.knows(&x.by)
}

// join is what two clocks know together; nil stands for a clock that knows nothing.
func (r *racing) join(x, y *clock) *clock {
	switch {
	case y == nil || x != nil && x.has(y):
		return x
	case x == nil || y.has(x):
		return y
	case r.clocks >= clockLimit:
		return r.newCoarse()
	}
	if x.block == 0 && !x.all && len(x.from) < maxClockLinks && x.table == nil {
		return r.newClock(clock{from: append(x.from[:len(x.from):len(x.from)], y)})
	}
	return r.newClock(clock{from: []*clock{x, y}})
}

// newCoarse is a clock that knows all that anybody did.
func (r *racing) newCoarse() *clock {
	if r.coarse == nil || r.coarse.stamp < r.stamp {
		r.coarse = &clock{all: true, stamp: r.stamp}
	}
	return r.coarse
}

// newClock adds a clock, which becomes a coarse one where there are too many.
func (r *racing) newClock(from clock) *clock {
	if r.clocks >= clockLimit {
		return r.newCoarse()
	}
	if r.clocks%clockChunk == 0 {
		r.grid.reserve(clockChunk*clockBytes, forChecks) // where it fails, the launch ends
	}
	r.clocks++
	c := new(clock)
	*c = from
	for _, x := range c.from {
		c.depth = max(c.depth, x.depth+1)
	}
	c.tabulate(c.depth > maxClockDepth)
	return c
}
