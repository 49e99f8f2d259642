package ptx

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// shape writes a graph as text: each block with its instructions, its successors and marks: x it exits, r it returns,
// u it cannot be reached.
func shape(g *Graph) string {
	var list []string
	for _, b := range g.Blocks {
		marks := ""
		for _, m := range []struct {
			set  bool
			mark string
		}{{b.Exits, "x"}, {b.Returns, "r"}, {!b.Reachable, "u"}} {
			if m.set {
				marks += m.mark
			}
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d-%d%v %s", b.First, b.End, b.Succs, marks)))
	}
	return strings.Join(list, ", ")
}

// graphOf makes the graph of a kernel with this code.
func graphOf(t testing.TB, code string) *Graph {
	t.Helper()
	f := parseString(t, ".version 8.0\n.target sm_80\n.func stop() .noreturn;\n.func go_on();\n"+
		".entry k(.param .u32 n) {\n.reg .b32 %r<10>;\n.reg .pred %p<10>;\n.reg .b64 %rd<10>;\n"+code+"\n}\n")
	g := NewGraph(f.Kernels()[0])
	checkGraph(t, g)
	return g
}

// checkGraph checks what holds for every graph.
func checkGraph(t testing.TB, g *Graph) {
	t.Helper()
	at := 0
	for i, b := range g.Blocks {
		if b.Index != i || b.First != at || b.End <= b.First {
			t.Errorf("block %d is number %d and has %d-%d, the one before ends at %d", i, b.Index, b.First, b.End, at)
		}
		at = b.End
		for instr := b.First; instr < b.End; instr++ {
			if got := g.BlockOf(instr); got != i {
				t.Errorf("BlockOf(%d) = %d, want %d", instr, got, i)
			}
		}
		for _, list := range [][]int{b.Succs, b.Preds} {
			if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
				t.Errorf("block %d has neighbours %v", i, list)
			}
		}
		for _, s := range b.Succs {
			if !slices.Contains(g.Blocks[s].Preds, i) || b.Reachable && !g.Blocks[s].Reachable {
				t.Errorf("block %d is not known to %d, or does not make it reachable", i, s)
			}
		}
		for _, p := range b.Preds {
			if !slices.Contains(g.Blocks[p].Succs, i) {
				t.Errorf("block %d does not lead to %d", p, i)
			}
		}
		if len(b.Succs) == 0 && !b.Exits || b.Returns && !b.Exits {
			t.Errorf("block %d: exits %v, returns %v, leads to %v", i, b.Exits, b.Returns, b.Succs)
		}
		if b.Reachable != (i == 0 || slices.ContainsFunc(b.Preds, func(p int) bool { return g.Blocks[p].Reachable })) {
			t.Errorf("block %d: reachable %v", i, b.Reachable)
		}
	}
	if at != len(g.Func.Code) {
		t.Errorf("the last block ends at %d of %d", at, len(g.Func.Code))
	}
}

func TestGraph(t *testing.T) {
	for name, c := range map[string]struct{ code, want string }{
		"empty":                  {"", ""},
		"only labels":            {"a: b:", ""},
		"one":                    {"ret;", "0-1[] xr"},
		"no end":                 {"mov.b32 %r1, 0;", "0-1[] xr"},
		"label that nobody uses": {"mov.b32 %r1, 0; a: ret;", "0-2[] xr"},
		"diamond": {"@%p1 bra a; mov.b32 %r1, 0; bra b; a: mov.b32 %r1, 1; b: ret;",
			"0-1[1 2], 1-3[3], 3-4[3], 4-5[] xr"},
		"guard and target meet": {"@%p1 bra a; a: ret;", "0-1[1], 1-2[] xr"},
		"guarded ret":           {"@%p1 ret; @%p1 exit; trap;", "0-1[1] xr, 1-2[2] x, 2-3[] x"},
		"guarded last":          {"@!%p1 exit;", "0-1[] xr"},
		"branch to the end":     {"@%p1 bra end; trap; end:", "0-1[1] xr, 1-2[] x"},
		"loop":                  {"a: @%p1 bra a; ret;", "0-1[0 1], 1-2[] xr"},
		"unreachable": {"bra a; b: mov.b32 %r1, 0; bra b; a: ret; mov.b32 %r1, 1;",
			"0-1[2], 1-3[1] u, 3-4[] xr, 4-5[] xru"},
		"brx": {"l: .branchtargets a, b, a, end; brx.idx %r1, l; a: trap; b: ret; end:", "0-1[1 2] xr, 1-2[] x, 2-3[] xr"},
		"guarded brx with a list behind it": {"@%p1 brx.idx %r1, l; exit; a: trap; b: ret; l: .branchtargets b, a;",
			"0-1[1 2 3], 1-2[] x, 2-3[] x, 3-4[] xr"},
		"calls": {"call go_on; call stop; call %rd1, p; ret; p: .callprototype _ () .noreturn;",
			"0-2[] x, 2-4[] xru"},
		"guarded call":               {"@%p1 call stop; ret;", "0-1[1] x, 1-2[] xr"},
		"scopes with the same label": {"{ a: @%p1 bra a; } { a: @%p1 bra a; }", "0-1[0 1], 1-2[1] xr"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := shape(graphOf(t, c.code)); got != c.want {
				t.Errorf("graph %s\nwant  %s", got, c.want)
			}
		})
	}
	f := parseString(t, ".version 8.0\n.target sm_80\n.extern .func f();\n")
	if g := NewGraph(f.Functions[0]); len(g.Blocks) != 0 || len(g.Dominators()) != 0 || len(g.PostDominators()) != 0 {
		t.Error("a declaration has blocks")
	}
}

func TestBranchErrors(t *testing.T) {
	for code, want := range map[string]string{
		"bra n;":                              `e.ptx:9:5: a branch leads to what is not a label [ptx-bad-target]`,
		"bra 5;":                              `e.ptx:9:5: a branch leads to what is not a label [ptx-bad-target]`,
		"bra %r1;":                            `e.ptx:9:5: a branch leads to what is not a label [ptx-bad-target]`,
		"bra l; l: .branchtargets x; x: ret;": `e.ptx:9:5: a branch leads to what is not a label [ptx-bad-target]`,
		"x: l: .branchtargets x, n; ret;":     `e.ptx:9:25: a branch leads to what is not a label [ptx-bad-target]`,
		"brx.idx %r1, x; x: ret;":             `e.ptx:9:14: brx.idx does not name a list of labels [ptx-bad-target]`,
		"brx.idx %r1, l; l: .calltargets k;":  `e.ptx:9:14: brx.idx does not name a list of labels [ptx-bad-target]`,
	} {
		if _, err := Parse("e.ptx", kernelOf(code)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", code, err, want)
		}
	}
	many := "x: l: .branchtargets x" + strings.Repeat(",x", 1<<12) + ";\n"
	if _, err := Parse("e.ptx", kernelOf(many+strings.Repeat("brx.idx %r1, l;\n", 1<<10))); err == nil ||
		!strings.Contains(err.Error(), "lead to more than 4194304 targets [ptx-limit]") {
		t.Errorf("four million and some edges: %v", err)
	}
}

func TestDominators(t *testing.T) {
	for name, c := range map[string]struct {
		code      string
		dom, post []int
	}{
		"one": {"ret;", []int{-1}, []int{-1}},
		"diamond": {"@%p1 bra a; mov.b32 %r1, 0; bra b; a: mov.b32 %r1, 1; b: ret;",
			[]int{-1, 0, 0, 0}, []int{3, 3, 3, -1}},
		"loop":            {"mov.b32 %r1, 0; a: @%p1 bra b; bra a; b: ret;", []int{-1, 0, 1, 1}, []int{1, 3, 1, -1}},
		"irreducible":     {"@%p1 bra b; a: @%p2 bra c; b: bra a; c: ret;", []int{-1, 0, 0, 1}, []int{1, 3, 1, -1}},
		"early exit":      {"@%p1 bra a; @%p2 ret; a: ret;", []int{-1, 0, 0}, []int{-1, -1, -1}},
		"unreachable":     {"bra b; a: bra b; b: ret;", []int{-1, -1, 0}, []int{2, 2, -1}},
		"infinite":        {"mov.b32 %r1, 0; a: bra a;", []int{-1, 0}, []int{1, -1}},
		"infinite or not": {"@%p1 bra b; a: bra a; b: ret;", []int{-1, 0, 0}, []int{-1, -1, -1}},
		// The cycle of a and b leads to the one of c: whoever starts gets there, so c is behind everything.
		"infinite behind a loop": {"a: @%p1 bra c; b: bra a; c: bra c;", []int{-1, 0, 0}, []int{2, 0, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			g := graphOf(t, c.code)
			if got := g.Dominators(); !slices.Equal(got, c.dom) {
				t.Errorf("Dominators() = %v, want %v", got, c.dom)
			}
			if got := g.PostDominators(); !slices.Equal(got, c.post) {
				t.Errorf("PostDominators() = %v, want %v", got, c.post)
			}
		})
	}
}

func TestLoops(t *testing.T) {
	for name, c := range map[string]struct {
		code        string
		want        []Loop
		bodies      [][]int
		of          []int
		irreducible bool
	}{
		"none": {code: "ret;", of: []int{-1}},
		"self": {"a: @%p1 bra a; ret;", []Loop{{0, []int{0}, -1, 1}}, [][]int{{0}}, []int{0, -1}, false},
		"nested": {"mov.b32 %r1, 0; a: mov.b32 %r2, 0; b: @%p1 bra b; @%p2 bra a; ret;",
			[]Loop{{1, []int{3}, -1, 1}, {2, []int{2}, 0, 2}}, [][]int{{1, 2, 3}, {2}}, []int{-1, 0, 1, 0, -1}, false},
		"two latches": {"a: @%p1 bra a; @%p2 bra a; ret;",
			[]Loop{{0, []int{0, 1}, -1, 1}}, [][]int{{0, 1}}, []int{0, 0, -1}, false},
		"one behind the other": {"a: @%p1 bra a; b: @%p2 bra b; ret;",
			[]Loop{{0, []int{0}, -1, 1}, {1, []int{1}, -1, 1}}, [][]int{{0}, {1}}, []int{0, 1, -1}, false},
		"irreducible": {"@%p1 bra b; a: @%p2 bra c; b: bra a; c: ret;", nil, nil, []int{-1, -1, -1, -1}, true},
		"unreachable": {"ret; a: bra a;", nil, nil, []int{-1, -1}, false},
		"entered from unreachable code": {"bra a; b: bra c; a: mov.b32 %r1, 0; c: @%p1 bra a; ret;",
			[]Loop{{2, []int{3}, -1, 1}}, [][]int{{2, 3}}, []int{-1, -1, 0, 0, -1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := graphOf(t, c.code)
			ls := g.Loops()
			if len(ls.List)+len(c.want) > 0 && !reflect.DeepEqual(ls.List, c.want) || ls.Irreducible != c.irreducible {
				t.Errorf("loops %+v, irreducible %v, want %+v, %v", ls.List, ls.Irreducible, c.want, c.irreducible)
			}
			if !slices.Equal(ls.Of, c.of) {
				t.Errorf("innermost loops %v, want %v", ls.Of, c.of)
			}
			for i := range ls.List {
				if got := g.Body(&ls.List[i]); !slices.Equal(got, c.bodies[i]) {
					t.Errorf("body of loop %d is %v, want %v", i, got, c.bodies[i])
				}
			}
		})
	}
}

// randomGraph has up to 12 blocks and as many edges as fall.
func randomGraph(r *rand.Rand) *Graph {
	g := &Graph{Func: &Function{}, Blocks: make([]BasicBlock, 1+r.IntN(12))}
	n := len(g.Blocks)
	for range r.IntN(2*n + 1) {
		b := &g.Blocks[r.IntN(n)]
		b.Succs = append(b.Succs, r.IntN(n))
	}
	for i := range g.Blocks {
		b := &g.Blocks[i]
		slices.Sort(b.Succs)
		b.Succs = slices.Compact(b.Succs)
		b.Index, b.Exits = i, len(b.Succs) == 0 || r.IntN(8) == 0
		for _, s := range b.Succs {
			g.Blocks[s].Preds = append(g.Blocks[s].Preds, i)
		}
	}
	for i, ok := range reach(g, []int{0}, -1, succs) {
		g.Blocks[i].Reachable = ok
	}
	return g
}

// reach marks what can be reached from some blocks without passing one of them.
func reach(g *Graph, from []int, without int, next func(*BasicBlock) []int) []bool {
	seen := make([]bool, len(g.Blocks))
	for todo := slices.Clone(from); len(todo) > 0; {
		b := todo[0]
		todo = todo[1:]
		if b != without && !seen[b] {
			seen[b] = true
			todo = append(todo, next(&g.Blocks[b])...)
		}
	}
	return seen
}

// naiveDominators removes each block in turn and looks what cannot be reached then.
func naiveDominators(g *Graph, from []int, next func(*BasicBlock) []int) []int {
	n := len(g.Blocks)
	all := reach(g, from, -1, next)
	over := make([][]int, n) // the blocks that dominate each, itself left out
	for a := range n {
		for b, ok := range reach(g, from, a, next) {
			if !ok && all[b] && a != b {
				over[b] = append(over[b], a)
			}
		}
	}
	idom := make([]int, n)
	for b := range n {
		idom[b] = -1
		for _, a := range over[b] { // the nearest one is dominated by all the others
			if len(over[a]) == len(over[b])-1 {
				idom[b] = a
			}
		}
	}
	return idom
}

// TestRandomGraphs compares with definitions taken literally.
func TestRandomGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	endless, irreducible, loops := 0, 0, 0
	for range 20_000 {
		g := randomGraph(r)
		dom := g.Dominators()
		if want := naiveDominators(g, []int{0}, succs); !slices.Equal(dom, want) {
			t.Fatalf("Dominators() = %v, want %v of %+v", dom, want, g.Blocks)
		}
		exits := g.exits()
		if got, want := g.PostDominators(), naiveDominators(g, exits, preds); !slices.Equal(got, want) {
			t.Fatalf("PostDominators() = %v, want %v of %+v", got, want, g.Blocks)
		}
		if slices.Contains(reach(g, exits, -1, preds), false) {
			t.Fatalf("exits %v leave something out of %+v", exits, g.Blocks)
		}
		for i, e := range exits {
			if g.Blocks[e].Exits {
				continue
			}
			endless++
			back := reach(g, []int{e}, -1, preds)
			for b, ok := range reach(g, []int{e}, -1, succs) {
				if ok && (!back[b] || g.Blocks[b].Exits || b != e && slices.Contains(exits[:i], b)) {
					t.Fatalf("exit %d is not in an endless cycle of its own in %+v", e, g.Blocks)
				}
			}
		}
		ls := checkLoops(t, g, dom)
		loops += len(ls.List)
		if ls.Irreducible {
			irreducible++
		}
	}
	if endless < 100 || irreducible < 100 || loops < 1000 {
		t.Errorf("%d endless cycles, %d irreducible graphs, %d loops: too few to say anything", endless, irreducible, loops)
	}
}

// checkLoops compares the loops with what dominators and ways say.
func checkLoops(t *testing.T, g *Graph, dom []int) *Loops {
	t.Helper()
	dominates := func(a, b int) bool {
		for b >= 0 && b != a {
			b = dom[b]
		}
		return b == a
	}
	ls := g.Loops()
	depth, found := make([]int, len(g.Blocks)), 0
	for h := range g.Blocks {
		var latches []int
		for _, p := range g.Blocks[h].Preds {
			if g.Blocks[p].Reachable && dominates(h, p) {
				latches = append(latches, p)
			}
		}
		if latches == nil {
			continue
		}
		found++
		i := slices.IndexFunc(ls.List, func(l Loop) bool { return l.Header == h })
		if i < 0 || !slices.Equal(ls.List[i].Latches, latches) || ls.Of[h] != i || ls.List[i].Parent >= i {
			t.Fatalf("loop at %d with latches %v: %+v, %v of %+v", h, latches, ls.List, ls.Of, g.Blocks)
		}
		var body []int
		for b, ok := range reach(g, latches, h, preds) {
			if ok && g.Blocks[b].Reachable || b == h {
				body = append(body, b)
				depth[b]++
			}
		}
		if got := g.Body(&ls.List[i]); !slices.Equal(got, body) {
			t.Fatalf("body of the loop at %d is %v, want %v of %+v", h, got, body, g.Blocks)
		}
	}
	for b, want := range depth {
		got := 0
		if l := ls.Of[b]; l >= 0 {
			got = ls.List[l].Depth
		}
		if got != want {
			t.Fatalf("block %d is %d loops deep, want %d, in %+v", b, got, want, g.Blocks)
		}
	}
	if len(ls.List) != found || ls.Irreducible == acyclicWithout(g, dominates) {
		t.Fatalf("%d loops, want %d; irreducible %v of %+v", len(ls.List), found, ls.Irreducible, g.Blocks)
	}
	return ls
}

// acyclicWithout reports whether the graph has no cycle once jumps back to dominating headers are taken away, which is
// what reducible means.
func acyclicWithout(g *Graph, dominates func(a, b int) bool) bool {
	for start := range g.Blocks {
		forward := func(b *BasicBlock) []int {
			return slices.DeleteFunc(slices.Clone(b.Succs), func(s int) bool { return dominates(s, b.Index) })
		}
		if g.Blocks[start].Reachable && reach(g, forward(&g.Blocks[start]), -1, forward)[start] {
			return false
		}
	}
	return true
}
