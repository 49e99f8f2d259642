package ptxdiff

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements the normal form of single instructions: a label that says what is done, and operands that are
// values.

// lower fills the node of an instruction and returns true, or forwards it where it is a copy.
func (b *builder) lower(in *ptx.Instr) bool {
	id := int32(in.Index)
	if v, ok := b.copied(in); ok {
		b.forward[id] = v
		return false
	}
	n := node{kind: instrNode, class: classOf(in, b.own), in: in, block: -1}
	b.shape = b.shape[:0]
	if in.Guard != nil {
		b.shape = append(b.shape, '@')
		n.ops = append(n.ops, b.source(in, in.Guard))
	}
	plain, canonical := plainComparison(in)
	canonical = canonical && in.Guard == nil
	text := spelling(in)
	if canonical {
		_, rest, _ := strings.Cut(strings.TrimPrefix(text, "setp."), ".")
		text = "setp." + plain.cmp + "." + rest
	}
	b.shape = append(b.shape, text...)
	var defs []*ptx.Operand
	in.Defs(func(o *ptx.Operand) { defs = append(defs, o) })
	sources := -1 // where those behind the first operand begin
	for i := range in.Args {
		if i == 1 {
			sources = len(n.ops)
		}
		b.shape = append(b.shape, ' ')
		b.operand(&n, &in.Args[i], defs)
	}
	if canonical {
		b.shape = append(b.shape[:len(text)], " d u u"...) // one result: a second one is its opposite
		if n.turned = plain.swap; n.turned {
			n.ops[0], n.ops[1] = n.ops[1], n.ops[0]
		}
		n.swaps = plain.cmp == "eq" || plain.cmp == "ne" || plain.cmp == "num"
	} else if commutative[in.Op] && sources >= 0 && len(n.ops) >= sources+2 {
		n.swaps, n.first = true, int8(sources)
	}
	b.remains(&n, defs)
	b.state(&n)
	n.label = b.names.id(string(b.shape))
	b.nodes[id] = n
	return true
}

// copied reports the value that an instruction only gives another register.
func (b *builder) copied(in *ptx.Instr) (value, bool) {
	if in.Guard != nil || len(in.Args) != 2 || in.Args[0].Kind != ptx.RegisterArg || in.Args[0].Field != "" {
		return value{}, false
	}
	from := &in.Args[1]
	switch {
	case in.Op == "not" && in.Has("pred") && from.Kind == ptx.RegisterArg:
		v := b.source(in, from)
		v.neg = !v.neg
		return v, true
	case in.Op != "mov" || readsChanging(in):
		return value{}, false
	}
	switch from.Kind {
	case ptx.RegisterArg:
		if from.Field != "" || from.HasOffset || widths[from.Reg.Type] != widths[in.Args[0].Reg.Type] {
			return value{}, false
		}
	case ptx.IntArg, ptx.F32Arg, ptx.F64Arg, ptx.SpecialArg, ptx.SymbolArg:
	default:
		return value{}, false
	}
	return b.source(in, from), true
}

// opening says what kind of list begins.
var opening = [...]byte{ptx.VectorArg: '{', ptx.PairArg: '|', ptx.GroupArg: '('}

// operand appends an operand to the shape, and what it reads to the node.
func (b *builder) operand(n *node, o *ptx.Operand, defs []*ptx.Operand) {
	switch o.Kind {
	case ptx.AddressArg:
		b.address(n, o, defs)
	case ptx.VectorArg, ptx.PairArg, ptx.GroupArg:
		b.shape = append(b.shape, opening[o.Kind])
		for i := range o.List {
			b.operand(n, &o.List[i], defs)
			b.shape = append(b.shape, ',')
		}
		b.shape = append(b.shape, ')')
	case ptx.SinkArg:
		b.shape = append(b.shape, '_')
	case ptx.LabelArg:
		b.label(n, o, defs)
	default:
		if slices.Contains(defs, o) {
			b.shape = append(b.shape, 'd')
			b.shape = append(b.shape, o.Field...)
			return
		}
		b.shape = append(b.shape, 'u')
		n.ops = append(n.ops, b.source(n.in, o))
	}
}

// address appends an address: a base and an offset, then what else stands in the brackets.
func (b *builder) address(n *node, o *ptx.Operand, defs []*ptx.Operand) {
	b.shape = append(b.shape, '[')
	for i := range o.List {
		part := &o.List[i]
		if i > 0 || part.Kind != ptx.RegisterArg && part.Kind != ptx.SymbolArg {
			b.operand(n, part, defs)
			b.shape = append(b.shape, ',')
			continue
		}
		base := *part
		base.HasOffset, base.Offset = false, 0
		n.bases = append(n.bases, int8(len(n.ops)))
		b.shape = append(b.shape, "u+u"...)
		n.ops = append(n.ops, b.source(n.in, &base), b.offset(n.in, part, part.Offset))
	}
	b.shape = append(b.shape, ']')
	b.shape = append(b.shape, o.Field...)
}

func (b *builder) offset(in *ptx.Instr, arg *ptx.Operand, offset int64) value {
	return value{node: b.add(node{kind: constNode, label: b.names.id("offset"), bits: uint64(offset), in: in, arg: arg,
		block: -1})}
}

// fieldLabel begins the label of a part of a register.
const fieldLabel = "field "

// source is the value of an operand that is read.
func (b *builder) source(in *ptx.Instr, o *ptx.Operand) value {
	var v value
	switch o.Kind {
	case ptx.RegisterArg:
		v = b.variable(int32(o.Reg.Index))
		if o.Field != "" { // a value of its own: operands change places, and take their fields along
			v = value{node: b.add(node{kind: instrNode, class: pure, label: b.names.id(fieldLabel + o.Field), in: in,
				ops: []value{v}, block: -1})}
		}
		v.neg = v.neg != o.Not
	case ptx.IntArg, ptx.F32Arg, ptx.F64Arg:
		return value{node: b.add(node{kind: constNode, label: b.names.id("number"), bits: literal(in, o), in: in, arg: o,
			block: -1})}
	case ptx.SymbolArg:
		v = b.symbol(in, o)
	default:
		v = b.named(specialNode, o.Text+"."+o.Field, in, o)
		v.neg = o.Not
	}
	if o.HasOffset && o.Offset != 0 { // the same as an addition
		sum := node{kind: instrNode, class: pure, swaps: true, label: b.names.id("add.b64 d u u"), in: in, block: -1}
		sum.ops = []value{v, b.offset(in, o, o.Offset)}
		return value{node: b.add(sum)}
	}
	return v
}

// named is the node of what a name stands for, one for all uses.
func (b *builder) named(kind nodeKind, text string, in *ptx.Instr, o *ptx.Operand) value {
	key := string(rune(kind)) + text
	id, ok := b.shared[key]
	if !ok {
		id = b.add(node{kind: kind, label: b.names.id(text), in: in, arg: o, block: -1})
		b.shared[key] = id
	}
	return value{node: id}
}

// symbol is the address of a variable or a function. Parameters are known by their place; of the others only the size
// is told here, and which stands for which is found when functions are compared.
func (b *builder) symbol(in *ptx.Instr, o *ptx.Operand) value {
	key := "symbol " + o.Text
	if o.Generic {
		key = "generic " + o.Text
	}
	role := "function"
	if o.Var != nil {
		role = b.role(o.Var, o.Text)
		key += " " + strconv.Itoa(int(o.Var.Pos)) // names may be declared anew in inner blocks
	}
	if id, ok := b.shared[key]; ok {
		return value{node: id}
	}
	if o.Generic {
		role = "generic " + role
	}
	id := b.add(node{kind: symbolNode, label: b.names.id(role), in: in, arg: o, block: -1})
	b.shared[key] = id
	return value{node: id}
}

// label appends what an instruction names besides values: the functions that a call may choose from, or a prototype.
func (b *builder) label(n *node, o *ptx.Operand, defs []*ptx.Operand) {
	switch {
	case o.Label != nil:
		b.shape = append(b.shape, 'l')
		b.shape = strconv.AppendInt(b.shape, int64(o.Label.Index), 10)
	case o.Targets != nil && o.Targets.Calls:
		b.shape = append(b.shape, 't')
		if b.meets += len(o.Targets.List); b.meets > maxMeets { // lists may be shared
			return
		}
		for i := range o.Targets.List {
			b.operand(n, &o.Targets.List[i], defs)
		}
	default:
		b.shape = append(b.shape, 'p')
		b.shape = strconv.AppendInt(b.shape, int64(b.protos[n.in]), 10)
	}
}

// remains appends the old values of registers that the instruction may leave as they are, or partly.
func (b *builder) remains(n *node, defs []*ptx.Operand) {
	updates := n.in.Guard != nil
	if !updates {
		n.in.Uses(func(o *ptx.Operand) { updates = updates || slices.Contains(defs, o) })
	}
	for _, o := range defs {
		if updates || o.Field != "" {
			b.shape = append(b.shape, " old"...)
			n.ops = append(n.ops, b.variable(int32(o.Reg.Index)))
		}
	}
}

// state appends memory and the carry to the operands.
func (b *builder) state(n *node) {
	in := n.in
	if n.class == acts || n.class == looks && !in.Has("const") {
		b.shape = append(b.shape, " memory"...)
		n.ops = append(n.ops, b.variable(b.memory()))
	}
	if in.Op == "addc" || in.Op == "subc" || in.Op == "madc" || in.Has("cc") && in.Guard != nil {
		b.shape = append(b.shape, " carry"...)
		n.ops = append(n.ops, b.variable(b.carry()))
	}
}

// literal is the bits of a number as the instruction sees them.
func literal(in *ptx.Instr, o *ptx.Operand) uint64 { return number(o, operandType(in), width(in, o)) }

// number is the bits of a number of a type, as far as it is seen.
func number(o *ptx.Operand, t string, width int) uint64 {
	bits := o.Value
	switch {
	case o.Kind == ptx.F64Arg && (t == "f32" || t == "tf32"):
		bits = uint64(math.Float32bits(float32(math.Float64frombits(bits))))
	case o.Kind == ptx.F32Arg && t == "f64":
		bits = math.Float64bits(float64(math.Float32frombits(uint32(bits))))
	}
	if width < 64 && o.Kind == ptx.IntArg {
		bits &= 1<<width - 1
	}
	return bits
}

// normalise finishes the operands once all copies are known: addresses, selections and branches.
func (b *builder) normalise() {
	sums := map[int32]int{b.names.id("add.b64 d u u"): 64, b.names.id("add.b32 d u u"): 32}
	for i := range b.nodes {
		n := &b.nodes[i]
		for k := range n.ops {
			n.ops[k] = b.resolve(n.ops[k])
		}
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.kind != instrNode || b.forward[i].node >= 0 {
			continue
		}
		for _, at := range n.bases {
			b.foldBase(int32(i), int(at), sums)
		}
		if n = &b.nodes[i]; n.in.Op == "selp" && n.in.Guard == nil && len(n.ops) == 3 && n.ops[2].neg {
			n.ops[0], n.ops[1], n.ops[2].neg = n.ops[1], n.ops[0], false
		}
	}
	for i := range b.blocks {
		blk := &b.blocks[i]
		for k := range blk.results {
			blk.results[k] = b.resolve(blk.results[k])
		}
		if blk.end != branches && blk.end != switches {
			continue
		}
		blk.test = b.resolve(blk.test)
		if blk.test.neg && blk.end == branches {
			blk.test.neg = false
			blk.succs[0], blk.succs[1] = blk.succs[1], blk.succs[0]
		}
	}
}

// foldBase moves what is added to the base of an address into its offset.
func (b *builder) foldBase(id int32, at int, sums map[int32]int) {
	ops := b.nodes[id].ops
	total := b.nodes[ops[at+1].node].bits
	folded := false
	for {
		base := &b.nodes[ops[at].node]
		width := sums[base.label]
		if base.kind != instrNode || width == 0 {
			break
		}
		number := 1
		if b.nodes[base.ops[0].node].kind == constNode {
			number = 0
		}
		c := &b.nodes[base.ops[number].node]
		if c.kind != constNode {
			break
		}
		if width == 32 {
			total += uint64(int64(int32(c.bits)))
		} else {
			total += c.bits
		}
		ops[at], folded = base.ops[1-number], true
	}
	if folded {
		ops[at+1] = b.offset(b.nodes[id].in, b.nodes[ops[at+1].node].arg, int64(total))
		b.nodes[id].ops = ops
	}
}
