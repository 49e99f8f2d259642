package ptx

import (
	"math/bits"
	"slices"

	"gpuemu/internal/diag"
)

// This file implements liveness: which registers hold a value that is still read.

const (
	// maxLiveBits is how many bits the sets of live registers of a function may have: 256 MiB, which is 46 000 blocks
	// with as many registers that live from one to another.
	maxLiveBits = 1 << 31
	// maxLiveWork is how many words of sets may be looked at, about a second: eight sweeps over the largest sets. A few
	// do for what compilers write; where jumps back lead to jumps back, it may take as many as there are blocks.
	maxLiveWork = 1 << 30
)

// Liveness says which registers hold, between blocks, a value that is still read. Blocks that cannot be reached have
// none.
//
// A register whose every use stands behind a write in the same block is not live between blocks, and most are not. The
// sets have bits for the others only, which are said to cross.
type Liveness struct {
	Graph *Graph

	crossing []int32 // registers that cross, by bit
	bit      []int32 // of each register; -1 for those that do not cross
	words    int     // of a set
	in       []uint64
	exposed  lists   // by block: registers that it reads before it replaces them
	writes   lists   // by block: registers that it writes, some of them several times
	replaced lists   // by block: those of them that it replaces
	returned []int32 // registers that a caller reads
	work     int     // words that were looked at

	// written are sets like in: what may have been written before control is behind a block, parameters among it. They
	// are there only if something may be read before.
	written []uint64
}

// lists are lists of numbers in one piece of memory.
type lists struct {
	all  []int32
	ends []int // where each list ends
}

func (l *lists) close() { l.ends = append(l.ends, len(l.all)) }

func (l *lists) of(i int) []int32 {
	begin := 0
	if i > 0 {
		begin = l.ends[i-1]
	}
	return l.all[begin:l.ends[i]]
}

// Liveness computes it. Its error is Limit, without a place: the function has too many blocks and registers.
func (g *Graph) Liveness() (*Liveness, error) {
	l := &Liveness{Graph: g}
	for _, r := range g.Func.Registers {
		if slices.Contains(g.Func.Returns, r.Var) {
			l.returned = append(l.returned, int32(r.Index))
		}
	}
	l.scan()
	l.words = (len(l.crossing) + 63) / 64
	if l.words*64 > maxLiveBits/max(1, len(g.Blocks)) {
		return nil, diag.Errorf(Limit, "split the function",
			"function %s has %d blocks and %d registers that live from one to another, too many to analyse",
			g.Func.Name, len(g.Blocks), len(l.crossing))
	}
	if len(l.crossing) == 0 {
		return l, nil
	}
	order := g.postorder([]int{0}, succs, make([]bool, len(g.Blocks)))
	l.in = make([]uint64, l.words*len(g.Blocks))
	if err := l.solve(problem{l.in, order, preds, l.before}); err != nil {
		return nil, err
	}
	if len(l.Uninitialised()) > 0 {
		slices.Reverse(order)
		l.written = make([]uint64, l.words*len(g.Blocks))
		if err := l.solve(problem{l.written, order, succs, l.writtenBehind}); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// scan finds what each block reads from before and what it replaces, and with that the registers that cross.
func (l *Liveness) scan() {
	fn := l.Graph.Func
	l.bit = make([]int32, len(fn.Registers))
	for i := range l.bit {
		l.bit[i] = -1
	}
	seen := make([]int, len(fn.Registers)) // 1 + the last block that has read or replaced the register
	for i := range l.Graph.Blocks {
		b := &l.Graph.Blocks[i]
		read := func(r int32) {
			if seen[r] == i+1 {
				return
			}
			seen[r] = i + 1
			l.exposed.all = append(l.exposed.all, r)
			if l.bit[r] < 0 {
				l.bit[r] = int32(len(l.crossing))
				l.crossing = append(l.crossing, r)
			}
		}
		use := func(o *Operand) { read(int32(o.Reg.Index)) }
		if b.Reachable {
			for _, in := range fn.Code[b.First:b.End] {
				in.Uses(use)
				in.Defs(func(o *Operand) {
					l.writes.all = append(l.writes.all, int32(o.Reg.Index))
					if in.replaces(o) {
						seen[o.Reg.Index] = i + 1
						l.replaced.all = append(l.replaced.all, int32(o.Reg.Index))
					}
				})
			}
			if b.Returns {
				for _, r := range l.returned {
					read(r)
				}
			}
		}
		l.exposed.close()
		l.writes.close()
		l.replaced.close()
	}
}

// problem is a system of sets that depend on each other, one per block.
type problem struct {
	sets   []uint64
	order  []int                         // of blocks, each behind most of what it depends on
	next   func(*BasicBlock) []int       // blocks that depend on a block
	update func(block int, set []uint64) // makes the set of a block from those it depends on
}

// solve sweeps over the blocks until nothing changes.
func (l *Liveness) solve(p problem) error {
	g := l.Graph
	dirty := make([]bool, len(g.Blocks))
	for _, b := range p.order {
		dirty[b] = true
	}
	set := make([]uint64, l.words)
	for again := true; again; {
		again = false
		for _, b := range p.order {
			if !dirty[b] {
				continue
			}
			dirty[b] = false
			block := &g.Blocks[b]
			if l.work += l.words * (len(block.Succs) + len(block.Preds) + 1); l.work > maxLiveWork {
				return diag.Errorf(Limit, "split the function",
					"the control flow of function %s is too entangled to find its live registers", g.Func.Name)
			}
			p.update(b, set)
			old := p.sets[b*l.words : (b+1)*l.words]
			if slices.Equal(set, old) {
				continue
			}
			copy(old, set)
			for _, n := range p.next(block) {
				if g.Blocks[n].Reachable {
					dirty[n], again = true, true
				}
			}
		}
	}
	return nil
}

// before puts into a set what is live before a block, by what is known of those behind it.
func (l *Liveness) before(block int, set []uint64) {
	l.behind(block, set)
	for _, r := range l.replaced.of(block) {
		if n := l.bit[r]; n >= 0 {
			set[n/64] &^= 1 << (n % 64)
		}
	}
	for _, r := range l.exposed.of(block) {
		n := l.bit[r]
		set[n/64] |= 1 << (n % 64)
	}
}

// behind puts into a set what is live behind a block.
func (l *Liveness) behind(block int, set []uint64) {
	clear(set)
	for _, s := range l.Graph.Blocks[block].Succs {
		for i, w := range l.set(s) {
			set[i] |= w
		}
	}
}

// writtenBehind puts into a set what may have been written before control is behind a block.
func (l *Liveness) writtenBehind(block int, set []uint64) {
	l.writtenBefore(block, set)
	for _, r := range l.writes.of(block) {
		if n := l.bit[r]; n >= 0 {
			set[n/64] |= 1 << (n % 64)
		}
	}
}

// writtenBefore puts into a set what may have been written before control gets to a block.
func (l *Liveness) writtenBefore(block int, set []uint64) {
	clear(set)
	if block == 0 {
		for n, r := range l.crossing {
			if slices.Contains(l.Graph.Func.Params, l.Graph.Func.Registers[r].Var) {
				set[n/64] |= 1 << (n % 64)
			}
		}
	}
	for _, p := range l.Graph.Blocks[block].Preds {
		for i, w := range l.written[p*l.words : (p+1)*l.words] {
			set[i] |= w
		}
	}
}

// live reports whether the register of a bit is live before a block.
func (l *Liveness) live(bit, block int) bool { return l.set(block)[bit/64]>>(bit%64)&1 != 0 }

func (l *Liveness) set(block int) []uint64 { return l.in[block*l.words : (block+1)*l.words] }

// registers returns the registers of a set, in the order of Function.Registers.
func (l *Liveness) registers(set []uint64) []*Register {
	var numbers []int32
	for i, w := range set {
		for ; w != 0; w &= w - 1 {
			numbers = append(numbers, l.crossing[64*i+bits.TrailingZeros64(w)])
		}
	}
	slices.Sort(numbers)
	list := make([]*Register, len(numbers))
	for i, r := range numbers {
		list[i] = l.Graph.Func.Registers[r]
	}
	return list
}

// In returns the registers that are live before a block, in the order of Function.Registers.
func (l *Liveness) In(block int) []*Register { return l.registers(l.set(block)) }

// Out returns the registers that are live behind a block, in the order of Function.Registers. What a caller reads is
// not among them.
func (l *Liveness) Out(block int) []*Register {
	set := make([]uint64, l.words)
	if l.Graph.Blocks[block].Reachable {
		l.behind(block, set)
	}
	return l.registers(set)
}

// Uninitialised returns the registers that some way through the function reads before it writes them, parameters apart.
// A write under a guard does not count, so that code which reads under the same guard only is here as well.
func (l *Liveness) Uninitialised() []*Register {
	if len(l.Graph.Blocks) == 0 {
		return nil
	}
	return slices.DeleteFunc(l.In(0), func(r *Register) bool { return slices.Contains(l.Graph.Func.Params, r.Var) })
}
