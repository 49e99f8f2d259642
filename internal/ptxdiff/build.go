package ptxdiff

import (
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// This file implements the search for the value that each operand has: registers become values, and so do memory and
// the carry.

const (
	// maxInstrs is the largest function that is compared. Generated kernels reach some hundred thousand.
	maxInstrs = 1 << 20
	// maxMeets is how many registers may be looked up at the beginnings of blocks, and operands of phis and of lists of
	// targets be made: each costs some 50 bytes. A register costs one in every block that it lives through.
	maxMeets = 1 << 22
)

// builder makes a graph. Nodes 0 to len(fn.Code)-1 are the instructions.
type builder struct {
	*graph
	flow    *ptx.Graph
	exits   map[string]int32 // blocks that leave, by how
	last    map[place]value  // the last definition of a variable in a block
	first   map[place]value  // what a variable holds where a block begins
	now     map[int32]value  // the last definition so far in the block that is read
	at      int32            // the block that is read
	start   []int32          // nodes of what variables hold at the beginning, -1 for none yet
	pending []phi
	phis    []int32
	meets   int
	shared  map[string]int32       // nodes of special registers and symbols
	protos  map[*ptx.Instr]int32   // labels of the signatures of indirect calls
	outer   map[*ptx.Variable]bool // declared outside functions
	shape   []byte
}

// place is a variable in a block. Variables are the registers, then memory, then the carry.
type place struct{ block, variable int32 }

type phi struct{ node, variable int32 }

func (b *builder) memory() int32 { return int32(len(b.fn.Registers)) }
func (b *builder) carry() int32  { return int32(len(b.fn.Registers)) + 1 }

// build makes the normal form of a function.
func build(file *ptx.File, fn *ptx.Function, n *names) (*graph, error) {
	if len(fn.Code) > maxInstrs {
		return nil, diag.Errorf(Limit, "compare the texts, or smaller kernels",
			"%s has %d instructions, at most %d are compared", fn.Name, len(fn.Code), maxInstrs).At(file.Position(fn.Pos))
	}
	b := &builder{
		graph: &graph{file: file, fn: fn, names: n, roles: map[*ptx.Variable]string{}},
		flow:  ptx.NewGraph(fn), exits: map[string]int32{}, last: map[place]value{}, first: map[place]value{},
		shared: map[string]int32{}, protos: map[*ptx.Instr]int32{}, outer: map[*ptx.Variable]bool{},
		start: slices.Repeat([]int32{-1}, len(fn.Registers)+2),
	}
	b.declarations()
	for _, in := range fn.Code {
		b.add(node{kind: instrNode, in: in, block: -1})
	}
	b.connect()
	for i := range b.flow.Blocks {
		b.define(&b.flow.Blocks[i])
	}
	for i := range b.flow.Blocks {
		b.read(&b.flow.Blocks[i])
	}
	b.leave()
	for len(b.pending) > 0 && b.meets <= maxMeets {
		p := b.pending[len(b.pending)-1]
		b.pending = b.pending[:len(b.pending)-1]
		into := b.blocks[b.nodes[p.node].block].in
		ops := make([]value, len(into))
		for k, e := range into {
			ops[k] = b.leaving(p.variable, b.edges[e].from)
		}
		b.meets += len(ops)
		b.nodes[p.node].ops = ops
	}
	if b.meets > maxMeets {
		return nil, diag.Errorf(Limit, "compare the texts",
			"too many registers of %s live through too many blocks to be followed", fn.Name).At(file.Position(fn.Pos))
	}
	b.dropTrivial()
	b.normalise()
	b.keepLive()
	b.simplify()
	b.arrange()
	return b.graph, nil
}

// declarations notes what variables are known by, and the prototypes of calls.
func (b *builder) declarations() {
	for i, v := range b.fn.Params {
		b.roles[v] = "parameter " + strconv.Itoa(i)
	}
	for i, v := range b.fn.Returns {
		b.roles[v] = "result " + strconv.Itoa(i)
	}
	for _, item := range b.file.Items {
		if v, ok := item.(*ptx.Variable); ok {
			b.outer[v] = true
		}
	}
	b.prototypes(b.fn.Body, nil)
}

// prototypes notes the signatures that indirect calls name. A name is looked for in the blocks around a call, innermost
// first; blocks are nested at most some hundred deep.
func (b *builder) prototypes(body *ptx.Block, around []map[string]int32) {
	own := map[string]int32{}
	for _, s := range body.Stmts {
		if x, ok := s.(*ptx.Prototype); ok {
			own[x.Name] = b.names.id("prototype " + signature(x.Returns, x.Params))
		}
	}
	around = append(around[:len(around):len(around)], own)
	for _, s := range body.Stmts {
		switch x := s.(type) {
		case *ptx.Block:
			b.prototypes(x, around)
		case *ptx.Instr:
			if n := len(x.Args); x.Op == "call" && x.Args[n-1].Kind == ptx.LabelArg {
				for k := len(around) - 1; k >= 0; k-- {
					if id, ok := around[k][x.Args[n-1].Text]; ok {
						b.protos[x] = id
						break
					}
				}
			}
		}
	}
}

// connect makes blocks and edges. Block 0 is empty, so that nothing leads back to the beginning.
func (b *builder) connect() {
	b.blocks = make([]block, len(b.flow.Blocks)+1)
	if len(b.flow.Blocks) == 0 {
		b.jump(0, b.exit("ret"))
		return
	}
	b.jump(0, 1)
	for i := range b.flow.Blocks {
		if f := &b.flow.Blocks[i]; f.Reachable {
			b.finish(int32(i+1), b.fn.Code[f.End-1], f.End)
		}
	}
}

// finish says how a block ends, from its last instruction and the place behind it.
func (b *builder) finish(i int32, in *ptx.Instr, behind int) {
	var to []int32
	switch in.Op {
	case "bra":
		to = append(to, b.target(in.Args[0].Label.Index))
	case "brx":
		for k := range in.Args[1].Targets.List {
			to = append(to, b.target(in.Args[1].Targets.List[k].Label.Index))
		}
		if in.Guard != nil { // a switch behind a branch
			choice := b.newBlock()
			b.join(choice, switches, in, to...)
			to = []int32{choice}
			break
		}
		b.join(i, switches, in, to...)
		return
	case "ret", "exit", "trap":
		how := in.Op
		if how == "exit" && b.fn.Entry {
			how = "ret" // the same in a kernel
		}
		to = append(to, b.exit(how))
	case "call":
		if !noReturn(in) {
			b.jump(i, b.target(behind))
			return
		}
		to = append(to, b.exit("call"))
	default:
		b.jump(i, b.target(behind))
		return
	}
	if in.Guard == nil {
		b.jump(i, to[0])
		b.blocks[i].last = in
		return
	}
	b.join(i, branches, in, to[0], b.target(behind))
}

// noReturn reports whether a call is of a function that never returns.
func noReturn(in *ptx.Instr) bool {
	for i := range in.Args {
		if f := in.Args[i].Func; f != nil {
			return f.NoReturn()
		}
	}
	return false
}

func (b *builder) newBlock() int32 {
	b.blocks = append(b.blocks, block{})
	return int32(len(b.blocks) - 1)
}

// target is the block at an instruction; behind the last one is the end of the function.
func (b *builder) target(instr int) int32 {
	if instr == len(b.fn.Code) {
		return b.exit("ret")
	}
	return int32(b.flow.BlockOf(instr)) + 1
}

// exit is the block that leaves the function, one for each way to do it.
func (b *builder) exit(how string) int32 {
	if i, ok := b.exits[how]; ok {
		return i
	}
	i := b.newBlock()
	b.blocks[i].end, b.blocks[i].label = leaves, b.names.id(how)
	b.exits[how] = i
	return i
}

func (b *builder) jump(from, to int32) { b.join(from, jumps, nil, to) }

func (b *builder) join(from int32, end ending, last *ptx.Instr, to ...int32) {
	b.blocks[from].end, b.blocks[from].last = end, last
	for _, t := range to {
		e := int32(len(b.edges))
		b.edges = append(b.edges, edge{from: from, to: t})
		b.blocks[from].succs = append(b.blocks[from].succs, e)
		b.blocks[t].in = append(b.blocks[t].in, e)
	}
}

// define records the last definitions of a block.
func (b *builder) define(f *ptx.BasicBlock) {
	if !f.Reachable {
		return
	}
	b.at = int32(f.Index) + 1
	for _, in := range b.fn.Code[f.First:f.End] {
		b.defines(in, func(variable int32, v value) { b.last[place{b.at, variable}] = v })
	}
}

// defines visits what an instruction sets.
func (b *builder) defines(in *ptx.Instr, visit func(variable int32, v value)) {
	n := int32(in.Index)
	plain, canonical := plainComparison(in)
	canonical = canonical && in.Guard == nil
	out := int32(0)
	in.Defs(func(o *ptx.Operand) {
		v := value{node: n, out: out}
		if canonical { // the second result is the opposite of the first, which may be _
			second := in.Args[0].Kind == ptx.PairArg && o == &in.Args[0].List[1]
			v = value{node: n, neg: plain.negate != second}
		}
		visit(int32(o.Reg.Index), v)
		out++
	})
	if classOf(in, b.own) == acts && !ends(in) {
		visit(b.memory(), value{node: n, out: -1})
	}
	if in.Has("cc") {
		visit(b.carry(), value{node: n, out: -2})
	}
}

// ends reports whether an instruction is nothing but the end of its block.
func ends(in *ptx.Instr) bool {
	switch in.Op {
	case "bra", "brx", "ret", "exit", "trap":
		return true
	}
	return false
}

// own reports whether a variable is a parameter of the function.
func (b *builder) own(v *ptx.Variable) bool { return strings.HasPrefix(b.roles[v], "parameter") }

// read finds the operands of a block's instructions.
func (b *builder) read(f *ptx.BasicBlock) {
	if !f.Reachable {
		return
	}
	b.at, b.now = int32(f.Index)+1, map[int32]value{}
	blk := b.at
	for _, in := range b.fn.Code[f.First:f.End] {
		if b.meets > maxMeets {
			return
		}
		if ends(in) {
			b.readEnd(in)
			continue
		}
		if b.lower(in) {
			b.blocks[blk].code = append(b.blocks[blk].code, int32(in.Index))
		}
		b.defines(in, func(variable int32, v value) { b.now[variable] = v })
		if in.Op == "call" && b.blocks[blk].end == branches {
			b.readEnd(in)
		}
	}
}

// leave finds what registers hold for the caller where control leaves the function. Registers of the module come last,
// in the order of their use.
func (b *builder) leave() {
	var results []*ptx.Register
	for _, r := range b.fn.Registers {
		if b.outer[r.Var] || strings.HasPrefix(b.roles[r.Var], "result") {
			results = append(results, r)
		}
	}
	slices.SortStableFunc(results, func(x, y *ptx.Register) int {
		return -strings.Compare(b.roles[x.Var], b.roles[y.Var])
	})
	for _, i := range b.exits {
		for _, r := range results {
			b.blocks[i].results = append(b.blocks[i].results, b.entering(int32(r.Index), i))
		}
	}
}

// readEnd finds what a branch or a switch looks at.
func (b *builder) readEnd(in *ptx.Instr) {
	blk := &b.blocks[b.at]
	if in.Guard != nil {
		blk.test = b.source(in, in.Guard)
	}
	if in.Op != "brx" {
		return
	}
	if in.Guard != nil {
		blk = &b.blocks[b.edges[blk.succs[0]].to]
	}
	blk.test = b.source(in, &in.Args[0])
}

// variable is what a variable holds here.
func (b *builder) variable(i int32) value {
	if v, ok := b.now[i]; ok {
		return v
	}
	return b.entering(i, b.at)
}

// leaving is what a variable holds where a block ends.
func (b *builder) leaving(variable, blk int32) value {
	if v, ok := b.last[place{blk, variable}]; ok {
		return v
	}
	return b.entering(variable, blk)
}

// entering is what a variable holds where a block begins: what the only block before it leaves, or a phi.
func (b *builder) entering(variable, blk int32) value {
	var path []int32
	var v value
	for {
		b.meets++
		known, ok := b.first[place{blk, variable}]
		if ok {
			v = known
			break
		}
		if in := b.blocks[blk].in; len(in) == 1 {
			path = append(path, blk)
			blk = b.edges[in[0]].from
			if v, ok = b.last[place{blk, variable}]; ok {
				break
			}
			continue
		} else if len(in) == 0 {
			v = value{node: b.beginning(variable)}
			break
		}
		id := b.add(node{kind: phiNode, label: b.names.id("phi"), block: blk, state: variable >= b.memory()})
		b.pending = append(b.pending, phi{id, variable})
		b.phis = append(b.phis, id)
		v = value{node: id}
		b.first[place{blk, variable}] = v
		break
	}
	for _, p := range path {
		b.first[place{p, variable}] = v
	}
	return v
}

// beginning is the node of what a variable holds when the function begins. Registers that are no parameters hold
// nothing, so it does not matter which of them it is.
func (b *builder) beginning(variable int32) int32 {
	if b.start[variable] < 0 {
		what := "register"
		switch variable {
		case b.memory():
			what = "memory"
		case b.carry():
			what = "carry"
		default:
			if r := b.fn.Registers[variable]; b.outer[r.Var] {
				what = "register " + r.Name
			} else if b.roles[r.Var] != "" {
				what = b.roles[r.Var]
			}
		}
		b.start[variable] = b.add(node{kind: startNode, label: b.names.id("start " + what), block: -1,
			state: variable >= b.memory()})
	}
	return b.start[variable]
}

// dropTrivial turns phis all of whose operands are one value into that value.
func (b *builder) dropTrivial() {
	users := map[int32][]int32{}
	for _, p := range b.phis {
		for _, o := range b.nodes[p].ops {
			if r := b.resolve(o); b.nodes[r.node].kind == phiNode && r.node != p {
				users[r.node] = append(users[r.node], p)
			}
		}
	}
	todo := append([]int32(nil), b.phis...)
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if b.forward[p].node >= 0 {
			continue
		}
		v, trivial := b.trivial(p)
		if !trivial {
			continue
		}
		b.forward[p] = v
		todo = append(todo, users[p]...)
		if b.nodes[v.node].kind == phiNode {
			users[v.node] = append(users[v.node], users[p]...)
		}
	}
}

// trivial reports the one value that a phi can have.
func (b *builder) trivial(p int32) (value, bool) {
	var one value
	found := false
	for _, o := range b.nodes[p].ops {
		r := b.resolve(o)
		if r.node == p && !r.neg {
			continue
		}
		if r.node == p || found && r != one {
			return value{}, false
		}
		one, found = r, true
	}
	return one, found
}

// keepLive drops what nothing depends on: results that are not used, and phis.
func (b *builder) keepLive() {
	live := make([]bool, len(b.nodes))
	var todo []int32
	mark := func(n int32) {
		if !live[n] {
			live[n] = true
			todo = append(todo, n)
		}
	}
	for i := range b.blocks {
		blk := &b.blocks[i]
		if blk.end == branches || blk.end == switches {
			mark(blk.test.node)
		}
		for _, r := range blk.results {
			mark(r.node)
		}
		for _, n := range blk.code {
			if b.nodes[n].class != pure {
				mark(n)
			}
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, o := range b.nodes[n].ops {
			mark(o.node)
		}
	}
	for i := range b.blocks {
		b.blocks[i].code = slices.DeleteFunc(b.blocks[i].code, func(n int32) bool { return !live[n] })
	}
	for _, p := range b.phis {
		if live[p] {
			blk := &b.blocks[b.nodes[p].block]
			blk.phis = append(blk.phis, p)
		}
	}
}
