package ptx

import (
	"slices"
	"sort"
)

// This file implements the control flow graph of a function.

// BasicBlock is a run of instructions that control enters at the first and leaves behind the last.
type BasicBlock struct {
	Index        int   // in Graph.Blocks
	First, End   int   // the instructions are Function.Code[First:End]
	Succs, Preds []int // blocks, each once, in ascending order
	Exits        bool  // control may leave the function behind it: ret, exit, trap, a call that does not return, the end
	Returns      bool  // as Exits, and the caller goes on
	Reachable    bool  // from the first block
}

// Graph is the control flow of a function. Blocks are in the order of the code, so the first one is the entry; a
// function without instructions has none.
//
// An exit is not a block. Whoever needs one node for it calls it -1.
type Graph struct {
	Func   *Function
	Blocks []BasicBlock
}

// NewGraph makes the graph of a function.
//
// A branch through a list of targets may go to each of them. An indirect call is taken to return, whatever its
// prototype says: an edge too many keeps every analysis safe.
func NewGraph(fn *Function) *Graph {
	g := &Graph{Func: fn}
	n := len(fn.Code)
	starts := make([]bool, n+1) // where blocks begin
	starts[0] = true
	for i, in := range fn.Code {
		if in.endsBlock() {
			starts[i+1] = true
			in.targets(func(to int) { starts[to] = true })
		}
	}
	for i := range n {
		if starts[i] {
			if last := len(g.Blocks) - 1; last >= 0 {
				g.Blocks[last].End = i
			}
			g.Blocks = append(g.Blocks, BasicBlock{Index: len(g.Blocks), First: i, End: n})
		}
	}
	g.connect()
	if n > 0 {
		for _, b := range g.postorder([]int{0}, succs, make([]bool, len(g.Blocks))) {
			g.Blocks[b].Reachable = true
		}
	}
	return g
}

// connect finds the edges.
func (g *Graph) connect() {
	n := len(g.Func.Code)
	for i := range g.Blocks {
		b := &g.Blocks[i]
		last := g.Func.Code[b.End-1]
		to := func(at int) {
			if at == n {
				b.Exits, b.Returns = true, true
			} else {
				b.Succs = append(b.Succs, g.BlockOf(at))
			}
		}
		if last.endsBlock() {
			last.targets(to)
			b.Exits = b.Exits || last.Op != "bra" && last.Op != "brx"
			b.Returns = b.Returns || last.Op == "ret"
		}
		if !last.endsBlock() || last.Guard != nil {
			to(b.End)
		}
		slices.Sort(b.Succs)
		b.Succs = slices.Compact(b.Succs)
	}
	for i := range g.Blocks { // in ascending order, so that the lists are
		for _, s := range g.Blocks[i].Succs {
			g.Blocks[s].Preds = append(g.Blocks[s].Preds, i)
		}
	}
}

// BlockOf is the block that an instruction of the function belongs to.
func (g *Graph) BlockOf(instr int) int {
	return sort.Search(len(g.Blocks), func(i int) bool { return g.Blocks[i].First > instr }) - 1
}

// endsBlock reports whether control does not simply go on behind the instruction. A guard lets it go on as well.
func (in *Instr) endsBlock() bool {
	switch in.Op {
	case "bra", "brx", "ret", "exit", "trap":
		return true
	case "call":
		for i := range in.Args {
			if f := in.Args[i].Func; f != nil {
				return f.NoReturn()
			}
		}
	}
	return false
}

// NoReturn reports whether the function is declared never to return.
func (f *Function) NoReturn() bool {
	return slices.ContainsFunc(f.Directives, func(d *Directive) bool { return d.Name == "noreturn" })
}

// targets visits the instructions that a branch may go to. The end of the body counts as one more instruction.
func (in *Instr) targets(visit func(instr int)) {
	switch in.Op {
	case "bra":
		visit(in.Args[0].Label.Index)
	case "brx":
		for i := range in.Args[1].Targets.List {
			visit(in.Args[1].Targets.List[i].Label.Index)
		}
	}
}

func succs(b *BasicBlock) []int { return b.Succs }

func preds(b *BasicBlock) []int { return b.Preds }

// postorder walks depth first from some blocks and lists those it finds, each behind what it leads to. seen marks what
// is not to be entered, and what was. Functions may be long, hence no recursion.
func (g *Graph) postorder(from []int, next func(*BasicBlock) []int, seen []bool) []int {
	type frame struct {
		block int
		todo  []int
	}
	var order []int
	var stack []frame
	push := func(b int) {
		if !seen[b] {
			seen[b] = true
			stack = append(stack, frame{b, next(&g.Blocks[b])})
		}
	}
	for _, b := range from {
		push(b)
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.todo) == 0 {
				order = append(order, top.block)
				stack = stack[:len(stack)-1]
				continue
			}
			b := top.todo[0]
			top.todo = top.todo[1:]
			push(b)
		}
	}
	return order
}
