package ptxvm

import (
	"slices"

	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxmath"
)

// This file implements the choice among results where PTX allows several: approximations, and products that an addition
// may take in unrounded.

// Numerics chooses among the results that PTX allows. The zero value gives the nearest number to the exact result of
// approximate instructions, and rounds every product.
type Numerics struct {
	Approx   Edge
	Contract bool // products are fused with additions where the assembler may do so
}

// Edge is where in their documented bounds the results of approximate instructions lie.
type Edge uint8

// Nearest is the correctly rounded result; the others are the ends of the bound.
const (
	Nearest Edge = iota
	Largest
	Smallest
)

// Edges are the ends of bounds by the names that users give them.
var Edges = map[string]Edge{"worst+": Largest, "worst-": Smallest}

// String is the name of an end, "" for none.
func (e Edge) String() string {
	for name, edge := range Edges {
		if edge == e {
			return name
		}
	}
	return ""
}

// approximation is the function of an approximate instruction.
func (b *builder) approximation(f ptxmath.Approx) func(x, y uint64) uint64 {
	ftz := b.in.Has("ftz")
	switch b.prog.Numerics.Approx {
	case Largest, Smallest:
		up := b.prog.Numerics.Approx == Largest
		return func(x, y uint64) uint64 { return f.Worst(x, y, ftz, up) }
	}
	return func(x, y uint64) uint64 { return f.Eval(x, y, ftz) }
}

// nearest reports whether approximations give the correctly rounded result.
func (b *builder) nearest() bool { return b.prog.Numerics.Approx == Nearest }

// fusion is a product that an addition or subtraction takes in.
type fusion struct {
	product *ptx.Instr
	second  bool // the product is the second operand
}

// contractions finds the additions that become fused. PTX lets the assembler fuse mul with add or sub if neither names
// a rounding (PTX ISA, add and mul). What is fused here is what ptxas 13.0 fuses for sm_90a: additions in the same
// basic block, with the same .ftz, if they are all the uses of the product, and of two products of one addition the
// first one. ptxas also looks through mov and neg; here a product must be an operand itself.
func (l *lowering) contractions(fn *ptx.Function) map[*ptx.Instr]fusion {
	found := map[*ptx.Instr]fusion{}
	graph := ptx.NewGraph(fn)
	live, err := graph.Liveness()
	if err != nil {
		l.fail(fn.Pos, "run it without contraction", "%s is too large to look for products to fuse", fn.Name)
		return nil
	}
	chains, err := live.Chains()
	if err != nil {
		l.fail(fn.Pos, "run it without contraction", "%s is too large to look for products to fuse", fn.Name)
		return nil
	}
	for i := range chains.Defs {
		d := &chains.Defs[i]
		product := fn.Code[d.Instr]
		if product.Op != "mul" || product.Guard != nil || product.Has("sat") || !contractible(product) {
			continue
		}
		fits := func(use int) bool {
			u := &chains.Uses[use]
			sum := fn.Code[u.Instr]
			return len(u.Defs) == 1 && !u.Entry && (sum.Op == "add" || sum.Op == "sub") && contractible(sum) &&
				typeOf(sum) == typeOf(product) && sum.Has("ftz") == product.Has("ftz") &&
				sum.Args[1].Reg != sum.Args[2].Reg && u.Instr > d.Instr &&
				graph.BlockOf(u.Instr) == graph.BlockOf(d.Instr) && !changed(fn.Code[d.Instr+1:u.Instr], product)
		}
		if slices.ContainsFunc(d.Uses, func(use int) bool { return !fits(use) }) {
			continue
		}
		for _, use := range d.Uses {
			sum := fn.Code[chains.Uses[use].Instr]
			second := sum.Args[2].Reg == d.Op.Reg
			if _, taken := found[sum]; !taken || !second {
				found[sum] = fusion{product, second}
			}
		}
	}
	return found
}

// contractible reports whether an instruction is one on floats that names no rounding.
func contractible(in *ptx.Instr) bool {
	if len(in.Args) != 3 || slices.ContainsFunc(in.Mods, func(m string) bool { _, ok := roundings[m]; return ok }) {
		return false
	}
	switch typeOf(in) {
	case "f32", "f64", "f16", "f16x2", "bf16", "bf16x2":
		return true
	}
	return false
}

// typeOf is the last modifier, which is the type of arithmetic.
func typeOf(in *ptx.Instr) string {
	if len(in.Mods) == 0 {
		return ""
	}
	return in.Mods[len(in.Mods)-1]
}

// changed reports whether code writes an operand of a product.
func changed(code []*ptx.Instr, product *ptx.Instr) bool {
	found := false
	for _, in := range code {
		in.Defs(func(o *ptx.Operand) {
			found = found || o.Reg != nil && (o.Reg == product.Args[1].Reg || o.Reg == product.Args[2].Reg)
		})
	}
	return found
}

// fused makes an addition that takes in a product, by a function that multiplies and adds with one rounding. sign are
// the sign bits of the type. It reports whether the instruction is one. The product itself is computed all the same:
// nobody reads it then, but for the check for values that were never set.
func (b *builder) fused(typ string, sign uint64, fma func(x, y, z uint64) uint64) bool {
	f, ok := b.fusions[b.in]
	if !ok {
		return false
	}
	other, negateProduct, negateOther := 2, uint64(0), uint64(0)
	if f.second {
		other = 1
	}
	if b.in.Op == "sub" {
		negateOther = sign
		if f.second {
			negateProduct, negateOther = sign, 0
		}
	}
	b.out.d, b.out.c = b.dst(0, typ), b.src(other, typ)
	b.out.a, b.out.b = b.srcOf(&f.product.Args[1], typ), b.srcOf(&f.product.Args[2], typ)
	b.out.run = runTernary
	b.out.f3 = func(x, y, z uint64) uint64 { return fma(x^negateProduct, y, z^negateOther) }
	return true
}
