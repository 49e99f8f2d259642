package ptx

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestRejoins(t *testing.T) {
	const far = -1
	for name, c := range map[string]struct {
		code string
		want []int
	}{
		"diamond": {"@%p1 bra a; mov.b32 %r1, 0; bra b; a: mov.b32 %r1, 1; b: bar.sync 0; ret;",
			[]int{3, 3, 3, far}},
		"return before":    {"@%p1 bra e; bar.sync 0; e: ret;", []int{2, 2, far}},
		"trap before":      {"@%p1 bra e; bar.sync 0; ret; e: trap;", []int{far, far, far}},
		"guarded return":   {"@%p1 bra a; @%p2 ret; a: bar.sync 0; ret;", []int{2, 2, far}},
		"return in branch": {"@%p1 bra a; @%p2 bra e; mov.b32 %r1, 0; a: bar.sync 0; e: ret;", []int{3, 2, 3, 4, far}},
		"trap in branch": {"@%p1 bra a; @%p2 bra e; mov.b32 %r1, 0; a: bar.sync 0; ret; e: trap;",
			[]int{3, 2, 3, far, far}},
		"call in branch": {"@%p1 bra a; @%p2 bra e; mov.b32 %r1, 0; a: bar.sync 0; ret; e: call stop;",
			[]int{3, 2, 3, far, far}},
		"work before the end": {"@%p1 bra a; @%p2 bra e; mov.b32 %r1, 0; a: bar.sync 0; bra z; e: mov.b32 %r1, 1; z: ret;",
			[]int{3, 2, 3, 5, 5, far}},
		"a barrier before the end": {"@%p1 bra a; @%p2 bra e; mov.b32 %r1, 0; a: bar.sync 0; bra z; e: bar.sync 1; z: ret;",
			[]int{5, 5, 3, 5, 5, far}},
		"a loop before the end": {"@%p1 bra a; @%p2 bra e; mov.b32 %r1, 0; a: bar.sync 0; ret; e: @%p1 bra e; ret;",
			[]int{3, 2, 3, far, 5, far}},
		"a loop that may wait": {"@%p1 bra a; @%p2 bra e; mov.b32 %r1, 0; a: bar.sync 0; ret;" +
			"e: ld.volatile.global.u32 %r1, [%rd1]; @%p1 bra e; ret;", []int{far, far, 3, far, 5, far}},
		"a return in a loop, behind another loop": {"l: @%p1 bra a; @%p2 bra e; mov.b32 %r1, 0; a: bar.sync 0; @%p1 bra l;" +
			"bra z; e: @%p2 bra e; z: ret;", []int{3, 2, 3, 6, 6, 6, far}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := graphOf(t, c.code).Rejoins(); !slices.Equal(got, c.want) {
				t.Errorf("Rejoins() = %v, want %v", got, c.want)
			}
		})
	}
}

// TestRejoinsOfFunctions has returns that do not end a thread: its caller goes on.
func TestRejoinsOfFunctions(t *testing.T) {
	for code, want := range map[string][]int{
		"@%p1 bra a; @%p2 bra e; mov.b32 %r1, 0; a: bar.sync 0; e: ret;":       {4, 4, 3, 4, -1},
		"@%p1 bra a; @%p2 bra e; mov.b32 %r1, 0; a: bar.sync 0; ret; e: trap;": {3, 2, 3, -1, -1},
	} {
		f := parseString(t, ".version 8.0\n.target sm_80\n.func f() { .reg .pred %p<3>; .reg .b32 %r<3>;"+code+"}\n")
		if got := NewGraph(f.Functions[0]).Rejoins(); !slices.Equal(got, want) {
			t.Errorf("%s\nRejoins() = %v, want %v", code, got, want)
		}
	}
}

// TestRejoinsHold checks of random graphs that whoever does not end comes to the place where the others are.
func TestRejoinsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	moved := 0
	for range 20_000 {
		g := randomGraph(r)
		g.Func = &Function{Entry: true, Code: make([]*Instr, len(g.Blocks))}
		for b := range g.Blocks {
			g.Blocks[b].First, g.Blocks[b].End = b, b+1
			g.Func.Code[b] = &Instr{Op: []string{"mov", "bar", "ret", "trap"}[r.IntN(4)]}
		}
		strict, dying := g.PostDominators(), g.dying(false)
		for b, at := range g.Rejoins() {
			if at == strict[b] {
				continue
			}
			moved++
			past := reach(g, g.Blocks[b].Succs, at, succs) // what threads reach that do not come there
			for x, ok := range past {
				if ok && !dying[x] && !reach(g, []int{x}, -1, succs)[at] {
					t.Fatalf("threads part at %d, meet at %d, and come to %d past it in %+v", b, at, x, g.Blocks)
				}
			}
		}
	}
	if moved < 100 {
		t.Errorf("%d of the places are other than before", moved)
	}
}
