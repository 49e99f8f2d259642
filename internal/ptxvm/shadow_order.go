package ptxvm

import (
	"math/bits"
	"slices"

	"gpuemu/internal/ptx"
)

// This file implements what orders accesses (PTX ISA, "Memory Consistency Model"), thread by thread: barriers of blocks
// and of warps, and release and acquire. Lanes of a warp that execute one instruction together are not ordered by that.
//
// Stamps count what synchronizes in a launch, so an access is ordered before a thread's own if its stamp is at most the
// one up to which the thread knows the other one's accesses. A block has a row of such stamps for each warp, which
// barriers join; for the warp itself the row has the last point at which all its lanes met. What single lanes have
// acquired or met beyond that stands in lanes.

// audience says for whom something is ordered.
type audience uint8

const (
	nobody     audience = iota
	ownBlock            // .cta, and .cluster: launches have clusters of one block
	everyBlock          // .gpu, .sys
)

// ordering is how an instruction orders accesses.
type ordering struct {
	fence     audience
	publishes bool     // of a fence: what came before it is published with later writes; not so fence.acquire
	learns    bool     // of a fence: what was read before it is known after it; not so fence.release
	release   audience // of a store or an atomic operation: what came before it is published with it
	acquire   audience // of a load or an atomic operation: what was published with the value is known after it
	narrow    bool     // an atomic operation or a strong access that only threads of one block see as such
	serial    bool     // a fence .sc
	waits     bool     // mbarrier.test_wait and try_wait: it looks like an access that writes, and only reads
}

// orderingOf reads the ordering of an instruction.
func orderingOf(in *ptx.Instr) (o ordering) {
	scope := everyBlock
	if in.Has("cta") || in.Has("cluster") {
		scope = ownBlock
	}
	switch {
	case in.Op == "membar" && !in.Has("proxy"), in.Op == "fence" && !in.Has("proxy") && !in.Has("mbarrier_init"):
		o.fence, o.serial = scope, in.Op == "membar" || in.Has("sc")
		o.publishes, o.learns = !in.Has("acquire"), !in.Has("release")
	case arrivesAsync(in): // an arrival as that of mbarrier.arrive, made when the copies are done
		o.release = everyBlock
	case in.Op == "mbarrier": // scopes do not matter: those in the memory of a block have its threads only
		o.waits = in.Has("test_wait") || in.Has("try_wait")
		if arrives := in.Has("arrive") || in.Has("arrive_drop"); arrives && !in.Has("relaxed") {
			o.release = everyBlock
		}
		if o.waits && !in.Has("relaxed") {
			o.acquire = everyBlock
		}
	default:
		if in.Has("release") || in.Has("acq_rel") {
			o.release = scope
		}
		if in.Has("acquire") || in.Has("acq_rel") {
			o.acquire = scope
		}
	}
	o.narrow = scope == ownBlock && (in.Op == "atom" || in.Op == "red" || in.Has("relaxed") || in.Has("release") ||
		in.Has("acquire"))
	return o
}

// arrivesAsync reports whether an instruction is cp.async.mbarrier.arrive.
func arrivesAsync(in *ptx.Instr) bool { return in.Op == "cp" && in.Has("mbarrier") && in.Has("arrive") }

// laneOrder is what the lanes of a warp know beyond their warp.
type laneOrder struct {
	met      *[warpSize][warpSize]uint32 // met[x][y]: up to which stamp lane x knows lane y; nil where meet says it
	acquired [warpSize]*clock
	pending  [warpSize][2]*clock // read by relaxed accesses, known after a fence for the own block or for all
	fenced   [warpSize][2]*clock // before the last fence for the own block or for all: a strong write publishes it
	serial   [warpSize][2]*clock // the same of fences .sc, also of others that are ordered before: see knowledge
	opposed  [warpSize][2]*clock // of fences .sc before strong accesses to words that the lane has accessed since
	last     [warpSize]opposing  // lanes that wait in a loop have nothing new to say or to learn
	read     [warpSize]acquiring
}

// opposing is what a lane and a word last exchanged about fences .sc.
type opposing struct {
	word         *released
	ours, theirs [2]*clock
}

// acquiring is what a lane last found with a word.
type acquiring struct {
	word         *released
	wide, narrow *clock
	scope        audience // of the acquisition; nobody: by a relaxed access
}

// knowledge is what threads exchange at a barrier, beyond rows. All fence.sc operations have one order (PTX ISA,
// "Fence-SC"), so a thread that passes a barrier after the fence of another thread publishes what came before that
// fence, too: __threadfence() by all threads, then __syncthreads(), then an atomic operation by one of them. So does a
// fence after a barrier stand behind the fences that others saw before it: one thread reads the counter, then
// __syncthreads(), then __threadfence() by all threads.
type knowledge struct {
	acquired *clock
	serial   [2]*clock
	opposed  [2]*clock
}

// released is what was published with the value of a word.
type released struct {
	wide   *clock // for everybody
	narrow *clock // for block
	block  uint32
	by     former // the last one who did

	// serial is what came before fences .sc of those who accessed the word after them, for block and for everybody. The
	// order of two such fences is that of strong accesses after the one and before the other.
	serial [2]*clock
}

// turn says that the block has its turn.
func (b *blockShadow) turn() {
	if b != nil && b.worker.race {
		b.racing.turn(b.racing.block)
	}
}

// turn says that a block has its turn: stamps from now on are its own.
func (r *blockRacing) turn(block uint32) {
	w := r.worker
	n := len(w.runs)
	if n > 0 && w.runs[n-1].block == block {
		return
	}
	w.tick()
	if n > 0 && w.runs[n-1].first == w.stamp {
		w.runs = w.runs[:n-1]
	}
	w.runs = append(w.runs, turn{w.stamp, block})
}

// turn is a series of stamps of one block.
type turn struct{ first, block uint32 }

// tick begins a new stamp.
func (r *racing) tick() {
	if r.stamp++; r.stamp >= maxStamp {
		r.stamp = maxStamp
		r.grid.fail(r.grid.tooManyStamps())
	}
}

// blockOf is the number + 1 of the block that a stamp belongs to.
func (r *racing) blockOf(stamp uint32) uint32 {
	low, high := 0, len(r.runs)
	for low+1 < high {
		if mid := (low + high) / 2; r.runs[mid].first <= stamp {
			low = mid
		} else {
			high = mid
		}
	}
	return r.runs[low].block
}

// former is an access to shared memory or to a buffer as a mark says it.
func (r *blockRacing) former(m mark, shared bool) former {
	switch {
	case m == 0:
		return former{}
	case shared:
		return former{mark: m, block: r.block}
	}
	return former{mark: m, block: r.worker.blockOf(m.stamp())}
}

// mine reports whether the accesses of a stamp are of this block.
func (r *blockRacing) mine(stamp uint32) bool {
	if r.worker.grid.prog.communicates {
		return r.worker.blockOf(stamp) == r.block
	}
	return stamp >= r.began
}

// before reports whether a former access to some bytes is ordered before one of a lane now.
func (r *blockRacing) before(w *warp, lane int, f *former, bytes uint8) bool {
	if f.mark == 0 || f.mark.bytes()&bytes == 0 {
		return true
	}
	x := r.lanes[w.index]
	if f.lanes != 0 {
		return r.allBefore(w, lane, f)
	}
	if f.block == r.block {
		if f.warp() != w.index {
			return f.stamp() <= r.rows[w.index][f.warp()] || x != nil && x.acquired[lane].knows(f)
		}
		if f.stamp() <= r.rows[w.index][w.index] {
			return true
		}
		other, is := f.otherLane(lane, bytes, w.cta.grid.prog.unit(f.mark))
		if !is {
			return true
		}
		if x == nil {
			return false
		}
		if x.met != nil {
			if f.shape() == someLanes && f.lane() == lane {
				return true // which other lanes there were is not known
			}
			if f.stamp() <= x.met[lane][other] {
				return true
			}
		}
	}
	return x != nil && x.acquired[lane].knows(f)
}

// refresh brings what is derived from the knowledge of a warp up to date.
func (r *blockRacing) refresh(warp int) {
	least := ^uint32(0)
	for i, stamp := range r.rows[warp] {
		if i != warp {
			least = min(least, stamp)
		}
	}
	r.safe[warp] = min(least, r.rows[warp][warp])
}

// row makes a row that nobody has, with the stamps of another one, if there is one.
func (r *blockRacing) row(from []uint32) []uint32 {
	var fresh []uint32
	if !r.pinned {
		for _, row := range r.spare {
			if !slices.ContainsFunc(r.rows, func(used []uint32) bool { return &used[0] == &row[0] }) {
				fresh = row
				break
			}
		}
	}
	if fresh == nil {
		fresh = make([]uint32, len(r.rows))
		if len(r.spare) <= len(r.rows) {
			r.spare = append(r.spare, fresh)
		}
	}
	if copy(fresh, from) == 0 {
		clear(fresh)
	}
	return fresh
}

// ofLanes is what the lanes of a warp know, to be written to.
func (r *blockRacing) ofLanes(warp int) *laneOrder {
	if r.lanes[warp] == nil {
		r.lanes[warp] = &laneOrder{}
	}
	return r.lanes[warp]
}

// gather adds what some lanes know.
func (r *blockRacing) gather(warp int, lanes uint32, k *knowledge) {
	x := r.lanes[warp]
	if x == nil {
		return
	}
	for m := lanes; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		k.acquired = r.worker.join(k.acquired, x.acquired[lane])
		for i := range k.serial {
			k.serial[i] = r.worker.join(k.serial[i], x.serial[lane][i])
			k.opposed[i] = r.worker.join(k.opposed[i], x.opposed[lane][i])
		}
	}
}

// teach lets lanes know what others know, which they gathered with them: theirs is part of it.
func (r *blockRacing) teach(warp int, lanes uint32, k *knowledge) {
	if *k == (knowledge{}) {
		return
	}
	x := r.ofLanes(warp)
	for m := lanes; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		x.acquired[lane], x.serial[lane], x.opposed[lane] = k.acquired, k.serial, k.opposed
	}
}

// mark says that a warp accesses memory that can be raced for.
func (r *blockRacing) mark(w *warp) {
	r.tracked |= 1 << w.index
	r.recent |= 1 << w.index
}

// exit is for lanes that end. Where their warp has accessed nothing since all its lanes met, there is nothing that the
// others have to know.
func (r *blockRacing) exit(w *warp, lanes uint32) {
	if r.gone != nil && r.recent>>w.index&1 == 0 {
		r.gone[w.index] |= lanes
	}
}

// meeting is for lanes of a warp that wait for each other: bar.warp.sync. Lanes that have ended since all of them met
// last do not wait, and what they did is not ordered.
func (r *blockRacing) meeting(w *warp, lanes uint32) {
	i, now := w.index, r.worker.stamp
	var known knowledge
	r.gather(i, lanes, &known)
	r.teach(i, lanes, &known)
	if lanes|r.gone[i] == w.first() {
		r.rows[i] = r.row(r.rows[i])
		r.rows[i][i] = now
		r.recent &^= 1 << i
		if x := r.lanes[i]; x != nil {
			x.met = nil
		}
		r.refresh(i)
		r.worker.tick()
		return
	}
	x := r.ofLanes(i)
	if x.met == nil {
		x.met = &[warpSize][warpSize]uint32{}
	}
	var joined [warpSize]uint32
	for m := lanes; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		for other, stamp := range x.met[lane] {
			joined[other] = max(joined[other], stamp)
		}
	}
	for m := lanes; m != 0; m &= m - 1 {
		joined[bits.TrailingZeros32(m)] = now
	}
	for m := lanes; m != 0; m &= m - 1 {
		x.met[bits.TrailingZeros32(m)] = joined
	}
	r.worker.tick()
}

// arrival is what threads that do not wait at a barrier have brought there.
type arrival struct {
	rows  []uint32
	known knowledge
}

// leaves is for lanes that arrive at a barrier and go on.
func (b *blockShadow) leaves(at *barrierState, w *warp, lanes uint32) {
	if b == nil || !b.worker.race {
		return
	}
	r := &b.racing
	if at.left.rows == nil {
		at.left.rows = make([]uint32, len(r.rows))
	}
	r.arrive(w, lanes, lanes == w.alive, at.left.rows, &at.left.known)
	r.worker.tick()
}

// arrive adds what lanes did and know to what those at a barrier know together.
func (r *blockRacing) arrive(w *warp, lanes uint32, whole bool, joined []uint32, known *knowledge) {
	i, now := w.index, r.worker.stamp
	for j, stamp := range r.rows[i] {
		joined[j] = max(joined[j], stamp)
	}
	if whole { // what ended lanes did counts as ordered, and so does what they knew (clock.by)
		r.gather(i, w.first(), known)
		joined[i] = now
		return
	}
	r.gather(i, lanes, known)
	own := clock{block: r.block, warp: i, lanes: lanes, stamp: now}
	known.acquired = r.worker.join(known.acquired, r.worker.newClock(own))
	if x := r.lanes[i]; x != nil && x.met != nil {
		for m := lanes; m != 0; m &= m - 1 {
			for other, stamp := range x.met[bits.TrailingZeros32(m)] {
				c := clock{block: r.block, warp: i, lanes: 1 << other, stamp: stamp}
				known.acquired = r.worker.join(known.acquired, r.worker.newClock(c))
			}
		}
	}
}

// barrier orders everything that threads did before they came to a barrier before what those do that waited there.
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
	joined, known := r.row(at.left.rows), at.left.known
	var lanes [warpSize]uint32 // by warp
	for i := range at.waiting {
		lanes[at.waiting[i].warp.index] |= at.waiting[i].mask
	}
	for i, here := range lanes[:len(r.rows)] {
		// Warps that have ended are not waited for: what they did lies before a barrier of all that are left.
		if w := b.cta.warps[i]; here != 0 || w.alive == 0 && at.expected == 0 {
			r.arrive(w, here, here == w.alive, joined, &known)
		}
	}
	for i, here := range lanes[:len(r.rows)] {
		switch {
		case here == 0:
		case here == b.cta.warps[i].alive:
			r.rows[i], r.gone[i] = joined, b.cta.warps[i].first()&^here
			r.recent &^= 1 << i
			if x := r.lanes[i]; x != nil {
				x.met = nil
			}
			r.teach(i, here, &known)
			r.refresh(i)
		default:
			r.pinned = true
			own := known
			own.acquired = r.worker.join(own.acquired, r.worker.newClock(clock{block: r.block, rows: joined}))
			r.teach(i, here, &own)
		}
	}
	r.worker.tick()
}

// publishes is what a lane did and knows; nil where nothing of it can be raced for.
func (r *blockRacing) publishes(w *warp, lane int) *clock {
	x := r.lanes[w.index]
	var known *clock
	if x != nil {
		known = x.acquired[lane]
	}
	if r.tracked>>w.index&1 == 0 && &r.rows[w.index][0] == &r.none[0] {
		return known
	}
	c := clock{block: r.block, rows: r.rows[w.index], warp: w.index, lanes: 1 << lane, stamp: r.worker.stamp}
	c.by = former{mark: mark(c.stamp)<<stampAt | mark(w.index)<<warpAt | mark(lane)<<laneAt, block: r.block}
	if known != nil {
		c.from = append(c.from, known)
	}
	if x != nil && x.met != nil {
		for other, stamp := range x.met[lane] {
			c.from = append(c.from, &clock{block: r.block, warp: w.index, lanes: 1 << other, stamp: stamp})
		}
	}
	r.pinned = true
	return r.worker.newClock(c)
}

// fence is for the active lanes: what they have read is known from now on, and what they did and know is published by
// their next strong writes. fence.acquire and fence.release do one of the two.
func (r *blockRacing) fence(w *warp, o *ordering) {
	x, to, serial := r.ofLanes(w.index), o.fence, o.serial
	for m := w.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		for i := range int(to) {
			if o.learns {
				x.acquired[lane] = r.worker.join(x.acquired[lane], x.pending[lane][i])
				x.pending[lane][i] = nil
			}
		}
		if serial {
			for i := range int(to) {
				x.acquired[lane] = r.worker.join(x.acquired[lane], x.opposed[lane][i])
				x.opposed[lane][i] = nil
			}
		}
		if !o.publishes {
			continue
		}
		own := r.publishes(w, lane)
		for i := range int(to) {
			x.fenced[lane][i] = own
			if serial {
				x.serial[lane][i] = own
			}
		}
	}
	r.worker.tick()
}

// receive is for an element that a lane accesses by a strong access.
func (r *blockRacing) receive(w *warp, in *ins, t *touch, at wordKey) {
	r.acquire(w, in, t, at)
	r.oppose(w, t, at)
}

// acquire lets a lane know of what was published with the value that it reads by a strong access. Who asks for a phase
// that is not complete learns nothing.
func (r *blockRacing) acquire(w *warp, in *ins, t *touch, at wordKey) {
	p := r.releases(t)[at]
	if p == nil || in.facts.rule == stores || in.src.Op == "red" || in.facts.order.waits && w.get(in.d, t.lane) == 0 {
		return
	}
	x, o, order := r.ofLanes(w.index), &in.facts.order, r.worker
	found := acquiring{p, p.wide, p.narrow, o.acquire}
	if x.read[t.lane] == found {
		return
	}
	x.read[t.lane] = found
	if p.block == r.block {
		if o.acquire >= ownBlock {
			x.acquired[t.lane] = order.join(x.acquired[t.lane], p.narrow)
		} else {
			x.pending[t.lane][0] = order.join(x.pending[t.lane][0], p.narrow)
		}
	}
	switch {
	case o.narrow:
	case o.acquire >= everyBlock:
		x.acquired[t.lane] = order.join(x.acquired[t.lane], p.wide)
	default:
		x.pending[t.lane][1] = order.join(x.pending[t.lane][1], p.wide)
	}
}

// oppose is for the fences .sc before and after a strong access.
func (r *blockRacing) oppose(w *warp, t *touch, at wordKey) {
	p, x := r.releases(t)[at], r.lanes[w.index]
	if x != nil && p != nil && x.last[t.lane] == (opposing{p, x.serial[t.lane], p.serial}) {
		return
	}
	if p != nil && p.serial != [2]*clock{} {
		x = r.ofLanes(w.index)
		x.opposed[t.lane][1] = r.worker.join(x.opposed[t.lane][1], p.serial[1])
		if p.block == r.block {
			x.opposed[t.lane][0] = r.worker.join(x.opposed[t.lane][0], p.serial[0])
		}
	}
	if x == nil || x.serial[t.lane] == [2]*clock{} {
		return
	}
	if p == nil {
		p = &released{}
		r.published(t, at, p)
	}
	if p.block != r.block {
		p.block, p.narrow, p.serial[0] = r.block, nil, nil
	}
	for i := range p.serial {
		p.serial[i] = r.worker.join(p.serial[i], x.serial[t.lane][i])
	}
	x.last[t.lane] = opposing{p, x.serial[t.lane], p.serial}
}

// publish is for a lane that writes by a strong access: what it releases stays with the word until a write of another
// thread that is no atomic operation (PTX ISA, "Release and Acquire Patterns").
func (r *blockRacing) publish(w *warp, in *ins, t *touch, at wordKey) {
	var wide, narrow *clock
	switch o := &in.facts.order; {
	case o.release > nobody:
		narrow = r.publishes(w, t.lane)
		if o.release == everyBlock {
			wide = narrow
		}
	case r.lanes[w.index] != nil:
		x := r.lanes[w.index]
		narrow = r.worker.join(x.fenced[t.lane][0], x.serial[t.lane][0])
		if !o.narrow {
			wide = r.worker.join(x.fenced[t.lane][1], x.serial[t.lane][1])
		}
	}
	p := r.releases(t)[at]
	if p == nil {
		if narrow == nil && wide == nil {
			return
		}
		p = &released{}
		r.published(t, at, p)
	}
	me := former{mark: mark(w.index)<<warpAt | mark(t.lane)<<laneAt, block: r.block}
	if in.facts.rule != updates && p.by != me && in.src.Op != "mbarrier" && in.src.Op != "cp" {
		*p = released{serial: p.serial, block: p.block}
	}
	p.by = me
	p.wide = r.worker.join(p.wide, wide)
	if p.block != r.block {
		p.block, p.narrow, p.serial[0] = r.block, nil, nil
	}
	p.narrow = r.worker.join(p.narrow, narrow)
	if wide != nil || narrow != nil {
		r.worker.tick()
	}
}

// releases are those of the memory of an access, by element: words of shared memory are forgotten with their block.
func (r *blockRacing) releases(t *touch) map[wordKey]*released {
	if t.space == sharedSpace {
		return r.released
	}
	return r.worker.released
}

// published adds an element to those that something was published with.
func (r *blockRacing) published(t *touch, at wordKey, p *released) {
	r.releases(t)[at] = p
	r.worker.widths |= uint32(at.word & elementSizes)
}

// elementSizes are the low bits of an element's number; its offset lies above.
const elementSizes = 31

// element is the key of an element of an access. Who reads other bytes, or more of them, does not read it (PTX ISA,
// "Morally Strong Operations"), so its size is part of it.
func (r *blockRacing) element(w *warp, t *touch, i, size int) wordKey {
	return r.key(w, t, (t.offset+uint64(i*size))<<5|uint64(size))
}

// elements calls visit for the elements of a strong access: those of a vector or of a packed type are accesses of their
// own.
func (r *blockRacing) elements(w *warp, in *ins, t *touch, visit func(w *warp, in *ins, t *touch, at wordKey)) {
	size := in.size()
	for i := range len(t.data) / size {
		visit(w, in, t, r.element(w, t, i, size))
	}
}

// unpublish is for plain writes of bytes of a word: nobody reads what was published there any more.
func (r *blockRacing) unpublish(w *warp, t *touch, from uint64, n int) {
	list := r.releases(t)
	if len(list) == 0 {
		return
	}
	for sizes := r.worker.widths; sizes != 0; sizes &= sizes - 1 {
		size := uint64(sizes & -sizes)
		for at := from &^ (size - 1); at < from+uint64(n); at += size {
			delete(list, r.key(w, t, at<<5|size))
		}
	}
}
