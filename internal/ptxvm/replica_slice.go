package ptxvm

import (
	"slices"
	"sort"

	"gpuemu/internal/ptx"
)

// This file implements backward slices of a kernel: where the value of a register comes from. Registers are followed
// through their definitions, as in static single assignment form, which is made for what is asked alone (Braun and
// others, "Simple and Efficient Construction of Static Single Assignment Form", 2013).

// sliceLimit is how many definitions a slice may have. Addresses and sums have some hundred, and the evaluation of a
// slice of this size for 1,024 threads takes about half a second.
const sliceLimit = 1 << 12

// sliceNode is a value: an operand that is no register, a definition, or what joins several of them.
type sliceNode struct {
	operand *ptx.Operand // of a constant, a special register or the name of a variable
	in      *ptx.Instr   // that defines it
	out     int          // which of the registers that the instruction writes
	old     *sliceNode   // what a definition with a guard may leave
	inputs  []*sliceNode // of in, in the order of its arguments; those of vectors one after another
	guard   *sliceNode

	block   int           // of joined values
	reg     *ptx.Register // the same
	joins   []*sliceNode  // the values that are joined; nil for a definition
	decides []*sliceNode  // guards of the branches that decide among them
	same    *sliceNode    // the one that stands for this node; nil for itself
	index   int           // in the order in which nodes were made
}

// sliceKey is a value at the entry of a block.
type sliceKey struct {
	block int
	reg   *ptx.Register
}

// sliceOut is what an instruction writes.
type sliceOut struct {
	instr, out int
}

// slicer makes slices of a kernel.
type slicer struct {
	graph   *ptx.Graph
	above   []int                        // immediate dominators
	defs    map[*ptx.Register][]sliceOut // in the order of the code
	entries map[sliceKey]*sliceNode
	nodes   map[sliceOut]*sliceNode
	todo    []*sliceNode // whose operands are not known yet
	made    int
}

func newSlicer(fn *ptx.Function) *slicer {
	s := &slicer{graph: ptx.NewGraph(fn), defs: map[*ptx.Register][]sliceOut{}, entries: map[sliceKey]*sliceNode{},
		nodes: map[sliceOut]*sliceNode{}}
	s.above = s.graph.Dominators()
	for i, in := range fn.Code {
		n := 0
		in.Defs(func(o *ptx.Operand) {
			s.defs[o.Reg] = append(s.defs[o.Reg], sliceOut{i, n})
			n++
		})
	}
	return s
}

// node makes an empty node.
func (s *slicer) node() *sliceNode {
	s.made++
	return &sliceNode{index: s.made}
}

// operands are the values of all operands of an instruction that are read, but for its guard.
func (s *slicer) operands(in *ptx.Instr) (list []*sliceNode) {
	first := 0
	in.Defs(func(*ptx.Operand) { first = 1 })
	for i := range in.Args {
		if i >= first || in.Args[i].Kind == ptx.AddressArg {
			list = append(list, s.operand(&in.Args[i], in.Index)...)
		}
	}
	return list
}

// operand is the value of an operand before an instruction.
func (s *slicer) operand(o *ptx.Operand, at int) (list []*sliceNode) {
	switch o.Kind {
	case ptx.RegisterArg:
		return []*sliceNode{s.before(o.Reg, at)}
	case ptx.VectorArg, ptx.PairArg, ptx.AddressArg, ptx.GroupArg:
		for i := range o.List {
			list = append(list, s.operand(&o.List[i], at)...)
		}
		return list
	}
	n := s.node()
	n.operand = o
	return []*sliceNode{n}
}

// before is the value of a register before an instruction.
func (s *slicer) before(reg *ptx.Register, at int) *sliceNode {
	block := s.graph.BlockOf(at)
	return s.latest(reg, s.graph.Blocks[block].First, at, block)
}

// latest is the last definition in a part of a block, or what the block begins with.
func (s *slicer) latest(reg *ptx.Register, from, to, block int) *sliceNode {
	defs := s.defs[reg]
	i := sort.Search(len(defs), func(i int) bool { return defs[i].instr >= to }) - 1
	if i < 0 || defs[i].instr < from {
		return s.entry(reg, block)
	}
	if n := s.nodes[defs[i]]; n != nil {
		return n
	}
	n := s.node()
	n.in, n.out = s.graph.Func.Code[defs[i].instr], defs[i].out
	s.nodes[defs[i]] = n
	s.todo = append(s.todo, n)
	return n
}

// entry is the value of a register at the entry of a block. Registers that no way sets are a node without anything.
func (s *slicer) entry(reg *ptx.Register, block int) *sliceNode {
	key := sliceKey{block, reg}
	if n := s.entries[key]; n != nil {
		return n
	}
	n := s.node()
	s.entries[key] = n
	if len(s.graph.Blocks[block].Preds) > 0 {
		n.reg, n.block = reg, block
		s.todo = append(s.todo, n)
	}
	return n
}

// fill finds the operands of a node.
func (s *slicer) fill(n *sliceNode) {
	if n.in == nil {
		for _, p := range s.graph.Blocks[n.block].Preds {
			b := &s.graph.Blocks[p]
			n.joins = append(n.joins, s.latest(n.reg, b.First, b.End, p))
		}
		if len(n.joins) > 1 {
			n.decides = s.deciders(n.block)
		}
		return
	}
	n.inputs = s.operands(n.in)
	if g := n.in.Guard; g != nil {
		n.guard = s.before(g.Reg, n.in.Index)
		for i, d := range s.outputs(n.in) {
			if i == n.out {
				n.old = s.before(d, n.in.Index)
			}
		}
	}
}

// outputs are the registers that an instruction writes.
func (s *slicer) outputs(in *ptx.Instr) (list []*ptx.Register) {
	in.Defs(func(o *ptx.Operand) { list = append(list, o.Reg) })
	return list
}

// deciders are the guards of branches that may decide on which way a block is reached: those between the block and the
// one that dominates it.
func (s *slicer) deciders(block int) (list []*sliceNode) {
	top := s.above[block]
	reaches := make([]bool, len(s.graph.Blocks))
	for open := []int{block}; len(open) > 0; {
		b := open[len(open)-1]
		open = open[:len(open)-1]
		for _, p := range s.graph.Blocks[b].Preds {
			if !reaches[p] {
				reaches[p] = true
				if p != top {
					open = append(open, p)
				}
			}
		}
	}
	for i, is := range reaches {
		b := &s.graph.Blocks[i]
		last := s.graph.Func.Code[b.End-1]
		switch {
		case !is || !b.Reachable:
		case last.Op == "bra" && last.Guard != nil:
			list = append(list, s.before(last.Guard.Reg, last.Index))
		case last.Op == "brx":
			list = append(list, s.operands(last)...)
		}
	}
	return list
}

// collect finds all that some values depend on, and reports whether that is little enough.
func (s *slicer) collect(roots []*sliceNode) ([]*sliceNode, bool) {
	for len(s.todo) > 0 {
		n := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		if s.fill(n); s.made > sliceLimit*16 {
			return nil, false
		}
	}
	s.simplify()
	seen := map[*sliceNode]bool{}
	var list []*sliceNode
	for open := slices.Clone(roots); len(open) > 0; {
		n := open[len(open)-1].find()
		open = open[:len(open)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		if list = append(list, n); len(list) > sliceLimit {
			return nil, false
		}
		open = append(append(append(open, n.inputs...), n.joins...), n.decides...)
		for _, x := range []*sliceNode{n.old, n.guard} {
			if x != nil {
				open = append(open, x)
			}
		}
	}
	return list, true
}

// simplify lets values that are joined with themselves alone stand for what joins them.
func (s *slicer) simplify() {
	for changed := true; changed; {
		changed = false
		for _, n := range s.entries {
			if n.same != nil || n.joins == nil {
				continue
			}
			var only *sliceNode
			several := false
			for _, x := range n.joins {
				if x = x.find(); x != n && x != only {
					only, several = x, several || only != nil
				}
			}
			if !several && only != nil {
				n.same, changed = only, true
			}
		}
	}
}

// find is the node that stands for a node.
func (n *sliceNode) find() *sliceNode {
	for n.same != nil {
		n = n.same
	}
	return n
}
