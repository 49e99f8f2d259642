package ptxdiff

import "slices"

// This file implements the alignment of two functions that are not the same: block with block, then within blocks.

// alignment says which instruction and which block of the new version stands for one of the old.
type alignment struct {
	c                *comparer
	old, new         *graph
	oldHash, newHash *hashes
	blocks           []int32 // by number: of old in new, -1 for none
	backBlocks       []int32
	nodes            []int32 // by node
	back             []int32
	phis             map[int32]int32
	pending          []match // phis whose operands are still to be compared
	report           *reporter
	coarse           bool
	effects          bool // something that writes memory or waits was added or removed
}

func newAlignment(c *comparer, old, new *graph, oldHash, newHash *hashes) *alignment {
	a := &alignment{c: c, old: old, new: new, oldHash: oldHash, newHash: newHash, phis: map[int32]int32{},
		blocks: slices.Repeat([]int32{-1}, len(old.order)), backBlocks: slices.Repeat([]int32{-1}, len(new.order)),
		nodes: slices.Repeat([]int32{-1}, len(old.nodes)), back: slices.Repeat([]int32{-1}, len(new.nodes)),
		report: c.newReporter(old, new)}
	a.matchBlocks()
	for i, j := range a.blocks {
		if j >= 0 {
			a.matchCode(old.blocks[old.order[i]].code, new.blocks[new.order[j]].code)
		}
	}
	a.matchMoved()
	return a
}

func (a *alignment) pairBlocks(i, j int) { a.blocks[i], a.backBlocks[j] = int32(j), int32(i) }

// fingerprint is a hash of what a block does, values aside.
func (g *graph) fingerprint(number int) uint64 {
	b := &g.blocks[g.order[number]]
	h := mix(uint64(b.end), uint64(b.label))
	for _, n := range b.code {
		h = mix(h, uint64(g.nodes[n].label))
	}
	return h
}

// matchBlocks pairs blocks that do the same, then those between them that are alike, then those that moved.
func (a *alignment) matchBlocks() {
	was, is := make([]uint64, len(a.old.order)), make([]uint64, len(a.new.order))
	for i := range was {
		was[i] = a.old.fingerprint(i)
	}
	for j := range is {
		is[j] = a.new.fingerprint(j)
	}
	found, coarse := align(was, is)
	a.coarse = a.coarse || coarse
	i, j := 0, 0
	for _, m := range append(found, match{len(was), len(is)}) {
		a.matchAlike(i, m.old, j, m.new)
		if m.old < len(was) {
			a.pairBlocks(m.old, m.new)
		}
		i, j = m.old+1, m.new+1
	}
	where := map[uint64]int{}
	for j := range is {
		if a.backBlocks[j] < 0 {
			where[is[j]] = j
		}
	}
	for i := range was {
		if j, ok := where[was[i]]; ok && a.blocks[i] < 0 {
			a.pairBlocks(i, j)
			delete(where, was[i])
		}
	}
}

const (
	maxAlike = 1 << 16 // pairs of blocks whose likeness is computed between two that are equal
	minAlike = 0.3     // likeness of blocks that may stand for each other
)

// matchAlike pairs blocks old[i:iEnd] and new[j:jEnd] so that their likeness is largest in all, keeping their order.
func (a *alignment) matchAlike(i, iEnd, j, jEnd int) {
	n, m := iEnd-i, jEnd-j
	if n <= 0 || m <= 0 {
		return
	}
	if n*m > maxAlike { // in order, from both ends
		a.coarse = true
		half := min(n, m) / 2
		for k := range min(n, m) {
			if k < half {
				a.pairBlocks(i+k, j+k)
			} else {
				a.pairBlocks(iEnd-1-(k-half), jEnd-1-(k-half))
			}
		}
		return
	}
	was, is := make([][]int32, n), make([][]int32, m)
	for x := range n {
		was[x] = a.old.labels(i + x)
	}
	for y := range m {
		is[y] = a.new.labels(j + y)
	}
	best := make([]float64, (n+1)*(m+1))
	like := make([]float64, (n+1)*(m+1))
	for x := n - 1; x >= 0; x-- {
		for y := m - 1; y >= 0; y-- {
			k := x*(m+1) + y
			if like[k] = likeness(was[x], is[y]); like[k] < minAlike {
				like[k] = 0
			}
			best[k] = max(best[k+1], best[k+m+1], best[k+m+2]+like[k])
		}
	}
	for x, y := 0, 0; x < n && y < m; {
		k := x*(m+1) + y
		switch {
		case like[k] > 0 && best[k] == best[k+m+2]+like[k]:
			a.pairBlocks(i+x, j+y)
			x, y = x+1, y+1
		case best[k] == best[k+m+1]:
			x++
		default:
			y++
		}
	}
}

// labels are the sorted labels of a block's instructions, and of its end.
func (g *graph) labels(number int) []int32 {
	b := &g.blocks[g.order[number]]
	list := []int32{-int32(b.end)}
	for _, n := range b.code {
		list = append(list, g.nodes[n].label)
	}
	slices.Sort(list)
	return list
}

// likeness is the share of labels that two blocks have in common (Dice).
func likeness(was, is []int32) float64 {
	common, x, y := 0, 0, 0
	for x < len(was) && y < len(is) {
		switch {
		case was[x] == is[y]:
			common, x, y = common+1, x+1, y+1
		case was[x] < is[y]:
			x++
		default:
			y++
		}
	}
	return 2 * float64(common) / float64(len(was)+len(is))
}

// matchCode aligns the instructions of two blocks, first by all that is known of their values, then by less and less.
// The last step takes an opcode with other modifiers for the same instruction.
func (a *alignment) matchCode(old, new []int32) {
	type piece struct{ i, iEnd, j, jEnd int }
	pieces := []piece{{0, len(old), 0, len(new)}}
	for level := range levels {
		var rest []piece
		for _, p := range pieces {
			was, is := make([]uint64, p.iEnd-p.i), make([]uint64, p.jEnd-p.j)
			for x := range was {
				was[x] = a.old.key(a.oldHash, old[p.i+x], level)
			}
			for y := range is {
				is[y] = a.new.key(a.newHash, new[p.j+y], level)
			}
			found, coarse := align(was, is)
			a.coarse = a.coarse || coarse
			i, j := p.i, p.j
			for _, m := range append(found, match{p.iEnd - p.i, p.jEnd - p.j}) {
				if x, y := p.i+m.old, p.j+m.new; i < x && j < y {
					rest = append(rest, piece{i, x, j, y})
				}
				if m.old < p.iEnd-p.i {
					a.pairNodes(old[p.i+m.old], new[p.j+m.new])
				}
				i, j = p.i+m.old+1, p.j+m.new+1
			}
		}
		pieces = rest
	}
}

func (a *alignment) pairNodes(old, new int32) { a.nodes[old], a.back[new] = new, old }

// levels is how many keys an instruction has.
const levels = 6

// key is what instructions are aligned by: all values exactly, all but memory, all but constants, the operands' labels,
// its own label, its opcode.
func (g *graph) key(h *hashes, id int32, level int) uint64 {
	n := &g.nodes[id]
	switch level {
	case 0:
		return h.exact[id]
	case 1:
		return h.quiet[id]
	case 2:
		return h.masked[id]
	case 3:
		x := uint64(n.label)
		for _, o := range n.ops {
			if g.nodes[o.node].kind != constNode {
				x += mix(uint64(g.nodes[o.node].kind), uint64(g.nodes[o.node].label)) // in any order
			}
		}
		return x
	case 4:
		return uint64(n.label)
	}
	return uint64(g.names.id("op " + n.in.Op))
}

// matchMoved pairs what is left where the values are the same and only once on each side.
func (a *alignment) matchMoved() {
	where := map[uint64]int32{} // -1 for more than once
	for _, id := range a.new.code() {
		if a.back[id] >= 0 {
			continue
		}
		h := a.newHash.quiet[id]
		if _, twice := where[h]; twice {
			where[h] = -1
		} else {
			where[h] = id
		}
	}
	for _, id := range a.old.code() {
		if other, ok := where[a.oldHash.quiet[id]]; ok && other >= 0 && a.nodes[id] < 0 &&
			a.old.nodes[id].label == a.new.nodes[other].label {
			a.pairNodes(id, other)
			delete(where, a.oldHash.quiet[id])
		}
	}
}

// code are all instructions in order.
func (g *graph) code() []int32 {
	var list []int32
	for _, b := range g.order {
		list = append(list, g.blocks[b].code...)
	}
	return list
}
