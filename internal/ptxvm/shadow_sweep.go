package ptxvm

import "math/bits"

// This file implements races of whole instructions. Kernels that race do it in many lanes, so what was found out about
// a former access for one lane is taken for the lanes after it. Counts and the states of words are those that judging
// lane by lane gives.

// fate is what became of the last former access that was judged for a lane of an instruction, where it is the same for
// all lanes.
type fate struct {
	mark mark     // what marks have in common that are judged alike; 0 for none
	race *Finding // nil where it is none, or one too many to be kept
}

// fateMask is what marks have in common that are judged alike.
const fateMask = turnMask | maxMarks<<instrAt | strongMark

// judgeLike is judge for one of the lanes of an instruction.
func (r *blockRacing) judgeLike(x *accessing, c cell, m mark, verb, past string, f *fate) {
	if m == 0 {
		return
	}
	common := m.bytes()&x.me.bytes() != 0 && (c.reader()|c.other())&strongMark == 0
	if common && m&fateMask == f.mark {
		if f.race != nil {
			f.race.Count++
		}
		return
	}
	race := r.judge(x, c, m, verb, past, nil)
	if f.mark = 0; common && m.warp() != x.w.index && r.lanes[x.w.index] == nil {
		f.mark, f.race = m&fateMask, race
	}
}

// racyReads judges and enters reads of all active lanes.
func (r *blockRacing) racyReads(w *warp, in *ins, s *sweep, size int) {
	shared := s.space == sharedSpace
	if shared {
		r.settleReads()
	}
	r.probe = touch{space: s.space, buffer: s.buffer}
	x, me, v := accessing{w: w, in: in, t: &r.probe}, newMark(r.worker.stamp, w.index, in), newView(size)
	if s.like&uniform != 0 && v.n == 1 && r.racyRead(&x, v.of(r, s, w.at[0]), me) {
		return
	}
	var written fate
	for m := w.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		at := w.at[lane]
		r.probe.lane, r.probe.offset = lane, at
		x.me = me.by(lane, bytesOf(at, size))
		first := v.of(r, s, at)
		for i := range v.n {
			c := first.next(i)
			x.word = i
			r.judgeLike(&x, c, c.writer(), "reads", "written", &written)
			r.judgeStrong(&x, c, nil)
			if reader := c.reader(); reader != x.me && !reader.has(x.me) && !c.other().has(x.me) {
				r.enter(w, c, x.me, in.size(), shared)
			}
		}
	}
}

// racyRead is racyReads for lanes that all read one word. It reports false where they have to be judged one by one.
func (r *blockRacing) racyRead(x *accessing, c cell, me mark) bool {
	w, lanes, writer := x.w, x.w.mask, c.writer()
	own := writer.warp() == w.index && (x.t.space == sharedSpace || r.mine(writer.stamp()))
	if writer == 0 || own && writer.shape() != oneLane || c.all()&strongMark != 0 || r.lanes[w.index] != nil {
		return false
	}
	bytes, others := bytesOf(w.at[0], x.in.size()), lanes
	if own {
		others &^= 1 << writer.lane() // which reads what it wrote itself
	}
	if others != 0 {
		first := bits.TrailingZeros32(others)
		r.probe.lane, r.probe.offset = first, w.at[0]
		x.me = me.by(first, bytes)
		if race := r.judge(x, c, writer, "reads", "written", nil); race != nil {
			race.Count += bits.OnesCount32(others) - 1
		}
	}
	for range 2 { // more of them change nothing
		if lanes != 0 {
			r.enter(w, c, me.by(bits.TrailingZeros32(lanes), bytes), x.in.size(), x.t.space == sharedSpace)
			lanes &= lanes - 1
		}
	}
	return true
}

// racyWrites judges writes of all active lanes, and enters them. It reports false, and does neither, where lanes have
// to be judged one after the other.
func (r *blockRacing) racyWrites(w *warp, in *ins, s *sweep, size int) bool {
	if !w.ascending() && !w.disjoint(size) || !r.othersWrote(w, in, s, size) {
		return false
	}
	r.probe = touch{space: s.space, buffer: s.buffer, write: true}
	x, me, v := accessing{w: w, in: in, t: &r.probe}, newMark(r.worker.stamp, w.index, in), newView(size)
	silent := s.silent(w, in)
	var written, read, other fate
	for m := w.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		at := w.at[lane]
		r.probe.lane, r.probe.offset = lane, at
		x.me = me.by(lane, bytesOf(at, size))
		first := v.of(r, s, at)
		for i := range v.n {
			c := first.next(i)
			x.word, x.changed = i, silent>>lane&1 == 0 && (v.n == 1 || !s.same(w, in, lane, 4*i))
			if !x.changed {
				if old := r.former(c.writer(), s.space == sharedSpace); r.before(w, lane, &old, x.me.bytes()) {
					r.setWriter(c, c.writer().written(x.me, in.size()))
				}
				continue
			}
			r.judgeLike(&x, c, c.writer(), "writes", "written", &written)
			r.judgeLike(&x, c, c.reader(), "writes", "read", &read)
			r.judgeLike(&x, c, c.other(), "writes", "read", &other)
			r.judgeOverflow(&x, c)
			r.setWriter(c, c.writer().written(x.me, in.size()))
			r.forget(c)
		}
	}
	return true
}

// othersWrote reports whether what words hold that lanes are to write comes from other instructions or from long ago,
// and nothing was published in this memory. Lanes that write the same place by one instruction are judged by what they
// write.
func (r *blockRacing) othersWrote(w *warp, in *ins, s *sweep, size int) bool {
	if s.space == sharedSpace && len(r.released) > 0 || s.space != sharedSpace && len(r.worker.released) > 0 {
		return false
	}
	v := newView(size)
	for m := w.mask; m != 0; m &= m - 1 {
		first := v.of(r, s, w.at[bits.TrailingZeros32(m)&31])
		for i := range v.n {
			c := first.next(i)
			if c.all()&strongMark != 0 ||
				c.writer().instr() == int(in.facts.mark) && c.writer().stamp() > r.safe[w.index] {
				return false
			}
		}
	}
	return true
}
