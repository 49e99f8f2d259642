package ptx

import (
	"slices"
	"sort"

	"gpuemu/internal/diag"
)

// This file implements def-use chains: which writes of a register a use of it may see.

const (
	// maxLinks is how many pairs of a write and a use a function may have: some hundred megabytes.
	maxLinks = 1 << 23
	// maxSteps is how many edges may be followed for all writes together, a second or two.
	maxSteps = 1 << 28
)

// Def is a write of a register.
type Def struct {
	Instr    int // in Function.Code
	Op       *Operand
	Replaces bool  // nothing of the old value is left, by a guard or in another component
	Uses     []int // that may see it, in Chains.Uses, in ascending order
}

// Use is a read of a register.
type Use struct {
	Instr int // in Function.Code
	Op    *Operand
	Defs  []int // whose value it may see, in Chains.Defs, in ascending order
	Entry bool  // it may see what the register held when the function was entered
}

// Chains are all writes and reads of registers in blocks that can be reached, in the order of the code. An instruction
// reads before it writes. What a caller reads, and the carry flag, are not among them.
type Chains struct {
	Defs []Def
	Uses []Use
}

// DefsAt returns what an instruction writes.
func (c *Chains) DefsAt(instr int) []Def {
	i := sort.Search(len(c.Defs), func(i int) bool { return c.Defs[i].Instr >= instr })
	j := sort.Search(len(c.Defs), func(i int) bool { return c.Defs[i].Instr > instr })
	return c.Defs[i:j]
}

// UsesAt returns what an instruction reads.
func (c *Chains) UsesAt(instr int) []Use {
	i := sort.Search(len(c.Uses), func(i int) bool { return c.Uses[i].Instr >= instr })
	j := sort.Search(len(c.Uses), func(i int) bool { return c.Uses[i].Instr > instr })
	return c.Uses[i:j]
}

// Chains connects writes and reads. Its error is Limit, without a place: there are too many pairs.
func (l *Liveness) Chains() (*Chains, error) {
	k := &linker{l: l, chains: &Chains{}, current: make([]reaching, len(l.bit)),
		leaving: make([][]event, len(l.crossing)), arriving: make([][]event, len(l.crossing)),
		stopping: make([][]int, len(l.crossing))}
	for i := range l.Graph.Blocks {
		if l.Graph.Blocks[i].Reachable && k.err == nil {
			k.within(i)
		}
	}
	k.seen, k.uses = make([]int, len(l.Graph.Blocks)), make([][]event, len(l.Graph.Blocks))
	k.stops = make([]int, len(l.Graph.Blocks))
	for n := range l.crossing {
		if k.err == nil {
			k.between(n)
		}
	}
	if k.err != nil {
		return nil, k.err
	}
	c := k.chains
	for u := range c.Uses {
		slices.Sort(c.Uses[u].Defs)
		c.Uses[u].Defs = slices.Compact(c.Uses[u].Defs) // one may come within the block and round a loop
		for _, d := range c.Uses[u].Defs {
			c.Defs[d].Uses = append(c.Defs[d].Uses, u)
		}
	}
	return c, nil
}

// linker makes chains: within blocks first, then, register by register, from the ends of blocks along the edges as far
// as the register is live.
type linker struct {
	l      *Liveness
	chains *Chains
	links  int
	steps  int
	err    error

	current  []reaching // by register: what reaches the instruction in its block
	leaving  [][]event  // by crossing register: writes that reach the end of their block
	arriving [][]event  // by crossing register: uses that see what comes from before their block

	stopping [][]int // by crossing register: blocks that replace it

	round int       // counts walks
	todo  []int     // blocks of the walk
	seen  []int     // by block: the last walk that came there
	stops []int     // by block: 1 + the last crossing register that it replaces
	uses  [][]event // by block: what arrives there of the register at hand
}

// reaching are the writes of a register in a block that reach a place there.
type reaching struct {
	block    int // 1 + the block that this is about; in any other there are none
	defs     []int
	complete bool // nothing comes from before the block
}

// event is a write or a use in a block.
type event struct{ block, index int }

func (k *linker) fail() {
	k.err = diag.Errorf(Limit, "split the function",
		"writes and reads of registers in function %s are too entangled to connect them", k.l.Graph.Func.Name)
}

func (k *linker) link(use int, defs ...int) {
	if k.links += len(defs); k.links > maxLinks {
		k.fail()
	}
	if k.err == nil {
		u := &k.chains.Uses[use]
		u.Defs = append(u.Defs, defs...)
	}
}

func (k *linker) at(reg, block int) *reaching {
	r := &k.current[reg]
	if r.block != block+1 {
		*r = reaching{block: block + 1, defs: r.defs[:0]}
	}
	return r
}

// within connects what stands in one block.
func (k *linker) within(block int) {
	b := &k.l.Graph.Blocks[block]
	c := k.chains
	first := len(c.Defs)
	for _, in := range k.l.Graph.Func.Code[b.First:b.End] {
		in.Uses(func(o *Operand) {
			r := k.at(o.Reg.Index, block)
			use := len(c.Uses)
			c.Uses = append(c.Uses, Use{Instr: in.Index, Op: o})
			if !r.complete {
				n := k.l.bit[o.Reg.Index]
				k.arriving[n] = append(k.arriving[n], event{block, use})
			}
			k.link(use, r.defs...)
		})
		in.Defs(func(o *Operand) {
			r := k.at(o.Reg.Index, block)
			if in.replaces(o) {
				r.defs, r.complete = r.defs[:0], true
			}
			r.defs = append(r.defs, len(c.Defs))
			c.Defs = append(c.Defs, Def{Instr: in.Index, Op: o, Replaces: in.replaces(o)})
		})
	}
	for d := first; d < len(c.Defs); d++ {
		reg := c.Defs[d].Op.Reg.Index
		n := k.l.bit[reg]
		if n < 0 {
			continue
		}
		if c.Defs[d].Replaces {
			k.stopping[n] = append(k.stopping[n], block)
		}
		if _, found := slices.BinarySearch(k.current[reg].defs, d); found {
			k.leaving[n] = append(k.leaving[n], event{block, d})
		}
	}
}

// between connects what stands in different blocks, for one register that crosses.
func (k *linker) between(n int) {
	list := k.arriving[n]
	if len(k.leaving[n]) == 1 && !k.l.live(n, 0) { // every way to a use has a write on it, and there is only this one
		for _, e := range list {
			k.link(e.index, k.leaving[n][0].index)
		}
		return
	}
	for i, j := 0, 0; i < len(list); i = j {
		for j = i; j < len(list) && list[j].block == list[i].block; j++ {
		}
		k.uses[list[i].block] = list[i:j]
	}
	for _, block := range k.stopping[n] {
		k.stops[block] = n + 1
	}
	for _, e := range k.leaving[n] {
		k.walk(n, k.l.Graph.Blocks[e.block].Succs, func(use int) { k.link(use, e.index) })
	}
	k.walk(n, []int{0}, func(use int) { k.chains.Uses[use].Entry = true })
	for _, e := range list {
		k.uses[e.block] = nil
	}
}

// walk visits the uses of a register that a value sees which comes before some blocks.
func (k *linker) walk(n int, from []int, visit func(use int)) {
	k.round++
	k.todo = append(k.todo[:0], from...)
	for len(k.todo) > 0 && k.err == nil {
		b := k.todo[len(k.todo)-1]
		k.todo = k.todo[:len(k.todo)-1]
		if k.steps++; k.steps > maxSteps {
			k.fail()
		}
		if k.seen[b] == k.round || !k.l.live(n, b) {
			continue
		}
		k.seen[b] = k.round
		for _, e := range k.uses[b] {
			visit(e.index)
		}
		if k.stops[b] != n+1 {
			k.todo = append(k.todo, k.l.Graph.Blocks[b].Succs...)
		}
	}
}
