package ptxvm

import "math/bits"

// This file implements what checks keep beside memory and registers.

// shadow is what the checks of a worker keep about global memory.
type shadow struct {
	uninit, race bool
	async        bool
	buffers      []*marks // bytes that are defined, by buffer; nil where all are
	racing       racing
}

// blockShadow is what checks keep about a block.
type blockShadow struct {
	worker *shadow
	cta    *cta
	shared bitset // bytes that are defined

	arriving bitset  // bytes that asynchronous copies are to deliver
	leaving  bitset  // bytes that asynchronous copies are to read
	reading  []int16 // products that are to read a piece of pieceBytes
	proxy    proxyState
	outside  []inBuffer // by buffer; nil where nobody looks

	racing blockRacing
}

// warpShadow is what checks keep about a warp.
type warpShadow struct {
	block   *blockShadow
	local   bitset                      // bytes of local memory that are defined, lane after lane
	stride  int                         // from lane to lane in local
	defined []uint32                    // lanes whose value is defined, by register
	parts   map[int32]*[warpSize]uint32 // bits of registers that are not set, by lane, where not all or none are
	start   []uint32                    // of defined: constants and special registers are
	touches []touch                     // of the current instruction
	landed  []touch                     // accesses of asynchronous copies that somebody has waited for
	counted []counted                   // barriers that have counted some of them
	judged  bool                        // the current instruction has been judged by a quick check
	plain   bool                        // registers are all that instructions without an access need to be judged
	held    map[int32]*held             // values that are followed, by register; nil where none is
	now     held                        // what the current load has given
	times   map[int32]uint              // how often the warp has executed a load that is followed, by instruction
	passed  bool                        // the current load is not followed
	varies  []uint32                    // lanes whose value depends on more than on which thread it is, by register

	flying  []flying // by register
	written []uint8  // by register: what happened since the last wgmma.fence
	fenced  bool     // there was a wgmma.fence
}

// touch is an access of one lane.
type touch struct {
	space  space
	lane   int
	write  bool
	buffer *buffer // nil outside of global memory
	offset uint64
	data   []byte
	old    [32]byte // data before the instruction, of writes

	settled, changed bool // of an atomic operation: others may have changed the data since
	copied           bool // of an asynchronous copy: a plain write, whoever waits for it
	by               *ins // the asynchronous copy whose access it was, where somebody has waited for it
}

// newShadow makes what checks need; nil where they need nothing.
func (g *grid) newShadow() *shadow {
	s := &shadow{uninit: g.checks.has(CheckUninit), race: g.checks.has(CheckRace),
		async: g.checks.has(CheckAsync) && (g.prog.copies || g.prog.products)}
	if !s.uninit && !s.race && !s.async {
		return nil
	}
	s.buffers = make([]*marks, len(g.memory.buffers))
	for i, b := range g.memory.buffers {
		if s.uninit && b.arg != nil && (b.arg.Uninitialised || b.arg.Role == Out) {
			s.buffers[i] = newMarks(g, len(b.data))
		}
	}
	s.racing = newRacing(g)
	return s
}

// merge adds what another worker has written.
func (s *shadow) merge(other *shadow) {
	if s == nil {
		return
	}
	for i := range s.buffers {
		s.buffers[i].merge(other.buffers[i])
	}
	s.racing.merge(&other.racing)
}

// release gives back what other launches can use.
func (s *shadow) release() {
	if s == nil {
		return
	}
	for _, m := range s.buffers {
		m.release()
	}
	s.racing.release()
}

func (s *shadow) newBlock(c *cta) *blockShadow {
	if s == nil {
		return nil
	}
	b := &blockShadow{worker: s, cta: c, shared: newBitset(len(c.shared))}
	if c.grid.prog.copies || c.grid.prog.products {
		b.arriving, b.leaving = newBitset(len(c.shared)), newBitset(len(c.shared))
	}
	if s.async && c.grid.prog.proxies {
		b.reading, b.proxy = make([]int16, len(c.shared)/pieceBytes+1), newProxyState(len(c.warps), len(c.shared))
	}
	if s.async && c.grid.prog.copies {
		b.outside = make([]inBuffer, len(c.grid.memory.buffers))
	}
	b.racing = newBlockRacing(b)
	p := c.grid.prog
	for _, w := range c.warps {
		x := &warpShadow{block: b, stride: alignUp(p.localBytes, 64)}
		x.local = newBitset(warpSize * x.stride)
		x.start = make([]uint32, p.n32+p.n64+p.nPreds+1)
		x.start[len(x.start)-1] = allLanes // for operands that are not there
		for _, k := range p.consts {
			x.start[p.position(k.slot)] = allLanes
		}
		for _, slot := range p.specials {
			x.start[p.position(slot)] = allLanes
		}
		for _, d := range p.dynamic {
			x.start[p.position(d.slot)] = allLanes
		}
		x.defined = make([]uint32, len(x.start))
		x.plain = !p.products && s.racing.following == nil
		if s.racing.following != nil {
			x.held, x.varies, x.times = map[int32]*held{}, make([]uint32, len(x.start)), map[int32]uint{}
		}
		if p.products {
			x.flying, x.written = make([]flying, len(x.start)), make([]uint8, len(x.start))
		}
		w.shadow = x
	}
	return b
}

// reset is for a block that begins.
func (b *blockShadow) reset() {
	if b == nil {
		return
	}
	clear(b.shared)
	clear(b.arriving)
	clear(b.leaving)
	clear(b.reading)
	clear(b.outside)
	b.proxy.reset()
	b.racing.reset(b)
}

func (x *warpShadow) reset() {
	if x == nil {
		return
	}
	copy(x.defined, x.start)
	clear(x.local)
	clear(x.flying)
	clear(x.written)
	clear(x.parts)
	clear(x.held)
	clear(x.times)
	clear(x.varies)
	x.fenced = false
	x.touches, x.landed, x.counted = x.touches[:0], x.landed[:0], x.counted[:0]
}

// note remembers an access until the instruction is done. Touches are written where they stay: they are large.
func (x *warpShadow) note(sp space, lane int, write bool, b *buffer, offset uint64, data []byte) {
	n := len(x.touches)
	if n == cap(x.touches) {
		x.touches = append(x.touches, touch{})
	} else {
		x.touches = x.touches[:n+1]
	}
	t := &x.touches[n]
	t.space, t.lane, t.write, t.buffer, t.offset, t.data = sp, lane, write, b, offset, data
	t.settled, t.changed, t.copied, t.by = false, false, false, nil
	if write {
		copy(t.old[:], data)
	}
}

// guard judges the guard of an instruction.
func (x *warpShadow) guard(w *warp, in *ins, mask uint32) {
	if at := in.facts.guard; x.held != nil && at >= 0 {
		without := mask &^ (w.p[in.guard.index()] ^ in.guardFlip)
		switch {
		case in.facts.arms[0] != nil:
			x.kept(in.facts.arms[0], at, mask&^without)
			x.kept(in.facts.arms[1], at, without)
		case in.chooses():
			x.kept(in.facts.writes, at, without)
		default:
			x.use(at, mask)
			x.skipped(in, without)
		}
	}
	if at := in.facts.guard; x.block.worker.uninit && at >= 0 {
		if bad := mask &^ x.defined[at]; bad != 0 {
			what := "the guard of " + in.src.Mnemonic()
			if in.kind == branch {
				what = "the condition of a branch"
			}
			w.report(in, bits.TrailingZeros32(bad), Uninitialised, "%s depends on a value that was never set", what)
			x.defined[at] |= bad
		}
	}
}

// judge looks at an instruction that has been executed.
func (x *warpShadow) judge(w *warp, in *ins) {
	if in.src == nil {
		return
	}
	if x.judged {
		x.judged = false
		return
	}
	if x.block.worker.uninit {
		x.definedness(w, in)
	}
	if x.held != nil {
		x.follow(w, in)
	}
	if x.block.worker.async {
		x.hazards(w, in)
		if x.flying != nil {
			x.registers(w, in)
		}
	}
	if len(x.landed) > 0 {
		x.arrivals(w, in)
	}
	if x.block.worker.race {
		if o := &in.facts.order; o.fence != nobody {
			x.block.racing.fence(w, o)
		}
		if in.kind == together && in.src.Op == "bar" {
			x.block.racing.meeting(w, w.mask)
		}
		for i := range x.touches {
			x.block.racing.touch(w, in, &x.touches[i])
		}
	}
	x.touches = x.touches[:0]
}

// bitset has one bit per byte of memory.
type bitset []uint64

func newBitset(bytes int) bitset { return make(bitset, (bytes+63)/64) }

// all reports whether n bytes from at are marked. Accesses are aligned and have at most 64 bytes, so they lie in one
// word.
func (b bitset) all(at uint64, n int) bool {
	mask := ^uint64(0) >> (64 - n) << (at % 64)
	return b[at/64]&mask == mask
}

// any reports whether one of n bytes from at is marked, for an access as in all.
func (b bitset) any(at uint64, n int) bool { return b[at/64]&(^uint64(0)>>(64-n)<<(at%64)) != 0 }

// markRange sets or clears any number of bytes, as far as there is memory.
func (b bitset) markRange(at uint64, n int, on bool) {
	for end := min(at+uint64(n), uint64(64*len(b))); at < end; {
		step := min(64-at%64, end-at)
		b.mark(at, int(step), on)
		at += step
	}
}

// anyRange is any for any number of bytes, as far as there is memory.
func (b bitset) anyRange(at uint64, n int) bool {
	for end := min(at+uint64(n), uint64(64*len(b))); at < end; {
		step := min(64-at%64, end-at)
		if b.any(at, int(step)) {
			return true
		}
		at += step
	}
	return false
}

// allRange is all for any number of bytes.
func (b bitset) allRange(at uint64, n int) bool {
	for end := at + uint64(n); at < end; {
		step := min(64-at%64, end-at)
		if !b.all(at, int(step)) {
			return false
		}
		at += step
	}
	return true
}

// mark sets or clears n bytes from at.
func (b bitset) mark(at uint64, n int, on bool) {
	mask := ^uint64(0) >> (64 - n) << (at % 64)
	if on {
		b[at/64] |= mask
	} else {
		b[at/64] &^= mask
	}
}
