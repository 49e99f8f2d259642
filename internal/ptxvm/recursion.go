package ptxvm

import (
	"slices"

	"gpuemu/internal/ptx"
)

// This file implements functions that are called while they are active. Registers and parameters of a function have one
// place each, so a caller that may be entered again keeps its own aside, lane by lane, from before the call until the
// results are there.

// maxDepth is how many calls of this kind a thread may have open. A device has 1 KiB of stack for a thread unless the
// host asks for more.
const maxDepth = 1024

// frame is what a function has of its own.
type frame struct {
	fn    *ptx.Function
	slots []ref
	mem   []span64
}

// span64 is a piece of the local memory of a thread.
type span64 struct{ at, size uint64 }

// saved is a frame of one lane that was put aside.
type saved struct {
	values  []uint64
	bytes   []byte
	defined []bool // of values, then of bytes; nil where nobody checks
}

// callees are the functions that a function may call. An indirect call may lead to every function whose address is
// taken.
func (l *lowering) callees(fn *ptx.Function) (list []*ptx.Function) {
	for _, in := range fn.Code {
		if in.Op != "call" {
			continue
		}
		target := &in.Args[0]
		if target.Kind == ptx.GroupArg && len(in.Args) > 1 {
			target = &in.Args[1]
		}
		if target.Func != nil {
			list = append(list, target.Func)
			continue
		}
		for other := range l.addresses {
			list = append(list, other)
		}
	}
	return list
}

// reaches reports whether a call of one function may lead to another one.
func (l *lowering) reaches(from, to *ptx.Function) bool {
	seen := map[*ptx.Function]bool{}
	todo := []*ptx.Function{from}
	for len(todo) > 0 {
		fn := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if fn == to {
			return true
		}
		if !seen[fn] {
			seen[fn] = true
			todo = append(todo, l.callees(fn)...)
		}
	}
	return false
}

// fill finds what a function has of its own, when all of its code is there. Memory whose address others may know cannot
// be put aside.
func (f *frame) fill(l *lowering) {
	for _, in := range f.fn.Code {
		add := func(o *ptx.Operand) {
			if slot, ok := l.slots[o.Reg]; ok && !slices.Contains(f.slots, slot) {
				f.slots = append(f.slots, slot)
			}
		}
		in.Defs(add)
		in.Uses(add)
		for i := range in.Args {
			if o := &in.Args[i]; o.Kind == ptx.SymbolArg && o.Var != nil && o.Var.Space == "param" && in.Op == "mov" {
				l.fail(in.Pos, "", "%s calls itself and takes the address of a parameter: that is not executed here", f.fn.Name)
			}
		}
	}
	variables := slices.Concat(f.fn.Returns, f.fn.Params)
	var collect func(b *ptx.Block)
	collect = func(b *ptx.Block) {
		for _, s := range b.Stmts {
			switch x := s.(type) {
			case *ptx.Variable:
				variables = append(variables, x)
				if x.Space == "local" {
					l.fail(x.Pos, "", "%s calls itself and has an array of its own: that is not executed here", f.fn.Name)
				}
			case *ptx.Block:
				collect(x)
			}
		}
	}
	collect(f.fn.Body)
	for _, v := range variables {
		for i := range v.Names {
			if s, ok := l.symbols[symbolKey{v, v.Names[i].Name}]; ok && s.space == localSpace {
				f.mem = append(f.mem, span64{s.address, uint64(s.size)})
			}
		}
	}
}

// keep puts the frame of the caller aside.
func (b *builder) keep(f *frame) {
	b.emit(ins{d: noRef, flow: unchanged, run: func(w *warp, in *ins) {
		for lane := range w.lanes() {
			if len(w.saved[lane]) == cap(w.saved[lane]) && !w.growSaved(lane, f) {
				return
			}
			if len(w.saved[lane]) == maxDepth {
				w.stop(in, lane, OutOfBoundsWrite, "%d calls of functions that call themselves are open: the stack is full",
					maxDepth)
				return
			}
			w.saved[lane] = append(w.saved[lane], f.of(w, lane))
		}
	}})
}

// growSaved makes room for frames of a lane. It reports false, and the launch ends, where there is no memory for them.
func (w *warp) growSaved(lane int, f *frame) bool {
	const more, fixed = 64, 80 // frames at a time; bytes of one beside values, bytes, and a flag for each of them
	bytes := 0
	for _, m := range f.mem {
		bytes += 2 * int(m.size)
	}
	n := len(w.saved[lane])
	if !w.cta.grid.reserve(int64(more*(fixed+9*len(f.slots)+bytes)), forBlocks) {
		return false
	}
	w.saved[lane] = append(make([]saved, 0, n+more), w.saved[lane]...)
	return true
}

// unchanged is for instructions that say themselves what is defined.
func unchanged(*warpShadow, *warp, *ins) {}

// of is the frame of a lane now.
func (f *frame) of(w *warp, lane int) (k saved) {
	for _, s := range f.slots {
		k.values = append(k.values, w.get(s, lane))
		if w.shadow != nil {
			k.defined = append(k.defined, w.shadow.of(w, s)>>lane&1 != 0)
		}
	}
	local := w.local[lane*w.cta.grid.prog.localBytes:]
	for _, m := range f.mem {
		k.bytes = append(k.bytes, local[m.at:][:m.size]...)
		for i := range m.size {
			if x := w.shadow; x != nil {
				k.defined = append(k.defined, x.local.all(uint64(lane*x.stride)+m.at+i, 1))
			}
		}
	}
	return k
}

// restore brings the frame of the caller back, but for the places that results were written to.
func (b *builder) restore(f *frame, results []place) {
	b.emit(ins{d: noRef, flow: unchanged, run: func(w *warp, _ *ins) {
		for lane := range w.lanes() {
			last := len(w.saved[lane]) - 1
			k := w.saved[lane][last]
			w.saved[lane] = w.saved[lane][:last]
			f.bring(w, lane, &k, results)
		}
	}})
}

func (f *frame) bring(w *warp, lane int, k *saved, results []place) {
	for i, s := range f.slots {
		if slices.ContainsFunc(results, func(p place) bool { return p.slot == s }) {
			continue
		}
		w.set(s, lane, k.values[i])
		if x := w.shadow; x != nil {
			d := &x.defined[w.cta.grid.prog.position(s)]
			if *d &^= 1 << lane; k.defined[i] {
				*d |= 1 << lane
			}
		}
	}
	local := w.local[lane*w.cta.grid.prog.localBytes:]
	n := 0
	for _, m := range f.mem {
		for at := m.at; at < m.at+m.size; at, n = at+1, n+1 {
			if slices.ContainsFunc(results, func(p place) bool {
				return p.slot == noRef && at >= p.at && at < p.at+uint64(p.size)
			}) {
				continue
			}
			local[at] = k.bytes[n]
			if x := w.shadow; x != nil {
				x.local.mark(uint64(lane*x.stride)+at, 1, k.defined[len(f.slots)+n])
			}
		}
	}
}
