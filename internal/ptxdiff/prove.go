package ptxdiff

import (
	"maps"
	"slices"

	"gpuemu/internal/ptx"
)

// This file implements the proof that two functions do the same, constants aside or not.

// prover pairs the values of two functions. It begins with what must happen in both, block by block, and goes on to the
// operands: two values are the same if the same is done with operands that are the same. Where that runs in a circle,
// which takes a phi, it holds for the first time around and so for all of them. Pairs are joined into classes, so that
// there are no more steps than values (the test for equal automata by Hopcroft and Karp, 1971).
//
// What it pairs is exact: hashes only order operands that may change places, and loads that may.
type prover struct {
	c        *comparer
	old, new *graph
	// by are the hashes that decide about order.
	oldBy, newBy []uint64
	masked       bool    // constants may differ
	parent       []int32 // of classes; values of new come behind those of old
	paired       []bool  // nodes that stand for one of the other function
	todo         [][2]value
	symbols      map[symbol]symbol
	back         map[symbol]symbol
	diffs        [][2]int32 // constants that differ
	tables       []tableDiff
	calls        [][2]*ptx.Function
}

// tableDiff is a variable whose initial values differ.
type tableDiff struct {
	old, new symbol
	diffs    []initDiff
}

func (c *comparer) newProver(old, new *graph, oldBy, newBy []uint64, masked bool) *prover {
	total := len(old.nodes) + len(new.nodes)
	p := &prover{c: c, old: old, new: new, oldBy: oldBy, newBy: newBy, masked: masked, parent: make([]int32, total),
		paired: make([]bool, total), symbols: map[symbol]symbol{}, back: map[symbol]symbol{}}
	for i := range p.parent {
		p.parent[i] = int32(i)
	}
	return p
}

func (p *prover) find(i int32) int32 {
	for p.parent[i] != i {
		p.parent[i] = p.parent[p.parent[i]]
		i = p.parent[i]
	}
	return i
}

// prove reports whether the functions do the same.
func (p *prover) prove() bool {
	if len(p.old.order) != len(p.new.order) {
		return false
	}
	for i := range p.old.order {
		if !p.block(&p.old.blocks[p.old.order[i]], &p.new.blocks[p.new.order[i]]) {
			return false
		}
	}
	if !p.drain() {
		return false
	}
	for i := range p.old.order {
		if !p.free(&p.old.blocks[p.old.order[i]], &p.new.blocks[p.new.order[i]]) || !p.drain() {
			return false
		}
	}
	return true
}

// drain pairs what is listed, and its operands.
func (p *prover) drain() bool {
	for len(p.todo) > 0 {
		next := p.todo[len(p.todo)-1]
		p.todo = p.todo[:len(p.todo)-1]
		if !p.pair(next[0], next[1]) {
			return false
		}
	}
	return true
}

// block compares how two blocks end, and lists what must be the same in them.
func (p *prover) block(old, new *block) bool {
	if old.end != new.end || old.label != new.label || len(old.succs) != len(new.succs) || len(old.in) != len(new.in) ||
		len(old.results) != len(new.results) {
		return false
	}
	for k := range old.results {
		p.todo = append(p.todo, [2]value{old.results[k], new.results[k]})
	}
	for k := range old.succs {
		if p.old.number[p.old.edges[old.succs[k]].to] != p.new.number[p.new.edges[new.succs[k]].to] {
			return false
		}
	}
	if old.end == branches || old.end == switches {
		p.todo = append(p.todo, [2]value{old.test, new.test})
	}
	was, is := p.old.pinned(old, acts), p.new.pinned(new, acts)
	if len(was) != len(is) {
		return false
	}
	for i := range was {
		p.todo = append(p.todo, [2]value{{node: was[i]}, {node: is[i]}})
	}
	return true
}

// pinned are the instructions of a block of one class.
func (g *graph) pinned(b *block, c class) []int32 {
	var list []int32
	for _, n := range b.code {
		if g.nodes[n].class == c {
			list = append(list, n)
		}
	}
	return list
}

// free lists instructions of a block whose order does not matter and that no other needed: their results are not used,
// but they may fault. One that is there twice does what it does once.
func (p *prover) free(old, new *block) bool {
	was, is := p.unpaired(p.old, old, 0), p.unpaired(p.new, new, int32(len(p.old.nodes)))
	if len(was) == 0 && len(is) == 0 {
		return true
	}
	oldBy, newBy := p.byHash(p.old, old, p.oldBy), p.byHash(p.new, new, p.newBy)
	for _, h := range slices.Sorted(maps.Keys(was)) { // in order, so that reports are the same each time
		list := was[h]
		if len(is[h]) == 0 {
			is[h] = newBy[h]
		}
		if len(is[h]) == 0 {
			return false
		}
		for i := range max(len(list), len(is[h])) {
			p.todo = append(p.todo, [2]value{{node: list[min(i, len(list)-1)]}, {node: is[h][min(i, len(is[h])-1)]}})
		}
	}
	for _, h := range slices.Sorted(maps.Keys(is)) {
		if len(was[h]) > 0 {
			continue
		}
		if len(oldBy[h]) == 0 {
			return false
		}
		for _, n := range is[h] {
			p.todo = append(p.todo, [2]value{{node: oldBy[h][0]}, {node: n}})
		}
	}
	return true
}

// byHash are the instructions of a block that keep to it but not to an order, by their hash.
func (p *prover) byHash(g *graph, b *block, by []uint64) map[uint64][]int32 {
	m := map[uint64][]int32{}
	for _, n := range b.code {
		if c := g.nodes[n].class; c == looks || c == gathers {
			m[by[n]] = append(m[by[n]], n)
		}
	}
	return m
}

// unpaired are those of them that stand for nothing yet.
func (p *prover) unpaired(g *graph, b *block, behind int32) map[uint64][]int32 {
	by := p.oldBy
	if behind > 0 {
		by = p.newBy
	}
	m := p.byHash(g, b, by)
	for h := range m {
		m[h] = slices.DeleteFunc(m[h], func(n int32) bool { return p.paired[n+behind] })
		if len(m[h]) == 0 {
			delete(m, h)
		}
	}
	return m
}

// pair joins two values and lists their operands.
func (p *prover) pair(old, new value) bool {
	if old.out != new.out || old.neg != new.neg {
		return false
	}
	x, y := &p.old.nodes[old.node], &p.new.nodes[new.node]
	if x.kind != y.kind {
		return false
	}
	switch x.kind {
	case constNode:
		if x.bits != y.bits {
			p.diffs = append(p.diffs, [2]int32{old.node, new.node})
		}
		return p.masked || x.bits == y.bits
	case symbolNode:
		return x.label == y.label && p.symbol(x.arg, y.arg)
	case specialNode, startNode:
		return x.label == y.label
	}
	if x.label != y.label || len(x.ops) != len(y.ops) || (x.kind == phiNode || x.class != pure) && x.block != y.block {
		return false
	}
	i, j := p.find(old.node), p.find(new.node+int32(len(p.old.nodes)))
	if i == j {
		return true
	}
	p.parent[i] = j
	p.paired[old.node], p.paired[new.node+int32(len(p.old.nodes))] = true, true
	for k := range x.ops {
		p.todo = append(p.todo, [2]value{p.old.operandAt(p.oldBy, old.node, k), p.new.operandAt(p.newBy, new.node, k)})
	}
	return true
}

// symbol reports whether two names stand for each other, here and wherever they were met before.
func (p *prover) symbol(old, new *ptx.Operand) bool {
	if p.old.roles[old.Var] != "" {
		return true // the labels tell their places
	}
	return p.symbolPair(symbolOf(old), symbolOf(new))
}

func (p *prover) symbolPair(old, new symbol) bool {
	for _, m := range []map[symbol]symbol{p.symbols, p.c.symbols} {
		if known, ok := m[old]; ok {
			return known == new
		}
	}
	for _, m := range []map[symbol]symbol{p.back, p.c.back} {
		if _, ok := m[new]; ok {
			return false
		}
	}
	p.symbols[old], p.back[new] = new, old
	if old.fn != nil || new.fn != nil {
		return p.functionPair(old.fn, new.fn)
	}
	return p.variablePair(old, new)
}

// functionPair reports whether two functions may stand for each other. What has no body is known by its name alone.
func (p *prover) functionPair(old, new *ptx.Function) bool {
	if old == nil || new == nil || (old.Body == nil) != (new.Body == nil) {
		return false
	}
	if old.Body == nil {
		return old.Name == new.Name
	}
	p.calls = append(p.calls, [2]*ptx.Function{old, new})
	return true
}

func (p *prover) variablePair(old, new symbol) bool {
	a, b := p.c.names.declaration(old.v, old.name), p.c.names.declaration(new.v, new.name)
	if !p.c.sameName(old, new) || !sameHead(old.v, new.v) || size(old.v, a) != size(new.v, b) {
		return false
	}
	if a.Init == nil && b.Init == nil {
		return true
	}
	if widths[old.v.Type] != widths[new.v.Type] {
		return false
	}
	diffs, structure := compareInits(old, new, a, b, p.symbolPair)
	if structure || len(diffs) > 0 && !p.masked {
		return false
	}
	if len(diffs) > 0 {
		p.tables = append(p.tables, tableDiff{old, new, diffs})
	}
	return true
}

// commit keeps what names stand for, and goes on with the functions that are called.
func (p *prover) commit() {
	for o, n := range p.symbols {
		p.c.symbols[o], p.c.back[n] = n, o
	}
	for _, call := range p.calls {
		p.c.enqueue(call[0], call[1])
	}
}
