package ptxvm

import "math/bits"

// This file implements the checks of what sound kernels do nearly always: operands are defined, nobody else is there.
// A quick check reports nothing: where something is not as it should be it gives up, and the instruction is executed
// and judged lane by lane.

// plain3 is what definedness needs of an instruction with at most three operands and one result, lane by lane. Operands
// that are not there are the position behind all registers, which is always defined.
type plain3 struct {
	a, b, c, d int32
	parting    parting
	keep       uint32
}

// quick fills in the plain form of an instruction, if it has one.
func (f *facts) quick(in *ins, none int32) {
	if f.rule != each || in.mem != nil || in.kind != plain || in.flow != nil || len(f.address) > 0 || len(f.reads) > 3 ||
		len(f.writes) != 1 {
		return
	}
	p := &plain3{a: none, b: none, c: none, d: f.writes[0]}
	p.parting, p.keep = partingOf(in.src)
	for i, at := range f.reads {
		*[]*int32{&p.a, &p.b, &p.c}[i] = at
	}
	f.plain = p
}

// passOn is definedness for instructions with a plain form.
func (x *warpShadow) passOn(p *plain3, mask uint32) {
	d := x.defined
	m := d[p.a] & d[p.b] & d[p.c]
	if mask&^m != 0 {
		if p.parting != undivided {
			x.parted(p, mask)
			return
		}
		x.whole(p.d, mask)
	}
	d[p.d] = d[p.d]&^mask | m&mask
}

// all reports whether registers are defined in the active lanes; those below 0 always are.
func (x *warpShadow) all(list []int32, mask uint32) bool {
	for _, at := range list {
		if at >= 0 && mask&^x.defined[at] != 0 {
			return false
		}
	}
	return true
}

// quickLoad judges a load of size bytes a lane.
func (x *warpShadow) quickLoad(w *warp, in *ins, s *sweep, size int) bool {
	checks, f := x.block.worker, &in.facts
	if f.rule != loads || f.strong || !x.plain || !x.block.undisturbed(s, false) {
		return false
	}
	if checks.uninit && !x.all(f.address, w.mask) {
		return false
	}
	if !x.block.racing.repeated(w, in, s) && !x.quickSweep(w, in, s, size) {
		return false
	}
	if checks.uninit {
		for _, at := range f.parts {
			if at >= 0 {
				x.defined[at] |= w.mask
			}
		}
	}
	x.judged = true
	return true
}

// quickRows judges the load of rows of matrices, from the lanes that give their addresses to all of them.
func (x *warpShadow) quickRows(w *warp, in *ins, s *sweep) bool {
	checks, f := x.block.worker, &in.facts
	if !x.plain || checks.uninit && !x.all(f.address, allLanes) || !x.quickSweep(w, in, s, rowBytes) {
		return false
	}
	if checks.uninit {
		for _, r := range in.list {
			x.defined[w.cta.grid.prog.position(r)] = allLanes
		}
	}
	x.judged = true
	return true
}

// quickSweep judges the memory of a load.
func (x *warpShadow) quickSweep(w *warp, in *ins, s *sweep, size int) bool {
	checks := x.block.worker
	if s.all, s.shares = s.lanes(w); w.cta.grid.prog.parts && checks.race {
		s.all, s.shares = w.mask, 0
	}
	if checks.uninit && !x.sweptDefined(w, s, size) ||
		checks.async && s.space == sharedSpace && !s.none(w, x.block.arriving, size) {
		return false
	}
	if racing := &x.block.racing; checks.race && !racing.reads(w, in, s, size) {
		racing.racyReads(w, in, s, size)
	}
	return true
}

// quickStore judges a store before it is made.
func (x *warpShadow) quickStore(w *warp, in *ins, s *sweep, size int) bool {
	checks, f := x.block.worker, &in.facts
	if f.rule != stores || f.strong || !x.plain || checks.async && s.space == sharedSpace ||
		!x.block.undisturbed(s, true) {
		return false
	}
	if checks.uninit && (!x.all(f.address, w.mask) || !x.all(f.parts, w.mask)) {
		return false
	}
	if racing := &x.block.racing; checks.race && !racing.writes(w, in, s, size) && !racing.racyWrites(w, in, s, size) {
		return false
	}
	if checks.uninit {
		x.sweptWritten(w, s, size)
	}
	x.judged = true
	return true
}

// sweptWritten marks the bytes of a store as defined.
func (x *warpShadow) sweptWritten(w *warp, s *sweep, size int) {
	if s.space == sharedSpace {
		s.mark(w, x.block.shared, size)
	} else if s.buffer != nil && x.block.worker.buffers[s.buffer.index] != nil {
		x.block.worker.buffers[s.buffer.index].sweep(w, s, size)
	}
}

func (x *warpShadow) sweptDefined(w *warp, s *sweep, size int) bool {
	known := x.block.shared
	if s.space != sharedSpace {
		if s.buffer == nil || s.buffer.arg == nil || !s.buffer.arg.Uninitialised {
			return true
		}
		return x.block.worker.buffers[s.buffer.index].swept(w, s, size)
	}
	switch {
	case s.like&uniform != 0:
		return known.all(w.at[0], size)
	case s.like&side != 0 && size == 4:
		return known.allRange(w.at[0], size*warpSize)
	}
	for m := s.all; m != 0; m &= m - 1 {
		if !known.all(w.at[bits.TrailingZeros32(m)&31], size) {
			return false
		}
	}
	return true
}

// none reports whether none of the bytes of a sweep is marked.
func (s *sweep) none(w *warp, marked bitset, size int) bool {
	for m := s.all; m != 0; m &= m - 1 {
		if marked.any(w.at[bits.TrailingZeros32(m)&31], size) {
			return false
		}
	}
	return true
}

// mark marks the bytes of a sweep.
func (s *sweep) mark(w *warp, b bitset, size int) {
	if s.like&side != 0 && size == 4 {
		b.markRange(w.at[0], size*warpSize, true)
		return
	}
	for m := w.mask; m != 0; m &= m - 1 {
		b.mark(w.at[bits.TrailingZeros32(m)&31], size, true)
	}
}

// view is the states of words around the current lane of a sweep.
type view struct {
	page  *page
	first uint64 // word of its first one
	n     int    // words of a lane
}

func newView(size int) view { return view{first: ^uint64(0), n: (size + 3) / 4} }

// of is the state of the first word of a lane at an offset.
func (v *view) of(r *blockRacing, s *sweep, at uint64) cell {
	if at/4&^(pageWords-1) != v.first {
		v.move(r, s, at)
	}
	return cell{v.page, uint32(at / 4 % pageWords)}
}

// move goes to another page.
func (v *view) move(r *blockRacing, s *sweep, at uint64) {
	v.first = at / 4 &^ (pageWords - 1)
	if s.space == sharedSpace {
		v.page = &r.shared[v.first/pageWords]
	} else {
		v.page = r.page(s.buffer.index, v.first)
	}
}

// bytesOf are the bytes of a word that an access of a size touches.
func bytesOf(at uint64, size int) uint8 {
	if size >= 4 {
		return 15
	}
	return (1<<size - 1) << (at % 4)
}

// lanes are active lanes that access everything the sweep does, of several with one offset not all, and those of them
// that stand for others, too.
func (s *sweep) lanes(w *warp) (all, shares uint32) {
	switch {
	case s.like&uniform != 0:
		all = w.mask & -w.mask
		if all != w.mask {
			shares = all
		}
		return all, shares
	case s.like&side != 0 || w.mask != allLanes:
		return w.mask, 0
	}
	all = fast.distinct(&w.at)
	if all>>halfWarp == 0 && *(*[halfWarp]uint64)(w.at[:halfWarp]) == *(*[halfWarp]uint64)(w.at[halfWarp:]) {
		return all, all
	}
	return all, all &^ (all>>1 | 1<<(warpSize-1)) // lanes whose next one is left out
}

// halfWarp is half of the lanes.
const halfWarp = warpSize / 2

// private reports whether a sweep is to memory that cannot be raced for.
func (s *sweep) private() bool {
	return s.space == paramSpace || s.buffer != nil && (s.buffer.readOnly || s.buffer.unwritten)
}

// later is the least mark of a stamp that a warp does not have behind it as a whole.
func (r *blockRacing) later(w *warp) mark { return (mark(r.safe[w.index]) + 1) << stampAt }

// past reports whether a mark of this block is ordered before an access of a lane to some bytes, as far as it can be
// said without clocks.
func (r *blockRacing) past(w *warp, lane int, m mark, bytes uint8) bool {
	at := m.stamp()
	switch i := m.warp(); {
	case at <= r.safe[w.index], m.bytes()&bytes == 0:
		return true
	case i != w.index:
		return at <= r.rows[w.index][i]
	case at <= r.rows[i][i], m.shape() == oneLane && m.lane() == lane:
		return true
	case m.shape() == oneLane:
		return false
	}
	_, other := m.otherLane(lane, bytes, w.cta.grid.prog.unit(m))
	return !other
}

// reads enters reads of all active lanes, and reports whether everything written there is ordered before. If it is not,
// entering the same reads again does no harm.
func (r *blockRacing) reads(w *warp, in *ins, s *sweep, size int) bool {
	if s.private() {
		return true
	}
	shared := s.space == sharedSpace
	if shared && (r.repeats.stamp != r.worker.stamp || size != 4) {
		r.settleReads()
	}
	me, v, later, newest := newMark(r.worker.stamp, w.index, in), newView(size), r.later(w), mark(0)
	r.mark(w)
	quiet, partial := len(r.worker.released) == 0, r.partial
	for m := s.all; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		at := w.at[lane]
		first, bytes := v.of(r, s, at), bytesOf(at, size)
		p := first.page
		if p.reader == &noMarks {
			p.reader = r.column()
		}
		mine := me.by(lane, bytes) | mark(s.shares>>lane&1)*someLanes
		for word := first.at; word < first.at+uint32(v.n); word++ {
			word := word % pageWords
			if old := p.writer[word]; old != 0 {
				if !shared && !r.mine(old.stamp()) || old >= later &&
					(mine.shape() == someLanes && old.warp() == w.index || !r.past(w, lane, old, bytes)) {
					return false
				}
				newest = max(newest, old)
			}
			reader, other := p.reader[word], p.other[word]
			switch {
			case reader == 0:
				p.reader[word] = mine
			case !quiet || (reader|other)&strongMark != 0 || p.overflows != nil && (cell{p, word}).overflow().strong():
				return false
			case partial && shared && size >= 4 && !w.cta.grid.prog.parts:
				r.enterWeak(cell{p, word}, mine, later)
			case partial:
				r.enter(w, cell{p, word}, mine, size, shared)
			case reader.has(mine), other.has(mine): // one more of them
			case !shared || reader < later || (reader^mine)&turnMask == 0 || (other^mine)&turnMask == 0:
				r.enter(w, cell{p, word}, mine, size, shared)
			case other < later:
				p.other[word], p.reader[word] = reader, mine
			}
		}
	}
	if shared && size == 4 {
		r.remember(w, in, s.all, newest.stamp())
	}
	return true
}

// writes enters writes of all active lanes if everything before is ordered before them, and else nothing.
func (r *blockRacing) writes(w *warp, in *ins, s *sweep, size int) bool {
	r.mark(w)
	if s.like&side != 0 && size == 4 && s.space != sharedSpace && w.mask == allLanes && r.firstWrites(w, in, s) {
		return true
	}
	if !r.ordered(w, s, size) {
		return false
	}
	silent := s.silent(w, in)
	r.enterWrites(w, in, s, size, func(lane, word, words int) bool {
		return silent>>lane&1 != 0 || words > 1 && s.same(w, in, lane, 4*word)
	})
	return true
}

// firstWrites enters writes of a whole warp to words side by side that nobody has accessed, which is what kernels do to
// their outputs: nothing is there that they could race with. It reports false, and enters nothing, where somebody has.
func (r *blockRacing) firstWrites(w *warp, in *ins, s *sweep) bool {
	first := w.at[0] / 4
	if first%pageWords > pageWords-warpSize {
		return false
	}
	p, at := r.page(s.buffer.index, first), first%pageWords
	for _, c := range [...]*markColumn{p.writer, p.reader, p.other} {
		if c == &noMarks {
			continue
		}
		any := mark(0)
		for _, m := range c[at : at+warpSize] {
			any |= m
		}
		if any != 0 {
			return false
		}
	}
	if p.writer == &noMarks {
		p.writer = r.column()
	}
	me, into := newMark(r.worker.stamp, w.index, in), p.writer[at:at+warpSize]
	for i := range into {
		into[i] = me.by(i, 15)
	}
	return true
}

// ordered reports whether everything before is ordered before writes of all active lanes, which go to different places.
func (r *blockRacing) ordered(w *warp, s *sweep, size int) bool {
	if !w.ascending() && !w.disjoint(size) { // lanes may store to one place
		return false
	}
	shared := s.space == sharedSpace
	if shared {
		r.settleReads()
	}
	later, v := r.later(w), newView(size)
	for m := w.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		at := w.at[lane]
		first, bytes := v.of(r, s, at), bytesOf(at, size)
		p := first.page
		for i := range v.n {
			word := (first.at + uint32(i)) % pageWords
			writer, reader, other := p.writer[word], p.reader[word], p.other[word]
			if (writer|reader|other)&strongMark != 0 {
				return false
			}
			if x := (cell{p, word}).overflow(); x != nil && !r.overflowBefore(w, lane, x, later, shared, bytes) {
				return false
			}
			if newest := max(writer, reader, other); newest == 0 || shared && newest < later {
				continue
			}
			for _, old := range [...]mark{writer, reader, other} {
				if old != 0 && (!shared && !r.mine(old.stamp()) || old >= later && !r.past(w, lane, old, bytes)) {
					return false
				}
			}
		}
	}
	return true
}

// enterWrites enters writes of all active lanes that are ordered. same reports whether a word of those of a lane stays
// as it is.
func (r *blockRacing) enterWrites(w *warp, in *ins, s *sweep, size int, same func(lane, word, words int) bool) {
	me, v := newMark(r.worker.stamp, w.index, in), newView(size)
	for m := w.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		at := w.at[lane]
		first, mine := v.of(r, s, at), me.by(lane, bytesOf(at, size))
		p := first.page
		if p.writer == &noMarks {
			p.writer = r.column()
		}
		for i := range v.n {
			word := (first.at + uint32(i)) % pageWords
			if size < 4 {
				p.writer[word] = p.writer[word].written(mine, size)
			} else {
				p.writer[word] = mine
			}
			if p.reader[word] != 0 && !same(lane, i, v.n) {
				r.forget(cell{p, word})
			}
		}
	}
}

// ascending reports whether every active lane has a greater offset than the ones before.
func (w *warp) ascending() bool {
	next := uint64(0)
	for m := w.mask; m != 0; m &= m - 1 {
		at := w.at[bits.TrailingZeros32(m)&31]
		if at < next {
			return false
		}
		next = at + 1
	}
	return true
}

// disjoint reports whether no two active lanes reach the same bytes, with accesses of a size, which is a power of two.
// Of lanes far from each other it may say that they do.
func (w *warp) disjoint(size int) bool {
	var seen [64]uint64
	shift := bits.TrailingZeros(uint(size))
	for m := w.mask; m != 0; m &= m - 1 {
		at := w.at[bits.TrailingZeros32(m)&31] >> shift
		word, bit := &seen[at/64%64], uint64(1)<<(at%64)
		if *word&bit != 0 {
			return false
		}
		*word |= bit
	}
	return true
}

// silent are the active lanes whose store leaves memory as it is.
func (s *sweep) silent(w *warp, in *ins) (lanes uint32) {
	if in.mem.words && len(in.list) == 1 {
		fast.load(&w.scratch32, s.data, &w.at, s.like)
		return fast.equal32(&w.scratch32, &w.r32[in.list[0].index()]) & w.mask
	}
	for m := w.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		same := true
		for at := 0; same && at < len(in.list)*in.mem.size; at += 4 {
			same = s.same(w, in, lane, at)
		}
		if same {
			lanes |= 1 << lane
		}
	}
	return lanes
}

// same reports whether a store leaves the word at an offset from the first byte of a lane as it is.
func (s *sweep) same(w *warp, in *ins, lane, from int) bool {
	size := in.mem.size
	step := min(size, 4)
	for at := from; at < min(from+4, len(in.list)*size); at += step {
		v := w.get(in.list[at/size], lane) >> (8 * (at % size))
		if getBytes(s.data[w.at[lane]+uint64(at):], step) != v<<(64-8*step)>>(64-8*step) {
			return false
		}
	}
	return true
}
