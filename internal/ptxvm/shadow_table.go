package ptxvm

import (
	"math/bits"
	"sort"
)

// This file implements tables of clocks: all that a clock knows, by warp and lane.
//
// Threads that release and acquire the same word one after the other know what those before them knew, and something
// more. Their clocks share one table, in which every entry keeps the versions of the table at which it rose: a clock
// sees the table as it was at its own version. Only the clock of the last version can be continued so. Others that go
// on from an earlier one link to it, until there are so many links that a table of their own is due.

// clockTable is what a series of clocks knows.
type clockTable struct {
	version uint32 // the last one
	all     history
	rows    map[uint64]history // by block and warp
	lanes   map[uint64]history // by block, warp and lane, those of copies with copiesKey
}

// history is a stamp that rises, with the versions at which it rose.
type history []risen

type risen struct{ version, stamp uint32 }

// at is the stamp at a version.
func (h history) at(version uint32) uint32 {
	n := len(h)
	if n > 0 && h[n-1].version > version {
		n = sort.Search(n, func(i int) bool { return h[i].version > version })
	}
	if n == 0 {
		return 0
	}
	return h[n-1].stamp
}

// raised is a history after its stamp has risen to a new one, if that is higher.
func (h history) raised(version, stamp uint32) history {
	n := len(h)
	switch {
	case n == 0 && stamp == 0, n > 0 && h[n-1].stamp >= stamp:
		return h
	case n > 0 && h[n-1].version == version:
		h[n-1].stamp = stamp
		return h
	}
	return append(h, risen{version, stamp})
}

func (t *clockTable) knows(f *former, version uint32) bool {
	at := f.stamp()
	if f.shape() == ofCopy && at <= t.lanes[threadKey(f.block, f.warp(), f.lane())|copiesKey].at(version) {
		return true
	}
	return at <= t.all.at(version) || at <= t.rows[threadKey(f.block, f.warp(), 0)].at(version) ||
		at <= t.lanes[threadKey(f.block, f.warp(), f.lane())].at(version)
}

// size is how many entries there are.
func (t *clockTable) size() int { return len(t.rows) + len(t.lanes) }

// last reports whether a clock has the last version of its table.
func (c *clock) last() bool { return c.table != nil && c.version == c.table.version }

// How many clocks, and entries of other tables, are taken over into a table when a clock continues it. What costs more
// stays behind links for now.
const (
	continuedClocks  = 16
	continuedEntries = 64
)

// tabulate gives a clock a table, if it continues one at little cost or must have one.
func (c *clock) tabulate(must bool) {
	if len(c.from) == 0 {
		return
	}
	var room [seenAtOnce]*clock
	reached, base, cost := reached{list: append(room[:0], c)}, (*clock)(nil), 0
	for i := 0; i < len(reached.list); i++ {
		x := reached.list[i]
		if x.last() && (base == nil || x.table.size() > base.table.size()) {
			base = x
		}
		if x.table == nil {
			reached.add(x.from)
		}
		if !must && (base == nil && i == len(c.from) || len(reached.list) > continuedClocks) {
			return // it is a link of c itself that can be continued
		}
	}
	for _, x := range reached.list {
		if x.table != nil && (base == nil || x.table != base.table) {
			cost += x.table.size()
		}
	}
	if !must && (base == nil || cost > continuedEntries) {
		return
	}
	t := &clockTable{rows: map[uint64]history{}, lanes: map[uint64]history{}}
	if base != nil {
		t = base.table
	}
	t.version++
	for _, x := range reached.list {
		if x.table == nil {
			t.addOwn(x)
		} else if x.table != t {
			t.addTable(x)
		}
	}
	c.table, c.version = t, t.version
	c.from, c.rows, c.lanes, c.all, c.copies, c.depth = nil, nil, 0, false, false, 0
}

// addOwn adds what a clock says itself.
func (t *clockTable) addOwn(x *clock) {
	if x.all {
		t.all = t.all.raised(t.version, x.stamp)
	}
	for warp, stamp := range x.rows {
		t.raise(t.rows, threadKey(x.block, warp, 0), stamp)
	}
	kind := uint64(0)
	if x.copies {
		kind = copiesKey
	}
	for m := x.lanes; m != 0; m &= m - 1 {
		t.raise(t.lanes, threadKey(x.block, x.warp, bits.TrailingZeros32(m))|kind, x.stamp)
	}
}

// addTable adds what a clock with another table knows.
func (t *clockTable) addTable(x *clock) {
	t.all = t.all.raised(t.version, x.table.all.at(x.version))
	for key, h := range x.table.rows {
		t.raise(t.rows, key, h.at(x.version))
	}
	for key, h := range x.table.lanes {
		t.raise(t.lanes, key, h.at(x.version))
	}
}

func (t *clockTable) raise(m map[uint64]history, key uint64, stamp uint32) {
	if old := m[key]; stamp > old.at(t.version) {
		m[key] = old.raised(t.version, stamp)
	}
}
