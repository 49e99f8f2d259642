package ptx

import "slices"

// This file implements where the threads of a warp meet again that part at a branch.

// Rejoins returns, for each block, where threads meet again that part at its end: mostly the immediate post-dominator,
// and -1 where they part for good.
//
// Threads that end on their way do not come to any place, and the others do not wait for them: a trap or a return
// inside of a branch is no reason for not meeting behind that branch. Post-dominators do not know the difference: by
// them threads would meet at the end of the kernel. Hence ways that only lead to the end of the thread, and on which
// nobody waits for anybody, are left out where they alone keep threads from meeting before: traps first, as the end of
// the kernel may be the only way out of a loop.
func (g *Graph) Rejoins() []int {
	meet := g.PostDominators()
	for _, traps := range []bool{true, false} {
		meet = g.sooner(meet, g.dying(traps))
	}
	return meet
}

// sooner has threads meet before they end, if there is a branch for which that is another place.
func (g *Graph) sooner(meet []int, dying []bool) []int {
	partly := func(b BasicBlock) bool { return b.Exits && len(b.Succs) > 0 } // a guard lets some threads end
	if !slices.Contains(dying, true) && !slices.ContainsFunc(g.Blocks, partly) {
		return meet
	}
	others := g.without(dying).PostDominators()
	out, needed := slices.Clone(meet), false
	for b := range out {
		if others[b] < 0 || meet[b] >= 0 && !dying[meet[b]] {
			continue
		}
		out[b] = others[b]
		succs := g.Blocks[b].Succs
		needed = needed || len(succs) > 1 && !slices.ContainsFunc(succs, func(s int) bool { return dying[s] })
	}
	if needed {
		return out
	}
	return meet
}

// dying finds the blocks behind which a thread ends whatever it does, or only those where that is a trap, without an
// instruction at which threads wait for each other. With traps alone there is no loop on the way; else there may be
// loops in which nobody can wait for another thread.
func (g *Graph) dying(traps bool) []bool {
	if !traps && g.Func.Entry {
		return g.quiet()
	}
	out := make([]bool, len(g.Blocks))
	left := make([]int, len(g.Blocks)) // successors of which it is not known
	var todo []int
	look := func(b int) {
		x := &g.Blocks[b]
		code := g.Func.Code[x.First:x.End]
		exit := func(in *Instr) bool { return in.Op == "exit" }
		returns := x.Returns && (traps || !g.Func.Entry) || traps && slices.ContainsFunc(code, exit)
		if returns || slices.ContainsFunc(code, waits) {
			return
		}
		out[b] = true
		todo = append(todo, b)
	}
	for b := range g.Blocks {
		if left[b] = len(g.Blocks[b].Succs); left[b] == 0 && g.Blocks[b].Exits {
			look(b)
		}
	}
	for len(todo) > 0 {
		b := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range g.Blocks[b].Preds {
			if left[p]--; left[p] == 0 {
				look(p)
			}
		}
	}
	return out
}

// quiet finds the blocks of a kernel behind which threads do not wait for each other any more.
func (g *Graph) quiet() []bool {
	out := make([]bool, len(g.Blocks))
	var loud []int
	for b := range g.Blocks {
		if slices.ContainsFunc(g.Func.Code[g.Blocks[b].First:g.Blocks[b].End], func(in *Instr) bool {
			return waits(in) || polls(in)
		}) {
			loud = append(loud, b)
		}
	}
	heard := make([]bool, len(g.Blocks))
	g.postorder(loud, preds, heard)
	for b := range out {
		out[b] = !heard[b]
	}
	return out
}

// polls reports whether an instruction is one that a loop may ask again and again until another thread has done
// something.
func polls(in *Instr) bool {
	return in.Op == "atom" || in.Op == "ld" && (in.Has("volatile") || in.Has("relaxed") || in.Has("acquire")) ||
		in.Op == "nanosleep"
}

// waits reports whether threads may wait for each other in an instruction, or in what it calls.
func waits(in *Instr) bool {
	switch in.Op {
	case "bar", "barrier", "shfl", "vote", "match", "redux", "elect", "activemask", "ldmatrix", "stmatrix", "movmatrix",
		"mma", "wmma", "wgmma", "mbarrier":
		return true
	case "call":
		return !in.endsBlock()
	}
	return false
}

// without is the graph without the ways to some blocks. A block that leads to nothing else then ends, and so does a
// loop where it turns back, if its way out is one of those: threads that stay in it meet there.
func (g *Graph) without(gone []bool) *Graph {
	out := &Graph{Func: g.Func, Blocks: slices.Clone(g.Blocks)}
	drop := func(list []int) []int {
		return slices.DeleteFunc(slices.Clone(list), func(b int) bool { return gone[b] })
	}
	for b := range out.Blocks {
		x := &out.Blocks[b]
		if gone[b] {
			x.Succs, x.Preds, x.Exits = nil, nil, true
			continue
		}
		x.Succs, x.Preds = drop(x.Succs), drop(x.Preds)
		turns := len(x.Succs) < len(g.Blocks[b].Succs) && len(x.Succs) > 0 && slices.Max(x.Succs) <= b
		x.Exits = len(x.Succs) == 0 || turns || !g.Func.Entry && x.Returns
	}
	return out
}
