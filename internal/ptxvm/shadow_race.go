package ptxvm

import (
	"bytes"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync"
)

// This file implements the check for races: accesses of different threads to the same bytes, at least one of them a
// write and not both of them strong for each other, that no synchronization orders.
//
// Of each word of memory there are its last writer, and two readers since (see page). Stamps say when an
// access happened, and shadow_order.go which stamps each thread is ordered after. A race may be missed where more
// threads access a word than are remembered, but none is invented. Stores that do not change memory are silent:
// compilers let several threads store the same value.

// racing is the state of a worker.
type racing struct {
	grid  *grid
	stamp uint32
	runs  []turn
	pages [][]page              // by buffer; zero where nobody has accessed anything
	spare *markColumn           // what is entered when the budget is used up, until the worker stops
	pairs map[[2]int32]*Finding // by the instructions that race, the lower one first

	released map[wordKey]*released // of buffers
	blind    map[wordKey]bool      // words of which strong reads were forgotten: see observed
	widths   uint32                // sizes of elements that something was published with
	clocks   int                   // that were made
	coarse   *clock                // the last one where there were too many

	again struct { // the race that was seen last: a kernel that has one has it in many lanes, one after the other
		pair  [2]int32
		known *Finding
	}

	overflows []overflow // to be taken

	suspects  suspects   // memory in which loads race
	following *following // nil where nobody asks whether loads that race are used

	merged []*racing // those of other workers
}

// freeColumns are columns of launches that have ended, empty again. A launch on a few megabytes needs several times as
// much for its states, and memory that comes fresh from the system costs more than all that is done with it.
var freeColumns = sync.Pool{New: func() any { return new(markColumn) }}

// release gives the states of a launch back.
func (r *racing) release() {
	for _, pages := range r.pages {
		for i := range pages {
			for _, c := range [...]*markColumn{pages[i].writer, pages[i].reader, pages[i].other} {
				if c != nil && c != &noMarks && c != r.spare {
					clear(c[:])
					freeColumns.Put(c)
				}
			}
		}
	}
	r.pages = nil
}

// raceBytes is the memory of the states of a block's shared memory.
func raceBytes(shared int64) int64 {
	return (shared + 4*pageWords - 1) / (4 * pageWords) * columns * columnBytes
}

// blockRacing is the state of a block.
type blockRacing struct {
	worker *racing
	owner  *worker
	block  uint32 // number + 1
	began  uint32 // its first stamp
	shared []page

	rows     [][]uint32 // rows[x][y]: up to which stamp warp x has warp y behind it; several warps share one
	none     []uint32   // the row of a warp that knows nothing
	spare    [][]uint32 // rows that were made, to be used again
	pinned   bool       // clocks may have some of them
	safe     []uint32   // up to which stamp a warp has the whole block behind it, its own lanes among them
	lanes    []*laneOrder
	released map[wordKey]*released // of shared memory
	tracked  uint32                // warps that have accessed something
	recent   uint32                // those that have since all their lanes met
	partial  bool                  // threads may be ordered with some others and not with all: see overflow
	gone     []uint32              // lanes of a warp that have ended, and all others have behind them

	repeats repeats
	probe   touch // of racyReads and racyWrites

	heard [][]followed // loads of words of shared memory that are followed
	log   []wordKey    // words of buffers that the block has loaded and that are followed
	logOf uint32       // the block, as in former
	made  int          // of following.live
}

func newRacing(g *grid) racing {
	r := racing{grid: g, pairs: map[[2]int32]*Finding{}, released: map[wordKey]*released{}, blind: map[wordKey]bool{}}
	if g.follows != nil {
		r.following = &following{suspects: g.follows, reads: map[wordKey][]followed{}}
	}
	if !g.checks.has(CheckRace) {
		return r
	}
	r.pages = make([][]page, len(g.memory.buffers))
	for i, b := range g.memory.buffers {
		r.pages[i] = make([]page, (len(b.data)/4+pageWords)/pageWords)
	}
	return r
}

func newBlockRacing(b *blockShadow) blockRacing {
	r := blockRacing{worker: &b.worker.racing, owner: b.cta.worker}
	if !b.worker.race {
		return r
	}
	n := len(b.cta.warps)
	words := (len(b.cta.shared) + 3) / 4
	r.shared, r.released = make([]page, (words+pageWords-1)/pageWords), map[wordKey]*released{}
	for i := range r.shared {
		r.shared[i] = page{writer: new(markColumn), reader: new(markColumn), other: new(markColumn)}
	}
	r.rows, r.safe, r.lanes = make([][]uint32, n), make([]uint32, n), make([]*laneOrder, n)
	r.none, r.gone = make([]uint32, n), make([]uint32, n)
	if b.worker.racing.following != nil {
		r.heard = make([][]followed, words)
	}
	p := b.cta.grid.prog
	r.partial = p.partial || p.someWait(b.cta.grid.threads)
	if n > 1 && !p.copies && !p.products && !r.partial {
		r.repeats.entries = make([]repeat, repeatCount)
	}
	return r
}

func (r *blockRacing) reset(b *blockShadow) {
	if !b.worker.race {
		return
	}
	words := (len(b.cta.shared) + 3) / 4
	for i := range r.shared {
		p, n := &r.shared[i], min(words-i*pageWords, pageWords)
		clear(p.writer[:n])
		clear(p.reader[:n])
		clear(p.other[:n])
		p.disperse(n)
	}
	r.forgetReads()
	r.forgetFollowed()
	clear(r.lanes)
	clear(r.gone)
	clear(r.released)
	r.tracked, r.recent, r.pinned = 0, 0, false
	r.block = uint32(b.cta.number) + 1
	r.turn(r.block)
	r.began = r.worker.stamp
	for i := range r.rows {
		r.rows[i] = r.none
	}
	for i := range r.rows {
		r.refresh(i)
	}
}

// settle looks whether accesses have changed memory, while nobody else can.
func (x *warpShadow) settle() {
	for i := range x.touches {
		if t := &x.touches[i]; t.write {
			n := min(len(t.data), len(t.old))
			t.settled, t.changed = true, len(t.data) > n || !bytes.Equal(t.data[:n], t.old[:n])
		}
	}
}

// cell is the state of a word of an access.
func (r *blockRacing) cell(t *touch, word uint64) cell {
	if t.space == sharedSpace {
		return cell{&r.shared[word/pageWords], uint32(word % pageWords)}
	}
	return cell{r.page(t.buffer.index, word), uint32(word % pageWords)}
}

// page has the states of a word of a buffer and its neighbors.
func (r *blockRacing) page(buffer int, word uint64) *page {
	p := &r.worker.pages[buffer][word/pageWords]
	if p.writer == nil {
		*p = page{writer: &noMarks, reader: &noMarks, other: &noMarks}
	}
	return p
}

// set enters a mark into a column of a page.
func (r *blockRacing) set(into **markColumn, at uint32, m mark) {
	if *into == &noMarks {
		if m == 0 {
			return
		}
		*into = r.column()
	}
	(*into)[at%pageWords] = m
}

func (r *blockRacing) setWriter(c cell, m mark) { r.set(&c.page.writer, c.at, m) }
func (r *blockRacing) setReader(c cell, m mark) { r.set(&c.page.reader, c.at, m) }
func (r *blockRacing) setOther(c cell, m mark)  { r.set(&c.page.other, c.at, m) }

// forget drops the reads of a word.
func (r *blockRacing) forget(c cell) {
	if c.reader() != 0 {
		c.page.reader[c.at%pageWords] = 0
	}
	if c.other() != 0 {
		c.page.other[c.at%pageWords] = 0
	}
	if x := c.overflow(); x != nil {
		*x = overflow{}
	}
}

// column makes a column.
func (r *blockRacing) column() *markColumn {
	if r.worker.grid.reserve(columnBytes, forChecks) {
		return freeColumns.Get().(*markColumn)
	}
	if r.worker.spare == nil {
		r.worker.spare = new(markColumn)
	}
	return r.worker.spare
}

// accessing is an access to a word while it is judged.
type accessing struct {
	w       *warp
	in      *ins
	t       *touch
	word    int // of those of the access
	me      mark
	changed bool
}

// touch judges an access. Local memory and parameters are nobody else's.
func (r *blockRacing) touch(w *warp, in *ins, t *touch) {
	if t.space == localSpace || t.space == paramSpace || t.buffer != nil && (t.buffer.readOnly || t.buffer.unwritten) {
		return
	}
	f, strong := &in.facts, in.facts.strong && !t.copied
	if strong {
		r.after(in, t)
		r.elements(w, in, t, r.receive)
	}
	me := newMark(r.worker.stamp, w.index, in)
	if strong {
		me |= strongMark
	}
	r.mark(w)
	if s := w.shadow; r.worker.following != nil && s.passed && f.rule == loads && r.worker.following.has(t) {
		return
	}
	x, changed := accessing{w: w, in: in, t: t}, false
	done, at := 0, int(t.offset%4)
	if t.space == sharedSpace {
		r.settleReads()
	}
	for i := range (at + len(t.data) + 3) / 4 {
		n, c := min(4-at, len(t.data)-done), r.cell(t, t.offset/4+uint64(i))
		x.word, x.me = i, me.by(t.lane, (1<<n-1)<<at)
		if t.write && !f.order.waits {
			now := t.data[done : done+n]
			x.changed = t.changed || !t.settled && (done >= len(t.old) || !bytes.Equal(now, t.old[done:done+n]))
			changed = changed || x.changed
			if x.changed && r.worker.following != nil {
				r.followedReaders(&x)
			}
			if x.changed && !strong {
				r.unpublish(w, t, 4*(t.offset/4+uint64(i))+uint64(at), n)
			}
			r.write(&x, c)
		} else {
			r.read(&x, c)
		}
		at, done = 0, done+n
	}
	if failed := !changed && in.src.Has("cas"); t.write && strong && !f.order.waits && !failed {
		r.elements(w, in, t, r.publish)
	}
}

// clash reports whether two accesses concern the same bytes and are not both strong for each other.
func (r *blockRacing) clash(x *accessing, old *former) bool {
	if old.bytes()&x.me.bytes() == 0 {
		return false
	}
	if !old.strong() || !x.me.strong() {
		return true
	}
	p := r.worker.grid.prog
	there := p.marked(old.mark)
	if there == nil {
		return false
	}
	narrow := there.facts.order.narrow || x.in.facts.order.narrow
	return old.block != r.block && narrow || there.size() != x.in.size()
}

// guess reports whether one of two accesses is atom.cas and the other one the plain load whose value it verifies: the
// CUDA C++ Programming Guide builds other atomic functions this way.
func guess(x, y *ins) bool {
	return x != nil && y != nil && (x.facts.guess && y.src.Has("cas") || y.facts.guess && x.src.Has("cas"))
}

// judge reports a race of an access with a former one, if they race, and returns the finding that counts it; nil where
// it is not kept, or not yet.
func (r *blockRacing) judge(x *accessing, c cell, m mark, verb, past string, value *loaded) *Finding {
	if m == 0 {
		return nil
	}
	old := r.former(m, x.t.space == sharedSpace)
	old.lanes = c.lanes(m)
	if !r.clash(x, &old) || r.before(x.w, x.t.lane, &old, x.me.bytes()) ||
		verb == "reads" && x.me.strong() && r.seen(x.w, x.t.lane, &old) || r.observed(x, c, m) {
		return nil
	}
	p := r.worker.grid.prog
	if past == "read" && old.strong() && p.writes(old.mark) {
		past = "written"
	}
	there := p.marked(m)
	if guess(x.in, there) || verb == "reads" && past == "read" ||
		verb == "writes" && past == "written" && old.block == r.block && r.replica(x, m) {
		return nil
	}
	return r.between(x, verb, past, &old, value)
}

// replica reports whether a mark of this block is the same store by a thread that holds the same element, so that only
// rounding makes the values differ.
func (r *blockRacing) replica(x *accessing, m mark) bool {
	p := r.worker.grid.prog
	if there := p.marked(m); there != x.in || m.strong() || x.in.mem == nil {
		return false
	}
	lane := m.lane()
	if m.warp() == x.w.index {
		lane, _ = m.otherLane(x.t.lane, m.bytes(), x.in.mem.size)
	}
	return p.replicas(x.in, r.worker.grid.launch.Block, threadOf(m.warp(), lane), threadOf(x.w.index, x.t.lane)) ||
		m.warp() != x.w.index && r.leavesAlone(x)
}

// leavesAlone reports whether an instruction of a whole warp leaves the bytes of an access as they were before it.
// Warps that compute the same from the same data do, whatever their lanes write one after another.
func (r *blockRacing) leavesAlone(x *accessing) bool {
	touches := x.w.shadow.touches
	i := slices.IndexFunc(touches, func(t touch) bool {
		return t.offset == x.t.offset && t.buffer == x.t.buffer && t.space == x.t.space && len(t.data) == len(x.t.data)
	})
	if i < 0 {
		return false // what an asynchronous copy has written
	}
	t := &touches[i] // the first lane has what was there before
	return len(t.data) <= len(t.old) && bytes.Equal(t.data, t.old[:len(t.data)])
}

func (r *blockRacing) write(x *accessing, c cell) {
	together := c.writer()&turnMask == x.me&turnMask && c.writer().instr() == x.me.instr() && !x.me.strong() &&
		x.in.facts.rule == stores && (x.t.space == sharedSpace || r.mine(c.writer().stamp()))
	switch {
	case !x.changed:
	case together:
		other, is := c.writer().otherLane(x.t.lane, x.me.bytes(), x.in.mem.size)
		if is && c.writer().bytes()&x.me.bytes() != 0 && !r.replica(x, c.writer()) {
			r.report(x.w, x.in, x.t, [2]int32{-1, x.in.index},
				"lanes %d and %d of a warp write different values to %s in one instruction", other, x.t.lane)
		}
	default:
		r.judge(x, c, c.writer(), "writes", "written", nil)
	}
	if x.changed {
		r.judge(x, c, c.reader(), "writes", "read", nil)
		r.judge(x, c, c.other(), "writes", "read", nil)
		r.judgeOverflow(x, c)
	}
	old := r.former(c.writer(), x.t.space == sharedSpace)
	switch {
	case x.me.strong():
		r.enterStrong(x, c, &old)
	case x.changed || r.before(x.w, x.t.lane, &old, x.me.bytes()):
		r.setWriter(c, c.writer().written(x.me, x.in.size()))
		if x.changed {
			r.forget(c)
		}
	}
}

// size is how many bytes an instruction accesses as one element; 0 for one that is no access. An operation on a packed
// type is a pair of operations on its elements (PTX ISA, "Packed Data-types").
func (in *ins) size() int {
	switch {
	case in.copy != nil && in.copy.reduce != nil:
		return in.copy.reduce.size
	case in.mem == nil:
		return 0
	case in.facts.packed:
		return in.mem.size / 2
	}
	return in.mem.size
}

// enterStrong enters a strong write. It replaces a strong writer, and a weak one that everybody who can reach the word
// has behind it; else it stands beside it. What a store replaces, or what replaces a store, is kept though it is
// ordered, unless somebody has seen it: who has observed the one has not observed the other.
func (r *blockRacing) enterStrong(x *accessing, c cell, old *former) {
	p := r.worker.grid.prog
	switch {
	case c.writer() == 0, x.t.space == sharedSpace && c.writer().stamp() <= slices.Min(r.safe):
		r.setWriter(c, x.me)
	case old.strong():
		kept := (x.in.facts.rule == stores || p.stores(old.mark)) && !c.seen(p, old.mark)
		if kept || !r.before(x.w, x.t.lane, old, x.me.bytes()) {
			r.enter(x.w, c, c.writer(), x.in.size(), x.t.space == sharedSpace)
		}
		r.setWriter(c, x.me)
	default:
		r.enter(x.w, c, x.me, x.in.size(), x.t.space == sharedSpace)
	}
}

func (r *blockRacing) read(x *accessing, c cell) {
	var value *loaded
	if r.worker.following != nil && x.in.facts.rule == loads {
		value = x.w.shadow.now[x.t.lane]
	}
	r.judge(x, c, c.writer(), "reads", "written", value)
	r.judgeStrong(x, c, value)
	if value != nil {
		r.keepRead(x.w, x.t, x.t.offset/4+uint64(x.word), former{mark: x.me, block: r.block}, value)
		if !x.me.strong() {
			return
		}
	}
	if x.me.strong() && r.forgets(x, c) {
		r.worker.blind[r.key(x.w, x.t, x.t.offset/4+uint64(x.word))] = true
	}
	r.enter(x.w, c, x.me, x.in.size(), x.t.space == sharedSpace)
}

// judgeStrong judges a read beside strong accesses, which may have written.
func (r *blockRacing) judgeStrong(x *accessing, c cell, value *loaded) {
	for _, m := range []mark{c.reader(), c.other()} {
		if m.strong() {
			r.judge(x, c, m, "reads", "read", value)
		}
	}
	if overflow := c.overflow(); overflow != nil {
		for _, m := range overflow.marks {
			if m.strong() {
				r.judge(x, c, m, "reads", "read", value)
			}
		}
	}
}

// enter makes an access one of the two that a cell remembers beside its writer, or moves one of them to its overflow.
// Size is that of the access of a lane.
func (r *blockRacing) enter(w *warp, c cell, me mark, size int, shared bool) {
	if c.reader() == 0 {
		r.setReader(c, me)
		return
	}
	p := w.cta.grid.prog
	if merged, ok := c.reader().with(me, size); ok {
		if p.parts {
			r.joinLanes(c, c.reader(), merged, me, 0)
		}
		r.setReader(c, merged)
		return
	}
	switch {
	case c.other().has(me):
		if p.parts {
			r.joinLanes(c, c.other(), c.other(), me, 1)
		}
	case r.again(me, c.reader(), shared):
		r.setReader(c, me)
	case r.again(me, c.other(), shared):
		r.setOther(c, me)
	case r.passed(w, c.reader(), shared):
		r.replaceReader(c, me, false)
	case (r.partial || p.signals(me)) && r.enterOverflow(w, c, me, shared):
	case c.other() == 0 || c.other()&turnMask == me&turnMask || r.passed(w, c.other(), shared):
		r.replaceReader(c, me, true)
	}
}

// again reports whether a strong load or store is a later one of the same thread.
func (r *blockRacing) again(me, old mark, shared bool) bool {
	const place = strongMark | shapeMask | bytesMask | 31<<laneAt | 31<<warpAt
	p := r.worker.grid.prog
	return me.strong() && (me^old)&place == 0 && me.shape() == oneLane && p.stores(me) == p.stores(old) &&
		p.writes(me) == p.writes(old) && p.signals(me) && (shared || r.mine(old.stamp()) && r.mine(me.stamp()))
}

// passed reports whether an access is ordered before all that the lanes of a warp do now.
func (r *blockRacing) passed(w *warp, m mark, shared bool) bool {
	if shared || r.mine(m.stamp()) {
		return m.stamp() <= r.safe[w.index]
	}
	if len(r.worker.released) == 0 {
		return false
	}
	old, x := r.former(m, shared), r.lanes[w.index]
	return x != nil && x.acquired[bits.TrailingZeros32(w.mask)].knows(&old)
}

// between reports a race with a former access. Where the value of the load among the two is followed, the report waits
// until it is used. It returns the finding that counts the race; nil where it is not kept, or not yet.
func (r *blockRacing) between(x *accessing, verb, past string, old *former, value *loaded) *Finding {
	w, in, t := x.w, x.in, x.t
	if (verb == "reads") != (past == "read") && r.programOrder(x, verb, old) {
		return nil
	}
	g := w.cta.grid
	if g.apart && old.block != r.block {
		g.wrong.Store(true)
		return nil
	}
	there := g.prog.marked(old.mark)
	if read := in; verb == "reads" || past == "read" {
		if past == "read" {
			read = there
		}
		if read != nil && read.facts.rule == loads {
			r.worker.suspects.add(t, len(g.memory.buffers))
		}
	}
	pair := [2]int32{-1, in.index} // the two sides of a race are one finding
	if there != nil {
		pair = [2]int32{min(in.index, there.index), max(in.index, there.index)}
	}
	if again := &r.worker.again; again.known != nil && again.pair == pair {
		again.known.Count++
		return again.known
	}
	if known := r.worker.pairs[pair]; known != nil {
		known.Count++
		r.worker.again.pair, r.worker.again.known = pair, known
		return known
	}
	if len(r.worker.pairs) >= maxOfClass {
		return nil
	}
	why := r.unsynchronized(w, t.lane, old)
	if value != nil && !value.used {
		r.wait(value, w, t, waitingRace{pair: pair, verb: verb, past: past, in: in, old: *old, why: why})
		return nil
	}
	f := w.raceWith(in, t, verb, past, old, why)
	f.Operands = w.operands(in, t.lane)
	r.worker.pairs[pair] = f
	if r.worker.following != nil {
		r.worker.following.confirmed(pair, g)
	}
	return f
}

// seen reports whether a lane has read, by relaxed accesses, what was published after an access. That orders strong
// reads well enough: the CUDA C++ Programming Guide reads partial results of other blocks so, through volatile pointers
// and without a fence of the reader.
func (r *blockRacing) seen(w *warp, lane int, old *former) bool {
	x := r.lanes[w.index]
	return x != nil && (x.pending[lane][0].knows(old) || x.pending[lane][1].knows(old))
}

// unsynchronized says why nothing orders two accesses, and what would.
func (r *blockRacing) unsynchronized(w *warp, lane int, old *former) string {
	switch {
	case r.seen(w, lane, old):
		return "the flag or counter that tells of it was read by a relaxed access, with no fence after it: " +
			"add __threadfence(), or read it with acquire"
	case old.block == r.block && old.warp() == w.index:
		return "lanes of a warp do not run in lockstep: add __syncwarp() between the two"
	case old.block == r.block:
		return "no barrier between these warps: add __syncthreads() between the two"
	}
	return "blocks are ordered by release and acquire at gpu scope alone, such as __threadfence() before a flag is set " +
		"and after it is read"
}

// raceWith makes the finding about a race with a former access, without the values of registers.
func (w *warp) raceWith(in *ins, t *touch, verb, past string, old *former, why string) *Finding {
	g := w.cta.grid
	id := int(old.block) - 1
	size := g.launch.Grid
	other := &warp{cta: w.cta, index: old.warp()}
	lane := old.lane()
	if id == w.cta.number && old.warp() == w.index {
		lane, _ = old.otherLane(t.lane, old.bytes(), g.prog.unit(old.mark))
	}
	former := &Access{Write: past == "written", Thread: other.thread(lane),
		Block: Dim{id % size.X, id / size.X % size.Y, id / (size.X * size.Y)}}
	at := ""
	if there := g.prog.marked(old.mark); there != nil {
		former.Instr = there.src
		former.PTX, former.Source = g.prog.place(there.src)
		at = " at " + g.prog.spot(there)
	}
	f := w.raceAt(in, t, "%s what thread %s of block %s has %s%s, with no synchronization between the two: %s", verb,
		former.Thread, former.Block, past, at)
	f.Message += "; " + why
	f.Former = former
	return f
}

// lastWriter is the instruction that wrote a byte of a buffer last, or the byte nearest to it that was written; nil
// where nobody wrote the buffer, or nobody looked.
func (r *racing) lastWriter(p *Program, b *buffer, offset int) *ins {
	if r.pages == nil {
		return nil
	}
	at := func(word int) (in *ins) {
		if word < 0 || 4*word >= len(b.data) {
			return nil
		}
		block := uint32(0)
		for _, x := range append(r.merged, r) { // the last block comes last where they run one after the other
			page := x.pages[b.index][word/pageWords]
			if page.writer == nil || page.writer[word%pageWords] == 0 {
				continue
			}
			last := page.writer[word%pageWords]
			if its := x.blockOf(last.stamp()); its > block {
				in, block = p.marked(last), its
			}
		}
		return in
	}
	for away := range len(b.data)/4 + 1 {
		for _, word := range []int{offset/4 - away, offset/4 + away} {
			if in := at(word); in != nil {
				return in
			}
		}
	}
	return nil
}

// report adds a finding, or counts it. It returns nil for one that is known.
func (r *blockRacing) report(w *warp, in *ins, t *touch, pair [2]int32, format string, args ...any) *Finding {
	if known := r.worker.pairs[pair]; known != nil {
		known.Count++
		return nil
	}
	f := w.raceAt(in, t, format, args...)
	f.Operands = w.operands(in, t.lane)
	r.worker.pairs[pair] = f
	return f
}

// raceAt makes a finding; the last operand of its text is the memory.
func (w *warp) raceAt(in *ins, t *touch, format string, args ...any) *Finding {
	name, at := "shared memory", t.offset
	if t.buffer != nil {
		name, at = t.buffer.name, t.buffer.base+t.offset
	}
	f := w.unread(in, t.lane, Race, format, append(args, fmt.Sprintf("byte %d of %s", t.offset, name))...)
	f.Address, f.Buffer = at, name
	return f
}

// merge adds the races that another worker has found: the one in the lower block stays.
func (r *racing) merge(other *racing) {
	r.merged = append(r.merged, other)
	for pair, f := range other.pairs {
		known := r.pairs[pair]
		if known == nil {
			r.pairs[pair] = f
			continue
		}
		count := known.Count + f.Count
		if f.block < known.block {
			*known = *f
		}
		known.Count = count
	}
}

// races adds the races to the other findings. Of several with one instruction the first stands for all.
func (w *worker) races() {
	if w.shadow == nil {
		return
	}
	if fw := w.shadow.racing.following; fw != nil { // which does not follow all that the first execution has seen
		for pair, f := range w.shadow.racing.pairs {
			f.Count = max(f.Count, fw.counts[pair])
		}
	}
	list := slices.Collect(maps.Values(w.shadow.racing.pairs))
	slices.SortFunc(list, byOrder)
	for _, f := range list {
		key := findingKey{class: Race, in: f.Instr}
		if known := w.findings.index[key]; known != nil {
			known.Count += f.Count
		} else {
			w.findings.add(key, f)
		}
	}
}
