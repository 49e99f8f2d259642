package ptxvm

import "math/bits"

// This file implements the check of loads from shared memory that one warp makes after the other: tiles of matrices are
// read so. The first two warps look at all words, and are entered there; as long as nobody does anything else
// with shared memory, the others find what those have found, and a word needs no third reader.

// repeats are loads of all lanes of a warp since anything else was done with shared memory.
type repeats struct {
	stamp   uint32
	entries []repeat
	used    []uint8 // entries that hold a load
}

// repeat is one of them: its words are defined, and are entered as read.
type repeat struct {
	at     lanes64
	stamp  uint32 // 0 for none
	in     int32
	latest uint32 // the latest stamp of a writer of the words
	warps  uint32 // those that are among the readers of the words
}

// repeatCount is how many loads are kept in mind: a tile of 16 rows is read by 64 different ones.
const repeatCount = 128

// repeatLeast is from how many words on a load is kept in mind: few words are looked at again more quickly.
const repeatLeast = 4

// repeatAt is the entry of a load: those of one instruction differ in the line of 128 bytes that they begin in.
func repeatAt(in *ins, first uint64) uint8 {
	return uint8((uint64(in.index)*5 + first/128) % repeatCount)
}

// repeated reports whether a load is the same as one that was judged before for two warps, or for this one.
func (r *blockRacing) repeated(w *warp, in *ins, s *sweep) bool {
	if r.repeats.entries == nil || s.space != sharedSpace || w.mask != allLanes {
		return false
	}
	e := &r.repeats.entries[repeatAt(in, w.at[0])]
	if e.stamp != r.worker.stamp || e.in != in.index || e.latest > r.safe[w.index] || e.at != w.at ||
		bits.OnesCount32(e.warps) < 2 && e.warps>>w.index&1 == 0 {
		return false
	}
	r.mark(w)
	return true
}

// remember keeps a load in mind that has been judged, with the latest stamp of a writer of its words.
func (r *blockRacing) remember(w *warp, in *ins, lanes, latest uint32) {
	if r.repeats.entries == nil || w.mask != allLanes || bits.OnesCount32(lanes) < repeatLeast {
		return
	}
	i := repeatAt(in, w.at[0])
	e := &r.repeats.entries[i]
	if e.stamp == r.worker.stamp && e.in == in.index && e.at == w.at {
		e.warps |= 1 << w.index
		return
	}
	if e.stamp == 0 {
		r.repeats.used = append(r.repeats.used, i)
	}
	e.at, e.stamp, e.in, e.latest, e.warps = w.at, r.worker.stamp, in.index, latest, 1<<w.index
	r.repeats.stamp = e.stamp
}

// settleReads forgets all loads: something else is to happen in shared memory.
func (r *blockRacing) settleReads() {
	for _, i := range r.repeats.used {
		r.repeats.entries[i].stamp = 0
	}
	r.repeats.used = r.repeats.used[:0]
}

// forgetReads is for a block that begins.
func (r *blockRacing) forgetReads() { r.settleReads() }
