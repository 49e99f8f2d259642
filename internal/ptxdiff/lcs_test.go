package ptxdiff

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// common is the length of a longest common subsequence, by the definition.
func common(x, y []uint64) int {
	row := make([]int, len(y)+1)
	for i := range x {
		before := 0
		for j := range y {
			above := row[j+1]
			if x[i] == y[j] {
				row[j+1] = before + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			before = above
		}
	}
	return row[len(y)]
}

// checkMatches: matches are of equal keys and increase in both sequences.
func checkMatches(t *testing.T, x, y []uint64, found []match) {
	t.Helper()
	last := match{-1, -1}
	for _, m := range found {
		if m.old <= last.old || m.new <= last.new || x[m.old] != y[m.new] {
			t.Fatalf("%v behind %v, keys %d and %d", m, last, x[m.old], y[m.new])
		}
		last = m
	}
}

func TestAlign(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	random := func(n, keys int) []uint64 {
		list := make([]uint64, n)
		for i := range list {
			list[i] = rng.Uint64N(uint64(keys))
		}
		return list
	}
	for range 300 {
		x, y := random(rng.IntN(40), 1+rng.IntN(8)), random(rng.IntN(40), 1+rng.IntN(8))
		found, coarse := align(x, y)
		checkMatches(t, x, y, found)
		if want := common(x, y); len(found) != want || coarse {
			t.Errorf("align(%v, %v) has %d matches, want %d; coarse: %v", x, y, len(found), want, coarse)
		}
	}
}

// TestAlignLarge: what exceeds the table is cut at unique keys; without them it is greedy, says so, and takes no time.
func TestAlignLarge(t *testing.T) {
	const n = 40_000
	x := make([]uint64, n)
	for i := range x {
		x[i] = uint64(i % 7)
		if i%100 == 0 {
			x[i] = uint64(1000 + i)
		}
	}
	y := slices.Insert(slices.Clone(x), n/2, 3, 4, 5)
	y[10], y[n-10] = 999, 998
	found, coarse := align(x, y)
	checkMatches(t, x, y, found)
	if len(found) < n-5 || coarse {
		t.Errorf("%d of %d matches, coarse: %v", len(found), n, coarse)
	}
	for i := range x {
		x[i] = uint64(i % 7)
	}
	y = slices.Clone(x)
	y[0], y[n-1], y[n/2] = 999, 998, 997
	found, coarse = align(x, y)
	checkMatches(t, x, y, found)
	if len(found) < n*9/10 || !coarse {
		t.Errorf("%d of %d matches, coarse: %v", len(found), n, coarse)
	}
}
