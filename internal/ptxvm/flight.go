package ptxvm

import "math/bits"

// This file implements the usual way of cp.async: all threads of a warp ask for copies, close groups and wait for them
// together, and nobody counts single accesses. Then a copy of all threads is one entry of a list, and groups are
// counted once a warp. Copies are made as late as those of single threads (table_async.go): what reads a result too
// early reads what was there before, here as there. What is out of the ordinary is handed over to the queues there for
// the rest of the block.

// flight is a copy that the threads of a warp have asked for together, from one buffer to shared memory.
type flight struct {
	in     *ins
	group  int // number of groups that were closed before
	size   int // bytes of a thread
	mask   uint32
	buffer *buffer
	to     [warpSize]uint32 // in shared memory
	from   [warpSize]uint64 // in the buffer; zeros are written where it is nothingRead
}

// nothingRead is no offset in a buffer.
const nothingRead = ^uint64(0)

// flights are the copies of a warp that are under way.
type flights struct {
	list   []flight // the oldest first
	closed int      // groups
	done   int      // of those, the oldest ones
}

// any reports whether there are copies, or groups that nobody has waited for.
func (fs *flights) any() bool { return len(fs.list) > 0 || fs.closed > fs.done }

// united reports whether copies, groups and waits of the lanes of mask are still those of the whole warp.
func (w *warp) united(mask uint32) bool { return !w.copies && mask == w.alive && w.watch == nil }

// fly begins a copy of size bytes a thread. It reports false, and begins nothing, unless all of them can be made.
func (w *warp) fly(in *ins, size int) bool {
	if w.copies || w.watch != nil || in.copy.to.space != sharedSpace || in.copy.from.space != globalSpace ||
		len(w.cta.shared) < size {
		return false
	}
	if w.crowded(len(w.flights.list)) {
		return true
	}
	if len(w.flights.list) == cap(w.flights.list) {
		w.flights.list = append(w.flights.list, flight{})
	} else {
		w.flights.list = w.flights.list[:len(w.flights.list)+1]
	}
	f := &w.flights.list[len(w.flights.list)-1]
	f.in, f.group, f.size, f.mask, f.buffer = in, w.flights.closed, size, w.mask, nil
	if !f.find(w, in.copy) || w.shadow != nil && !w.shadow.quickCopy(w, f) {
		w.flights.list = w.flights.list[:len(w.flights.list)-1]
		return false
	}
	return true
}

// find fills in where the bytes of all threads come from and go to.
func (f *flight) find(w *warp, use *transferUse) bool {
	odd, first, last := uint64(f.size-1), uint64(0), uint64(len(w.cta.shared)-f.size)
	if g := w.cta.grid; len(g.sharedParts) > 1 && g.checks.has(CheckBounds) {
		part, inside := g.sharedAt(use.to.at(w, firstLane(f.mask)), f.size)
		if !inside {
			return false
		}
		first, last = part.from, part.to-uint64(f.size)
	}
	for m := f.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		to, from := use.to.at(w, lane), use.from.at(w, lane)
		if (to|from)&odd != 0 || to < first || to > last {
			return false
		}
		f.to[lane] = uint32(to)
		switch read := w.bytesRead(f.in, lane, f.size); read {
		case 0:
			f.from[lane] = nothingRead
			continue
		case f.size:
		default:
			return false
		}
		b := f.buffer
		if b == nil {
			if b = w.last; b == nil || from-b.base >= uint64(len(b.data)) {
				b = w.cta.grid.memory.find(from)
			}
			if b == nil || b.valid != nil {
				return false
			}
			w.last, f.buffer = b, b
		}
		if from -= b.base; from >= uint64(len(b.data)) || uint64(len(b.data))-from < uint64(f.size) {
			return false
		}
		f.from[lane] = from
	}
	return true
}

// bytesRead is how many of size bytes the copy of a lane reads; the others become zero.
func (w *warp) bytesRead(in *ins, lane, size int) int {
	switch {
	case in.c == noRef:
	case in.c.class() == classPred && w.get(in.c, lane) != 0:
		return 0
	case in.c.class() != classPred:
		return int(min(w.get(in.c, lane), uint64(size)))
	}
	return size
}

// land makes the copies of groups before the given one, and forgets them. in is what waits for them, nil
// where that is an instruction of another kind.
func (w *warp) land(group int, in *ins) {
	fs := &w.flights
	fs.done = max(fs.done, min(group, fs.closed))
	n := 0
	for n < len(fs.list) && fs.list[n].group < group {
		fs.list[n].land(w, in)
		n++
	}
	if n > 0 {
		fs.list = append(fs.list[:0], fs.list[n:]...)
	}
}

func (f *flight) land(w *warp, in *ins) {
	shared, source := w.cta.shared, f.source()
	if w.shadow != nil && w.shadow.block.outside != nil && f.buffer != nil {
		w.shadow.block.outside[f.buffer.index].sources--
	}
	judged := w.shadow != nil && in != nil && w.shadow.quickLanding(w, f)
	for m := f.mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		to, from := shared[f.to[lane]:], f.from[lane]
		if w.shadow != nil {
			w.shadow.arrive(f.in, lane, uint64(f.to[lane]), to[:f.size], judged)
		}
		switch {
		case from == nothingRead:
			clear(to[:f.size])
		case f.size == 16:
			*(*[16]byte)(to) = *(*[16]byte)(source[from:])
		default:
			copy(to[:f.size], source[from:])
		}
	}
}

// source is what the copy reads; nil where that is nothing.
func (f *flight) source() []byte {
	if f.buffer == nil {
		return nil
	}
	return f.buffer.data
}

// disband hands the copies and groups of the warp over to its threads, each of which has its own from now on.
func (w *warp) disband() {
	fs := &w.flights
	w.copies = true
	if !fs.any() {
		return
	}
	for m := w.alive; m != 0; m &= m - 1 {
		q := &w.async[ordinary][firstLane(m)]
		q.closed, q.done = fs.closed, fs.done
	}
	for i := range fs.list {
		f := &fs.list[i]
		for m := f.mask & w.alive; m != 0; m &= m - 1 {
			lane := firstLane(m)
			t := transfer{in: f.in, group: f.group, to: uint64(f.to[lane]), size: f.size}
			if f.from[lane] != nothingRead {
				t.from, t.read = f.buffer.base+f.from[lane], f.size
			}
			q := &w.async[ordinary][lane]
			q.list = append(q.list, t)
			if w.shadow != nil {
				w.shadow.block.away(&t, readSide, 1)
			}
		}
		if w.shadow != nil && w.shadow.block.outside != nil && f.buffer != nil {
			w.shadow.block.outside[f.buffer.index].sources--
		}
	}
	*fs = flights{list: fs.list[:0]}
}
