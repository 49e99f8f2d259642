package ptxdiff

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gpuemu/internal/dtype"
	"gpuemu/internal/ptx"
)

// This file implements reports where all values correspond: constants that differ, and what stands elsewhere. A number
// has the type of the instruction that computes with it: registers are bits, and mov.b32 moves floats as well.

// movers are opcodes that hand values on as they are.
var movers = words("mov selp shfl ld st")

// users are the nodes that read each node.
type users map[int32][]int32

func (g *graph) users() users {
	u := users{}
	see := func(list []int32) {
		for _, n := range list {
			for _, o := range g.nodes[n].ops {
				u[o.node] = append(u[o.node], n)
			}
		}
	}
	see(g.synthetic())
	for _, b := range g.order {
		see(g.blocks[b].code)
		see(g.blocks[b].phis)
	}
	return u
}

// maxSteps is how many values are followed to learn what a number is used for.
const maxSteps = 200

// consumer finds the instruction that computes with a number, and the type it has there. Without one it is the first
// that hands it on under a type that says something.
func (g *graph) consumer(u users, number int32) (in *ptx.Instr, t string) {
	seen := map[int32]bool{number: true}
	todo := []int32{number}
	for i := 0; i < len(todo) && i < maxSteps; i++ {
		for _, n := range u[todo[i]] {
			if seen[n] {
				continue
			}
			seen[n] = true
			x := &g.nodes[n]
			if x.kind != phiNode && !movers[x.in.Op] {
				return x.in, operandType(x.in)
			}
			if in == nil && x.kind != phiNode && !strings.HasPrefix(operandType(x.in), "b") {
				in, t = x.in, operandType(x.in)
			}
			if x.kind == phiNode || x.in.Op != "st" {
				todo = append(todo, n)
			}
		}
	}
	return in, t
}

// describe puts a constant into words: its bits as PTX writes them, and what they mean under a type.
func (g *graph) describe(n *node, t string) string {
	if g.names.texts[n.label] == "offset" {
		return fmt.Sprintf("%+d", int64(n.bits))
	}
	return numberText(n.bits, t, n.arg.Kind)
}

func numberText(bits uint64, t string, kind ptx.Kind) string {
	switch {
	case t == "f32" || t == "tf32" || kind == ptx.F32Arg && !strings.HasPrefix(t, "f"):
		return fmt.Sprintf("0f%08X (%s)", uint32(bits), floatText(float64(math.Float32frombits(uint32(bits))), 32))
	case t == "f64" || kind == ptx.F64Arg && !strings.HasPrefix(t, "f"):
		return fmt.Sprintf("0d%016X (%s)", bits, floatText(math.Float64frombits(bits), 64))
	case t == "f16" || t == "bf16":
		return fmt.Sprintf("0x%04X (%s)", uint16(bits), halfText(t, bits))
	case t == "f16x2" || t == "bf16x2":
		return fmt.Sprintf("0x%08X (%s, %s)", uint32(bits), halfText(t, bits), halfText(t, bits>>16))
	}
	if w := widths[t]; w >= 8 && w < 64 && t[0] != 'u' {
		bits = uint64(int64(bits<<(64-w)) >> (64 - w))
	}
	text := strconv.FormatInt(int64(bits), 10)
	if strings.HasPrefix(t, "u") {
		text = strconv.FormatUint(bits, 10)
	}
	if int64(bits) > 0xffff {
		text += fmt.Sprintf(" (0x%X)", bits)
	}
	return text
}

func halfText(t string, bits uint64) string {
	d := dtype.Float16
	if t[0] == 'b' {
		d = dtype.BFloat16
	}
	return floatText(d.Float64(bits&0xffff), 32)
}

func floatText(x float64, size int) string {
	switch {
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	case math.IsNaN(x):
		return "nan"
	}
	return strconv.FormatFloat(x, 'g', -1, size)
}

// reporter makes sentences of pairs of constants.
type reporter struct {
	c                  *comparer
	old, new           *graph
	oldUsers, newUsers users
	told               map[[2]literalPlace]bool
}

// literalPlace is a number in the text. Nodes are no place: an offset is a node of its own in each use.
type literalPlace struct {
	in  *ptx.Instr
	arg *ptx.Operand
}

func (c *comparer) newReporter(old, new *graph) *reporter {
	return &reporter{c: c, old: old, new: new, oldUsers: old.users(), newUsers: new.users(),
		told: map[[2]literalPlace]bool{}}
}

// constant records that a number became another.
func (r *reporter) constant(old, new int32) {
	x, y := &r.old.nodes[old], &r.new.nodes[new]
	key := [2]literalPlace{{x.in, x.arg}, {y.in, y.arg}}
	if r.told[key] {
		return
	}
	r.told[key] = true
	t, u := operandType(x.in), operandType(y.in)
	what, feeding := "constant", ""
	if r.old.names.texts[x.label] == "offset" && r.new.names.texts[y.label] == "offset" {
		what = "address offset"
	} else {
		if _, better := r.old.consumer(r.oldUsers, old); better != "" && movers[x.in.Op] {
			t = better
		}
		in, better := r.new.consumer(r.newUsers, new)
		if better != "" && movers[y.in.Op] {
			u = better
		}
		if in != nil && in != y.in && movers[y.in.Op] {
			feeding = fmt.Sprintf(", feeding %s at %s", in.Mnemonic(), r.c.new.lineOf(in))
		}
	}
	r.c.record(Change{Kind: ConstantChanged, Rank: Constants, Old: r.c.old.instrPlace(x.in), New: r.c.new.instrPlace(y.in),
		Message: fmt.Sprintf("%s %s became %s in %s%s", what, r.old.describe(x, t), r.new.describe(y, u), y.in.Mnemonic(),
			feeding)})
}

// table records values of a variable that became others.
func (r *reporter) table(d tableDiff) {
	for _, x := range d.diffs {
		was, is := "0", "0"
		oldPlace := r.c.old.place(d.old.v.Pos, d.old.name)
		newPlace := r.c.new.place(d.new.v.Pos, d.new.name)
		if x.old != nil {
			was, oldPlace.Pos = initText(d.old.v, x.old), r.c.old.file.Position(x.old.Pos)
		}
		if x.new != nil {
			is, newPlace.Pos = initText(d.new.v, x.new), r.c.new.file.Position(x.new.Pos)
		}
		r.c.record(Change{Kind: ConstantChanged, Rank: Constants, Old: oldPlace, New: newPlace,
			Message: fmt.Sprintf("initial value %s%s: %s became %s", d.new.name, x.index, was, is)})
	}
	if len(d.diffs) == maxInitDiffs {
		r.c.result.Omitted++
	}
}

func initText(v *ptx.Variable, in *ptx.Init) string {
	return numberText(initBits(v.Type, &in.Value), v.Type, in.Value.Kind)
}

// constants records the constants that differ where all else is the same.
func (c *comparer) constants(p *prover) {
	r := c.newReporter(p.old, p.new)
	for _, d := range p.diffs {
		r.constant(d[0], d[1])
	}
	for _, t := range p.tables {
		r.table(t)
	}
}

// orders records what stands elsewhere where all values are the same.
func (c *comparer) orders(p *prover) {
	var was, is []int32
	for i := range p.old.order {
		was = append(was, p.old.blocks[p.old.order[i]].code...)
		is = append(is, p.new.blocks[p.new.order[i]].code...)
	}
	at := map[int32][]int{} // where instructions of a class stand in the new version
	for j, n := range is {
		k := p.find(n + int32(len(p.old.nodes)))
		at[k] = append(at[k], j)
	}
	partner := make([]int, len(was)) // -1 for one that is not repeated so often
	taken := make([]bool, len(is))
	var sequence, from []int
	for i, n := range was {
		k := p.find(n)
		if partner[i] = -1; len(at[k]) == 0 {
			continue
		}
		partner[i], at[k] = at[k][0], at[k][1:]
		taken[partner[i]] = true
		sequence, from = append(sequence, partner[i]), append(from, i)
	}
	stays := map[int]bool{}
	for _, s := range increasing(sequence) {
		stays[from[s]] = true
	}
	for i, n := range was {
		in := p.old.nodes[n].in
		if partner[i] < 0 {
			c.record(Change{Kind: InstructionRemoved, Rank: Order, Old: c.old.instrPlace(in),
				Message: in.Mnemonic() + " is computed once less"})
			continue
		}
		m := is[partner[i]]
		if !stays[i] || p.old.nodes[n].block != p.new.nodes[m].block {
			c.record(Change{Kind: Moved, Rank: Order, Old: c.old.instrPlace(in), New: c.new.instrPlace(p.new.nodes[m].in),
				Message: in.Mnemonic() + " stands elsewhere, with the same operands"})
		}
	}
	for j, n := range is {
		if in := p.new.nodes[n].in; !taken[j] {
			c.record(Change{Kind: InstructionAdded, Rank: Order, New: c.new.instrPlace(in),
				Message: in.Mnemonic() + " is computed once more"})
		}
	}
}
