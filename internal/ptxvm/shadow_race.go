package ptxvm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// This file implements the check for races: accesses of different warps to the same bytes, at least one of them a
// write, that no barrier and no atomic operation orders.
//
// Each word of memory has a state of constant size: its last writer, and its readers since. One clock per launch,
// which barriers and atomic operations advance, stamps accesses. A warp knows up to which stamp the accesses of the
// other warps of its block, and of other blocks, came before its own. What is published with an atomic operation is one
// stamp: accesses of all blocks before it count as published, so a race may be missed, but none is invented. Of several
// readers in different barrier intervals the latest count. Stores that leave memory as it is are silent. Lanes of a
// warp race where they went different ways and did not meet.

// cell is the state of a word, 4 bytes. It fills a line of a cache.
type cell struct {
	writer, reader former
	foreign        foreign
	readers        uint32 // warps of the reader's block
	released       uint32 // stamp up to which accesses were published with atomic operations on the word
}

// foreign is the latest reader of a block that is not the reader's: a former access without its step.
type foreign struct {
	stamp uint32
	block uint32
	in    int32
	warp  uint8
	lane  uint8
	kind  uint8 // bytes, and flags above them

	plain bool // of the word: there was an access that is not atomic for everybody
}

func (f *foreign) former() former {
	return former{stamp: f.stamp, block: f.block, in: f.in, warp: f.warp, lane: f.lane, bytes: f.kind & 15,
		flags: f.kind >> 4}
}

// former is a former access.
type former struct {
	stamp uint32
	block uint32 // number + 1; 0 for none
	step  uint32 // of the warp: tells instructions apart
	in    int32  // index of the instruction
	warp  uint8
	lane  uint8
	bytes uint8 // of the word, one bit each
	flags uint8
}

const (
	strongAccess   = 1 << iota // atomic, or one that others may wait for
	swapAccess                 // atom.cas
	narrowAccess               // atomic for its own block only
	plainForBlocks             // atomic, but after a plain write that was not published for other blocks
	plainForWarps              // the same for other warps of the block
)

// racing is the state of a worker.
type racing struct {
	grid  *grid
	clock uint32
	pages [][]*page             // by buffer
	spare *page                 // what is entered when the budget is used up, until the worker stops
	pairs map[[2]int32]*Finding // by the instructions that race, the lower one first

	again struct { // the race that was seen last: a kernel that has one has it in many lanes, one after the other
		pair  [2]int32
		known *Finding
	}

	suspects  suspects   // memory in which loads race
	following *following // nil where nobody asks whether loads that race are used

	merged []*racing // those of other workers
}

// pageWords is how many words share a page of states. Pages come into being when memory is touched.
const pageWords = 1024

type page [pageWords]cell

// freePages are pages of launches that have ended, empty again. A launch on a few megabytes needs many times as much
// for its states, and memory that comes fresh from the system costs more than all that is done with it.
var freePages = sync.Pool{New: func() any { return new(page) }}

// release gives the pages of a launch back.
func (r *racing) release() {
	for _, pages := range r.pages {
		for _, p := range pages {
			if p != nil {
				clear(p[:])
				freePages.Put(p)
			}
		}
	}
	r.pages = nil
}

// stateBytes is the size of a cell.
const stateBytes = 64

// raceBytes is the memory of the states of a block's shared memory.
func raceBytes(shared int64) int64 { return (shared + 3) / 4 * stateBytes }

// blockRacing is the state of a block.
type blockRacing struct {
	worker *racing
	owner  *worker
	shared []cell
	known  [][]uint32 // known[x][y]: up to which stamp warp x has accesses of warp y behind it
	floor  []uint32   // floor[x]: up to which stamp warp x has accesses of all other warps behind it
	others uint32     // the same for all other blocks
	fences []fences   // by warp
	joined []uint32   // what warps at a barrier know together

	repeats repeats

	log   []wordKey // words that the block has loaded and that are followed
	logOf uint32    // the block, as in former
	made  int       // of following.live
}

func newRacing(g *grid) racing {
	r := racing{grid: g, clock: 1, pairs: map[[2]int32]*Finding{}}
	if g.follows != nil {
		r.following = &following{suspects: g.follows, reads: map[wordKey][]followed{}}
	}
	if !g.checks.has(CheckRace) {
		return r
	}
	r.pages = make([][]*page, len(g.memory.buffers))
	for i, b := range g.memory.buffers {
		r.pages[i] = make([]*page, (len(b.data)/4+pageWords)/pageWords)
	}
	return r
}

func newBlockRacing(b *blockShadow) blockRacing {
	r := blockRacing{worker: &b.worker.racing, owner: b.cta.worker}
	if !b.worker.race {
		return r
	}
	r.shared, r.joined = make([]cell, (len(b.cta.shared)+3)/4), make([]uint32, len(b.cta.warps))
	r.fences = make([]fences, len(b.cta.warps))
	r.floor = make([]uint32, len(b.cta.warps))
	if p := b.cta.grid.prog; len(b.cta.warps) > 1 && !p.copies && !p.products {
		r.repeats.entries = make([]repeat, repeatCount)
	}
	for range b.cta.warps {
		r.known = append(r.known, make([]uint32, len(b.cta.warps)))
	}
	return r
}

func (r *blockRacing) reset(b *blockShadow) {
	if !b.worker.race {
		return
	}
	clear(r.shared)
	r.forgetReads()
	r.forgetFollowed()
	r.others = 0
	clear(r.fences)
	for _, k := range r.known {
		clear(k)
	}
	clear(r.floor)
}

// learned brings the floor of a warp up to what it knows.
func (r *blockRacing) learned(warp int) {
	least := ^uint32(0)
	for i, stamp := range r.known[warp] {
		if i != warp {
			least = min(least, stamp)
		}
	}
	r.floor[warp] = least
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

// cells are the states of the words of an access.
func (r *blockRacing) cells(t *touch) []cell {
	first, n := t.offset/4, (t.offset%4+uint64(len(t.data))+3)/4
	if t.space == sharedSpace {
		r.settleReads()
		return r.shared[first:][:n]
	}
	return r.page(t.buffer.index, first)[first%pageWords:][:n]
}

// page has the states of a word of a buffer and its neighbours.
func (r *blockRacing) page(buffer int, word uint64) *page {
	pages := r.worker.pages[buffer]
	p := pages[word/pageWords]
	if p == nil {
		if !r.worker.grid.reserve(pageWords*stateBytes, forChecks) {
			if r.worker.spare == nil {
				r.worker.spare = new(page)
			}
			return r.worker.spare
		}
		p = freePages.Get().(*page)
		pages[word/pageWords] = p
	}
	return p
}

// touch judges an access. Local memory and parameters are nobody else's.
func (r *blockRacing) touch(w *warp, in *ins, t *touch) {
	if t.space == localSpace || t.space == paramSpace || t.buffer != nil && (t.buffer.readOnly || t.buffer.unwritten) {
		return
	}
	done, at := 0, int(t.offset%4)
	cells := r.cells(t)
	if !t.write && len(cells) == 1 && r.worker.following == nil && r.again(w, &cells[0], (1<<len(t.data)-1)<<at) {
		return
	}
	for i := range cells {
		c := &cells[i]
		n := min(4-at, len(t.data)-done)
		me := former{stamp: r.worker.clock, block: uint32(w.cta.number) + 1, step: uint32(w.steps), in: in.index,
			warp: uint8(w.index), lane: uint8(t.lane), bytes: (1<<n - 1) << at}
		if in.facts.strong {
			me.flags = strongAccess
			if in.src.Has("cas") {
				me.flags |= swapAccess
			}
			if in.facts.order.narrow {
				me.flags |= narrowAccess
			}
			r.acquire(w, in, t, c)
		}
		c.foreign.plain = c.foreign.plain || !in.facts.strong || in.facts.order.narrow
		if t.write {
			now := t.data[done : done+n]
			changed := t.changed || !t.settled && (done >= len(t.old) || !bytes.Equal(now, t.old[done:done+n]))
			if changed && r.worker.following != nil {
				r.followedReaders(w, in, t, r.key(w, t, t.offset/4+uint64(i)), &me)
			}
			r.write(w, in, t, c, &me, changed)
		} else {
			r.read(w, in, t, c, &me, i)
		}
		if in.facts.strong && t.write {
			to := everyBlock
			if t.space == sharedSpace {
				to = ownBlock
			}
			c.released = max(c.released, r.published(w, in, to))
			r.worker.clock++
		}
		at, done = 0, done+n
	}
}

// again reports whether a read of a word that nobody has written is one more of a reader that is known.
func (r *blockRacing) again(w *warp, c *cell, bytes uint8) bool {
	old := &c.reader
	return c.writer.block == 0 && old.block == uint32(w.cta.number)+1 && old.stamp == r.worker.clock &&
		old.bytes == bytes && old.flags == 0 && c.readers>>w.index&1 != 0
}

// before reports whether a former access is ordered before one of a warp now.
func (r *blockRacing) before(w *warp, a *former) bool {
	switch {
	case a.block == 0:
		return true
	case a.block != uint32(w.cta.number)+1:
		return a.stamp <= r.others
	case int(a.warp) == w.index:
		return !w.parted(int(a.lane), a.step)
	}
	return a.stamp <= r.known[w.index][a.warp]
}

// guess reports whether a read and a write are a plain load and atom.cas: what was loaded is a guess that the
// instruction verifies, as the CUDA C++ Programming Guide does it for atomic functions of one's own.
func guess(read, write *former) bool {
	return read.flags&strongAccess == 0 && write.flags&swapAccess != 0
}

func (r *blockRacing) write(w *warp, in *ins, t *touch, c *cell, me *former, changed bool) {
	old := &c.writer
	together := old.block == me.block && old.warp == me.warp && old.step == me.step && old.lane != me.lane
	switch {
	case !changed || !clash(old, me):
	case together && in.facts.rule == stores:
		r.report(w, in, t, [2]int32{-1, in.index},
			"lanes %d and %d of a warp write different values to %s in one instruction", old.lane, me.lane)
	case !r.before(w, old):
		r.between(w, in, t, "writes", "written", old, nil)
	}
	if changed && clash(&c.reader, me) && !guess(&c.reader, me) {
		if old, found := r.unorderedReader(w, c); found {
			r.between(w, in, t, "writes", "read", &old, nil)
		}
	}
	if changed && c.foreign.block != 0 {
		if old := c.foreign.former(); clash(&old, me) && !guess(&old, me) && !r.before(w, &old) {
			r.between(w, in, t, "writes", "read", &old, nil)
		}
	}
	if changed || old.block == 0 || r.before(w, old) {
		r.inherit(w, in, old, me)
		if old.block == me.block && old.warp == me.warp && old.step == me.step {
			me.bytes |= old.bytes // lanes write the bytes of a word together
		}
		c.writer = *me
	}
	if changed && !r.keeps(w, in, t, &c.reader, me) {
		c.reader, c.readers, c.foreign.block = former{}, 0, 0
	}
}

// unorderedReader is a former reader of a word that is not ordered before a warp now, if there is one.
func (r *blockRacing) unorderedReader(w *warp, c *cell) (old former, found bool) {
	old = c.reader
	if old.block != uint32(w.cta.number)+1 {
		return old, !r.before(w, &old)
	}
	for i := range w.cta.warps {
		if c.readers>>i&1 == 0 || i == w.index && int(c.reader.warp) != i { // lane and step are those of another warp
			continue
		}
		if old.warp = uint8(i); !r.before(w, &old) {
			return old, true
		}
	}
	return old, false
}

// read is for word number i of an access.
func (r *blockRacing) read(w *warp, in *ins, t *touch, c *cell, me *former, i int) {
	var value *loaded
	if r.worker.following != nil && in.facts.rule == loads {
		value = w.shadow.now[t.lane]
	}
	if clash(&c.writer, me) && !guess(me, &c.writer) && !r.before(w, &c.writer) {
		r.between(w, in, t, "reads", "written", &c.writer, value)
	}
	if value != nil {
		r.keepRead(r.key(w, t, t.offset/4+uint64(i)), me, value)
		return
	}
	c.enter(me)
}

// enter makes an access one of the readers of a word.
func (c *cell) enter(me *former) {
	old := &c.reader
	bit := uint32(1) << me.warp
	if old.block == me.block && old.stamp == me.stamp && old.bytes == me.bytes { // different bytes are not mixed up
		c.readers |= bit
		old.flags &^= strongAccess &^ me.flags
		return
	}
	if old.block != me.block && old.block != 0 {
		c.foreign = foreign{old.stamp, old.block, old.in, old.warp, old.lane, old.bytes | old.flags<<4, c.foreign.plain}
	}
	c.reader, c.readers = *me, bit
}

// between reports a race with a former access. Where the value of the load among the two is followed, the report waits
// until it is used.
func (r *blockRacing) between(w *warp, in *ins, t *touch, verb, past string, old *former, value *loaded) {
	g := w.cta.grid
	if g.apart && old.block != uint32(w.cta.number)+1 {
		g.wrong.Store(true)
		return
	}
	if read := in; verb == "reads" || past == "read" {
		if past == "read" {
			read = &g.prog.code[old.in]
		}
		if read.facts.rule == loads {
			r.worker.suspects.add(t, len(g.memory.buffers))
		}
	}
	pair := [2]int32{min(in.index, old.in), max(in.index, old.in)} // the two sides of a race are one finding
	if again := &r.worker.again; again.known != nil && again.pair == pair {
		again.known.Count++
		return
	}
	if known := r.worker.pairs[pair]; known != nil {
		known.Count++
		r.worker.again.pair, r.worker.again.known = pair, known
		return
	}
	if len(r.worker.pairs) >= maxOfClass {
		return
	}
	if value != nil && !value.used {
		r.wait(value, w, t, waitingRace{pair: pair, verb: verb, past: past, in: in, old: *old})
		return
	}
	f := w.raceWith(in, t, verb, past, old)
	f.Operands = w.operands(in, t.lane)
	r.worker.pairs[pair] = f
	if r.worker.following != nil {
		r.worker.following.confirmed(pair, g)
	}
}

// raceWith makes the finding about a race with a former access, without the values of registers.
func (w *warp) raceWith(in *ins, t *touch, verb, past string, old *former) *Finding {
	g := w.cta.grid
	id := int(old.block) - 1
	size := g.launch.Grid
	other := &warp{cta: w.cta, index: int(old.warp)}
	there := &g.prog.code[old.in]
	former := &Access{Write: past == "written", Thread: other.thread(int(old.lane)), Instr: there.src,
		Block: Dim{id % size.X, id / size.X % size.Y, id / (size.X * size.Y)}}
	former.PTX, former.Source = g.prog.place(there.src)
	f := w.raceAt(in, t, "%s what thread %s of block %s has %s at %s, and nothing orders the two: %s", verb,
		former.Thread, former.Block, past, g.prog.spot(there))
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
			if page == nil || page[word%pageWords].writer.block <= block {
				continue
			}
			last := &page[word%pageWords].writer
			in, block = &p.code[last.in], last.block
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

// barrier orders everything that warps did before they came to a barrier before what those do that waited there.
func (b *blockShadow) barrier(at *barrierState) {
	if b == nil {
		return
	}
	for _, x := range at.waiting {
		if x.in.d != noRef {
			x.warp.shadow.defined[b.cta.grid.prog.position(x.in.d)] |= x.mask
		}
	}
	b.proxy.sync()
	if !b.worker.race {
		return
	}
	r := &b.racing
	now := r.worker.clock
	joined := r.joined
	clear(joined)
	var fenced fences
	for i := range r.known {
		if at.came>>i&1 == 0 {
			continue
		}
		fenced.join(&r.fences[i])
		for j, stamp := range r.known[i] {
			joined[j] = max(joined[j], stamp)
		}
		joined[i] = now
	}
	for _, x := range at.waiting {
		copy(r.known[x.warp.index], joined)
		r.fences[x.warp.index].join(&fenced)
		r.fences[x.warp.index][0] = now // ordered for the block
		x.warp.paths[x.path].met = x.warp.steps
		r.learned(x.warp.index)
	}
	r.worker.clock++
}
