package ptx

import (
	"math/bits"
	"slices"
)

// This file implements the count of registers that are live at once.

// Peak is where most registers are live. Places are numbers of instructions, the first of equal ones; -1 in a function
// that has none.
type Peak struct {
	Registers    int // of 32 bits
	At           int
	Predicates   int
	PredicatesAt int
}

// PeakLive returns the largest numbers of registers that are live at once: before an instruction, or behind it, where
// what it writes counts even if nobody reads it. What nothing may have written yet does not count: Triton loads under a
// guard and reads without it. The figure is an estimate of what hardware needs: ptxas keeps constants and parameters
// elsewhere, and shares, splits and reorders.
func (l *Liveness) PeakLive() Peak {
	w := newWalk(l)
	for i := range l.Graph.Blocks {
		if b := &l.Graph.Blocks[i]; b.Reachable {
			w.enter(b)
			for at := b.End - 1; at >= b.First; at-- {
				w.back(l.Graph.Func.Code[at])
			}
		}
	}
	return w.peak
}

// walk goes through blocks backwards and counts what is live. Registers that do not cross are dead at both ends of a
// block, so that only the sets of the others have to be loaded.
type walk struct {
	l          *Liveness
	set        []uint64 // live registers that cross
	local      []bool   // the others, by register
	kinds      []sizeSet
	registers  int // live ones, of 32 bits
	predicates int
	unread     []int32 // what an instruction writes and nobody reads
	block      *BasicBlock
	written    []uint64 // what may have been written before the block; nil where everything that is read has been
	first      []int    // by bit: the first instruction that writes a register, in the last block that did
	peak       Peak
}

// sizeSet are the registers that cross and take equally much. There are few sizes, and counting bits is fast.
type sizeSet struct {
	registers, predicates int
	set                   []uint64
}

func newWalk(l *Liveness) *walk {
	w := &walk{l: l, set: make([]uint64, l.words), local: make([]bool, len(l.bit)), peak: Peak{At: -1, PredicatesAt: -1}}
	if l.written != nil {
		w.written, w.first = make([]uint64, l.words), make([]int, len(l.crossing))
		for n := range w.first {
			w.first[n] = -1
		}
	}
	for n, r := range l.crossing {
		registers, predicates := l.Graph.Func.Registers[r].Size()
		i := slices.IndexFunc(w.kinds, func(k sizeSet) bool {
			return k.registers == registers && k.predicates == predicates
		})
		if i < 0 {
			i = len(w.kinds)
			w.kinds = append(w.kinds, sizeSet{registers, predicates, make([]uint64, l.words)})
		}
		w.kinds[i].set[n/64] |= 1 << (n % 64)
	}
	return w
}

// enter goes to the end of a block.
func (w *walk) enter(b *BasicBlock) {
	w.block = b
	w.l.behind(b.Index, w.set)
	if w.written != nil {
		w.l.writtenBefore(b.Index, w.written)
		for at := b.End - 1; at >= b.First; at-- {
			w.l.Graph.Func.Code[at].Defs(func(o *Operand) {
				if n := w.l.bit[o.Reg.Index]; n >= 0 {
					w.first[n] = at
				}
			})
		}
		for i, word := range w.l.written[b.Index*w.l.words : (b.Index+1)*w.l.words] {
			w.set[i] &= word
		}
	}
	w.registers, w.predicates = 0, 0
	for _, k := range w.kinds {
		n := 0
		for i, word := range k.set {
			n += bits.OnesCount64(word & w.set[i])
		}
		w.registers += n * k.registers
		w.predicates += n * k.predicates
	}
	if b.Returns {
		for _, r := range w.l.returned {
			if w.holds(r, b.End) {
				w.change(r, true)
			}
		}
	}
}

func (w *walk) live(r int32) bool {
	if n := w.l.bit[r]; n >= 0 {
		return w.set[n/64]>>(n%64)&1 != 0
	}
	return w.local[r]
}

// change makes a register live, or no longer so.
func (w *walk) change(r int32, live bool) {
	if w.live(r) == live {
		return
	}
	if n := w.l.bit[r]; n >= 0 {
		w.set[n/64] ^= 1 << (n % 64)
	} else {
		w.local[r] = live
	}
	registers, predicates := w.l.Graph.Func.Registers[r].Size()
	if !live {
		registers, predicates = -registers, -predicates
	}
	w.registers += registers
	w.predicates += predicates
}

// back steps over an instruction.
func (w *walk) back(in *Instr) {
	w.unread = w.unread[:0]
	in.Defs(func(o *Operand) {
		if r := int32(o.Reg.Index); !w.live(r) {
			w.unread = append(w.unread, r)
			w.change(r, true)
		}
	})
	w.look(in.Index)
	for _, r := range w.unread {
		w.change(r, false)
	}
	in.Defs(func(o *Operand) {
		if r := int32(o.Reg.Index); in.replaces(o) || !w.holds(r, in.Index) {
			w.change(r, false)
		}
	})
	in.Uses(func(o *Operand) {
		if r := int32(o.Reg.Index); w.holds(r, in.Index) {
			w.change(r, true)
		}
	})
	w.look(in.Index)
}

// holds reports whether something may have been written to a register before an instruction of the block.
func (w *walk) holds(r int32, at int) bool {
	n := w.l.bit[r]
	return n < 0 || w.written == nil || w.written[n/64]>>(n%64)&1 != 0 || w.block.First <= w.first[n] && w.first[n] < at
}

// look compares what is live at an instruction with the peak. Within a block instructions come backwards.
func (w *walk) look(at int) {
	p := &w.peak
	if w.registers > p.Registers || p.At < 0 || w.registers == p.Registers && at < p.At {
		p.Registers, p.At = w.registers, at
	}
	if w.predicates > p.Predicates || p.PredicatesAt < 0 || w.predicates == p.Predicates && at < p.PredicatesAt {
		p.Predicates, p.PredicatesAt = w.predicates, at
	}
}
