package ptxdiff

import (
	"fmt"
	"slices"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements reports of what differs between two functions whose instructions are aligned.

// structure records the differences of two functions that were not shown to be the same, constants aside.
func (c *comparer) structure(old, new *graph, oldHash, newHash *hashes) {
	oldHash.quiet, newHash.quiet = old.hash(false, true), new.hash(false, true)
	a := newAlignment(c, old, new, oldHash, newHash)
	a.effects = unmatchedActs(old, a.nodes) || unmatchedActs(new, a.back)
	before := c.structural()
	for i, j := range a.blocks {
		if j >= 0 {
			a.ends(&old.blocks[old.order[i]], &new.blocks[new.order[j]])
		}
	}
	for _, id := range old.code() {
		if a.nodes[id] < 0 {
			in := old.nodes[id].in
			c.record(Change{Kind: InstructionRemoved, Rank: Structure, Old: c.old.instrPlace(in),
				Message: in.Mnemonic() + " was removed"})
		} else {
			a.instruction(id, a.nodes[id])
		}
	}
	for _, id := range new.code() {
		if a.back[id] < 0 {
			in := new.nodes[id].in
			c.record(Change{Kind: InstructionAdded, Rank: Structure, New: c.new.instrPlace(in),
				Message: in.Mnemonic() + " was added"})
		}
	}
	for len(a.pending) > 0 {
		last := a.pending[len(a.pending)-1]
		a.pending = a.pending[:len(a.pending)-1]
		a.edges(int32(last.old), int32(last.new))
	}
	if c.structural() == before {
		c.record(Change{Kind: BranchChanged, Rank: Structure, Old: c.old.place(old.fn.Pos, old.fn.Name),
			New:     c.new.place(new.fn.Pos, new.fn.Name),
			Message: "the instructions stand for each other, but the paths between them could not be shown to be the same"})
	}
	c.result.Coarse = c.result.Coarse || a.coarse
}

// unmatchedActs reports whether something that acts stands for nothing on the other side.
func unmatchedActs(g *graph, partners []int32) bool {
	return slices.ContainsFunc(g.code(), func(n int32) bool { return g.nodes[n].class == acts && partners[n] < 0 })
}

// structural is how many changes of structure are known so far.
func (c *comparer) structural() int {
	n := c.result.Omitted
	for i := range c.result.Changes {
		if c.result.Changes[i].Rank == Structure {
			n++
		}
	}
	return n
}

// ends compares how two blocks end.
func (a *alignment) ends(old, new *block) {
	moved := len(old.succs) != len(new.succs) || old.end != new.end || old.label != new.label
	for k := range min(len(old.succs), len(new.succs)) {
		to := a.blocks[a.old.number[a.old.edges[old.succs[k]].to]]
		moved = moved || to != a.new.number[a.new.edges[new.succs[k]].to]
	}
	if moved && a.opposite(old, new) {
		return // another comparison, which is reported
	}
	if moved && (old.last != nil || new.last != nil) {
		a.c.record(Change{Kind: BranchChanged, Rank: Structure, Old: a.c.old.instrPlace(old.last),
			New: a.c.new.instrPlace(new.last), Message: endText(old, new)})
		return
	}
	for k := range min(len(old.results), len(new.results)) {
		a.operand(fmt.Sprintf("result %d", k), old.last, new.last, old.results[k], new.results[k])
	}
	if old.end == new.end && (old.end == branches || old.end == switches) {
		a.operand("the condition", old.last, new.last, old.test, new.test)
	}
}

// opposite reports whether two branches go the same ways, one of them where the condition does not hold, because the
// comparison before it became another one.
func (a *alignment) opposite(old, new *block) bool {
	if old.end != branches || new.end != branches || !a.recompared(old.test.node, new.test.node) {
		return false
	}
	for k := range 2 {
		to := a.blocks[a.old.number[a.old.edges[old.succs[k]].to]]
		if to != a.new.number[a.new.edges[new.succs[1-k]].to] {
			return false
		}
	}
	return true
}

// recompared reports whether two nodes are comparisons that stand for each other and are not the same.
func (a *alignment) recompared(old, new int32) bool {
	x, y := &a.old.nodes[old], &a.new.nodes[new]
	return a.nodes[old] == new && x.in.Op == "setp" && x.in.Mnemonic() != y.in.Mnemonic()
}

var endTexts = map[ending]string{
	jumps: "a jump", branches: "a branch", switches: "a choice of targets", leaves: "a return",
}

func endText(old, new *block) string {
	if old.end != new.end {
		return endTexts[old.end] + " became " + endTexts[new.end]
	}
	return endTexts[new.end] + " leads elsewhere"
}

// instruction compares two aligned instructions.
func (a *alignment) instruction(old, new int32) {
	x, y := &a.old.nodes[old], &a.new.nodes[new]
	if x.label != y.label || len(x.ops) != len(y.ops) {
		what := fmt.Sprintf("%s became %s", x.in.Mnemonic(), y.in.Mnemonic())
		if x.in.Mnemonic() == y.in.Mnemonic() {
			what = fmt.Sprintf("the operands of %s have another form", y.in.Mnemonic())
			if (x.in.Guard == nil) != (y.in.Guard == nil) {
				what = fmt.Sprintf("the guard of %s was removed", y.in.Mnemonic())
				if x.in.Guard == nil {
					what = fmt.Sprintf("%s was given a guard", y.in.Mnemonic())
				}
			}
		}
		a.c.record(Change{Kind: ModifierChanged, Rank: Structure, Old: a.c.old.instrPlace(x.in),
			New: a.c.new.instrPlace(y.in), Message: what})
		return
	}
	if a.recompared(old, new) && a.turnedFaults(x, y) {
		a.c.record(Change{Kind: ModifierChanged, Rank: Structure, Old: a.c.old.instrPlace(x.in),
			New: a.c.new.instrPlace(y.in), Message: fmt.Sprintf("%s became %s", x.in.Mnemonic(), y.in.Mnemonic())})
		was, is := x.written(), y.written()
		for k := range was {
			a.operand(x.part(k), x.in, y.in, was[k], is[k])
		}
		return
	}
	if x.class != pure && a.blocks[x.block] != y.block {
		a.c.record(Change{Kind: Moved, Rank: Structure, Old: a.c.old.instrPlace(x.in), New: a.c.new.instrPlace(y.in),
			Message: y.in.Mnemonic() + " now stands under other conditions"})
	}
	swap := 0
	if k := int(x.first); x.swaps && a.faults(x.ops[k], y.ops[k+1])+a.faults(x.ops[k+1], y.ops[k]) <
		a.faults(x.ops[k], y.ops[k])+a.faults(x.ops[k+1], y.ops[k+1]) {
		swap = 2*k + 1
	}
	for k := range x.ops {
		m := k
		if swap > 0 && (k == int(x.first) || k == int(x.first)+1) {
			m = swap - k
		}
		a.operand(x.part(k), x.in, y.in, x.ops[k], y.ops[m])
	}
}

// part names an operand in a sentence.
func (n *node) part(k int) string {
	if n.in.Guard != nil && k == 0 {
		return "the guard"
	}
	source := k + 1
	if n.in.Guard != nil {
		source--
	}
	for _, b := range n.bases {
		switch {
		case k == int(b) || k == int(b)+1:
			return "the address"
		case k > int(b):
			source -= 2
		}
	}
	return fmt.Sprintf("source %d", source)
}

// turnedFaults reports whether comparisons that are spelled differently compare different things.
func (a *alignment) turnedFaults(x, y *node) bool {
	for k := range x.ops {
		if a.faults(x.ops[k], y.ops[k]) > 0 {
			return true
		}
	}
	return false
}

// written are the operands in the order of the text.
func (n *node) written() []value {
	if n.turned {
		return []value{n.ops[1], n.ops[0]}
	}
	return n.ops
}

// faults is how badly two values fit: not at all, in a number only, or well.
func (a *alignment) faults(old, new value) int {
	x, y := &a.old.nodes[old.node], &a.new.nodes[new.node]
	switch {
	case x.kind == constNode && y.kind == constNode && x.bits != y.bits:
		return 1
	case !a.fits(old, new):
		return 2
	}
	return 0
}

// fits reports whether two values stand for each other as far as the alignment tells.
func (a *alignment) fits(old, new value) bool {
	x, y := &a.old.nodes[old.node], &a.new.nodes[new.node]
	if old.out != new.out || old.neg != new.neg || x.kind != y.kind {
		return false
	}
	switch x.kind {
	case constNode:
		return x.bits == y.bits
	case symbolNode:
		return a.symbol(x, y)
	case specialNode, startNode:
		return x.label == y.label
	case phiNode:
		return a.phi(old.node, new.node)
	}
	return a.nodes[old.node] == new.node && new.node >= 0 || a.oldHash.exact[old.node] == a.newHash.exact[new.node]
}

// phi reports whether two phis stand for each other. What comes along the edges is compared later.
func (a *alignment) phi(old, new int32) bool {
	if known, ok := a.phis[old]; ok {
		return known == new
	}
	x, y := &a.old.nodes[old], &a.new.nodes[new]
	if a.blocks[x.block] != y.block {
		return false
	}
	a.phis[old] = new
	a.pending = append(a.pending, match{int(old), int(new)})
	return true
}

// edges compares what comes along the edges into two phis.
func (a *alignment) edges(old, new int32) {
	x, y := &a.old.nodes[old], &a.new.nodes[new]
	was, is := &a.old.blocks[a.old.order[x.block]], &a.new.blocks[a.new.order[y.block]]
	if len(was.in) != len(is.in) {
		return // the branches are reported
	}
	for k := range was.in {
		if a.blocks[a.old.number[a.old.edges[was.in[k]].from]] == a.new.number[a.new.edges[is.in[k]].from] {
			a.operand("a value that comes to the block", a.old.head(x.block), a.new.head(y.block), x.ops[k], y.ops[k])
		}
	}
}

// head is an instruction that stands for a block in a report, nil where it has none.
func (g *graph) head(number int32) *ptx.Instr {
	b := &g.blocks[g.order[number]]
	if len(b.code) > 0 {
		return g.nodes[b.code[0]].in
	}
	return b.last
}

// symbol reports whether two names stand for each other, and records how variables differ that do.
func (a *alignment) symbol(x, y *node) bool {
	c, old, new := a.c, symbolOf(x.arg), symbolOf(y.arg)
	if parameter := a.old.roles[x.arg.Var] != "" || a.new.roles[y.arg.Var] != ""; parameter {
		return x.label == y.label
	}
	if known, ok := c.symbols[old]; ok {
		return known == new
	}
	if _, ok := c.back[new]; ok || (old.fn == nil) != (new.fn == nil) {
		return false
	}
	if old.fn != nil {
		if (old.fn.Body == nil) != (new.fn.Body == nil) || old.fn.Body == nil && old.fn.Name != new.fn.Name {
			return false
		}
		c.symbols[old], c.back[new] = new, old
		if old.fn.Body != nil {
			c.enqueue(old.fn, new.fn)
		}
		return true
	}
	if old.v.Space != new.v.Space || old.name != new.name && !c.sameName(old, new) {
		return false
	}
	c.symbols[old], c.back[new] = new, old
	a.variable(old, new)
	return true
}

// variable records how two variables differ.
func (a *alignment) variable(old, new symbol) {
	p := &prover{c: a.c, masked: true, symbols: map[symbol]symbol{}, back: map[symbol]symbol{}}
	if p.variablePair(old, new) {
		for _, t := range p.tables {
			a.report.table(t)
		}
		return
	}
	was := size(old.v, a.c.names.declaration(old.v, old.name))
	is := size(new.v, a.c.names.declaration(new.v, new.name))
	message := fmt.Sprintf("variable %s is declared otherwise", new.name)
	if was != is {
		message = fmt.Sprintf(".%s variable %s: %s became %s", new.v.Space, new.name, was, is)
	}
	a.c.directive(a.c.old.place(old.v.Pos, old.name), a.c.new.place(new.v.Pos, new.name), message)
}

// operand compares an operand of two aligned instructions. Where the instruction that made it was added or removed,
// that is what is reported.
func (a *alignment) operand(what string, oldIn, newIn *ptx.Instr, old, new value) {
	x, y := &a.old.nodes[old.node], &a.new.nodes[new.node]
	if x.kind == constNode && y.kind == constNode {
		if x.bits != y.bits {
			a.report.constant(old.node, new.node)
		}
		return
	}
	if a.fits(old, new) {
		return
	}
	if a.old.unmatched(a.nodes, old.node) || a.new.unmatched(a.back, new.node) {
		return
	}
	if a.old.isSynthetic(old.node) && a.new.isSynthetic(new.node) && x.label == y.label && old.neg == new.neg {
		for k := range x.ops {
			a.operand(what, oldIn, newIn, x.ops[k], y.ops[k])
		}
		return
	}
	if x.kind == instrNode && y.kind == instrNode && a.recompared(old.node, new.node) {
		return
	}
	state := a.old.isState(old) || a.new.isState(new)
	if state && a.effects && (x.kind != instrNode || y.kind != instrNode) {
		return // a consequence of what was added or removed
	}
	subject, mnemonic := "what comes there", ""
	if newIn != nil {
		subject, mnemonic = newIn.Mnemonic(), " of "+newIn.Mnemonic()
	}
	was, is := a.origin(a.old, a.c.old, old), a.origin(a.new, a.c.new, new)
	if was == is && x.kind == instrNode && a.nodes[old.node] >= 0 { // the same line, but not the same value
		was = "what is now " + a.origin(a.new, a.c.new, value{node: a.nodes[old.node], out: old.out, neg: old.neg})
	}
	message := fmt.Sprintf("%s%s was %s and is %s", what, mnemonic, was, is)
	kind := OperandChanged
	if state {
		kind = Moved
		message = fmt.Sprintf("%s follows %s, no longer %s", subject, is, was)
	}
	a.c.record(Change{Kind: kind, Rank: Structure, Old: a.c.old.near(a.old.fn, oldIn), New: a.c.new.near(a.new.fn, newIn),
		Message: message})
}

// unmatched reports whether the instruction that makes a value stands for nothing on the other side.
func (g *graph) unmatched(partners []int32, id int32) bool {
	for g.isSynthetic(id) {
		id = g.nodes[id].ops[0].node
	}
	return g.nodes[id].kind == instrNode && partners[id] < 0
}

// near is the place of an instruction, or of the function where an empty block has none.
func (s *side) near(fn *ptx.Function, in *ptx.Instr) Place {
	if in == nil {
		return s.place(fn.Pos, fn.Name)
	}
	return s.instrPlace(in)
}

// origin says where a value comes from.
func (a *alignment) origin(g *graph, s *side, v value) string {
	n := &g.nodes[v.node]
	not := ""
	if v.neg {
		not = "not "
	}
	switch n.kind {
	case constNode:
		return not + "the constant " + g.describe(n, operandType(n.in))
	case symbolNode:
		return not + "the address of " + n.arg.Text
	case specialNode:
		return not + n.arg.String()
	case startNode:
		if n.state {
			return "the beginning"
		}
		return not + "a register that was never set"
	case phiNode:
		if n.state {
			return "what comes from several sides before " + s.blockText(g, n.block)
		}
		return not + "one of several values that meet before " + s.blockText(g, n.block)
	}
	if field, ok := strings.CutPrefix(g.names.texts[n.label], fieldLabel); ok {
		return not + "field " + field + " of " + a.origin(g, s, n.ops[0])
	}
	if role := g.roles[baseVariable(n.in)]; role != "" {
		return role
	}
	return fmt.Sprintf("%s%s at %s", not, n.in.Mnemonic(), s.lineOf(n.in))
}

// blockText names a block by its first instruction.
func (s *side) blockText(g *graph, number int32) string {
	if in := g.head(number); in != nil {
		return s.lineOf(in)
	}
	return "the end"
}
