package ptxvm

import (
	"slices"

	"gpuemu/internal/ptx"
)

// This file implements what checks and the grid must know of instructions beyond how to execute them.

// facts are about one instruction. Registers are positions in the masks of a warp's shadow.
type facts struct {
	rule    rule
	strong  bool  // an atomic operation, or a load or store that others may wait for
	packed  bool  // an atomic operation on pairs, each of whose elements is one of its own
	guess   bool  // a load whose value atom.cas verifies
	mark    int32 // number in marks; 0 for none
	order   ordering
	reads   []int32 // registers, guard and addresses not among them
	address []int32 // registers that addresses are made of
	guard   int32   // -1 for none
	writes  []int32
	parts   []int32    // elements that a load or a store moves, in order; -1 for constants and sinks
	plain   *plain3    // nil where definedness needs more
	arms    [2][]int32 // what the ways of a branch write that only compute: not taken, taken; nil: they do more
	under   int32      // the guard of such a branch over this instruction, and 1; 0 for none
}

// rule is how the definedness of a result follows from that of operands.
type rule uint8

const (
	each     rule = iota // lane by lane, all operands count
	selects              // selp: the operand that is chosen counts
	both                 // and: an operand that is false decides alone
	either               // or: an operand that is true decides alone
	exchange             // shfl: the lane that a value comes from counts
	gather               // vote, match, redux: all lanes count
	loads
	stores
	updates // atom, red
	passes  // what a call does to pass arguments and results
	opaque  // results are taken as defined
)

// ruleOf is the rule of an instruction.
func ruleOf(in *ptx.Instr) rule {
	switch in.Op {
	case "selp":
		return selects
	case "and", "or":
		if in.Has("pred") {
			return map[string]rule{"and": both, "or": either}[in.Op]
		}
	case "shfl":
		return exchange
	case "vote", "match", "redux":
		return gather
	case "ld", "ldu":
		return loads
	case "st":
		return stores
	case "atom", "red":
		return updates
	case "call":
		return passes
	case "wgmma", "activemask", "elect", "cp", "mbarrier":
		return opaque
	}
	return each
}

// facts fills in the facts of all instructions, and what they say of the kernel.
func (l *lowering) facts() {
	p := l.prog
	p.files = sourceFiles(l.file)
	constants := map[ref]uint64{}
	for key, slot := range l.consts {
		constants[slot] = key.value
	}
	vacant := l.vacant()
	p.marks = []int32{0}
	for i := range p.code {
		in := &p.code[i]
		in.index, in.facts.guard = int32(i), -1
		if in.kind == together {
			in.members = uint32(constants[in.c])
		}
		if in.src != nil && in.src.Op == "shfl" && in.src.Args[1].Kind == ptx.RegisterArg {
			p.unset = append(p.unset, in.a) // lanes may take it from one that went another way
		}
		if in.src == nil {
			continue
		}
		if in.clock { // what it writes is always set, and nobody else sees it
			in.facts.rule = opaque
			continue
		}
		l.registers(in)
		if assembles(in.src) {
			in.facts.reads = slices.DeleteFunc(in.facts.reads, func(at int32) bool { return vacant[at] })
		}
		in.facts.order = orderingOf(in.src)
		in.facts.quick(in, int32(p.n32+p.n64+p.nPreds))
		in.exits = in.kind == branch && p.ends(in.target)
		in.facts.strong = in.mem != nil && isStrong(in.src)
		in.facts.packed = in.facts.rule == updates && (in.src.Has("f16x2") || in.src.Has("bf16x2"))
		p.copies = p.copies || in.copy != nil
		p.proxies = p.proxies || in.copy != nil && in.src.Has("bulk") || in.wgmma != nil
		p.partial, p.parts = p.partial || partial(in), p.parts || someMeet(in)
		p.communicates = p.communicates || communicates(in)
		if in.facts.rule == updates && in.mem != nil && in.mem.space != sharedSpace && in.run != nil {
			in.run = exclusive(in.run)
		}
		if accesses := in.mem != nil || in.copy != nil || in.src.Op == "cp"; accesses && len(p.marks) <= maxMarks {
			in.facts.mark = int32(len(p.marks))
			p.marks = append(p.marks, in.index)
		}
	}
	p.guesses()
	p.choices()
}

// isStrong reports whether an access may meet others without an order (PTX ISA, "Memory Consistency Model"). Making a
// barrier and taking it away are plain writes of its bytes: others come to it after they were told of it.
func isStrong(in *ptx.Instr) bool {
	switch in.Op {
	case "atom", "red":
		return true
	case "mbarrier":
		return !in.Has("init") && !in.Has("inval")
	}
	return arrivesAsync(in) || in.Has("volatile") || in.Has("relaxed") || in.Has("acquire") || in.Has("release")
}

// guesses marks loads whose value goes to the operand of atom.cas that is compared.
func (p *Program) guesses() {
	compared := map[int32]bool{}
	for i := range p.code {
		if in := &p.code[i]; in.src != nil && in.src.Op == "atom" && in.src.Has("cas") && in.list != nil {
			compared[p.position(in.list[len(in.list)-1])] = true
		}
	}
	for n := -1; n != len(compared) && len(compared) > 0; {
		n = len(compared)
		for i := range p.code {
			in := &p.code[i]
			if in.src == nil || !slices.Contains([]string{"mov", "selp", "cvt"}, in.src.Op) ||
				!slices.ContainsFunc(in.facts.writes, func(at int32) bool { return compared[at] }) {
				continue
			}
			for _, at := range in.facts.reads {
				compared[at] = true
			}
		}
	}
	for i := range p.code {
		in := &p.code[i]
		in.facts.guess = in.facts.rule == loads &&
			slices.ContainsFunc(in.facts.writes, func(at int32) bool { return compared[at] })
	}
}

// vacant are the registers that never hold anything: no instruction writes them, or each one that does computes with
// a vacant register, as Triton does with the unused bytes of vectors of four.
func (l *lowering) vacant() map[int32]bool {
	defs, vacant := map[int32][]*ins{}, map[int32]bool{}
	position := func(o *ptx.Operand) (at int32, ok bool) {
		slot, ok := l.slots[o.Reg]
		return l.prog.position(slot), ok
	}
	for i := range l.prog.code {
		if in := &l.prog.code[i]; in.src != nil {
			in.src.Defs(func(o *ptx.Operand) {
				if at, ok := position(o); ok {
					defs[at] = append(defs[at], in)
				}
			})
		}
	}
	for _, slot := range l.slots {
		at := l.prog.position(slot)
		vacant[at] = defs[at] == nil
	}
	// reads counts operands of an instruction: all of them, vacant ones, and the register that it writes.
	reads := func(in *ins, self int32) (n, empty, own int) {
		in.src.Uses(func(o *ptx.Operand) {
			if at, ok := position(o); ok {
				n++
				if vacant[at] {
					empty++
				} else if at == self {
					own++
				}
			}
		})
		return n, empty, own
	}
	for changed := true; changed; {
		changed = false
		for at, list := range defs {
			some, all := false, !vacant[at]
			for _, in := range list {
				n, empty, own := reads(in, at)
				some = some || empty > 0
				all = all && in.guard == noRef && ruleOf(in.src) == each && empty+own > 0 &&
					(!assembles(in.src) || empty+own == n)
			}
			if some && all {
				vacant[at], changed = true, true
			}
		}
	}
	return vacant
}

// assembles reports whether an instruction puts a word together from parts. Parts that are never taken out again are
// vacant registers: clang makes vectors of bytes and halves so.
func assembles(in *ptx.Instr) bool {
	return in.Op == "prmt" || in.Op == "bfi" || in.Op == "mov" && in.Args[1].Kind == ptx.VectorArg ||
		in.Op == "cvt" && len(in.Args) == 3
}

// exclusive lets one worker at a time execute an atomic operation.
func exclusive(run func(w *warp, in *ins)) func(w *warp, in *ins) {
	return func(w *warp, in *ins) {
		g := w.cta.grid
		if !g.several {
			run(w, in)
			return
		}
		g.shared.Lock()
		defer g.shared.Unlock()
		run(w, in)
		if w.shadow != nil {
			w.shadow.settle()
		}
	}
}

// registers fills in what an instruction reads and writes.
func (l *lowering) registers(in *ins) {
	f, src := &in.facts, in.src
	f.rule = ruleOf(src)
	position := func(o *ptx.Operand) int32 {
		if slot, ok := l.slots[o.Reg]; ok && o.Kind == ptx.RegisterArg {
			return l.prog.position(slot)
		}
		return -1
	}
	add := func(list *[]int32) func(*ptx.Operand) {
		return func(o *ptx.Operand) {
			if at := position(o); at >= 0 {
				*list = append(*list, at)
			}
		}
	}
	src.Defs(add(&f.writes))
	src.Uses(add(&f.reads))
	if in.guard != noRef {
		f.guard = l.prog.position(in.guard)
		f.reads = without(f.reads, f.guard)
	}
	for i := range src.Args {
		if a := &src.Args[i]; a.Kind == ptx.AddressArg {
			for j := range a.List {
				add(&f.address)(&a.List[j])
			}
		}
	}
	for _, at := range f.address {
		f.reads = without(f.reads, at)
	}
	if f.rule == loads || f.rule == stores {
		o := &src.Args[0]
		if f.rule == stores {
			o = &src.Args[1]
		}
		list := o.List
		if o.Kind != ptx.VectorArg {
			list = []ptx.Operand{*o}
		}
		for i := range list {
			f.parts = append(f.parts, position(&list[i]))
		}
	}
}

// without removes the first occurrence of a register.
func without(list []int32, at int32) []int32 {
	if i := slices.Index(list, at); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// position is where the mask of a slot lies: registers of 32 bits, then of 64 bits, then predicates.
func (p *Program) position(r ref) int32 {
	switch r.class() {
	case class32:
		return int32(r.index())
	case class64:
		return int32(p.n32 + r.index())
	}
	return int32(p.n32 + p.n64 + r.index())
}

// ends reports whether a kernel comes to its end at an instruction, or goes there at once.
func (p *Program) ends(at int) bool {
	for range 8 { // branches to branches are rare
		in := &p.code[at]
		switch {
		case in.guard != noRef:
			return false
		case in.kind == finish:
			return true
		case in.kind != branch:
			return false
		}
		at = in.target
	}
	return false
}

// communicates reports whether what an instruction does depends on the order of blocks: atomic operations on numbers
// that are rounded or whose result is used, loads that wait for others, and printf.
func communicates(in *ins) bool {
	if in.src.Op == "call" {
		return slices.ContainsFunc(in.src.Args, func(o ptx.Operand) bool { return o.Func != nil && o.Func.Name == "vprintf" })
	}
	if in.copy != nil && in.copy.reduce != nil {
		return in.copy.to.space == globalSpace && !slices.ContainsFunc([]string{"u32", "s32", "u64", "s64", "b32", "b64"},
			in.src.Has) || in.src.Has("inc") || in.src.Has("dec")
	}
	if in.mem == nil || in.mem.space != globalSpace && in.mem.space != genericSpace {
		return false
	}
	src := in.src
	has := func(mods ...string) bool { return slices.ContainsFunc(mods, src.Has) }
	switch src.Op {
	case "ld":
		return has("volatile", "relaxed", "acquire")
	case "atom", "red":
		result := src.Op == "atom" && src.Args[0].Kind != ptx.SinkArg
		return result || has("f32", "f64", "f16", "f16x2", "bf16", "bf16x2") || !has("add", "min", "max", "and", "or", "xor")
	}
	return false
}
