package ptxvm

import (
	"bytes"
	"math/bits"
	"slices"
)

// This file implements the question whether a value that was read in a race is used.
//
// Compilers give threads copies of values that they have no use for: in Triton all warps of a block load what fits into
// one of them, and one of them stores. What the others load may be old or new, and nobody can tell. A race with a load
// counts where the value reaches something: an address, a branch or a guard, memory, a barrier, a function. PTX says
// what such a load gives as long as the two accesses have one size, namely one of the values (PTX ISA, "Memory
// Consistency Model", data races), so a value that reaches nothing changes nothing.
//
// The states of words keep one reader of many, which is not enough to tell who uses what. So where the check has found
// a race with a load, the launch is executed a second time from the same memory, by one worker: loads of the memory
// that was raced for are followed lane by lane, through registers and shuffles, and a race is reported when its value
// is used. Launches without such a race pay nothing.
//
// A thread that does not store because the tensor ends before it would store with a larger one: a store whose guard is
// false counts as a use, too, if the guard depends on arguments or on memory, and not only on which thread it is.

// suspects is the memory in which loads race.
type suspects struct {
	shared  bool
	buffers []bool // by index; nil where there is none

	pairs  map[[2]int32]bool // races with a load that no use has confirmed yet
	byLoad map[int32]int     // how many of them there are, by instruction; 0 for those that are settled
	counts map[[2]int32]int  // how often races were seen in the first execution

	sampled bool // of the loads of a loop only some are followed
	passed  bool // some were not, of races that no use has confirmed at that time
}

// any reports whether there is some.
func (s *suspects) any() bool { return s.shared || slices.Contains(s.buffers, true) }

// add enters the memory of an access.
func (s *suspects) add(t *touch, buffers int) {
	if t.buffer == nil {
		s.shared = true
		return
	}
	if s.buffers == nil {
		s.buffers = make([]bool, buffers)
	}
	s.buffers[t.buffer.index] = true
}

// has reports whether an access is to suspect memory.
func (s *suspects) has(t *touch) bool {
	if t.buffer == nil {
		return s.shared && t.space == sharedSpace
	}
	return s.buffers != nil && s.buffers[t.buffer.index]
}

// following is what is kept while a launch is executed a second time.
type following struct {
	*suspects
	reads map[wordKey][]followed // of buffers
	live  int                    // values, and races that wait for their use
	paid  int                    // of them, memory is reserved for

	values []loaded // where new ones come from
	races  []waitingRace
}

// followedAtOnce is how many values, or races, are allocated at a time.
const followedAtOnce = 256

// value makes a value.
func (r *blockRacing) value(a, b *loaded) *loaded {
	fw := r.worker.following
	fw.live++
	r.made++
	if len(fw.values) == 0 {
		fw.values = make([]loaded, followedAtOnce)
	}
	v := &fw.values[0]
	fw.values = fw.values[1:]
	v.a, v.b = a, b
	return v
}

// Values are about followedBytes large, with their place in maps. Memory for them is reserved for many at a time.
const (
	followedBytes = 256
	followedChunk = 1 << 12
)

// pay reports whether there is memory for one more value.
func (f *following) pay(g *grid) bool {
	if f.live >= followLimit {
		return false
	}
	if f.live >= f.paid {
		if !g.budget.reserve(followedChunk*followedBytes, forChecks) {
			return false
		}
		f.paid += followedChunk
	}
	return true
}

// followLimit is how many values are followed at a time: about half a gigabyte of them. Loads beyond it are taken to be
// used.
const followLimit = 1 << 21

// wordKey is a word of memory.
type wordKey struct {
	buffer int    // -1 for shared memory
	block  uint32 // of shared memory
	word   uint64
}

// followed is a load of a word by a lane.
type followed struct {
	former
	value *loaded
}

// loaded is what a lane has loaded, or computed from what lanes have loaded.
type loaded struct {
	used  bool
	a, b  *loaded // what it was computed from
	races *waitingRace
}

// waitingRace is a race that is reported if the value is used. Most never are: what it says is put together then.
type waitingRace struct {
	pair       [2]int32
	verb, past string
	in         *ins
	old        former
	why        string
	block      Dim
	number     int // of the block
	warp       int
	space      space
	lane       int
	buffer     *buffer
	offset     uint64
	operands   []Operand
	next       *waitingRace // of the value
}

// held are the values that the lanes of a warp have in a register; nil for one that is not followed.
type held [warpSize]*loaded

// key is that of a word of an access.
func (r *blockRacing) key(w *warp, t *touch, word uint64) wordKey {
	if t.buffer != nil {
		return wordKey{t.buffer.index, 0, word}
	}
	return wordKey{-1, uint32(w.cta.number) + 1, word}
}

// confirm executes a launch a second time, after workers have executed it once from memory as it was before, and
// returns its result. The second execution ends as soon as every race that the first one has seen is confirmed: a
// kernel that lacks a barrier costs little more than one that has it. The first result then is the one that counts.
//
// Loops load the same again and again, and most of it need not be followed to confirm a race. Where that was not
// enough, a third execution follows all loads.
func (p *Program) confirm(g *grid, workers []*worker, before [][]byte, s *suspects) (*Result, error) {
	again := *g.launch
	again.Trace = nil // it has been reported
	for _, w := range workers {
		s.open(p, w.shadow.racing.pairs)
	}
	first := g.finish(workers)
	if first.lastWriter == nil {
		release(workers)
	} else {
		again.elsewhere += first.kept
	}
	g.swap(before)
	size := int64(0)
	for _, b := range before {
		size += int64(len(b))
	}
	again.elsewhere += size
	var start [][]byte
	if size <= g.budget.left() {
		again.elsewhere += size
		start, s.sampled = make([][]byte, len(before)), true
		for i := range before {
			start[i] = bytes.Clone(g.memory.buffers[i].data[:len(before[i])])
		}
	}
	last, err := p.runTogether(&again, g.order, s)
	if last != nil && s.passed {
		g.restore(start)
		s.sampled = false
		last, err = p.runTogether(&again, g.order, s)
	}
	if last != nil || err != nil {
		return last, err
	}
	g.swap(before)
	return first, nil
}

// swap exchanges memory with a copy of it, as far as there is one.
func (g *grid) swap(copies [][]byte) {
	var part [4096]byte
	for i, b := range g.memory.buffers {
		for at := 0; at < len(copies[i]); {
			n := copy(part[:], b.data[at:])
			copy(b.data[at:], copies[i][at:][:n])
			at += copy(copies[i][at:], part[:n])
		}
	}
}

// open adds races that are to be confirmed: those with a load.
func (s *suspects) open(p *Program, pairs map[[2]int32]*Finding) {
	if s.counts == nil {
		s.counts = map[[2]int32]int{}
	}
	for pair, found := range pairs {
		s.counts[pair] += found.Count
		loading := false
		for _, at := range pair {
			loading = loading || at >= 0 && p.code[at].facts.rule == loads
		}
		if loading {
			if s.pairs == nil {
				s.pairs, s.byLoad = map[[2]int32]bool{}, map[int32]int{}
			}
			if !s.pairs[pair] {
				s.pairs[pair] = true
				for _, at := range pair {
					s.byLoad[at]++
				}
			}
		}
	}
}

// confirmed notes that a race was reported in the second execution.
func (f *following) confirmed(pair [2]int32, g *grid) {
	if !f.pairs[pair] {
		return
	}
	delete(f.pairs, pair)
	for _, at := range pair {
		f.byLoad[at]--
	}
	g.enough = len(f.pairs) == 0
}

// settled reports whether all races of a load that was seen to race are confirmed: its values need not be followed.
func (f *following) settled(in *ins) bool {
	open, raced := f.byLoad[in.index]
	return raced && open == 0
}

// suspectsOf is what workers suspect together; nil for nothing, and where it has been followed.
func suspectsOf(workers []*worker) *suspects {
	all := &suspects{}
	for _, w := range workers {
		if w.shadow == nil || w.shadow.racing.following != nil {
			return nil
		}
		s := &w.shadow.racing.suspects
		all.shared = all.shared || s.shared
		for i, is := range s.buffers {
			if is && all.buffers == nil {
				all.buffers = make([]bool, len(s.buffers))
			}
			if is {
				all.buffers[i] = true
			}
		}
	}
	if !all.any() {
		return nil
	}
	return all
}

// restore makes memory what it was, as far as there is a copy.
func (g *grid) restore(before [][]byte) {
	for i, b := range g.memory.buffers {
		copy(b.data, before[i])
	}
}

// copies are the buffers of a launch as they are; nil for those that nobody is to write. It reports false where there
// is no memory for them.
func (g *grid) copies() (before [][]byte, ok bool) {
	before = make([][]byte, len(g.memory.buffers))
	for i, b := range g.memory.buffers {
		if b.arg == nil || b.unwritten {
			continue
		}
		if !g.reserve(int64(len(b.data)), forCopies) {
			return nil, false
		}
		before[i] = bytes.Clone(b.data)
	}
	return before, true
}

// take makes the values of a load, one for each lane that loads from suspect memory.
func (x *warpShadow) take(in *ins) (now held) {
	fw := x.block.racing.worker.following
	for i := range x.touches {
		if t := &x.touches[i]; in.facts.rule == loads && fw.has(t) && !fw.settled(in) && fw.pay(x.block.cta.grid) {
			now[t.lane] = x.block.racing.value(nil, nil)
		}
	}
	return now
}

// passesOver reports whether a load is one of those that are not followed, because the warp has executed it often.
// Loops do the same again and again: after the fifth time it is followed when the number of times is a power of two.
func (x *warpShadow) passesOver(in *ins) bool {
	fw := x.block.racing.worker.following
	if !fw.sampled || in.facts.rule != loads || in.facts.strong || fw.settled(in) ||
		!slices.ContainsFunc(x.touches, func(t touch) bool { return fw.has(&t) }) {
		return false
	}
	n := x.times[in.index]
	x.times[in.index]++
	over := n > 4 && n&(n-1) != 0
	fw.passed = fw.passed || over
	return over
}

// follow says what an instruction that has been executed does with values that are followed.
func (x *warpShadow) follow(w *warp, in *ins) {
	f := &in.facts
	if g := w.cta.grid; g.enough {
		w.cta.stopped = true
		return
	}
	for _, at := range f.address {
		x.use(at, w.mask)
	}
	x.vary(w, in)
	pure := len(x.touches) == 0 && in.mem == nil && in.flow == nil && in.copy == nil && !in.clock
	switch {
	case f.rule == loads:
		x.now = held{}
		if x.passed = x.passesOver(in); !x.passed {
			x.now = x.take(in)
		}
		x.assign(f.parts, w.mask, &x.now)
	case f.rule == passes: // registers of a function may be those of its caller
		for at := range x.held {
			x.use(at, w.mask)
		}
	case pure && f.rule == exchange:
		result := x.shuffled(w, in)
		x.assign(f.writes, w.mask, &result)
	case pure && in.kind == plain && f.rule <= either && len(f.writes) > 0:
		result := x.computed(w, in)
		for m := w.mask; m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m)
			for _, at := range f.within() {
				result[lane] = x.joined(result[lane], x.held[at].of(lane))
			}
		}
		x.assign(f.writes, w.mask, &result)
	default:
		for _, at := range f.reads {
			x.use(at, w.mask)
		}
		x.assign(f.writes, w.mask, &held{})
	}
}

// vary says in which lanes the results of an instruction depend on arguments or on memory.
func (x *warpShadow) vary(w *warp, in *ins) {
	f := &in.facts
	m, all := uint32(0), uint32(0)
	for _, at := range f.reads {
		m |= x.varies[at]
	}
	switch f.rule {
	case each, selects:
		if in.kind != plain || in.mem != nil || in.flow != nil {
			all = m
		}
	case both, either:
		// An operand that decides alone and does not vary is enough. Its value is gone if the result is in its place.
		for _, r := range []ref{in.a, in.b} {
			at := w.cta.grid.prog.position(r)
			decides := w.p[r.index()]
			if f.rule == both {
				decides = ^decides
			}
			if slices.Contains(f.writes, at) {
				decides = 0
			}
			m &^= decides &^ x.varies[at]
		}
	default:
		all = ^uint32(0)
	}
	if all != 0 {
		m = allLanes
	}
	for _, at := range f.writes {
		x.varies[at] = x.varies[at]&^w.mask | m&w.mask
	}
}

// chooses reports whether an instruction only computes. A guard then decides which value its registers have, which is
// no use of the guard: compilers write selections so.
func (in *ins) chooses() bool {
	return in.src != nil && in.kind == plain && in.facts.rule <= either && len(in.facts.writes) > 0 && in.mem == nil &&
		in.flow == nil && in.copy == nil && !in.clock
}

// within are the registers that decide whether an instruction is executed, as far as that is no use of them.
func (f *facts) within() (list []int32) {
	if f.guard >= 0 {
		list = append(list, f.guard)
	}
	if f.under > 0 {
		list = append(list, f.under-1)
	}
	return list
}

// kept is for lanes whose registers stay what they are because of a guard, and depend on it now.
func (x *warpShadow) kept(registers []int32, guard int32, lanes uint32) {
	decides := x.held[guard]
	if decides == nil || lanes == 0 {
		return
	}
	for _, at := range registers {
		var now held
		for m := lanes; m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m)
			now[lane] = x.joined(x.held[at].of(lane), decides[lane])
		}
		x.assign([]int32{at}, lanes, &now)
	}
}

// armLimit is how many instructions the two ways of a branch may have that only choose values: a logarithm has one or
// two for infinities, a hyperbolic tangent some ten for each of two ranges.
const armLimit = 48

// choices finds branches whose two ways only compute before they meet again. They are selections, too.
func (p *Program) choices() {
	for i := range p.code {
		in := &p.code[i]
		if in.kind != branch || in.facts.guard < 0 {
			continue
		}
		straight, jump := p.arm(i+1, in.facts.guard), p.arm(in.target, in.facts.guard)
		met := slices.IndexFunc(straight, func(at int) bool { return slices.Contains(jump, at) })
		if met < 0 {
			continue
		}
		arms := [2][]int{straight[:met], jump[:slices.Index(jump, straight[met])]}
		for way, arm := range arms {
			in.facts.arms[way] = []int32{}
			for _, at := range arm {
				f := &p.code[at].facts
				in.facts.arms[way] = append(in.facts.arms[way], f.writes...)
				f.under = in.facts.guard + 1
			}
		}
	}
}

// arm lists the instructions from one on that only compute, jumps followed and left out, and the first one that does
// more. It may not change the guard that it depends on, nor depend on another branch.
func (p *Program) arm(from int, guard int32) (list []int) {
	for at, jumps := from, 0; at < len(p.code) && len(list) < armLimit && jumps < armLimit; at++ {
		in := &p.code[at]
		if in.kind == branch && in.facts.guard < 0 {
			at = in.target - 1
			jumps++
			continue
		}
		list = append(list, at)
		if !in.chooses() || in.facts.under != 0 || slices.Contains(in.facts.writes, guard) {
			break
		}
	}
	return list
}

// skipped is for lanes that do not execute an instruction because of its guard. They would with other arguments if the
// guard varies; what they would have stored counts as used.
func (x *warpShadow) skipped(in *ins, lanes uint32) {
	if f := &in.facts; f.rule == stores || f.rule == updates {
		for _, at := range f.reads {
			x.use(at, lanes&x.varies[f.guard])
		}
	}
}

// assign puts values into registers.
func (x *warpShadow) assign(registers []int32, mask uint32, values *held) {
	for _, at := range registers {
		h := x.held[at]
		if at < 0 || h == nil && *values == (held{}) {
			continue
		}
		if h == nil {
			h = &held{}
			x.held[at] = h
		}
		for m := mask; m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m)
			h[lane] = values[lane]
		}
	}
}

// computed is the result of an instruction that computes lane by lane.
func (x *warpShadow) computed(w *warp, in *ins) (result held) {
	f := &in.facts
	rule := f.rule
	if slices.ContainsFunc(f.writes, func(at int32) bool { return slices.Contains(f.reads, at) }) {
		rule = each // what decides is no longer there
	}
	var a, b, c *held
	if rule != each {
		p := w.cta.grid.prog
		a, b = x.held[p.position(in.a)], x.held[p.position(in.b)]
		if rule == selects {
			c = x.held[p.position(in.c)]
		}
	}
	for m := w.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		switch rule {
		case selects:
			chosen := b
			if w.p[in.c.index()]>>lane&1 != 0 {
				chosen = a
			}
			result[lane] = x.joined(chosen.of(lane), c.of(lane))
		case both, either:
			if alone := rule == either; a.of(lane) == nil && w.p[in.a.index()]>>lane&1 != 0 == alone ||
				b.of(lane) == nil && w.p[in.b.index()]>>lane&1 != 0 == alone {
				continue // an operand decides that is not followed
			}
			result[lane] = x.joined(a.of(lane), b.of(lane))
		default:
			for _, at := range f.reads {
				result[lane] = x.joined(result[lane], x.held[at].of(lane))
			}
		}
	}
	return result
}

// shuffled is the result of shfl. Which lane a value comes from is a use of what decides it.
func (x *warpShadow) shuffled(w *warp, in *ins) (result held) {
	p := w.cta.grid.prog
	from := x.held[p.position(in.a)]
	for _, at := range in.facts.reads {
		if at != p.position(in.a) {
			x.use(at, w.mask)
		}
	}
	lost := slices.Contains(in.facts.writes, p.position(in.b)) || slices.Contains(in.facts.writes, p.position(in.list[1]))
	if lost { // where values came from
		x.use(p.position(in.a), allLanes)
		return result
	}
	for m := w.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		source, ok := shuffleFrom(in.src.Mods[1], lane, w.get(in.b, lane), w.get(in.list[1], lane))
		if !ok {
			source = lane
		}
		result[lane] = from.of(source & 31)
	}
	return result
}

func (h *held) of(lane int) *loaded {
	if h == nil {
		return nil
	}
	return h[lane]
}

// joined is a value that was computed from two.
func (x *warpShadow) joined(a, b *loaded) *loaded {
	switch {
	case a == nil || a.used:
		return b
	case b == nil || b.used || a == b:
		return a
	}
	return x.block.racing.value(a, b)
}

// use says that the values of a register are used by lanes.
func (x *warpShadow) use(at int32, lanes uint32) {
	h := x.held[at]
	if h == nil {
		return
	}
	for m := lanes; m != 0; m &= m - 1 {
		if v := h[bits.TrailingZeros32(m)]; v != nil {
			x.block.racing.used(v)
		}
	}
}

// used reports the races of a value and of all that it was computed from.
func (r *blockRacing) used(v *loaded) {
	for open := []*loaded{v}; len(open) > 0; {
		v, open = open[len(open)-1], open[:len(open)-1]
		if v.used {
			continue
		}
		v.used = true
		for race := v.races; race != nil; race = race.next {
			if known := r.worker.pairs[race.pair]; known != nil {
				known.Count++
			} else {
				r.worker.pairs[race.pair] = race.finding(r)
				r.worker.following.confirmed(race.pair, r.worker.grid)
			}
		}
		for _, from := range []*loaded{v.a, v.b} {
			if from != nil && !from.used {
				open = append(open, from)
			}
		}
		v.a, v.b, v.races = nil, nil, nil
	}
}

// wait keeps a race until its value is used.
func (r *blockRacing) wait(v *loaded, w *warp, t *touch, x waitingRace) {
	fw := r.worker.following
	fw.live++
	r.made++
	x.block, x.number, x.warp, x.operands = w.cta.id, w.cta.number, w.index, w.operands(x.in, t.lane)
	x.space, x.lane, x.buffer, x.offset = t.space, t.lane, t.buffer, t.offset
	x.next = v.races
	if len(fw.races) == 0 {
		fw.races = make([]waitingRace, followedAtOnce)
	}
	v.races, fw.races = &fw.races[0], fw.races[1:]
	*v.races = x
}

// finding is the race as it is told. The block that it was seen in may have ended.
func (x *waitingRace) finding(r *blockRacing) *Finding {
	w := &warp{cta: &cta{grid: r.worker.grid, worker: r.owner, id: x.block, number: x.number}, index: x.warp}
	at := touch{space: x.space, lane: x.lane, buffer: x.buffer, offset: x.offset}
	f := w.raceWith(x.in, &at, x.verb, x.past, &x.old, x.why)
	f.Operands = x.operands
	return f
}

// keepRead enters a load of a word.
func (r *blockRacing) keepRead(w *warp, t *touch, word uint64, me former, v *loaded) {
	if t.space == sharedSpace {
		r.heard[word] = append(r.heard[word], followed{me, v})
		return
	}
	fw, key := r.worker.following, r.key(w, t, word)
	fw.reads[key] = append(fw.reads[key], followed{me, v})
	r.log, r.logOf = append(r.log, key), me.block
}

// followedReaders judges a write that changes a word by the loads of it that are followed. Of those that are ordered
// before it, a strong write keeps what others may still race with.
func (r *blockRacing) followedReaders(x *accessing) {
	fw, word := r.worker.following, x.t.offset/4+uint64(x.word)
	key, list := wordKey{}, []followed(nil)
	if x.t.space == sharedSpace {
		list = r.heard[word]
	} else {
		key = r.key(x.w, x.t, word)
		list = fw.reads[key]
	}
	kept := list[:0]
	for i := range list {
		old := &list[i]
		if r.clash(x, &old.former) && !guess(x.in, r.worker.grid.prog.marked(old.mark)) &&
			!r.before(x.w, x.t.lane, &old.former, x.me.bytes()) {
			r.between(x, "writes", "read", &old.former, old.value)
		}
		if x.me.strong() {
			kept = append(kept, *old)
		}
	}
	clear(list[len(kept):])
	switch {
	case x.t.space == sharedSpace:
		r.heard[word] = kept
	case len(kept) == 0:
		delete(fw.reads, key)
	default:
		fw.reads[key] = kept
	}
}

// forgetFollowed drops the loads of a block that has ended: values that it did not use are used by nobody.
func (r *blockRacing) forgetFollowed() {
	fw := r.worker.following
	if fw == nil {
		return
	}
	for _, key := range r.log {
		list := slices.DeleteFunc(fw.reads[key], func(f followed) bool { return f.block == r.logOf && !f.value.used })
		if len(list) == 0 {
			delete(fw.reads, key)
		} else {
			fw.reads[key] = list
		}
	}
	for i := range r.heard {
		clear(r.heard[i])
		r.heard[i] = r.heard[i][:0]
	}
	fw.live -= r.made
	r.log, r.made = r.log[:0], 0
}
