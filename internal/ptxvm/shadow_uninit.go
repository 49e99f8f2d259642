package ptxvm

import (
	"fmt"
	"math/bits"

	"gpuemu/internal/ptx"
)

// This file implements the check for values that were never set. They may be moved and computed with: what a kernel
// loads and never uses does no harm. They are reported where they decide something: an address, a branch or a guard, a
// barrier, or what is left in global memory.

// definedness judges the operands of an instruction and says which lanes of its results are defined.
func (x *warpShadow) definedness(w *warp, in *ins) {
	f := &in.facts
	for _, at := range f.address {
		if bad := w.mask &^ x.defined[at]; bad != 0 {
			w.report(in, bits.TrailingZeros32(bad), Uninitialised, "the address of %s depends on a value that was never set",
				in.src.Mnemonic())
			x.defined[at] |= bad
		}
	}
	if in.flow != nil {
		in.flow(x, w, in)
		return
	}
	if f.plain != nil {
		x.passOn(f.plain, w.mask)
		return
	}
	for _, at := range f.writes {
		x.whole(at, w.mask)
	}
	m := allLanes
	for _, at := range f.reads {
		m &= x.defined[at]
	}
	switch f.rule {
	case selects:
		m = x.chosen(w, in)
	case both, either:
		m = x.decided(w, in, m)
	case exchange:
		m = x.exchanged(w, in)
	case gather:
		if m&w.mask != w.mask {
			m = 0
		}
	case loads:
		x.load(w, in)
		return
	case stores:
		x.store(w, in)
		return
	case updates:
		m = x.update(w, in, m)
	case passes:
		x.pass(w, in)
		return
	case opaque:
		m = allLanes
		for i := range x.touches {
			if t := &x.touches[i]; t.write {
				x.set(t, true)
			}
		}
	}
	for _, at := range f.writes {
		x.defined[at] = x.defined[at]&^w.mask | m&w.mask
	}
}

// operands judges the operands of an instruction that decides the way of control.
func (x *warpShadow) operands(w *warp, in *ins, mask uint32, what string) {
	for _, at := range in.facts.reads {
		x.use(at, mask)
	}
	if !x.block.worker.uninit {
		return
	}
	for _, at := range in.facts.reads {
		if bad := mask &^ x.defined[at]; bad != 0 {
			w.report(in, bits.TrailingZeros32(bad), Uninitialised, "%s depends on a value that was never set", what)
			x.defined[at] |= bad
		}
	}
}

// of is the mask of a slot.
func (x *warpShadow) of(w *warp, r ref) uint32 { return x.defined[w.cta.grid.prog.position(r)] }

// chosen is for selp d, a, b, c.
func (x *warpShadow) chosen(w *warp, in *ins) uint32 {
	p := w.p[in.c.index()]
	return x.of(w, in.c) & (x.of(w, in.a)&p | x.of(w, in.b)&^p)
}

// decided is for and.pred and or.pred: a defined operand may be enough.
func (x *warpShadow) decided(w *warp, in *ins, m uint32) uint32 {
	a, b := w.p[in.a.index()], w.p[in.b.index()]
	if in.facts.rule == both {
		a, b = ^a, ^b
	}
	return m | x.of(w, in.a)&a | x.of(w, in.b)&b
}

// exchanged is for shfl: operands are where table_warp.go puts them.
func (x *warpShadow) exchanged(w *warp, in *ins) (m uint32) {
	value, by, how := x.of(w, in.a)&w.mask, x.of(w, in.b), x.of(w, in.list[1]) // a lane that is not there gives nothing
	if value == allLanes {
		return by & how
	}
	for lane := range w.lanes() {
		from, ok := shuffleFrom(in.src.Mods[1], lane, w.get(in.b, lane), w.get(in.list[1], lane))
		if !ok {
			from = lane
		}
		m |= (value >> (from & 31) & 1) << lane
	}
	return m & by & how
}

// isDefined reports whether all bytes of an access are defined.
func (x *warpShadow) isDefined(t *touch) bool {
	switch t.space {
	case sharedSpace:
		if x.block.worker.async && x.block.arriving.any(t.offset, len(t.data)) {
			return true // hazards says more
		}
		return x.block.shared.all(t.offset, len(t.data))
	case localSpace:
		return x.local.all(uint64(t.lane*x.stride)+t.offset, len(t.data))
	case paramSpace:
		return true
	}
	known := x.block.worker.buffers[t.buffer.index]
	return known == nil || !t.buffer.arg.Uninitialised || known.all(t.offset, len(t.data))
}

// usable reports whether a value may be loaded from memory as one that was set. Of structs on the stack and of structs
// that are arguments, compilers copy the gaps between fields with the fields, in words of their own choice: such a word
// counts as set if one of its bytes is. Elsewhere all bytes have to be.
func (x *warpShadow) usable(t *touch) bool {
	if t.space == localSpace {
		return x.local.any(uint64(t.lane*x.stride)+t.offset, len(t.data))
	}
	return x.isDefined(t)
}

// set says whether the bytes of an access are defined from now on.
func (x *warpShadow) set(t *touch, defined bool) {
	switch t.space {
	case sharedSpace:
		x.block.shared.mark(t.offset, len(t.data), defined)
	case localSpace:
		x.local.mark(uint64(t.lane*x.stride)+t.offset, len(t.data), defined)
	case globalSpace, genericSpace, constSpace:
		if known := x.block.worker.buffers[t.buffer.index]; known != nil { // what is written there is reported, once
			known.mark(t.offset, len(t.data))
		}
	}
}

// part is the i-th element of an access.
func (t *touch) part(i, size int) touch {
	p := *t
	p.offset, p.data = t.offset+uint64(i*size), t.data[i*size:][:size]
	return p
}

func (x *warpShadow) load(w *warp, in *ins) {
	parts := in.facts.parts
	for _, at := range parts {
		if at >= 0 {
			x.defined[at] |= w.mask
		}
	}
	for i := range x.touches {
		t := &x.touches[i]
		if x.isDefined(t) {
			continue
		}
		for j, at := range parts {
			if p := t.part(j, in.mem.size); at >= 0 && !x.usable(&p) {
				x.defined[at] &^= 1 << t.lane
			}
		}
	}
}

func (x *warpShadow) store(w *warp, in *ins) {
	for i := range x.touches {
		t := &x.touches[i]
		for j, at := range in.facts.parts {
			p := t.part(j, in.mem.size)
			defined := at < 0 || x.defined[at]>>t.lane&1 != 0
			if !defined && t.buffer != nil {
				x.reportStore(w, in, &p)
			}
			x.set(&p, defined)
		}
	}
}

// pass is for what a call does: a value goes from a register or from memory to another one.
func (x *warpShadow) pass(w *warp, in *ins) {
	switch {
	case in.f1 != nil || in.cmp != nil:
		d := &x.defined[w.cta.grid.prog.position(in.d)]
		*d = *d&^w.mask | x.of(w, in.a)&w.mask
	case in.mem == nil && in.d != noRef: // printf
		x.defined[w.cta.grid.prog.position(in.d)] |= w.mask
	}
	var source *touch
	for i := range x.touches {
		t := &x.touches[i]
		bit := uint32(1) << t.lane
		switch {
		case !t.write:
			source = t
			known := x.usable(t)
			if len(in.list) == 1 {
				d := &x.defined[w.cta.grid.prog.position(in.list[0])]
				if *d |= bit; !known {
					*d &^= bit
				}
			}
		case len(in.list) == 1:
			x.set(t, x.of(w, in.list[0])&bit != 0)
		case source == nil:
			x.set(t, true)
		default: // structs have bytes that nobody sets
			for j := range t.data {
				from, to := source.part(j, 1), t.part(j, 1)
				x.set(&to, x.isDefined(&from))
			}
		}
	}
}

func (x *warpShadow) reportStore(w *warp, in *ins, t *touch) {
	f := w.report(in, t.lane, Uninitialised, "%s writes a value that was never set to byte %d of %s", in.src.Mnemonic(),
		t.offset, t.buffer.name)
	if f != nil {
		f.Address, f.Buffer = t.buffer.base+t.offset, t.buffer.name
	}
}

// update is for atomic operations: what they leave and what they give depends on operands and on memory.
func (x *warpShadow) update(w *warp, in *ins, m uint32) uint32 {
	for i := range x.touches {
		t := &x.touches[i]
		operands := m>>t.lane&1 != 0
		if !operands && t.buffer != nil {
			x.reportStore(w, in, t)
		}
		before := x.isDefined(t)
		if t.write {
			x.set(t, operands && (before || in.src.Has("exch")))
		}
		if !before {
			m &^= 1 << t.lane
		}
	}
	return m
}

// unwritten reports elements of output buffers that no thread wrote. Where a block was stopped, there is a finding that
// says more.
func (w *worker) unwritten() {
	if w.shadow == nil || !w.shadow.uninit || w.stopped {
		return
	}
	for _, b := range w.grid.memory.buffers {
		if b.arg == nil || b.arg.Role != Out || w.shadow.buffers[b.index].allRange(0, len(b.data)) {
			continue
		}
		size := max(b.arg.Element, 1)
		first, n := -1, 0
		for at := 0; at < len(b.data); at += size {
			for i := at; i < min(at+size, len(b.data)) && b.allows(uint64(at), size); i++ {
				if !w.shadow.buffers[b.index].all(uint64(i), 1) {
					if n++; n == 1 {
						first = at / size
					}
					break
				}
			}
		}
		if n == 0 {
			continue
		}
		what := "bytes"
		if b.arg.Element > 0 {
			what = "elements"
		}
		f := &Finding{Class: Unwritten, Count: n, Buffer: b.name, Address: b.base + uint64(first*size), Message: fmt.Sprintf(
			"%d of %d %s of %s are never written, the first is number %d", n, (len(b.data)+size-1)/size, what, b.name, first)}
		f.PTX = w.grid.prog.File.Position(w.grid.prog.Kernel.Pos)
		var near *ptx.Instr
		if in := w.shadow.racing.lastWriter(w.grid.prog, b, first*size); in != nil {
			near = in.src
			f.PTX, f.Source = w.grid.prog.place(near)
			f.Message += ", the one next to it is written here"
		}
		if why := w.skipped(b, near); why != "" {
			f.Message += "; " + why
		}
		f.block, f.order = w.grid.launch.Grid.Count(), b.index
		w.findings.add(findingKey{class: Unwritten, other: b.name}, f)
	}
}
