package ptxdiff

import "slices"

// This file implements the alignment of sequences of keys.

const (
	// maxCells is the largest table of a longest common subsequence: 16 MB, some milliseconds. Larger pieces are first cut
	// at keys that are unique in both; what has none is aligned greedily.
	maxCells = 1 << 22
	// window is how far the greedy alignment looks ahead.
	window = 64
)

// match is a pair of places, one in each sequence.
type match struct{ old, new int }

// increasing returns the places of a longest increasing subsequence.
func increasing(list []int) []int {
	var tails []int // place of the least last element of a subsequence, by its length
	before := make([]int, len(list))
	for i, x := range list {
		k, _ := slices.BinarySearchFunc(tails, x, func(t, x int) int { return list[t] - x })
		before[i] = -1
		if k > 0 {
			before[i] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, i)
		} else {
			tails[k] = i
		}
	}
	var out []int
	if len(tails) > 0 {
		for i := tails[len(tails)-1]; i >= 0; i = before[i] {
			out = append(out, i)
		}
	}
	slices.Reverse(out)
	return out
}

// aligner collects matches of two sequences.
type aligner struct {
	old, new []uint64
	found    []match
	coarse   bool
}

// align returns places of equal keys, increasing in both sequences.
func align(old, new []uint64) (found []match, coarse bool) {
	a := &aligner{old: old, new: new}
	a.piece(0, len(old), 0, len(new))
	return a.found, a.coarse
}

// piece aligns old[i:iEnd] with new[j:jEnd].
func (a *aligner) piece(i, iEnd, j, jEnd int) {
	for i < iEnd && j < jEnd && a.old[i] == a.new[j] {
		a.found = append(a.found, match{i, j})
		i, j = i+1, j+1
	}
	tail := 0
	for i < iEnd-tail && j < jEnd-tail && a.old[iEnd-1-tail] == a.new[jEnd-1-tail] {
		tail++
	}
	a.middle(i, iEnd-tail, j, jEnd-tail)
	for k := tail; k > 0; k-- {
		a.found = append(a.found, match{iEnd - k, jEnd - k})
	}
}

func (a *aligner) middle(i, iEnd, j, jEnd int) {
	if i == iEnd || j == jEnd {
		return
	}
	if (iEnd-i)*(jEnd-j) <= maxCells {
		a.table(i, iEnd, j, jEnd)
		return
	}
	anchors := a.unique(i, iEnd, j, jEnd)
	if len(anchors) == 0 {
		a.coarse = true
		a.greedy(i, iEnd, j, jEnd)
		return
	}
	for _, m := range anchors {
		a.piece(i, m.old, j, m.new)
		a.found = append(a.found, m)
		i, j = m.old+1, m.new+1
	}
	a.piece(i, iEnd, j, jEnd)
}

// table is the longest common subsequence by dynamic programming.
func (a *aligner) table(i, iEnd, j, jEnd int) {
	n, m := iEnd-i, jEnd-j
	length := make([]int32, (n+1)*(m+1)) // of what lies behind a place
	for x := n - 1; x >= 0; x-- {
		for y := m - 1; y >= 0; y-- {
			k := x*(m+1) + y
			if a.old[i+x] == a.new[j+y] {
				length[k] = length[k+m+2] + 1
			} else {
				length[k] = max(length[k+1], length[k+m+1])
			}
		}
	}
	for x, y := 0, 0; x < n && y < m; {
		k := x*(m+1) + y
		switch {
		case a.old[i+x] == a.new[j+y]:
			a.found = append(a.found, match{i + x, j + y})
			x, y = x+1, y+1
		case length[k+m+1] >= length[k+1]:
			x++
		default:
			y++
		}
	}
}

// unique finds keys that are there once in both, in the same order (patience diff, by Bram Cohen).
func (a *aligner) unique(i, iEnd, j, jEnd int) []match {
	where := map[uint64]int{} // in new; -1 for more than once
	for y := j; y < jEnd; y++ {
		if _, twice := where[a.new[y]]; twice {
			where[a.new[y]] = -1
		} else {
			where[a.new[y]] = y
		}
	}
	count := map[uint64]int{}
	for x := i; x < iEnd; x++ {
		count[a.old[x]]++
	}
	var pairs []match
	var order []int
	for x := i; x < iEnd; x++ {
		if y, ok := where[a.old[x]]; ok && y >= 0 && count[a.old[x]] == 1 {
			pairs = append(pairs, match{x, y})
			order = append(order, y)
		}
	}
	var out []match
	for _, k := range increasing(order) {
		out = append(out, pairs[k])
	}
	return out
}

// greedy takes the nearest equal key ahead.
func (a *aligner) greedy(i, iEnd, j, jEnd int) {
	for i < iEnd && j < jEnd {
		x, y := a.ahead(i, iEnd, j, jEnd)
		if x < 0 {
			i, j = min(i+window, iEnd), min(j+window, jEnd)
			continue
		}
		a.found = append(a.found, match{x, y})
		i, j = x+1, y+1
	}
}

// ahead finds the equal keys that skip least.
func (a *aligner) ahead(i, iEnd, j, jEnd int) (x, y int) {
	for skip := range window {
		for k := 0; k <= skip; k++ {
			if x, y := i+k, j+skip-k; x < iEnd && y < jEnd && a.old[x] == a.new[y] {
				return x, y
			}
		}
	}
	return -1, -1
}
