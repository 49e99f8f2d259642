package ptxvm

import (
	"fmt"
	"slices"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements why elements were not written: the condition under which threads skip a store. Of the conditions
// around the store the innermost one counts that kept a thread from it in this launch.

// ways says which ways threads went at a guarded instruction.
type ways uint8

const (
	guardTrue ways = 1 << iota
	guardFalse
)

// maxGuardBlocks is how large a function may be, in blocks, for its conditions to be looked at: every branch before the
// store costs a walk through the graph.
const maxGuardBlocks = 2000

// noteWays records at a guarded instruction that lanes of a path execute it, all of them or some.
func (w *warp) noteWays(pc int, lanes, active uint32) {
	if active != 0 {
		w.ways[pc] |= guardTrue
	}
	if active != lanes {
		w.ways[pc] |= guardFalse
	}
}

// skipped explains why elements of a buffer, next to a store or all, were not written; "" where nothing is known.
func (w *worker) skipped(b *buffer, store *ptx.Instr) string {
	p := w.grid.prog
	if store == nil {
		if store = p.storeTo(b.arg, w.grid.launch); store == nil {
			return ""
		}
	}
	fn := p.functionOf(store)
	if fn == nil {
		return ""
	}
	at := "the store at " + p.line(store)
	guard, value := store.Guard, false
	if guard == nil || w.ways[p.indexOf(store)]&guardFalse == 0 {
		guard, value = w.guardBefore(fn, store)
	} else if guard.Not {
		value = true
	}
	if guard == nil {
		return "no thread skips " + at + ": does the grid cover all elements?"
	}
	return fmt.Sprintf("%s is skipped where %s is %v%s", at, guard.Text, value, w.condition(fn, store, guard))
}

// guardBefore is the innermost condition before a store that kept a thread from it, and its value there; nil where none
// did.
func (w *worker) guardBefore(fn *ptx.Function, store *ptx.Instr) (guard *ptx.Operand, value bool) {
	g := ptx.NewGraph(fn)
	if len(g.Blocks) > maxGuardBlocks {
		return nil, false
	}
	goal := g.BlockOf(store.Index)
	for i := goal - 1; i >= 0; i-- {
		b := &g.Blocks[i]
		last := fn.Code[b.End-1]
		if last.Guard == nil {
			continue
		}
		taken := last.Op == "bra" && leads(g, g.BlockOf(min(last.Args[0].Label.Index, len(fn.Code)-1)), goal, i)
		if last.Op == "bra" && last.Args[0].Label.Index == len(fn.Code) {
			taken = false
		}
		next := i+1 < len(g.Blocks) && leads(g, i+1, goal, i)
		if taken == next {
			continue
		}
		skips, truth := guardTrue, true // the way that does not lead to the store
		if taken {
			skips, truth = guardFalse, false
		}
		if w.ways[w.grid.prog.indexOf(last)]&skips != 0 {
			return last.Guard, truth != last.Guard.Not
		}
	}
	return nil, false
}

// leads reports whether control may come from one block to another without passing through a third one.
func leads(g *ptx.Graph, from, to, without int) bool {
	seen := make([]bool, len(g.Blocks))
	seen[without] = true
	for todo := []int{from}; len(todo) > 0; {
		b := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if b == to {
			return true
		}
		if !seen[b] {
			seen[b] = true
			todo = append(todo, g.Blocks[b].Succs...)
		}
	}
	return false
}

// comparisonSigns are the operators of setp for people; unordered forms and those of floats read the same.
var comparisonSigns = map[string]string{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<",
	"ls": "<=", "hi": ">", "hs": ">=", "equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">="}

// condition says where a predicate is computed, and what it compares: ": setp.ge.s32 at k.cu:21 (%r5 >= n)".
func (w *worker) condition(fn *ptx.Function, before *ptx.Instr, guard *ptx.Operand) string {
	p := w.grid.prog
	def := definition(fn, before, guard.Reg)
	if def == nil {
		return ""
	}
	text := fmt.Sprintf(": %s at %s", def.Mnemonic(), p.line(def))
	if def.Op == "setp" && len(def.Args) == 3 && len(def.Mods) > 0 && comparisonSigns[def.Mods[0]] != "" {
		text += fmt.Sprintf(" (%s %s %s)", w.meaning(fn, def, &def.Args[1]), comparisonSigns[def.Mods[0]],
			w.meaning(fn, def, &def.Args[2]))
	}
	return text
}

// meaning is the name of the argument that an operand has, and the operand itself where it is computed.
func (w *worker) meaning(fn *ptx.Function, before *ptx.Instr, o *ptx.Operand) string {
	for o.Kind == ptx.RegisterArg {
		def := definition(fn, before, o.Reg)
		if def == nil || len(def.Args) < 2 {
			break
		}
		if i := w.grid.prog.paramOf(fn, def); i >= 0 {
			if name := w.grid.launch.Args[i].Name; name != "" {
				return name
			}
			return w.grid.prog.Params[i].Name
		}
		if def.Op != "mov" || def.Args[1].Kind != ptx.SpecialArg {
			break
		}
		o = &def.Args[1]
	}
	return o.String()
}

// definition is the last write of a register before an instruction, in the order of the code; nil where there is none.
func definition(fn *ptx.Function, before *ptx.Instr, reg *ptx.Register) *ptx.Instr {
	for i := before.Index - 1; i >= 0; i-- {
		found := false
		fn.Code[i].Defs(func(o *ptx.Operand) { found = found || o.Reg == reg })
		if found {
			return fn.Code[i]
		}
	}
	return nil
}

// paramOf is the number of the kernel's parameter that an instruction loads as a whole; -1 where it does not.
func (p *Program) paramOf(fn *ptx.Function, in *ptx.Instr) int {
	if fn != p.Kernel || in.Op != "ld" || !in.Has("param") || len(in.Args) < 2 {
		return -1
	}
	from := &in.Args[1]
	if from.Kind == ptx.AddressArg && len(from.List) == 1 {
		from = &from.List[0]
	}
	if from.Kind != ptx.SymbolArg || from.Offset != 0 {
		return -1
	}
	return slices.IndexFunc(p.Params, func(x Param) bool { return x.Name == from.Text })
}

// storeTo is the first store of the kernel whose address is computed from the parameter of an argument; nil where there
// is none.
func (p *Program) storeTo(arg *Arg, l *Launch) *ptx.Instr {
	from := map[*ptx.Register]bool{} // registers that depend on the parameter
	for range 2 {                    // a loop may use before it writes, in the order of the code
		for _, in := range p.Kernel.Code {
			i := p.paramOf(p.Kernel, in)
			depends := i >= 0 && &l.Args[i] == arg
			if !depends && in.Op != "ld" && in.Op != "atom" {
				in.Uses(func(o *ptx.Operand) { depends = depends || from[o.Reg] })
			}
			if depends && in.Op != "st" {
				in.Defs(func(o *ptx.Operand) { from[o.Reg] = true })
			}
		}
	}
	for _, in := range p.Kernel.Code {
		if in.Op != "st" && in.Op != "red" && in.Op != "atom" {
			continue
		}
		hit := false
		for i := range in.Args {
			for _, part := range in.Args[i].List {
				hit = hit || in.Args[i].Kind == ptx.AddressArg && part.Reg != nil && from[part.Reg]
			}
		}
		if hit {
			return in
		}
	}
	return nil
}

// functionOf is the function that an instruction stands in.
func (p *Program) functionOf(in *ptx.Instr) *ptx.Function {
	for _, fn := range p.File.Functions {
		if in.Index < len(fn.Code) && fn.Code[in.Index] == in {
			return fn
		}
	}
	return nil
}

// indexOf is the place of an instruction in the code: that of its last piece, which has its guard.
func (p *Program) indexOf(in *ptx.Instr) int {
	for i := len(p.code) - 1; i >= 0; i-- {
		if p.code[i].src == in && p.code[i].guard != noRef {
			return i
		}
	}
	return 0
}

// line is the place of an instruction in messages: the line of the source, or of the PTX where it has none.
func (p *Program) line(in *ptx.Instr) string { return strings.TrimSuffix(p.spot(&ins{src: in}), ":0") }
