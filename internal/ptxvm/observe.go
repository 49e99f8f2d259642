package ptxvm

import (
	"cmp"
	"math/bits"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// This file implements what can be watched while a launch runs: counters, and a trace of instructions.

// Step is an instruction that a warp is about to execute.
type Step struct {
	Block  Dim
	Warp   int    // in its block
	Active uint32 // lanes that execute it, those with a false guard left out
	Instr  *ptx.Instr
	PTX    diag.Pos
	Source []diag.Pos // as in Finding
}

// Counters are what a launch did, in numbers. They count what the PTX says; what ptxas makes of it may differ.
type Counters struct {
	Warps   uint64 // instructions of warps
	Threads uint64 // instructions of threads: of lanes whose guard was true
	Mix     []Mnemonic
	// Branches are those that warps executed, Divergent those at which lanes of one path parted.
	Branches, Divergent uint64
	Barriers            uint64 // arrivals of warps or of parts of them
	Global, Shared      Traffic
}

// Mnemonic is how often instructions of one form were executed.
type Mnemonic struct {
	Name           string
	Warps, Threads uint64
}

// Traffic is what warps moved from and to one kind of memory.
//
// Units of global memory are sectors of 32 bytes that an access touches; the fewest are those its distinct bytes fill.
// Units of shared memory are passes: 32 banks of 4 bytes serve one word each, and accesses of 8 and 16 bytes a thread
// are served to halves and quarters of a warp, one after the other (CUDA C++ Programming Guide, "Compute Capability
// 5.x", "Shared Memory"). The fewest are the passes without a bank conflict.
type Traffic struct {
	Accesses      uint64 // of warps
	Bytes         uint64 // of all threads
	Units, Fewest uint64
}

// watch is what a worker counts. Accesses belong to the instruction before the next one begins.
type watch struct {
	trace    func(Step)
	counting bool
	counts   []stepCount // by index of code
	counters Counters
	global   []span
	shared   []span
	words    []uint64 // memory for units
}

type stepCount struct{ warps, threads uint64 }

// span is the memory that one lane reaches.
type span struct {
	lane int
	at   uint64
	size int
}

// newWatch makes what a worker counts; nil where nobody wants to know.
func (g *grid) newWatch() *watch {
	if g.launch.Trace == nil && !g.launch.Counters {
		return nil
	}
	return &watch{trace: g.launch.Trace, counting: g.launch.Counters, counts: make([]stepCount, len(g.prog.code))}
}

// step takes the next instruction of a warp: lanes of the path, and those that execute it.
func (o *watch) step(w *warp, pc int, lanes, active uint32) {
	p := w.cta.grid.prog
	in := &p.code[pc]
	if in.src == nil || pc > 0 && p.code[pc-1].src == in.src {
		return // a piece of an instruction that was counted
	}
	if o.trace != nil {
		s := Step{Block: w.cta.id, Warp: w.index, Active: active, Instr: in.src}
		s.PTX, s.Source = p.place(in.src)
		o.trace(s)
	}
	if !o.counting {
		return
	}
	o.settle()
	o.counts[pc].warps++
	o.counts[pc].threads += uint64(bits.OnesCount32(active))
	switch in.kind {
	case branch, indexed:
		if in.src.Op == "bra" || in.src.Op == "brx" {
			o.counters.Branches++
			if parts(w, in, lanes, active) {
				o.counters.Divergent++
			}
		}
	case barrier:
		if active != 0 {
			o.counters.Barriers++
		}
	}
}

// parts reports whether the lanes of a path go different ways at a branch.
func parts(w *warp, in *ins, lanes, active uint32) bool {
	if active == 0 {
		return false
	}
	if in.kind == indexed {
		first := w.get(in.a, bits.TrailingZeros32(active))
		for m := active; m != 0; m &= m - 1 {
			if w.get(in.a, bits.TrailingZeros32(m)) != first {
				return true
			}
		}
	}
	return active != lanes
}

// touch takes an access of a lane.
func (o *watch) touch(sp space, lane int, at uint64, size int) {
	switch {
	case !o.counting:
	case sp == sharedSpace:
		o.shared = append(o.shared, span{lane, at, size})
	case sp == globalSpace || sp == constSpace:
		o.global = append(o.global, span{lane, at, size})
	}
}

// settle counts the accesses of the last instruction.
func (o *watch) settle() {
	if len(o.global) > 0 {
		o.counters.Global.add(o.global, o.sectors(o.global), (o.distinct(o.global)+31)/32)
		o.global = o.global[:0]
	}
	if len(o.shared) > 0 {
		units, fewest := o.passes(o.shared)
		o.counters.Shared.add(o.shared, units, fewest)
		o.shared = o.shared[:0]
	}
}

func (t *Traffic) add(list []span, units, fewest uint64) {
	t.Accesses++
	for _, s := range list {
		t.Bytes += uint64(s.size)
	}
	t.Units += units
	t.Fewest += fewest
}

// sectors is how many sectors an access touches.
func (o *watch) sectors(list []span) uint64 { return uint64(o.unitsOf(list, 32)) }

// distinct is how many bytes an access touches.
func (o *watch) distinct(list []span) uint64 {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	n, end := uint64(0), uint64(0)
	for _, s := range list {
		last := s.at + uint64(s.size)
		if last > end {
			n += last - max(end, s.at)
			end = last
		}
	}
	return n
}

// unitsOf is how many blocks of so many bytes an access touches; o.words has their numbers.
func (o *watch) unitsOf(list []span, size uint64) int {
	o.words = o.words[:0]
	for _, s := range list {
		for u := s.at / size; u <= (s.at+uint64(s.size)-1)/size; u++ {
			o.words = append(o.words, u)
		}
	}
	slices.Sort(o.words)
	o.words = slices.Compact(o.words)
	return len(o.words)
}

// passes is how often shared memory is looked at for an access, and how often without bank conflicts.
func (o *watch) passes(list []span) (units, fewest uint64) {
	widest := 4
	for _, s := range list {
		widest = max(widest, s.size)
	}
	group := max(warpSize*4/widest, 1) // lanes that are served together
	for first := 0; first < warpSize; first += group {
		var part []span
		for _, s := range list {
			if s.lane >= first && s.lane < first+group {
				part = append(part, s)
			}
		}
		if len(part) == 0 {
			continue
		}
		o.unitsOf(part, 4)
		var banks [32]uint64
		for _, word := range o.words {
			banks[word%32]++
		}
		units += slices.Max(banks[:])
		fewest++
	}
	return units, fewest
}

// merge adds what another worker counted.
func (o *watch) merge(other *watch) {
	for i, c := range other.counts {
		o.counts[i].warps += c.warps
		o.counts[i].threads += c.threads
	}
	a, b := &o.counters, &other.counters
	a.Branches, a.Divergent, a.Barriers = a.Branches+b.Branches, a.Divergent+b.Divergent, a.Barriers+b.Barriers
	for _, t := range [][2]*Traffic{{&a.Global, &b.Global}, {&a.Shared, &b.Shared}} {
		t[0].Accesses, t[0].Bytes = t[0].Accesses+t[1].Accesses, t[0].Bytes+t[1].Bytes
		t[0].Units, t[0].Fewest = t[0].Units+t[1].Units, t[0].Fewest+t[1].Fewest
	}
}

// countersOf puts together what workers counted; nil where nobody wanted to know.
func countersOf(p *Program, workers []*worker) *Counters {
	all := workers[0].watch
	if all == nil || !all.counting {
		return nil
	}
	for _, w := range workers {
		w.watch.settle()
		if w.watch != all {
			all.merge(w.watch)
		}
	}
	c := &all.counters
	index := map[string]int{}
	for i, n := range all.counts {
		if n.warps == 0 {
			continue
		}
		name := p.code[i].src.Mnemonic()
		k, ok := index[name]
		if !ok {
			k = len(c.Mix)
			index[name] = k
			c.Mix = append(c.Mix, Mnemonic{Name: name})
		}
		c.Mix[k].Warps += n.warps
		c.Mix[k].Threads += n.threads
		c.Warps += n.warps
		c.Threads += n.threads
	}
	slices.SortFunc(c.Mix, func(a, b Mnemonic) int {
		return cmp.Or(cmp.Compare(b.Warps, a.Warps), cmp.Compare(a.Name, b.Name))
	})
	return c
}
