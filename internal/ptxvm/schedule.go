package ptxvm

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"gpuemu/internal/rng"
)

// This file implements schedules: orders of blocks and warps, and whether results depend on them.

// order is an order of blocks and warps. The zero value is the usual one, in which blocks may run at the same time.
type order struct {
	fixed   bool // blocks run one after the other
	first   bool // of those that are compared
	reverse bool
	blocks  []int // a permutation, nil for none
	seed    uint64
}

// orderNumber makes the orders that are compared: forward, reverse, and those that a seed decides.
func orderNumber(i int, seed uint64, blocks int) order {
	o := order{fixed: true, first: i == 0, reverse: i == 1}
	if i > 1 {
		o.seed = seed + uint64(i)
		o.blocks = make([]int, blocks)
		shuffled(o.blocks, o.seed, "blocks")
	}
	return o
}

// shuffled fills in a permutation of the numbers from 0.
func shuffled(list []int, seed uint64, domain string) {
	for i := range list {
		list[i] = i
	}
	rng.New(seed).Derive(domain).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// block is the block that is the i-th of n to begin.
func (o *order) block(i, n int) int {
	switch {
	case o.reverse:
		return n - 1 - i
	case o.blocks != nil:
		return o.blocks[i]
	}
	return i
}

// warps fills in the order of the warps of a block.
func (o *order) warps(block int, turns []int) {
	for i := range turns {
		turns[i] = i
	}
	switch {
	case o.reverse:
		slices.Reverse(turns)
	case o.blocks != nil:
		shuffled(turns, o.seed, fmt.Sprintf("warps of %d", block))
	}
}

func (o *order) String() string {
	switch {
	case o.reverse:
		return "reverse order"
	case o.blocks != nil:
		return fmt.Sprintf("the order of seed %d", o.seed)
	}
	return "forward order"
}

// compareSchedules executes a launch in several orders from the same memory, and reports buffers whose bits differ.
// Buffers are left as the first order makes them, and its findings come first.
func (p *Program) compareSchedules(l *Launch) (*Result, error) {
	const perBlock = 8                                                 // bytes of an order
	copies := int64(min(l.Grid.Count(), math.MaxInt32<<10)) * perBlock // no overflow, and beyond any budget
	for i := range l.Args {
		copies += 2 * int64(len(l.Args[i].Buffer)) // as they were, and as another order leaves them
	}
	first := *l
	first.elsewhere += copies
	l = &first
	if _, err := p.newGrid(l, order{}); err != nil { // before anything is copied
		return nil, err
	}
	start := make([][]byte, len(l.Args))
	for i := range l.Args {
		start[i] = bytes.Clone(l.Args[i].Buffer)
	}
	all := newFindings()
	result, err := p.run(l, orderNumber(0, l.Seed, l.Grid.Count()))
	if err != nil {
		return nil, err
	}
	collect := func(r *Result, orderIndex int) {
		for i := range r.Findings {
			f := r.Findings[i]
			f.block, f.order = orderIndex, i
			key := findingKey{class: f.Class, in: f.Instr}
			if f.Instr == nil {
				key.other = f.Buffer
			}
			if all.index[key] == nil {
				all.add(key, &f)
			}
		}
	}
	collect(result, 0)
	again := *l
	again.elsewhere += result.kept
	again.Args = slices.Clone(l.Args)
	for k := 1; k < l.Schedules; k++ {
		for i := range again.Args {
			again.Args[i].Buffer = bytes.Clone(start[i])
		}
		o := orderNumber(k, l.Seed, l.Grid.Count())
		r, err := p.run(&again, o)
		if err != nil {
			return nil, err
		}
		result.Steps += r.Steps
		result.Dropped += r.Dropped
		r.Findings = append(r.Findings, p.differences(l, &again, &o, result)...)
		collect(r, k)
	}
	var dropped int
	result.Findings, dropped = all.sorted()
	result.Dropped += dropped
	result.lastWriter = nil // it keeps all memory
	return result, nil
}

// differences are findings about buffers whose bits differ between the first order, which had result r, and another.
func (p *Program) differences(first, other *Launch, o *order, r *Result) (list []Finding) {
	for i := range first.Args {
		a, b := &first.Args[i], &other.Args[i]
		if bytes.Equal(a.Buffer, b.Buffer) {
			continue
		}
		at := 0
		for a.Buffer[at] == b.Buffer[at] {
			at++
		}
		size := max(a.Element, 1)
		at -= at % size
		end := min(at+size, len(a.Buffer))
		n := 0
		for j := 0; j < len(a.Buffer); j += size {
			if e := min(j+size, len(a.Buffer)); !bytes.Equal(a.Buffer[j:e], b.Buffer[j:e]) {
				n++
			}
		}
		what := "bytes"
		if a.Element > 0 {
			what = "elements"
		}
		f := Finding{Class: Nondeterministic, Count: n, Buffer: a.Name, Message: fmt.Sprintf(
			"%s differs between orders of blocks and warps in %d %s, first in number %d: bytes %x in forward order, %x in %s",
			a.Name, n, what, at/size, a.Buffer[at:end], b.Buffer[at:end], o)}
		f.PTX = p.File.Position(p.Kernel.Pos)
		if in := r.lastWriter(i, at); in != nil {
			f.PTX, f.Source = p.place(in.src)
		}
		list = append(list, f)
	}
	return list
}
