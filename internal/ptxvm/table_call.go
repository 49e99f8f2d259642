package ptxvm

import (
	"cmp"
	"slices"

	"gpuemu/internal/ptx"
)

// This file implements calls of functions. Every parameter of a function has its place in the local memory of each
// thread, or is a register; a call copies arguments there, enters the function, and copies results back. There is one
// place for each: recursion.go says what is done where a function may be active twice.

var callRows = []row{{syntax: "call [.uni]", build: call}}

// functionWindow is where addresses of functions begin. Nothing is stored there.
const functionWindow = 4 << 40

// callSite is a place of the code that enters a function.
type callSite struct {
	index          int // in Program.code
	caller, callee *ptx.Function
	at             ptx.Pos
	frame          *frame // of the caller, where it may be entered again
}

// functionAddress is the number that stands for a function in a register.
func (l *lowering) functionAddress(fn *ptx.Function) uint64 {
	at, ok := l.addresses[fn]
	if !ok {
		at = functionWindow + 256*uint64(len(l.addresses)+1)
		l.addresses[fn] = at
	}
	return at
}

// takenAddresses finds the functions that an indirect call may lead to: their addresses are values somewhere.
func (l *lowering) takenAddresses() {
	for _, item := range l.file.Items {
		if v, ok := item.(*ptx.Variable); ok {
			for i := range v.Names {
				l.takenInit(v.Names[i].Init)
			}
		}
	}
	for _, fn := range l.file.Functions {
		for _, in := range fn.Code {
			for i := range in.Args {
				if o := &in.Args[i]; o.Func != nil && in.Op != "call" {
					l.functionAddress(o.Func)
				}
			}
		}
	}
}

func (l *lowering) takenInit(in *ptx.Init) {
	if in == nil {
		return
	}
	if in.Value.Func != nil {
		l.functionAddress(in.Value.Func)
	}
	for e := range in.Elements() {
		l.takenInit(e)
	}
}

// formals gives the parameters and results of a function their places.
func (l *lowering) formals(fn *ptx.Function) {
	for _, list := range [][]*ptx.Variable{fn.Returns, fn.Params} {
		for _, v := range list {
			if _, ok := l.symbols[symbolKey{v, v.Names[0].Name}]; !ok && v.Space != "reg" {
				l.declare(v)
			}
		}
	}
}

// connect tells every call where its function is, and what its caller has to keep.
func (l *lowering) connect() {
	if l.err != nil {
		return
	}
	for _, c := range l.calls {
		l.prog.code[c.index].target = l.functions[c.callee].start
		if c.frame != nil {
			c.frame.fill(l)
		}
	}
}

// call makes a call: [(results),] function [, (arguments)] [, list of targets or prototype].
func call(b *builder) {
	b.done = true
	args := b.in.Args
	var results, params []ptx.Operand
	if args[0].Kind == ptx.GroupArg {
		results, args = args[0].List, args[1:]
	}
	if len(args) == 0 {
		b.fail(b.in.Pos, "", "the call names no function")
		return
	}
	target := &args[0]
	args = args[1:]
	if len(args) > 0 && args[0].Kind == ptx.GroupArg {
		params, args = args[0].List, args[1:]
	}
	start := len(b.prog.code)
	if b.in.Guard != nil {
		b.skip(0)
	}
	if target.Func != nil {
		b.enter(target.Func, results, params)
	} else {
		b.indirect(target, args, results, params)
	}
	if b.in.Guard != nil && b.err == nil {
		end := len(b.prog.code)
		b.prog.code[start].target, b.prog.code[start].rejoin = end, end
	}
}

// emit adds an instruction without a guard.
func (b *builder) emit(in ins) {
	in.guard, in.src = noRef, b.in
	b.prog.code = append(b.prog.code, in)
}

// indirect compares an address with those of all functions it may name.
func (b *builder) indirect(target *ptx.Operand, list, results, params []ptx.Operand) {
	address := b.srcOf(target, "b64")
	var candidates []*ptx.Function
	if len(list) > 0 && list[0].Targets != nil {
		for i := range list[0].Targets.List {
			candidates = append(candidates, list[0].Targets.List[i].Func)
		}
	} else {
		for fn := range b.addresses {
			candidates = append(candidates, fn)
		}
		slices.SortFunc(candidates, func(x, y *ptx.Function) int { return cmp.Compare(b.addresses[x], b.addresses[y]) })
	}
	var leaving []int // branches to the end
	for _, fn := range candidates {
		if fn == nil || fn.Body == nil || !b.fits(fn.Returns, results) || !b.fits(fn.Params, params) || b.err != nil {
			continue
		}
		other := b.slot(target.Pos, "pred")
		b.emit(ins{run: runSetp, d: other, a: address, b: b.constant(class64, b.functionAddress(fn)), c: noRef,
			cmp: func(x, y uint64) bool { return x != y }})
		test := len(b.prog.code)
		b.emit(ins{kind: branch})
		b.prog.code[test].guard = other
		b.enter(fn, results, params)
		leaving = append(leaving, test, len(b.prog.code))
		b.emit(ins{kind: branch})
		b.prog.code[test].target = len(b.prog.code)
	}
	b.emit(ins{a: address, run: func(w *warp, in *ins) {
		lane := firstLane(w.mask)
		w.stop(in, lane, OutOfBoundsRead, "calls address %#x, where there is no function with these parameters",
			w.get(in.a, lane))
	}})
	end := len(b.prog.code)
	for i, at := range leaving {
		if b.prog.code[at].rejoin = end; i%2 == 1 {
			b.prog.code[at].target = end
		}
	}
}

// fits reports whether arguments have the sizes of parameters.
func (b *builder) fits(formal []*ptx.Variable, actual []ptx.Operand) bool {
	if len(formal) != len(actual) {
		return false
	}
	for i, v := range formal {
		if o := &actual[i]; o.Kind == ptx.SymbolArg && o.Var != nil && v.Space != "reg" {
			size, _ := b.sizeOf(v, &v.Names[0])
			if size != b.symbols[symbolKey{o.Var, o.Text}].size {
				return false
			}
		}
	}
	return true
}

// enter makes the call of one function.
func (b *builder) enter(fn *ptx.Function, results, params []ptx.Operand) {
	if fn.Body == nil {
		b.service(fn, results, params)
		return
	}
	if len(results) != len(fn.Returns) || len(params) != len(fn.Params) {
		b.fail(b.in.Pos, "", "the call of %s has %d arguments and %d results, the function has %d and %d", fn.Name,
			len(params), len(results), len(fn.Params), len(fn.Returns))
		return
	}
	b.formals(fn)
	var caller *frame
	if b.reaches(fn, b.fn) {
		caller = &frame{fn: b.fn}
		b.keep(caller)
	}
	for i, v := range fn.Params {
		b.copy(b.formal(fn, v), b.actual(&params[i], v))
	}
	if _, ok := b.functions[fn]; !ok {
		b.functions[fn] = &lowered{}
		b.todo = append(b.todo, fn)
	}
	b.calls = append(b.calls, callSite{len(b.prog.code), b.fn, fn, b.in.Pos, caller})
	b.emit(ins{kind: enter})
	var places []place
	for i, v := range fn.Returns {
		places = append(places, b.actual(&results[i], v))
		b.copy(places[i], b.formal(fn, v))
	}
	if caller != nil {
		b.restore(caller, places)
	}
}

// place is where a value is passed: in a slot, or in local memory.
type place struct {
	slot ref // noRef for memory
	at   uint64
	size int
}

// formal is the place of a parameter. A register that the function does not use has none.
func (b *builder) formal(fn *ptx.Function, v *ptx.Variable) place {
	if v.Space != "reg" {
		s := b.symbols[symbolKey{v, v.Names[0].Name}]
		return place{noRef, s.address, s.size}
	}
	for _, r := range fn.Registers {
		if r.Var == v && r.Name == v.Names[0].Name {
			return place{slot: b.register(&ptx.Operand{Pos: v.Pos, Kind: ptx.RegisterArg, Reg: r}), size: typeBytes(r.Type)}
		}
	}
	return place{slot: noRef}
}

// actual is the place of an argument or a result in the caller.
func (b *builder) actual(o *ptx.Operand, v *ptx.Variable) place {
	switch {
	case o.Kind == ptx.SymbolArg && o.Var != nil && o.Var.Space == "param" && !o.HasOffset:
		s := b.symbolOf(o)
		if s.space == paramSpace {
			b.fail(o.Pos, "", "a parameter of the kernel as an argument is not executed here")
		}
		return place{noRef, s.address, s.size}
	case o.Kind == ptx.SinkArg:
		return place{slot: noRef}
	}
	return place{slot: b.srcOf(o, v.Type), size: typeBytes(v.Type)}
}

// copy makes the instruction that copies a value from place to place.
func (b *builder) copy(to, from place) {
	if b.err != nil || to.size == 0 || from.size == 0 {
		return
	}
	if to.size != from.size {
		b.fail(b.in.Pos, "", "an argument of %d bytes is passed to a parameter of %d bytes", from.size, to.size)
		return
	}
	switch {
	case to.slot != noRef && from.slot != noRef:
		b.emit(ins{d: to.slot, a: from.slot, f1: func(a uint64) uint64 { return a }, run: runUnary})
	case to.slot != noRef:
		typ := "b" + map[int]string{1: "8", 2: "16", 4: "32", 8: "64"}[to.size]
		b.emit(ins{list: []ref{to.slot}, mem: &access{space: localSpace, size: to.size, typ: typ, width: to.size,
			base: b.constant(class64, from.at)}, run: runLoad})
	case from.slot != noRef:
		typ := "b" + map[int]string{1: "8", 2: "16", 4: "32", 8: "64"}[from.size]
		b.emit(ins{list: []ref{from.slot}, mem: &access{space: localSpace, size: from.size, typ: typ,
			base: b.constant(class64, to.at)}, run: runStore})
	default:
		unit := 8 // bytes that are copied at once
		for to.size%unit != 0 || to.at%uint64(unit) != 0 || from.at%uint64(unit) != 0 {
			unit /= 2
		}
		m := &access{space: localSpace, size: unit, typ: "b8"}
		b.emit(ins{mem: m, run: func(w *warp, in *ins) {
			for lane := range w.lanes() {
				for i := uint64(0); i < uint64(to.size); i += uint64(unit) {
					src := w.reach(in, m, lane, from.at+i, unit, false)
					copy(w.reach(in, m, lane, to.at+i, unit, true), src)
				}
			}
		}})
	}
}

// service makes the call of a function that CUDA's device runtime has.
func (b *builder) service(fn *ptx.Function, results, params []ptx.Operand) {
	if len(params) != len(fn.Params) || len(results) != len(fn.Returns) {
		b.fail(b.in.Pos, "", "the call of %s does not fit its declaration", fn.Name)
		return
	}
	from := make([]place, len(params))
	for i, v := range fn.Params {
		from[i] = b.actual(&params[i], v)
	}
	switch {
	case fn.Name == "vprintf" && len(params) == 2 && len(results) == 1:
		d := b.slot(b.in.Pos, "b32")
		b.emit(ins{d: d, run: func(w *warp, in *ins) {
			for lane := range w.lanes() {
				n := w.printf(in, lane, w.passed(in, from[0], lane), w.passed(in, from[1], lane))
				w.set(in.d, lane, uint64(n))
			}
		}})
		b.copy(b.actual(&results[0], fn.Returns[0]), place{slot: d, size: 4})
	case fn.Name == "__assertfail" && len(params) == 5 && len(results) == 0:
		b.emit(ins{run: func(w *warp, in *ins) {
			lane := firstLane(w.mask)
			text := func(i int) string { return w.text(in, lane, w.passed(in, from[i], lane)) }
			w.stop(in, lane, Assertion, "assertion failed: %s (%s:%d, %s)", text(0), text(1),
				uint32(w.passed(in, from[2], lane)), text(3))
		}})
	default:
		b.fail(b.in.Pos, "", "function %s has no body", fn.Name)
	}
}

// passed is the value of an argument of at most 8 bytes.
func (w *warp) passed(in *ins, p place, lane int) uint64 {
	if p.slot != noRef {
		return w.get(p.slot, lane)
	}
	m := &access{space: localSpace, size: p.size, typ: "b8"}
	return getBytes(w.reach(in, m, lane, p.at, p.size, false), p.size)
}
