package ptx

// This file implements dominators and post-dominators.

// Dominators returns the immediate dominator of each block: the nearest other block that is on every way from the entry
// to it. It is -1 for the entry and for what cannot be reached.
func (g *Graph) Dominators() []int {
	return immediate(flow{n: len(g.Blocks), root: 0,
		next: func(b int) []int { return g.Blocks[b].Succs },
		back: func(b int) []int { return g.Blocks[b].Preds },
	})
}

// PostDominators returns the immediate post-dominator of each block: the nearest other block that is on every way from
// it to the exit. It is -1 where only the exit is: where ways part for good.
//
// What never ends has no way to the exit. One is assumed, from one block of every cycle that control cannot leave: such
// a block then is on every way from whatever cannot but get there.
func (g *Graph) PostDominators() []int {
	n := len(g.Blocks)
	exits := g.exits()
	ends := make([]bool, n)
	for _, b := range exits {
		ends[b] = true
	}
	idom := immediate(flow{n: n + 1, root: n,
		next: func(b int) []int {
			if b == n {
				return exits
			}
			return g.Blocks[b].Preds
		},
		back: func(b int) []int {
			if b == n {
				return nil
			}
			if ends[b] {
				return append([]int{n}, g.Blocks[b].Succs...)
			}
			return g.Blocks[b].Succs
		},
	})[:n]
	for b := range idom {
		if idom[b] == n {
			idom[b] = -1
		}
	}
	return idom
}

// exits returns blocks such that one of them can be reached from every block: those that leave the function, and one of
// every cycle without a way out.
func (g *Graph) exits() []int {
	var exits, rest []int
	for b := range g.Blocks {
		if g.Blocks[b].Exits {
			exits = append(exits, b)
		}
	}
	seen := make([]bool, len(g.Blocks))
	g.postorder(exits, preds, seen)
	ended := append([]bool(nil), seen...)
	for b := range g.Blocks {
		if !seen[b] {
			rest = append(rest, b)
		}
	}
	// Of a walk against the edges, the block that is finished last lies in a cycle that has no way out (as in Kosaraju's
	// search for strongly connected components). What leads there is settled with it.
	order := g.postorder(rest, preds, seen)
	for i := len(order) - 1; i >= 0; i-- {
		if b := order[i]; !ended[b] {
			exits = append(exits, b)
			g.postorder([]int{b}, preds, ended)
		}
	}
	return exits
}

// flow is a graph with a root. In that of post-dominators the edges are turned round.
type flow struct {
	n, root    int
	next, back func(int) []int
}

// immediate returns the immediate dominator of each node, -1 for the root and for what it does not lead to.
//
// The method is that of Lengauer and Tarjan (A fast algorithm for finding dominators in a flowgraph, TOPLAS 1979) in
// its simple form: m log n steps for m edges. The shorter iteration of Cooper, Harvey and Kennedy takes n² steps for
// two long chains with rungs between them, which is what a file may hold. Nodes are called by their number in preorder:
// the semidominator of a node is the least node that reaches it through greater ones only.
func immediate(f flow) []int {
	idom := make([]int, f.n)
	for i := range idom {
		idom[i] = -1
	}
	if f.n == 0 {
		return idom
	}
	d := newSearch(f)
	n := len(d.node)
	dom, chain, next := make([]int, n), make([]int, n), make([]int, n) // chain[s] begins the list of those whose semi is s
	for i := range n {
		chain[i] = -1
	}
	for w := n - 1; w > 0; w-- {
		for _, p := range f.back(d.node[w]) {
			if v := d.number[p]; v >= 0 {
				d.semi[w] = min(d.semi[w], d.semi[d.best(v)])
			}
		}
		s, parent := d.semi[w], d.parent[w]
		chain[s], next[w] = w, chain[s]
		d.above[w] = parent
		for v := chain[parent]; v >= 0; v = next[v] {
			dom[v] = parent
			if u := d.best(v); d.semi[u] < d.semi[v] {
				dom[v] = u // they share their dominator, which is not known yet
			}
		}
		chain[parent] = -1
	}
	for w := 1; w < n; w++ {
		if dom[w] != d.semi[w] {
			dom[w] = dom[dom[w]]
		}
		idom[d.node[w]] = d.node[dom[w]]
	}
	return idom
}

// search is a depth-first numbering of a graph with the forest that grows over it.
type search struct {
	node   []int // by number
	number []int // of nodes; -1 where the root does not lead
	parent []int // in the tree of the search
	semi   []int // semidominator so far
	above  []int // parent in the forest, -1 for a root; paths shrink as they are looked at
	label  []int // the node with the least semidominator between a node and its place in above
	path   []int
}

func newSearch(f flow) *search {
	d := &search{number: make([]int, f.n)}
	for i := range d.number {
		d.number[i] = -1
	}
	type step struct{ node, parent int }
	for stack := []step{{f.root, 0}}; len(stack) > 0; {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if d.number[top.node] >= 0 {
			continue
		}
		w := len(d.node)
		d.number[top.node] = w
		d.node, d.parent = append(d.node, top.node), append(d.parent, top.parent)
		d.semi, d.label, d.above = append(d.semi, w), append(d.label, w), append(d.above, -1)
		for _, s := range f.next(top.node) {
			if d.number[s] < 0 {
				stack = append(stack, step{s, w})
			}
		}
	}
	return d
}

// best is the node with the least semidominator from v up to the root of its tree, without that root.
func (d *search) best(v int) int {
	if d.above[v] < 0 {
		return v
	}
	d.path = d.path[:0]
	for u := v; d.above[d.above[u]] >= 0; u = d.above[u] {
		d.path = append(d.path, u)
	}
	for i := len(d.path) - 1; i >= 0; i-- {
		u := d.path[i]
		up := d.above[u]
		if d.semi[d.label[up]] < d.semi[d.label[u]] {
			d.label[u] = d.label[up]
		}
		d.above[u] = d.above[up]
	}
	return d.label[v]
}
