package ptxvm

import (
	"math/bits"

	"gpuemu/internal/ptx"
)

// This file implements arithmetic of several words with a carry flag (PTX ISA, 9.7.2).

var carryRows = []row{
	{syntax: "add|sub .cc .u32|.s32|.u64|.s64", build: carried},
	{syntax: "addc|subc [.cc] .u32|.s32|.u64|.s64", build: carried},
	{syntax: "mad .lo|.hi .cc .u32|.s32|.u64|.s64", build: madCarried},
	{syntax: "madc .lo|.hi [.cc] .u32|.s32|.u64|.s64", build: madCarried},
}

// carryFlag is the register of the carry, CC.CF. Subtractions keep the borrow there.
var carryFlag = &ptx.Register{Name: "CC.CF", Type: "pred"}

// carry is the slot of the carry flag.
func (l *lowering) carry() ref {
	slot, ok := l.slots[carryFlag]
	if !ok {
		slot = l.slot(0, carryFlag.Type)
		l.slots[carryFlag] = slot
	}
	return slot
}

// adder adds with a carry, or subtracts with a borrow, and returns the next one.
func (t whole) adder(subtract bool) func(x, y, carry uint64) (sum, out uint64) {
	switch {
	case t.free == 0 && subtract:
		return bits.Sub64
	case t.free == 0:
		return bits.Add64
	case subtract:
		return func(x, y, carry uint64) (uint64, uint64) {
			d := x - y - carry
			return t.cut(d), d >> 63
		}
	}
	return func(x, y, carry uint64) (uint64, uint64) {
		s := x + y + carry
		return t.cut(s), s >> (64 - t.free)
	}
}

// carried makes add.cc, addc, addc.cc and those of sub. addc and subc read the flag, .cc writes it.
func carried(b *builder) {
	typ, op := b.typ(0), b.in.Op
	add := wholeOf(typ).adder(op[:3] == "sub")
	reads, writes := len(op) == 4, b.in.Has("cc")
	b.out.d, b.out.a, b.out.b, b.out.c = b.dst(0, typ), b.src(1, typ), b.src(2, typ), b.carry()
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			w.add(in, lane, w.get(in.a, lane), w.get(in.b, lane), add, reads, writes)
		}
	}
}

// madCarried makes mad.cc, madc and madc.cc: the lower or the upper half of a product is added.
func madCarried(b *builder) {
	typ, high := b.typ(0), b.in.Has("hi")
	t := wholeOf(typ)
	add := t.adder(false)
	reads, writes := b.in.Op == "madc", b.in.Has("cc")
	b.out.d, b.out.a, b.out.b, b.out.c = b.dst(0, typ), b.src(1, typ), b.src(2, typ), b.carry()
	b.out.list = []ref{b.src(3, typ)}
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			x, y := w.get(in.a, lane), w.get(in.b, lane)
			product := t.cut(x * y)
			if high {
				product = t.high(x, y)
			}
			w.add(in, lane, product, w.get(in.list[0], lane), add, reads, writes)
		}
	}
}

// add is one lane of an addition with the flag c.
func (w *warp) add(in *ins, lane int, x, y uint64, add func(x, y, carry uint64) (uint64, uint64), reads, writes bool) {
	flag := uint64(0)
	if reads {
		flag = w.get(in.c, lane)
	}
	sum, flag := add(x, y, flag)
	w.set(in.d, lane, sum)
	if writes {
		w.set(in.c, lane, flag)
	}
}
