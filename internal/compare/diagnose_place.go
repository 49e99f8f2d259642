// This file implements the diagnosis of places: tails of tiles, edges, and some indexes of an axis.

package compare

import "fmt"

// guessedTiles are tried where the options name none: the block sizes kernels are written with.
var guessedTiles = []int{1024, 512, 256, 128, 64, 32, 16}

// placed describes along which axes the wrong elements are confined, the most confining axis first.
func (f *facts) placed(add report) {
	if f.m == 1 && f.n >= 8 && (f.first == 0 || f.first == f.n-1) {
		add(FindEdge, "the only error is in the %s element of %d", edgeName(f.first == 0), f.n)
		return
	}
	if f.m == f.n {
		return
	}
	type place struct {
		share          float64
		kind, sentence string
	}
	var places []place
	for k := len(f.shape) - 1; k >= 0; k-- {
		if f.byAxis[k] == nil {
			continue
		}
		var used []int
		for i, c := range f.byAxis[k] {
			if c > 0 {
				used = append(used, i)
			}
		}
		if kind, s := f.along(k, used); kind != "" {
			places = append(places, place{float64(len(used)) / float64(f.shape[k]), kind, s})
		}
	}
	for _, kind := range []string{FindTail, FindEdge, FindGroup} {
		for _, p := range places {
			if p.kind == kind {
				add(kind, "%s", p.sentence)
			}
		}
	}
}

func edgeName(first bool) string {
	if first {
		return "first"
	}
	return "last"
}

// along returns what the used indexes of axis k say, or "" for nothing.
func (f *facts) along(k int, used []int) (kind, sentence string) {
	d := f.shape[k]
	lo, hi := used[0], used[len(used)-1]
	name := f.axisName(k)
	if t := f.tile(k, lo); t > 0 {
		return FindTail, fmt.Sprintf("%s in %s %d..%d (last partial tile of %d)", f.errors("lies", "lie"), name, lo, d-1, t)
	}
	if len(used) == d {
		return "", ""
	}
	if !f.unlikely(len(used), d, 2*float64(len(f.shape))) {
		return "", ""
	}
	switch {
	case hi == 0:
		return FindEdge, fmt.Sprintf("%s in the first of %d %s", f.errors("lies", "lie"), d, name)
	case lo == d-1:
		return FindEdge, fmt.Sprintf("%s in the last of %d %s", f.errors("lies", "lie"), d, name)
	}
	if g := period(used, d); g > 1 {
		return FindGroup, fmt.Sprintf("%s in every %s of %d %s, from %d on", f.errors("lies", "lie"), ordinal(g), d, name, lo)
	}
	if hi-lo+1 == len(used) {
		if !f.unlikely(len(used), d, float64(d*len(f.shape))) {
			return "", ""
		}
		return FindGroup, fmt.Sprintf("%s in %s %s of %d", f.errors("lies", "lie"), name, span(lo, hi), d)
	}
	if !f.unlikely(len(used), d, subsets(len(used), d)) {
		return "", ""
	}
	return FindGroup, fmt.Sprintf("%s in %d of %d %s: %s", f.errors("lies", "lie"), len(used), d, name, some(used))
}

// tile returns the tile whose last, partial instance on axis k starts at lo or, for a tile the options name, before it.
// Of guessed tiles it is the largest.
func (f *facts) tile(k, lo int) int {
	d := f.shape[k]
	tiles, named := f.p.opt.Tiles, true
	if tiles == nil {
		tiles, named = guessedTiles, false
	}
	best := 0
	for _, t := range tiles {
		start := (d - 1) / t * t
		if d%t == 0 || start == 0 || lo < start || !named && lo != start {
			continue
		}
		if t > best && f.unlikely(d-start, d, float64(len(tiles)*len(f.shape))) {
			best = t
		}
	}
	return best
}

// unlikely reports whether it would be a coincidence that m wrong elements, strewn at random over all n, lie within
// part of whole slices of an axis: C(region, m)/C(n, m) times the number of hypotheses is below chance.
func (f *facts) unlikely(part, whole int, hypotheses float64) bool {
	region := float64(f.n / whole * part)
	p := hypotheses
	for i := range f.m {
		p *= (region - float64(i)) / (float64(f.n) - float64(i))
		if p < chance {
			return true
		}
	}
	return p < chance
}

// subsets returns C(d, k), possibly infinite.
func subsets(k, d int) float64 {
	c := 1.0
	for i := range min(k, d-k) {
		c = c * float64(d-i) / float64(i+1)
	}
	return c
}

// period returns g if the used indexes are exactly those with the remainder of the first one modulo g, and there are at
// least three of them.
func period(used []int, d int) int {
	if len(used) < 3 {
		return 0
	}
	g := used[1] - used[0]
	if g < 2 || used[0] >= g || used[len(used)-1]+g < d {
		return 0
	}
	for i, u := range used {
		if u != used[0]+i*g {
			return 0
		}
	}
	return g
}

func ordinal(g int) string {
	switch {
	case g%100/10 == 1:
		return fmt.Sprintf("%dth", g)
	case g%10 == 1:
		return fmt.Sprintf("%dst", g)
	case g%10 == 2:
		return fmt.Sprintf("%dnd", g)
	case g%10 == 3:
		return fmt.Sprintf("%drd", g)
	}
	return fmt.Sprintf("%dth", g)
}

// some lists indexes, shortened.
func some(used []int) string {
	const most = 8
	s := ""
	for i, u := range used {
		if i == most {
			return s + ", …"
		}
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(u)
	}
	return s
}
