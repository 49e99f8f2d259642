package ptxvm

import "slices"

// This file implements barriers in shared memory (PTX ISA 9.7.13.15). Their 64 bits are opaque to kernels; here they
// are the phase, how many arrivals a phase needs, how many are still missing, and how many bytes are.

var mbarrierRows = []row{
	{syntax: "mbarrier .init [.shared|.shared::cta] .b64", build: mbarrierInit},
	{syntax: "mbarrier .inval [.shared|.shared::cta] .b64", build: mbarrierInit},
	{syntax: "mbarrier .expect_tx|.complete_tx [.relaxed] [.cta|.cluster] [$shared] .b64", build: mbarrierTx},
	{syntax: "mbarrier .arrive|.arrive_drop [.expect_tx] [.release|.relaxed] [.cta|.cluster] [$shared] .b64",
		build: mbarrierArrive},
	{syntax: "mbarrier .arrive|.arrive_drop .noComplete [.release] [.cta] [.shared|.shared::cta] .b64",
		build: mbarrierArrive},
	{syntax: "mbarrier .test_wait|.try_wait [.parity] [.acquire|.relaxed] [.cta|.cluster] [.shared|.shared::cta] .b64",
		build: mbarrierWait},
	{syntax: "mbarrier .pending_count .b64", build: func(b *builder) {
		b.out.d, b.out.a, b.out.run = b.dst(0, "b32"), b.src(1, "b64"), runUnary
		b.out.f1 = func(a uint64) uint64 { return uint64(unpackPhase(a).pending) }
	}},
}

// phase is the state of a barrier in shared memory.
type phase struct {
	number   uint64 // 0 or 1
	expected int    // arrivals
	pending  int    // arrivals that are missing
	tx       int    // bytes that are missing
}

// maxArrivals is the largest number of arrivals of a barrier, and of bytes it counts.
const maxArrivals = 1<<20 - 1

func (s *phase) pack() uint64 {
	return s.number | uint64(s.expected)<<1 | uint64(s.pending)<<21 | uint64(s.tx)&(1<<22-1)<<41 | 1<<63
}

func unpackPhase(v uint64) *phase {
	return &phase{v & 1, int(v >> 1 & maxArrivals), int(v >> 21 & maxArrivals), int(int64(v<<1) >> 42)}
}

// arrive counts arrivals, and reports false if there were too many of them.
func (s *phase) arrive(n int) bool {
	if n > s.pending {
		return false
	}
	s.pending -= n
	s.settle()
	return true
}

// settle begins the next phase if nothing is missing.
func (s *phase) settle() {
	if s.pending == 0 && s.tx == 0 {
		s.number, s.pending = 1-s.number, s.expected
	}
}

// inShared is how barriers are reached, whatever kind of address named them.
var inShared = &access{space: sharedSpace, size: 8, typ: "b64", atomic: true}

// barrierAt is the address of a lane's barrier in shared memory. One elsewhere is reported where it is used.
func (w *warp) barrierAt(in *ins, lane int) uint64 {
	at := in.mem.at(w, lane)
	if in.mem.space == genericSpace {
		if sp, inside := generic(at); sp == sharedSpace {
			return inside
		}
	}
	return at
}

// phase reads a barrier. Memory that is none is reported.
func (w *warp) phase(in *ins, lane int, at uint64) *phase {
	v := getBytes(w.reach(in, inShared, lane, at, 8, true), 8)
	if v>>63 == 0 {
		w.stop(in, lane, BarrierDivergence, "there is no initialised barrier at %#x", at)
		return nil
	}
	return unpackPhase(v)
}

func (w *warp) setPhase(in *ins, lane int, at uint64, s *phase) {
	if s.tx > maxArrivals || s.tx < -maxArrivals {
		w.stop(in, lane, BarrierDivergence, "the barrier at %#x waits for %d bytes, at most %d are possible", at,
			s.tx, maxArrivals)
		return
	}
	putBytes(w.reach(in, inShared, lane, at, 8, true), s.pack(), 8)
}

// mbarrierInit makes init: [barrier], arrivals; and inval: [barrier].
func mbarrierInit(b *builder) {
	b.out.mem = b.memory(b.arg(0))
	b.out.a = noRef
	if b.in.Has("init") {
		b.out.a = b.src(1, "u32")
	}
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			data := w.reach(in, inShared, lane, w.barrierAt(in, lane), 8, true)
			if in.a == noRef {
				putBytes(data, 0, 8)
				continue
			}
			n := int(w.get(in.a, lane))
			if n < 1 || n > maxArrivals {
				w.stop(in, lane, BarrierDivergence, "a barrier of %d arrivals; 1 to %d are possible", n, maxArrivals)
				return
			}
			putBytes(data, (&phase{expected: n, pending: n}).pack(), 8)
		}
	}
}

// mbarrierTx makes expect_tx and complete_tx: [barrier], bytes.
func mbarrierTx(b *builder) {
	b.out.mem = b.memory(b.arg(0))
	b.out.a = b.src(1, "u32")
	sign := 1
	if b.in.Has("complete_tx") {
		sign = -1
	}
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			at := w.barrierAt(in, lane)
			s := w.phase(in, lane, at)
			if s == nil {
				return
			}
			s.tx += sign * int(w.get(in.a, lane))
			if sign < 0 {
				s.settle()
			}
			w.setPhase(in, lane, at, s)
		}
	}
}

// mbarrierArrive makes arrive: state or _, [barrier], then for expect_tx bytes, else perhaps arrivals. The state is the
// barrier as it was. arrive_drop takes the thread out of the following phases, too.
func mbarrierArrive(b *builder) {
	b.out.mem = b.memory(b.arg(1))
	b.out.d, b.out.a = b.dst(0, "b64"), noRef
	if len(b.in.Args) > 2 {
		b.out.a = b.src(2, "u32")
	}
	tx, drop, noComplete := b.in.Has("expect_tx"), b.in.Has("arrive_drop"), b.in.Has("noComplete")
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			at := w.barrierAt(in, lane)
			s := w.phase(in, lane, at)
			if s == nil {
				return
			}
			w.set(in.d, lane, s.pack())
			n := 1
			if in.a != noRef {
				n = int(w.get(in.a, lane))
			}
			if tx {
				s.tx, n = s.tx+n, 1
			}
			if drop {
				s.expected -= n
			}
			if noComplete && n >= s.pending || !s.arrive(n) {
				w.stop(in, lane, BarrierDivergence, "%d arrivals at a barrier that waits for %d", n, s.pending)
				return
			}
			w.setPhase(in, lane, at, s)
		}
	}
}

// mbarrierWait makes test_wait and try_wait: done, [barrier], state or parity. Neither waits here: kernels ask again,
// and other warps have their turn before.
func mbarrierWait(b *builder) {
	b.out.mem = b.memory(b.arg(1))
	b.out.kind, b.out.d = asks, b.dst(0, "pred")
	if slices.Contains(b.in.Mods, "parity") {
		b.out.a = b.src(2, "u32")
	} else {
		b.out.a = b.src(2, "b64")
	}
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			at := w.barrierAt(in, lane)
			w.deliver(lane, at)
			s := w.phase(in, lane, at)
			if s == nil {
				return
			}
			w.set(in.d, lane, truth(s.number != w.get(in.a, lane)&1))
		}
	}
}
