package ptxvm

import (
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements what the rows of the table have in common: operands of instructions become slots.

// builder makes one instruction.
type builder struct {
	*lowering
	fn  *ptx.Function
	in  *ptx.Instr
	out ins

	done bool // all of its code is there
}

// typ is the type of the instruction: its last modifier that is one, not counting how many.
func (b *builder) typ(back int) string {
	for i := len(b.in.Mods) - 1; i >= 0; i-- {
		if m := b.in.Mods[i]; typeBytes(m) > 0 || m == "pred" {
			if back == 0 {
				return m
			}
			back--
		}
	}
	return ""
}

// classOf is the class of slots for a type.
func classOf(typ string) ref {
	switch {
	case typ == "pred":
		return classPred
	case typeBytes(typ) == 8:
		return class64
	}
	return class32
}

// arg is operand i. Where there is none the instruction is refused, and what is returned fits nothing.
func (b *builder) arg(i int) *ptx.Operand {
	if i < len(b.in.Args) {
		return &b.in.Args[i]
	}
	b.fail(b.in.Pos, "", "%s with %d operands is not executed here", b.in.Mnemonic(), len(b.in.Args))
	return &ptx.Operand{Kind: ptx.SinkArg, Pos: b.in.Pos}
}

// dst is the slot that operand i writes. Sinks get a slot that nobody reads.
func (b *builder) dst(i int, typ string) ref { return b.dstOf(b.arg(i), typ) }

func (b *builder) dstOf(o *ptx.Operand, typ string) ref {
	if o.Kind == ptx.SinkArg {
		return b.slot(o.Pos, typ)
	}
	slot := b.register(o)
	if b.err == nil && slot.class() != classOf(typ) {
		b.fail(o.Pos, "", "%s writes .%s to %s, a register of another size", b.in.Mnemonic(), typ, o.Text)
	}
	return slot
}

// src is the slot that operand i is read from.
func (b *builder) src(i int, typ string) ref { return b.srcOf(b.arg(i), typ) }

func (b *builder) srcOf(o *ptx.Operand, typ string) ref {
	switch o.Kind {
	case ptx.RegisterArg:
		slot := b.register(o)
		if b.err == nil && slot.class() != classOf(typ) {
			b.fail(o.Pos, "", "%s reads .%s from %s, a register of another size", b.in.Mnemonic(), typ, o.Text)
		}
		return slot
	case ptx.SpecialArg:
		return b.special(o, classOf(typ))
	case ptx.IntArg, ptx.F32Arg, ptx.F64Arg:
		return b.constant(classOf(typ), constantBits(o, typ))
	case ptx.SymbolArg:
		if o.Func != nil && classOf(typ) == class64 {
			return b.constant(class64, b.functionAddress(o.Func))
		}
		if o.Var != nil {
			s := b.symbolOf(o)
			return b.address(s, o.Offset, classOf(typ))
		}
	}
	b.fail(o.Pos, "", "operand %s is not executed here", o)
	return 0
}

// address is a slot with an address in the space of the symbol.
func (b *builder) address(s symbol, offset int64, class ref) ref {
	if s.address == dynamicShared {
		b.prog.dynamic = append(b.prog.dynamic, dynamicUse{b.slot(0, map[ref]string{class32: "b32", class64: "b64"}[class]),
			uint64(offset)})
		return b.prog.dynamic[len(b.prog.dynamic)-1].slot
	}
	return b.constant(class, s.address+uint64(offset))
}

// args checks how many operands there are.
func (b *builder) args(n int) {
	if len(b.in.Args) != n {
		b.fail(b.in.Pos, "", "%s with %d operands is not executed here", b.in.Mnemonic(), len(b.in.Args))
	}
}

// unary, binary and ternary make instructions that compute lane by lane. All operands have the type of the result.
func (b *builder) unary(typ string, f func(a uint64) uint64) { b.unaryOf(typ, typ, f) }

func (b *builder) binary(typ string, f func(a, b uint64) uint64) { b.binaryOf(typ, typ, typ, f) }

func (b *builder) ternary(typ string, f func(a, b, c uint64) uint64) {
	b.ternaryOf(typ, typ, typ, typ, f)
}

// unaryOf, binaryOf and ternaryOf are the same with a type for the result and for each operand.
func (b *builder) unaryOf(d, t1 string, f func(a uint64) uint64) {
	b.out.d, b.out.a, b.out.f1, b.out.run = b.dst(0, d), b.src(1, t1), f, runUnary
	if classOf(d)|classOf(t1) == class32 {
		b.out.run = runUnary32
	}
}

func (b *builder) binaryOf(d, t1, t2 string, f func(a, b uint64) uint64) {
	b.out.d, b.out.a, b.out.b, b.out.f2, b.out.run = b.dst(0, d), b.src(1, t1), b.src(2, t2), f, runBinary
	if classOf(d)|classOf(t1)|classOf(t2) == class32 {
		b.out.run = runBinary32
	}
}

func (b *builder) ternaryOf(d, t1, t2, t3 string, f func(a, b, c uint64) uint64) {
	b.out.d, b.out.a, b.out.b, b.out.c = b.dst(0, d), b.src(1, t1), b.src(2, t2), b.src(3, t3)
	b.out.f3, b.out.run = f, runTernary
	if classOf(d)|classOf(t1)|classOf(t2)|classOf(t3) == class32 {
		b.out.run = runTernary32
	}
}

func runUnary(w *warp, in *ins) {
	for lane := range w.lanes() {
		w.set(in.d, lane, in.f1(w.get(in.a, lane)))
	}
}

func runBinary(w *warp, in *ins) {
	for lane := range w.lanes() {
		w.set(in.d, lane, in.f2(w.get(in.a, lane), w.get(in.b, lane)))
	}
}

func runTernary(w *warp, in *ins) {
	for lane := range w.lanes() {
		w.set(in.d, lane, in.f3(w.get(in.a, lane), w.get(in.b, lane), w.get(in.c, lane)))
	}
}

// space is where memory lies.
type space uint8

const (
	genericSpace space = iota
	globalSpace
	sharedSpace
	localSpace
	constSpace
	paramSpace
)

func spaceOf(name string) space {
	base, _, _ := strings.Cut(name, "::")
	switch base {
	case "global":
		return globalSpace
	case "shared":
		return sharedSpace
	case "local":
		return localSpace
	case "const":
		return constSpace
	case "param":
		return paramSpace
	}
	return genericSpace
}

// spaceMod is the space that the instruction names.
func (b *builder) spaceMod() space {
	for _, m := range b.in.Mods {
		if s := spaceOf(m); s != genericSpace {
			return s
		}
	}
	return genericSpace
}
