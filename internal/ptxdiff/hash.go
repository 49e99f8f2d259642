package ptxdiff

import "slices"

// This file implements hashes of values. They order operands that may change places and propose what to compare with
// what. No rank rests on a hash.

const maxRounds = 8 // of following values around loops; each round sees one phi further

// hashes are the hashes of a graph's nodes.
type hashes struct {
	exact  []uint64
	masked []uint64 // as if all numbers were the same
	quiet  []uint64 // as if nothing wrote memory; for alignment, which should not lose its way behind one store
}

func mix(h, x uint64) uint64 {
	h = (h ^ x) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// newHashes computes both kinds.
func newHashes(g *graph) *hashes {
	return &hashes{exact: g.hash(false, false), masked: g.hash(true, false)}
}

// hash follows all operands; phis are followed round by round until they tell no more apart.
func (g *graph) hash(masked, quiet bool) []uint64 {
	h := make([]uint64, len(g.nodes))
	var phis []int32
	for i := range g.nodes {
		n := &g.nodes[i]
		switch {
		case n.kind == constNode && masked:
			h[i] = 1
		case n.kind == constNode:
			h[i] = mix(1, n.bits)
		case n.kind != instrNode:
			h[i] = mix(uint64(n.kind), uint64(n.label))
		}
	}
	for _, b := range g.order {
		phis = append(phis, g.blocks[b].phis...)
	}
	synthetic := g.synthetic()
	classes := 0
	for range maxRounds {
		for _, id := range synthetic {
			h[id] = g.nodeHash(h, id, quiet)
		}
		for _, b := range g.order {
			for _, id := range g.blocks[b].code {
				g.rehash(h, id, quiet)
			}
		}
		next := make([]uint64, len(phis))
		for i, id := range phis {
			next[i] = g.nodeHash(h, id, quiet)
		}
		for i, id := range phis {
			h[id] = next[i]
		}
		slices.Sort(next)
		if n := len(slices.Compact(next)); n == classes {
			break
		} else {
			classes = n
		}
	}
	return h
}

// rehash computes the hash of an instruction, and before it those of its operands that have no place of their own.
func (g *graph) rehash(h []uint64, id int32, quiet bool) {
	for _, o := range g.nodes[id].ops {
		if g.isSynthetic(o.node) {
			g.rehash(h, o.node, quiet)
		}
	}
	h[id] = g.nodeHash(h, id, quiet)
}

// synthetic are all nodes that isSynthetic tells.
func (g *graph) synthetic() []int32 {
	var list []int32
	for i := len(g.fn.Code); i < len(g.nodes); i++ {
		if g.isSynthetic(int32(i)) {
			list = append(list, int32(i))
		}
	}
	return list
}

// isSynthetic reports whether a node is the sum of a name and an offset, or a part of a register: they have no place in
// a block.
func (g *graph) isSynthetic(id int32) bool {
	return int(id) >= len(g.fn.Code) && g.nodes[id].kind == instrNode
}

func (g *graph) nodeHash(h []uint64, id int32, quiet bool) uint64 {
	n := &g.nodes[id]
	x := mix(uint64(n.kind), uint64(n.label))
	for i := range n.ops {
		if v := g.operandAt(h, id, i); !quiet || !g.isState(v) {
			x = mix(x, valueHash(h, v))
		}
	}
	return x
}

// isState reports whether a value is memory or the carry, which have no name in the text.
func (g *graph) isState(v value) bool {
	switch n := &g.nodes[v.node]; n.kind {
	case startNode, phiNode:
		return n.state
	}
	return v.out < 0
}

func valueHash(h []uint64, v value) uint64 {
	x := mix(h[v.node], uint64(v.out))
	if v.neg {
		x = ^x
	}
	return x
}

// operandAt is operand i when those that may change places stand in order of their hashes.
func (g *graph) operandAt(h []uint64, id int32, i int) value {
	n := &g.nodes[id]
	if n.swaps && (i == int(n.first) || i == int(n.first)+1) {
		k := int(n.first)
		if valueHash(h, n.ops[k]) > valueHash(h, n.ops[k+1]) {
			return n.ops[2*k+1-i]
		}
	}
	return n.ops[i]
}
