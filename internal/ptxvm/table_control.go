package ptxvm

import "gpuemu/internal/ptx"

// This file implements branches, the end of threads and barriers.

var controlRows = []row{
	{syntax: "bra [.uni]", build: func(b *builder) { b.out.kind = branch }},
	{syntax: "ret [.uni]", build: func(b *builder) { b.out.kind = branch }},
	{syntax: "brx .idx [.uni]", build: func(b *builder) { b.out.kind, b.out.a = indexed, b.src(0, "u32") }},
	{syntax: "exit", build: func(b *builder) { b.out.kind = finish }},
	{syntax: "trap", build: func(b *builder) {
		b.out.run = func(w *warp, in *ins) {
			w.stop(in, firstLane(w.mask), Trap, "executes trap")
		}
	}},
	{syntax: "bar [.cta] .sync", build: buildBarrier},
	{syntax: "bar [.cta] .arrive", build: buildBarrier},
	{syntax: "bar [.cta] .red .popc .u32", build: buildBarrier},
	{syntax: "bar [.cta] .red .and|.or .pred", build: buildBarrier},
	{syntax: "barrier [.cta] .sync [.aligned]", build: buildBarrier},
	{syntax: "barrier [.cta] .arrive [.aligned]", build: buildBarrier},
	{syntax: "barrier [.cta] .red .popc [.aligned] .u32", build: buildBarrier},
	{syntax: "barrier [.cta] .red .and|.or [.aligned] .pred", build: buildBarrier},
	{syntax: "barrier .cluster .arrive [.release|.relaxed] [.aligned]", build: buildClusterBarrier},
	{syntax: "barrier .cluster .wait [.acquire] [.aligned]", build: buildClusterBarrier},
	{syntax: "nanosleep .u32", build: nothing},
	{syntax: "griddepcontrol .wait|.launch_dependents", build: nothing},
	{syntax: "setmaxnreg .inc|.dec .sync .aligned .u32", build: nothing},
	{syntax: "pmevent [.mask]", build: nothing},
}

// barrierUse is how an instruction uses a barrier.
type barrierUse struct {
	aligned bool // all threads of a warp execute it together
	goesOn  bool // it does not wait
	cluster bool // it is the one of the cluster
	relaxed bool // arrivals order nothing
}

// buildBarrier makes a barrier: number a, number of threads b or all; for a reduction the predicate c and the result d.
func buildBarrier(b *builder) {
	args := b.in.Args
	b.out.kind, b.out.b, b.out.c, b.out.d = barrier, noRef, noRef, noRef
	b.out.bar = &barrierUse{aligned: b.in.Op == "bar" || b.in.Has("aligned"), goesOn: b.in.Has("arrive")}
	if least := 1 + 2*int(truth(b.in.Has("red"))); len(args) < least || len(args) > least+1 {
		b.fail(b.in.Pos, "", "%s with %d operands is not executed here", b.in.Mnemonic(), len(args))
		return
	}
	if b.in.Has("red") {
		typ := b.typ(0)
		b.out.combine = "popc"
		for _, m := range b.in.Mods {
			if m == "and" || m == "or" {
				b.out.combine = m
			}
		}
		last := &args[len(args)-1]
		b.out.d, b.out.c = b.dstOf(&args[0], typ), b.srcOf(last, "pred")
		if last.Not {
			b.out.flipC = ^uint32(0)
		}
		args = args[1 : len(args)-1]
	}
	b.out.a = b.srcOf(&args[0], "u32")
	if len(args) > 1 {
		b.out.b = b.srcOf(&args[1], "u32")
	}
	if b.out.bar.goesOn && len(args) < 2 {
		b.fail(b.in.Pos, "", "%s needs the number of threads", b.in.Mnemonic())
	}
	if !b.out.bar.aligned && b.in.Guard != nil { // lanes that do not take part go on, so they part from the others
		b.skip(1)
	}
}

// skip puts a branch in front of the instruction for the lanes whose guard is false, around it and n - 1 more. What it
// guards has no guard any more.
func (b *builder) skip(n int) {
	at := len(b.prog.code) + 1 + n
	b.prog.code = append(b.prog.code, ins{kind: branch, guard: b.out.guard, guardFlip: ^b.out.guardFlip, target: at,
		rejoin: at, src: b.in})
	b.out.guard, b.out.guardFlip = noRef, 0
}

// placed reports whether a branch was made with its target, by skip or for a call.
func placed(in *ptx.Instr) bool { return in.Op != "bra" && in.Op != "ret" && in.Op != "brx" }
