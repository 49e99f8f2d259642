package ptxvm

import (
	"math/bits"
	"slices"
)

// This file implements vector clocks. Barriers order whole warps, for which a row of stamps per warp is enough
// (shadow_order.go). Release and acquire order single threads, also of different blocks. A release publishes a clock:
// an immutable node that says what one thread did and knew, with links to the clocks that the thread had acquired.
// Joining two clocks costs one node. A lookup follows the links, and keeps what it finds in a table where there are
// many.

// clock is what a thread knows of.
type clock struct {
	block uint32   // of rows and lanes: number + 1
	rows  []uint32 // by warp: up to which stamp the accesses of all its lanes are known
	warp  int
	lanes uint32 // of the warp, whose own accesses up to stamp are known
	stamp uint32
	all   bool // the accesses of everybody up to stamp are known: see clockLimit
	from  []*clock
	depth int // of links to clocks without a table

	flat *flatClock // all that the clock knows, instead of links; nil for none
}

// flatClock is a clock and all that it links to.
type flatClock struct {
	all   uint32
	rows  map[uint64]uint32 // by block and warp
	lanes map[uint64]uint32 // by block, warp and lane
}

// clockLimit is how many clocks a launch makes before it becomes coarse: from then on, whoever publishes something
// publishes all that anybody did. Races may be missed then, and memory stays bounded.
const clockLimit = 1 << 18

// Clocks are reserved in the memory of the launch by the chunk; clockBytes is one with its links.
const (
	clockChunk = 1 << 12
	clockBytes = 160
)

// A clock with deeper links than maxClockDepth gets a table, one with more links than maxClockLinks another clock on
// top. Threads that wait for each other in a loop with a fence add a clock in each turn.
const (
	maxClockDepth = 16
	maxClockLinks = 8
)

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
	if c.flat != nil {
		return c.flat.knows(f)
	}
	if c.own(f) || len(c.from) == 0 {
		return c.own(f)
	}
	var room [4 * maxClockLinks]*clock
	open, seen := append(room[:0], c.from...), map[*clock]bool{}
	for len(open) > 0 {
		x := open[len(open)-1]
		open = open[:len(open)-1]
		switch {
		case x.flat != nil:
			if x.flat.knows(f) {
				return true
			}
		case x.own(f):
			return true
		default:
			for _, next := range x.from {
				if !seen[next] {
					seen[next] = true
					open = append(open, next)
				}
			}
		}
	}
	return false
}

func (t *flatClock) knows(f *former) bool {
	at := f.stamp()
	return at <= t.all || at <= t.rows[threadKey(f.block, f.warp(), 0)] ||
		at <= t.lanes[threadKey(f.block, f.warp(), f.lane())]
}

// flatten makes the table of a clock, and forgets its links.
func (c *clock) flatten() {
	t := &flatClock{rows: map[uint64]uint32{}, lanes: map[uint64]uint32{}}
	raise := func(m map[uint64]uint32, key uint64, stamp uint32) { m[key] = max(m[key], stamp) }
	seen := map[*clock]bool{c: true}
	for open := []*clock{c}; len(open) > 0; {
		x := open[len(open)-1]
		open = open[:len(open)-1]
		if x.flat != nil {
			t.all = max(t.all, x.flat.all)
			for key, stamp := range x.flat.rows {
				raise(t.rows, key, stamp)
			}
			for key, stamp := range x.flat.lanes {
				raise(t.lanes, key, stamp)
			}
			continue
		}
		if x.all {
			t.all = max(t.all, x.stamp)
		}
		for warp, stamp := range x.rows {
			raise(t.rows, threadKey(x.block, warp, 0), stamp)
		}
		for m := x.lanes; m != 0; m &= m - 1 {
			raise(t.lanes, threadKey(x.block, x.warp, bits.TrailingZeros32(m)), x.stamp)
		}
		for _, next := range x.from {
			if !seen[next] {
				seen[next] = true
				open = append(open, next)
			}
		}
	}
	c.flat, c.from, c.rows, c.depth = t, nil, nil, 0
}

// has reports whether a clock is another one or links to it.
func (c *clock) has(x *clock) bool { return c == x || slices.Contains(c.from, x) }

// join is what two clocks know together; nil stands for a clock that knows nothing.
func (r *racing) join(x, y *clock) *clock {
	switch {
	case y == nil || x != nil && x.has(y):
		return x
	case x == nil || y.has(x):
		return y
	}
	if x.block == 0 && !x.all && len(x.from) < maxClockLinks && x.flat == nil {
		return r.newClock(clock{from: append(x.from[:len(x.from):len(x.from)], y)})
	}
	return r.newClock(clock{from: []*clock{x, y}})
}

// newClock adds a clock, which becomes a coarse one where there are too many.
func (r *racing) newClock(c clock) *clock {
	if r.clocks >= clockLimit {
		if r.coarse == nil || r.coarse.stamp < r.stamp {
			r.coarse = &clock{all: true, stamp: r.stamp}
		}
		return r.coarse
	}
	if r.clocks%clockChunk == 0 {
		r.grid.reserve(clockChunk*clockBytes, forChecks) // where it fails, the launch ends
	}
	r.clocks++
	for _, x := range c.from {
		c.depth = max(c.depth, x.depth+1)
	}
	if c.depth > maxClockDepth {
		c.flatten()
	}
	return &c
}
