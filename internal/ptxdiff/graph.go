package ptxdiff

import (
	"cmp"
	"slices"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements the normal form of a function: a graph of values without names, and blocks of what must keep its
// place.

// nodeKind is what a node stands for.
type nodeKind uint8

const (
	instrNode   nodeKind = iota + 1 // the results of an instruction
	constNode                       // a number
	specialNode                     // a register that the hardware sets
	symbolNode                      // the address of a variable or of a function
	startNode                       // what a register, memory or the carry holds when the function begins
	phiNode                         // where paths meet: one operand per edge into the block
)

// value is a result of a node.
type value struct {
	node int32
	out  int32 // which of the results
	neg  bool  // the negation of a predicate
}

// node is a value of the program, or several. Copies have none: they forward to what they copy.
type node struct {
	kind   nodeKind
	class  class  // of an instruction
	swaps  bool   // the operands at first and first+1 may change places
	turned bool   // the first two operands stand the other way round in the text
	first  int8   // the first operand that may
	state  bool   // a phi or a start of memory or of the carry
	label  int32  // all that is said of it besides its operands
	block  int32  // of an instruction or a phi, in the order of graph.order
	bits   uint64 // of a number
	ops    []value
	bases  []int8       // operands that are bases of addresses; the next operand is the offset
	in     *ptx.Instr   // where it stands in the text; nil for what no instruction says
	arg    *ptx.Operand // the literal or the symbol there
}

// ending is how a block ends.
type ending uint8

const (
	jumps ending = iota + 1
	branches
	switches
	leaves
)

// block is a run of instructions. Those without effect belong to no block in truth; code has them where they stand.
type block struct {
	code  []int32 // nodes of instructions that matter, in order
	phis  []int32
	end   ending
	label int32      // of an end that leaves: how it does
	last  *ptx.Instr // the branch, nil if there is none
	test  value      // what a branch or a switch looks at; a branch goes to the first successor where it holds
	succs []int32    // edges
	in    []int32    // edges
	// results are what the caller sees in registers when the block leaves the function. Only old PTX returns in them.
	results []value
}

// edge leads from one block to another.
type edge struct {
	from, to int32
	slot     int32 // which of the successors; known when the blocks are arranged
}

// graph is the normal form of a function.
type graph struct {
	file    *ptx.File
	fn      *ptx.Function
	names   *names
	roles   map[*ptx.Variable]string // of parameters and results: their places
	nodes   []node
	forward []value // of a node that is a copy of another value; node is -1 for one that is not
	blocks  []block
	edges   []edge
	order   []int32 // blocks in reverse postorder
	number  []int32 // of a block: its place in order, -1 if control never comes there
}

// names gives numbers to labels, the same ones in both functions, and finds names in declarations.
type names struct {
	ids      map[string]int32
	texts    []string
	declared map[*ptx.Variable]map[string]*ptx.Name
}

// declaration is the name of a declaration that an operand means.
func (n *names) declaration(v *ptx.Variable, name string) *ptx.Name {
	all := n.declared[v]
	if all == nil { // declarations may have many names
		all = map[string]*ptx.Name{}
		for i := range v.Names {
			all[v.Names[i].Name] = &v.Names[i]
		}
		n.declared[v] = all
	}
	if found := all[name]; found != nil {
		return found
	}
	return &v.Names[0] // a register of a range
}

func (n *names) id(text string) int32 {
	if id, ok := n.ids[text]; ok {
		return id
	}
	id := int32(len(n.texts))
	text = strings.Clone(text)
	n.ids[text] = id
	n.texts = append(n.texts, text)
	return id
}

func newNames() *names {
	return &names{ids: map[string]int32{}, declared: map[*ptx.Variable]map[string]*ptx.Name{}}
}

// resolve follows copies.
func (g *graph) resolve(v value) value {
	for g.forward[v.node].node >= 0 {
		to := g.forward[v.node]
		if next := g.forward[to.node]; next.node >= 0 { // halve the path, so that long chains are walked once
			next.neg = next.neg != to.neg
			g.forward[v.node] = next
		}
		to.neg = to.neg != v.neg
		v = to
	}
	return v
}

func (g *graph) add(n node) int32 {
	g.nodes = append(g.nodes, n)
	g.forward = append(g.forward, value{node: -1})
	return int32(len(g.nodes) - 1)
}

// simplify joins blocks that need not be apart: empty ones go, and runs of blocks become one. Compilers differ in where
// they put copies, which are nothing here, and in whether a return is a jump.
func (g *graph) simplify() {
	for i := range g.blocks {
		g.bypass(int32(i))
	}
	for i := range g.blocks {
		if len(g.blocks[i].in) > 0 || i == 0 {
			g.extend(int32(i))
		}
	}
}

// maxFan is how many edges into an empty block are led past it where paths meet behind it: each costs an operand of all
// phis there.
const maxFan = 256

// bypass leads the edges into an empty block to where it jumps.
func (g *graph) bypass(i int32) {
	b := &g.blocks[i]
	if i == 0 || b.end != jumps || len(b.code) > 0 || len(b.phis) > 0 || len(b.in) == 0 || len(b.in) > maxFan {
		return
	}
	to := g.edges[b.succs[0]].to
	next := &g.blocks[to]
	if to == i || len(next.in) > maxFan && len(next.phis) > 0 {
		return
	}
	for at, e := range next.in {
		if e != b.succs[0] {
			continue
		}
		next.in = spread(next.in, at, b.in)
		for _, p := range next.phis {
			ops := g.nodes[p].ops
			same := make([]value, len(b.in))
			for k := range same {
				same[k] = ops[at]
			}
			g.nodes[p].ops = spread(ops, at, same)
		}
		break
	}
	for _, e := range b.in {
		g.edges[e].to = to
	}
	b.in, b.succs = nil, nil
}

// spread puts several elements in the place of one.
func spread[T any](list []T, at int, many []T) []T {
	out := make([]T, 0, len(list)+len(many)-1)
	out = append(out, list[:at]...)
	out = append(out, many...)
	return append(out, list[at+1:]...)
}

// extend appends the next block as long as nothing else leads there.
func (g *graph) extend(i int32) {
	b := &g.blocks[i]
	for b.end == jumps {
		to := g.edges[b.succs[0]].to
		next := &g.blocks[to]
		if len(next.in) != 1 || to == i || to == 0 || len(next.phis) > 0 {
			return
		}
		b.code = append(b.code, next.code...)
		b.end, b.label, b.last, b.test = next.end, next.label, next.last, next.test
		b.succs, b.results = next.succs, next.results
		for _, e := range b.succs {
			g.edges[e].from = i
		}
		*next = block{}
	}
}

// arrange numbers the blocks in reverse postorder, sorts edges into blocks by that order, and tells nodes where they
// are. Two functions that differ in names and layout alone get the same numbers.
func (g *graph) arrange() {
	g.number = make([]int32, len(g.blocks))
	for i := range g.number {
		g.number[i] = -1
	}
	type frame struct{ block, next int32 }
	stack := []frame{{0, 0}}
	g.number[0] = 0
	var post []int32
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		succs := g.blocks[top.block].succs
		if int(top.next) == len(succs) {
			post = append(post, top.block)
			stack = stack[:len(stack)-1]
			continue
		}
		to := g.edges[succs[top.next]].to
		top.next++
		if g.number[to] < 0 {
			g.number[to] = 0
			stack = append(stack, frame{to, 0})
		}
	}
	for i := len(post) - 1; i >= 0; i-- {
		g.number[post[i]] = int32(len(g.order))
		g.order = append(g.order, post[i])
	}
	for _, i := range g.order {
		for k, e := range g.blocks[i].succs {
			g.edges[e].slot = int32(k)
		}
	}
	for n, i := range g.order {
		b := &g.blocks[i]
		g.sortEdges(b)
		for _, list := range [][]int32{b.code, b.phis} {
			for _, id := range list {
				g.nodes[id].block = int32(n)
			}
		}
	}
}

// sortEdges orders the edges into a block by where they come from, and the operands of phis with them.
func (g *graph) sortEdges(b *block) {
	perm := make([]int, len(b.in))
	for i := range perm {
		perm[i] = i
	}
	slices.SortFunc(perm, func(i, j int) int {
		x, y := g.edges[b.in[i]], g.edges[b.in[j]]
		return cmp.Or(cmp.Compare(g.number[x.from], g.number[y.from]), cmp.Compare(x.slot, y.slot))
	})
	b.in = permute(b.in, perm)
	for _, id := range b.phis {
		g.nodes[id].ops = permute(g.nodes[id].ops, perm)
	}
}

func permute[T any](list []T, perm []int) []T {
	out := make([]T, len(perm))
	for i, p := range perm {
		out[i] = list[p]
	}
	return out
}
