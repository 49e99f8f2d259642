package ptx

import "slices"

// This file implements the search for loops.

// Loop is a natural loop: what can reach a jump back to its header without passing the header, which dominates it all.
type Loop struct {
	Header  int   // the block where control enters it
	Latches []int // the blocks that jump back to the header, in ascending order
	Parent  int   // the loop around it in Loops.List, -1 where there is none
	Depth   int   // 1 for an outermost loop
}

// Loops are the natural loops of a graph.
type Loops struct {
	List []Loop // each behind the one around it
	Of   []int  // the innermost loop of each block, -1 where there is none
	// Irreducible says that some cycle has no header that dominates it. Such a cycle is not in the list.
	Irreducible bool
}

// Loops finds the natural loops. Two that share a header are one.
func (g *Graph) Loops() *Loops {
	n := len(g.Blocks)
	ls := &Loops{Of: make([]int, n)}
	for b := range ls.Of {
		ls.Of[b] = -1
	}
	if n == 0 {
		return ls
	}
	order := g.postorder([]int{0}, succs, make([]bool, n))
	tree := newTree(order, g.Dominators())
	rank := make([]int, n)
	for i, b := range order {
		rank[b] = i
	}
	var outer []int // the outermost loop so far that a loop is in, with shortcuts
	for _, h := range order {
		var latches []int
		for _, p := range g.Blocks[h].Preds {
			switch {
			case !g.Blocks[p].Reachable || rank[p] > rank[h]: // not a jump back
			case tree.dominates(h, p):
				latches = append(latches, p)
			default:
				ls.Irreducible = true
			}
		}
		if latches != nil { // inner headers come first: they are dominated
			outer = append(outer, len(ls.List))
			ls.List = append(ls.List, Loop{Header: h, Latches: latches, Parent: -1})
			g.fill(ls, outer)
		}
	}
	ls.turn()
	return ls
}

// fill puts what belongs to the last loop of the list into it.
func (g *Graph) fill(ls *Loops, outer []int) {
	self := len(ls.List) - 1
	l := &ls.List[self]
	ls.Of[l.Header] = self
	for todo := slices.Clone(l.Latches); len(todo) > 0; {
		b := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !g.Blocks[b].Reachable {
			continue
		}
		if ls.Of[b] >= 0 { // go on before the loop that it is in
			in := ls.Of[b]
			for outer[in] != in {
				outer[in] = outer[outer[in]]
				in = outer[in]
			}
			if in == self {
				continue
			}
			ls.List[in].Parent, outer[in] = self, self
			b = ls.List[in].Header
		} else {
			ls.Of[b] = self
		}
		todo = append(todo, g.Blocks[b].Preds...)
	}
}

// turn puts outer loops before inner ones and counts how deep they are.
func (ls *Loops) turn() {
	last := len(ls.List) - 1
	slices.Reverse(ls.List)
	for i := range ls.List {
		l := &ls.List[i]
		l.Depth = 1
		if l.Parent >= 0 {
			l.Parent = last - l.Parent
			l.Depth = ls.List[l.Parent].Depth + 1
		}
	}
	for b, l := range ls.Of {
		if l >= 0 {
			ls.Of[b] = last - l
		}
	}
}

// Body returns the blocks of a loop in ascending order, those of inner loops among them.
func (g *Graph) Body(l *Loop) []int {
	seen := make([]bool, len(g.Blocks))
	for b := range g.Blocks {
		seen[b] = !g.Blocks[b].Reachable
	}
	seen[l.Header] = true
	body := append(g.postorder(l.Latches, preds, seen), l.Header)
	slices.Sort(body)
	return body
}

// domTree answers which block dominates which: the numbers of what a block dominates follow its own.
type domTree struct{ first, size []int }

// newTree makes a tree of immediate dominators. In order, what a block dominates comes before it.
func newTree(order, idom []int) *domTree {
	t := &domTree{make([]int, len(idom)), make([]int, len(idom))}
	for _, b := range order {
		t.size[b]++
		if d := idom[b]; d >= 0 {
			t.size[d] += t.size[b]
		}
	}
	free := make([]int, len(idom)) // the next number within what a block dominates
	for _, b := range slices.Backward(order) {
		if d := idom[b]; d >= 0 {
			t.first[b] = free[d]
			free[d] += t.size[b]
		}
		free[b] = t.first[b] + 1
	}
	return t
}

// dominates reports whether every way to b goes through a. Both can be reached.
func (t *domTree) dominates(a, b int) bool {
	return t.first[a] <= t.first[b] && t.first[b] < t.first[a]+t.size[a]
}
