package ptxvm

import (
	"math/bits"
	"slices"
)

// This file implements instructions for which lanes of a warp wait for each other. Every lane names the lanes that
// execute the instruction with it, its members; lanes that have finished are not waited for.

// taking are the lanes of a waiting path that execute the instruction it waits at.
func (w *warp) taking(i int) uint32 {
	p := &w.paths[i]
	in := &w.cta.grid.prog.code[p.pc]
	if in.guard == noRef {
		return p.mask
	}
	return p.mask & (w.p[in.guard.index()] ^ in.guardFlip)
}

// meet executes an instruction if all members of all its lanes are there, or lets the path wait for them. It reports
// whether the path goes on at once.
func (w *warp) meet(i int, in *ins, mask uint32) bool {
	p := &w.paths[i]
	if mask == 0 {
		p.pc++
		return true
	}
	if in.members != 0 && in.members&w.alive == mask { // the same for all of them
		w.exchange(in, mask)
		p.pc++
		return true
	}
	all := &w.r32[in.c.index()]
	first, same := all[bits.TrailingZeros32(mask)], true
	for m := mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		members := all[lane]
		same = same && members == first
		if members>>lane&1 == 0 {
			w.stop(in, lane, BadMask, "member mask %#08x does not name lane %d, which executes the instruction", members,
				lane)
			return false
		}
	}
	if same && first&w.alive == mask {
		w.exchange(in, mask)
		p.pc++
		return true
	}
	if !same && w.whole(in, mask, mask) {
		w.groups(in, mask, func(lane int) uint32 { return all[lane] })
		p.pc++
		return true
	}
	w.ready = w.ready[:len(w.ready)-1]
	w.met = append(w.met, i)
	w.release(p.pc)
	return false
}

// whole reports whether the members of some lanes are all here.
func (w *warp) whole(in *ins, lanes, here uint32) bool {
	here |= ^w.alive
	for m := lanes; m != 0; m &= m - 1 {
		if uint32(w.get(in.c, bits.TrailingZeros32(m)))&^here != 0 {
			return false
		}
	}
	return true
}

// groups executes an instruction for lanes with the same members, one such group after the other. named gives the
// members of a lane.
func (w *warp) groups(in *ins, lanes uint32, named func(lane int) uint32) {
	for lanes != 0 {
		lane := bits.TrailingZeros32(lanes)
		members := named(lane)
		group := members & w.alive
		for m := group; m != 0; m &= m - 1 {
			other := bits.TrailingZeros32(m)
			if theirs := named(other); theirs != members {
				w.stop(in, other, BadMask, "member mask %#08x differs from that of lane %d, %#08x, which names this lane",
					theirs, lane, members)
				return
			}
		}
		w.exchange(in, group)
		lanes &^= group
	}
}

// exchange executes an instruction for lanes that have met.
func (w *warp) exchange(in *ins, lanes uint32) {
	w.mask = lanes
	in.run(w, in)
	if w.shadow != nil {
		w.shadow.judge(w, in)
	}
}

// meeting reports whether paths that wait at two instructions wait for each other: threads meet at any bar.warp.sync,
// and at other instructions where they are the same (PTX ISA, bar.warp.sync).
func (p *Program) meeting(pc, other int) bool {
	return pc == other || p.code[pc].src.Op == "bar" && p.code[other].src.Op == "bar"
}

// release lets the paths that wait at an instruction execute it if the members of all their lanes are among them.
func (w *warp) release(pc int) {
	prog := w.cta.grid.prog
	at := func(i int) *ins { return &prog.code[w.paths[i].pc] }
	var set []int
	for _, i := range w.met {
		if prog.meeting(w.paths[i].pc, pc) {
			set = append(set, i)
		}
	}
	for n := -1; n != len(set) && len(set) > 0; { // a path that cannot go on may keep others from it
		n = len(set)
		here := uint32(0)
		for _, i := range set {
			here |= w.taking(i)
		}
		set = slices.DeleteFunc(set, func(i int) bool { return !w.whole(at(i), w.taking(i), here) })
	}
	lanes := uint32(0)
	for _, i := range set {
		lanes |= w.taking(i)
	}
	if lanes == 0 {
		return
	}
	for _, i := range set {
		w.paths[i].met = w.steps
	}
	w.groups(&prog.code[pc], lanes, func(lane int) uint32 {
		i := slices.IndexFunc(set, func(i int) bool { return w.taking(i)>>lane&1 != 0 })
		return uint32(w.get(at(set[max(i, 0)]).c, lane))
	})
	for _, i := range set {
		w.paths[i].pc++
		w.ready = append(w.ready, i)
	}
	w.met = slices.DeleteFunc(w.met, func(i int) bool { return slices.Contains(set, i) })
}

// reunite looks at the paths that wait after lanes have finished: nobody waits for those any more.
func (w *warp) reunite() {
	var places []int
	for _, i := range w.met {
		if pc := w.paths[i].pc; !slices.Contains(places, pc) {
			places = append(places, pc)
		}
	}
	for _, pc := range places {
		w.release(pc)
	}
}

// missing reports a path that waits for lanes which have gone elsewhere.
func (w *warp) missing() {
	i := w.met[0]
	in := &w.cta.grid.prog.code[w.paths[i].pc]
	taking := w.taking(i)
	lane := bits.TrailingZeros32(taking)
	members := uint32(w.get(in.c, lane)) & w.alive
	w.stop(in, lane, BadMask, "member mask %#08x names lanes %#08x that do not come here", members, members&^taking)
}
