package ptxvm

import (
	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// This file implements copies that go on while the kernel does: cp.async, and cp.async.bulk of one dimension. A copy is
// made when somebody waits for it, as late as a device may, so that what reads its result too early reads what was
// there before.

var asyncRows = []row{
	{syntax: "cp .async .ca|.cg .shared|.shared::cta .global [.L2::cache_hint] [$l2]", build: asyncCopy},
	{syntax: "cp .async .commit_group", build: func(b *builder) { b.out.run = runCommit(ordinary) }},
	{syntax: "cp .async .wait_group", build: asyncWait(ordinary)},
	{syntax: "cp .async .wait_all", build: func(b *builder) {
		b.out.run = func(w *warp, in *ins) { w.complete(w.mask, in) }
	}},
	{syntax: "cp .async .mbarrier .arrive [.noinc] [.shared|.shared::cta] .b64", build: asyncArrive},
	{syntax: "cp .async .bulk .shared::cluster|.shared::cta .global .mbarrier::complete_tx::bytes [.L2::cache_hint]",
		build: bulkLoad},
	{syntax: "cp .async .bulk .global .shared::cta .bulk_group [.L2::cache_hint]", build: bulkStore},
	{syntax: "cp .async .bulk .commit_group", build: func(b *builder) { b.out.run = runCommit(bulk) }},
	{syntax: "cp .async .bulk .wait_group [.read]", build: asyncWait(bulk)},
	{syntax: "cp .async .bulk .prefetch .L2 .global [.L2::cache_hint]", build: nothing},
}

// Kinds of copies, which have groups of their own.
const (
	ordinary = iota
	bulk
	asyncKinds
)

// transfer is a copy that was asked for.
type transfer struct {
	in       *ins
	group    int // number of groups that were closed before
	to, from uint64
	size     int    // bytes that are written
	read     int    // bytes that are read; the others become zero
	value    []byte // what is written, where that came from registers
	made     bool   // its source was waited for, and it was made
}

// queue is the copies of a thread that are under way.
type queue struct {
	list   []transfer // the oldest first
	closed int        // groups
	done   int        // of those, the oldest ones
}

// transferUse is where the two sides of a copy are.
type transferUse struct {
	to, from *access
	reduce   *reduction // nil where a copy replaces what is there
}

// wait completes the copies of groups before the given one.
func (q *queue) wait(w *warp, lane, group int) {
	q.done = max(q.done, min(group, q.closed))
	n := 0
	for n < len(q.list) && q.list[n].group < group {
		if t := q.list[n]; !t.made {
			w.transfer(t, lane, bothSides)
		} else if w.shadow != nil {
			w.shadow.arrived(w, &t, lane)
		}
		n++
	}
	if n > 0 {
		q.list = append(q.list[:0], q.list[n:]...)
	}
}

// madeAtOnce is how many copies of a thread are kept whose source was waited for and whose result was not. Kernels may
// wait for the one alone, over and over; races with copies beyond that are missed.
const madeAtOnce = 256

// waitRead makes the copies of groups before the given one, which have read then; what they write is not waited for.
func (q *queue) waitRead(w *warp, lane, group int) {
	n := 0
	for ; n < len(q.list) && q.list[n].group < group; n++ {
		if !q.list[n].made {
			w.transfer(q.list[n], lane, readSide)
			q.list[n].made = true
		}
	}
	if n > madeAtOnce {
		q.wait(w, lane, q.list[n-madeAtOnce].group)
	}
}

// finish completes all copies.
func (q *queue) finish(w *warp, lane int) { q.wait(w, lane, q.closed+1) }

// begin adds a copy to those of a thread.
func (w *warp) begin(kind, lane int, t transfer) {
	w.disband()
	q := &w.async[kind][lane]
	if !w.crowded(len(q.list)) {
		t.group = q.closed
		q.list = append(q.list, t)
	}
}

// complete completes all copies of cp.async of some threads, for an instruction that waits for them or nil.
func (w *warp) complete(mask uint32, in *ins) {
	if w.united(mask) {
		w.land(w.flights.closed+1, in)
		return
	}
	w.disband()
	for m := mask; m != 0; m &= m - 1 {
		w.async[ordinary][firstLane(m)].finish(w, firstLane(m))
	}
}

// landed completes the copies of threads that end: a grid is over when its copies are.
func (w *warp) landed(mask uint32) {
	if !w.copies && !w.flights.any() {
		return
	}
	w.complete(mask, nil)
	for m := mask; m != 0; m &= m - 1 {
		w.async[bulk][firstLane(m)].finish(w, firstLane(m))
	}
	if w.shadow != nil {
		w.shadow.enterLanded(w)
	}
}

// transfer makes a copy. Zeros stand for what is not read. What checks note of it belongs to no instruction.
// Somebody has waited for the given sides of it.
func (w *warp) transfer(t transfer, lane int, done sides) {
	if x := w.shadow; x != nil {
		before := len(x.touches)
		defer func() { x.land(w, &t, before, done) }()
	}
	if t.in.copy.reduce != nil {
		w.combine(t, lane)
		return
	}
	unit := min(t.size, 16) // sizes are 4, 8, or multiples of 16
	for i := 0; i < t.size; i += unit {
		var piece [16]byte
		at := uint64(i)
		if t.value != nil {
			copy(piece[:], t.value[i:])
		}
		if i+unit <= t.read {
			copy(piece[:], w.reach(t.in, t.in.copy.from, lane, t.from+at, unit, false))
		} else {
			for k := range uint64(max(0, t.read-i)) {
				piece[k] = w.reach(t.in, t.in.copy.from, lane, t.from+at+k, 1, false)[0]
			}
		}
		copy(w.reach(t.in, t.in.copy.to, lane, t.to+at, unit, true), piece[:])
	}
}

// ask checks the alignment of both sides of a copy, and that there is something to read. It reports whether the copy
// can be made.
func (w *warp) ask(t transfer, lane, align int) bool {
	for _, at := range []uint64{t.to, t.from} {
		if at%uint64(align) != 0 {
			w.report(t.in, lane, Misaligned, "address %#x is not a multiple of %d", at, align)
			return false
		}
	}
	for i := 0; i < t.read; i += align {
		if i+align <= t.read {
			w.reach(t.in, t.in.copy.from, lane, t.from+uint64(i), align, false)
		} else { // a part of any size, which has no alignment
			w.reach(t.in, t.in.copy.from, lane, t.from+uint64(t.read)-1, 1, false)
		}
	}
	if w.shadow != nil {
		w.shadow.issue(w, lane, t)
	}
	return true
}

// asyncCopy makes a copy of 4, 8 or 16 bytes to shared memory: [to], [from], size, and what is read: a number of bytes,
// or a predicate that says that nothing is.
func asyncCopy(b *builder) {
	args := b.in.Args
	n := len(args)
	if b.in.Has("L2::cache_hint") {
		n--
		b.srcOf(&args[n], "b64")
	}
	size := 0
	if n >= 3 && args[2].Kind == ptx.IntArg {
		size = int(args[2].Value)
	}
	if n < 3 || n > 4 || size != 4 && size != 8 && size != 16 {
		b.fail(b.in.Pos, "", "%s with these operands is not executed here", b.in.Mnemonic())
		return
	}
	b.out.copy = &transferUse{to: b.memoryIn(&args[0], sharedSpace, "b8"), from: b.memoryIn(&args[1], globalSpace, "b8")}
	b.out.c = noRef
	if n == 4 && args[3].Reg != nil && args[3].Reg.Type == "pred" {
		b.out.c = b.srcOf(&args[3], "pred")
	} else if n == 4 {
		b.out.c = b.srcOf(&args[3], "u32")
	}
	b.out.run = func(w *warp, in *ins) {
		if w.fly(in, size) {
			return
		}
		w.disband()
		for lane := range w.lanes() {
			t := transfer{in: in, to: in.copy.to.at(w, lane), from: in.copy.from.at(w, lane), size: size,
				read: w.bytesRead(in, lane, size)}
			if w.ask(t, lane, size) {
				w.begin(ordinary, lane, t)
			}
		}
	}
}

func runCommit(kind int) func(*warp, *ins) {
	return func(w *warp, _ *ins) {
		if kind == ordinary {
			if w.united(w.mask) {
				if !w.crowded(w.flights.closed - w.flights.done) {
					w.flights.closed++
				}
				return
			}
			w.disband()
		}
		for lane := range w.lanes() {
			if q := &w.async[kind][lane]; !w.crowded(q.closed - q.done) {
				q.closed++
			}
		}
	}
}

func asyncWait(kind int) func(*builder) {
	return func(b *builder) {
		if b.arg(0).Kind != ptx.IntArg || b.arg(0).Value > 1<<20 {
			b.fail(b.in.Pos, "", "%s needs a small number", b.in.Mnemonic())
			return
		}
		left, reads := int(b.arg(0).Value), b.in.Has("read")
		b.out.run = func(w *warp, in *ins) {
			if kind == ordinary {
				if w.united(w.mask) {
					w.land(w.flights.closed-left, in)
					return
				}
				w.disband()
			}
			for lane := range w.lanes() {
				q := &w.async[kind][lane]
				if reads {
					q.waitRead(w, lane, q.closed-left)
				} else {
					q.wait(w, lane, q.closed-left)
				}
			}
		}
	}
}

// asyncArrive lets a thread arrive at a barrier in memory when its copies are done. Here they are done at once. Without
// .noinc the arrival is one more that the barrier waits for, so it changes nothing.
func asyncArrive(b *builder) {
	b.out.mem = b.memory(b.arg(0))
	again := b.in.Has("noinc")
	b.out.run = func(w *warp, in *ins) {
		w.complete(w.mask, nil)
		for lane := range w.lanes() {
			at := w.barrierAt(in, lane)
			if s := w.phase(in, lane, at); s != nil && again {
				if !s.arrive(1) {
					w.stop(in, lane, BarrierDivergence, "an arrival at a barrier that waits for none")
				}
				w.setPhase(in, lane, at, s)
			}
		}
	}
}

// bulkLoad copies to shared memory and tells a barrier there: [to], [from], size, [barrier].
func bulkLoad(b *builder) {
	b.hint(4)
	if b.err != nil {
		return
	}
	args, from := b.in.Args, globalSpace
	if !b.in.Has("global") {
		from = sharedSpace
	}
	b.out.copy = &transferUse{to: b.memoryIn(&args[0], sharedSpace, "b8"), from: b.memoryIn(&args[1], from, "b8")}
	b.out.a, b.out.mem = b.src(2, "u32"), b.memoryIn(&args[3], sharedSpace, "b64")
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			size := int(w.get(in.a, lane))
			t := transfer{in: in, to: in.copy.to.at(w, lane), from: in.copy.from.at(w, lane), size: size, read: size}
			if w.askBulk(t, lane) && !w.crowded(len(w.cta.bulk)) {
				w.cta.bulk = append(w.cta.bulk, delivery{t, w.barrierAt(in, lane)})
			}
		}
	}
}

// bulkStore copies from shared memory: [to], [from], size.
func bulkStore(b *builder) {
	b.hint(3)
	if b.err != nil {
		return
	}
	args := b.in.Args
	b.out.copy = &transferUse{to: b.memoryIn(&args[0], globalSpace, "b8"), from: b.memoryIn(&args[1], sharedSpace, "b8")}
	b.out.a = b.src(2, "u32")
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			size := int(w.get(in.a, lane))
			t := transfer{in: in, to: in.copy.to.at(w, lane), from: in.copy.from.at(w, lane), size: size, read: size}
			if w.askBulk(t, lane) {
				w.begin(bulk, lane, t)
			}
		}
	}
}

func (w *warp) askBulk(t transfer, lane int) bool {
	if t.size%16 != 0 {
		w.report(t.in, lane, Misaligned, "the size of a copy, %d, is not a multiple of 16", t.size)
		return false
	}
	if t.size > len(w.cta.shared) { // one side is there: it is not worth looking at every byte
		if t.in.copy.to.space == sharedSpace {
			w.outside(t.in, lane, sharedSpace, t.to, t.size, true)
		} else {
			w.outside(t.in, lane, sharedSpace, t.from, t.size, false)
		}
		return false
	}
	return w.ask(t, lane, 16)
}

// maxUnderWay is how many copies, groups of them or products may be under way for one thread, barrier or warp: far more
// than a device has room for, and little memory here.
const maxUnderWay = 1 << 14

// crowded reports whether no more can be under way, and ends the launch then.
func (w *warp) crowded(n int) bool {
	if n < maxUnderWay {
		return false
	}
	w.cta.grid.fail(diag.Errorf(MemoryLimit, "wait for some of them", "more than %d copies or products are under way",
		maxUnderWay))
	return true
}

// delivery is a copy that a barrier in shared memory waits for.
type delivery struct {
	transfer
	barrier uint64
}

// deliver makes the copies that a barrier waits for, when somebody looks at it.
func (w *warp) deliver(lane int, barrier uint64) {
	c := w.cta
	if !w.fills(barrier) {
		return
	}
	for i := 0; i < len(c.bulk); {
		d := c.bulk[i]
		if d.barrier != barrier {
			i++
			continue
		}
		c.bulk = append(c.bulk[:i], c.bulk[i+1:]...)
		w.transfer(d.transfer, lane, bothSides)
		if s := w.phase(d.in, lane, barrier); s != nil {
			s.tx -= d.size
			s.settle()
			w.setPhase(d.in, lane, barrier, s)
		}
		if x := w.shadow; x != nil {
			x.counted = append(x.counted, counted{lane, barrier})
		}
	}
}

// fills reports whether the copies under way are what the phase of a barrier waits for: copies are made as late as a
// device may, and nobody can have waited for them before.
func (w *warp) fills(barrier uint64) bool {
	shared, bytes := w.cta.shared, 0
	if barrier+8 > uint64(len(shared)) {
		return true // it is reported
	}
	s := unpackPhase(getBytes(shared[barrier:], 8))
	for i := range w.cta.bulk {
		if d := &w.cta.bulk[i]; d.barrier == barrier {
			bytes += d.size
		}
	}
	return s.pending == 0 && s.tx == bytes
}
