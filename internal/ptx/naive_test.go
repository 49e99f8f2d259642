package ptx

import (
	"slices"
	"testing"
)

// This file implements all analyses once more, as plainly as can be.

// naive is the same by iteration over instructions, from the definitions.
type naive struct {
	fn        *Function
	next      [][]int
	returns   []bool // the caller goes on behind an instruction
	reachable []bool
	live      [][]bool // before each instruction, by register
	reaching  [][]bool // before each instruction, by write and then by register for what was there at the entry
	defs      []Def    // all writes, unreachable ones too
}

func newNaive(fn *Function) *naive {
	n := len(fn.Code)
	v := &naive{fn: fn, next: make([][]int, n), returns: make([]bool, n), reachable: make([]bool, n)}
	edge := func(from, to int) {
		if to == n {
			v.returns[from] = true
		} else {
			v.next[from] = append(v.next[from], to)
		}
	}
	for i, in := range fn.Code {
		ends := true
		switch in.Op {
		case "bra":
			edge(i, in.Args[0].Label.Index)
		case "brx":
			for _, o := range in.Args[1].Targets.List {
				edge(i, o.Label.Index)
			}
		case "ret":
			v.returns[i] = true
		case "exit", "trap":
		case "call":
			ends = slices.ContainsFunc(in.Args, func(o Operand) bool { return o.Func != nil && o.Func.NoReturn() })
		default:
			ends = false
		}
		if !ends || in.Guard != nil {
			edge(i, i+1)
		}
		in.Defs(func(o *Operand) { v.defs = append(v.defs, Def{Instr: i, Op: o, Replaces: in.replaces(o)}) })
	}
	for todo := []int{0}; n > 0 && len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !v.reachable[i] {
			v.reachable[i] = true
			todo = append(todo, v.next[i]...)
		}
	}
	v.findLive()
	v.findReaching()
	return v
}

// behind is what is live behind an instruction.
func (v *naive) behind(i int) []bool {
	set := make([]bool, len(v.fn.Registers))
	for _, s := range v.next[i] {
		for r, ok := range v.live[s] {
			set[r] = set[r] || ok
		}
	}
	for _, r := range v.fn.Registers {
		if v.returns[i] && slices.Contains(v.fn.Returns, r.Var) {
			set[r.Index] = true
		}
	}
	return set
}

func (v *naive) findLive() {
	v.live = make([][]bool, len(v.fn.Code))
	for again := true; again; {
		again = false
		for i := len(v.fn.Code) - 1; i >= 0; i-- {
			if !v.reachable[i] {
				continue
			}
			set := v.behind(i)
			in := v.fn.Code[i]
			in.Defs(func(o *Operand) {
				if in.replaces(o) {
					set[o.Reg.Index] = false
				}
			})
			in.Uses(func(o *Operand) { set[o.Reg.Index] = true })
			if !slices.Equal(set, v.live[i]) {
				v.live[i], again = set, true
			}
		}
	}
}

func (v *naive) findReaching() {
	n, size := len(v.fn.Code), len(v.defs)+len(v.fn.Registers)
	v.reaching = make([][]bool, n)
	for i := range v.reaching {
		v.reaching[i] = make([]bool, size)
	}
	for r := range v.fn.Registers {
		if n > 0 {
			v.reaching[0][len(v.defs)+r] = true
		}
	}
	for again := true; again; {
		again = false
		for i := range n {
			if !v.reachable[i] {
				continue
			}
			set := slices.Clone(v.reaching[i])
			for d, def := range v.defs {
				if def.Instr != i {
					continue
				}
				if def.Replaces {
					for other := range v.defs {
						set[other] = set[other] && v.defs[other].Op.Reg != def.Op.Reg
					}
					set[len(v.defs)+def.Op.Reg.Index] = false
				}
				set[d] = true
			}
			for _, s := range v.next[i] {
				for d, ok := range set {
					if ok && !v.reaching[s][d] {
						v.reaching[s][d], again = true, true
					}
				}
			}
		}
	}
}

// peak is the largest number of live registers.
func (v *naive) peak() Peak {
	p := Peak{At: -1, PredicatesAt: -1}
	for i, in := range v.fn.Code {
		if !v.reachable[i] {
			continue
		}
		before, behind := slices.Clone(v.live[i]), v.behind(i)
		holds := make([]bool, len(v.fn.Registers)) // what nothing has been written to does not count
		for d := range v.defs {
			if v.reaching[i][d] {
				holds[v.defs[d].Op.Reg.Index] = true
			}
		}
		for _, r := range v.fn.Registers {
			ok := holds[r.Index] || slices.Contains(v.fn.Params, r.Var)
			before[r.Index] = before[r.Index] && ok
			behind[r.Index] = behind[r.Index] && ok
		}
		in.Defs(func(o *Operand) { behind[o.Reg.Index] = true })
		for _, set := range [][]bool{before, behind} {
			registers, predicates := 0, 0
			for r, ok := range set {
				if ok {
					n, q := v.fn.Registers[r].Size()
					registers += n
					predicates += q
				}
			}
			if registers > p.Registers || p.At < 0 {
				p.Registers, p.At = registers, i
			}
			if predicates > p.Predicates || p.PredicatesAt < 0 {
				p.Predicates, p.PredicatesAt = predicates, i
			}
		}
	}
	return p
}

// checkFlow compares all analyses of a function with the naive ones.
func checkFlow(t testing.TB, fn *Function) {
	t.Helper()
	l, c := analyse(t, fn)
	v := newNaive(fn)
	checkGraph(t, l.Graph)
	for _, b := range l.Graph.Blocks {
		if b.Reachable != v.reachable[b.First] {
			t.Fatalf("%s: block %d: reachable %v", fn.Name, b.Index, b.Reachable)
		}
		in, out := make([]bool, len(fn.Registers)), make([]bool, len(fn.Registers))
		for _, r := range l.In(b.Index) {
			in[r.Index] = true
		}
		for _, r := range l.Out(b.Index) {
			out[r.Index] = true
		}
		want := v.behind(b.End - 1)
		for _, r := range fn.Registers {
			want[r.Index] = want[r.Index] && !slices.Contains(fn.Returns, r.Var)
			out[r.Index] = out[r.Index] && !slices.Contains(fn.Returns, r.Var)
		}
		if b.Reachable && (!slices.Equal(in, v.live[b.First]) || !slices.Equal(out, want)) {
			t.Fatalf("%s: live before block %d: %v, want %v; behind it: %v, want %v", fn.Name, b.Index, in, v.live[b.First],
				out, want)
		}
		if !b.Reachable && (slices.Contains(in, true) || slices.Contains(out, true)) {
			t.Fatalf("%s: something is live at block %d, which cannot be reached", fn.Name, b.Index)
		}
	}
	if got, want := l.PeakLive(), v.peak(); got != want {
		t.Fatalf("%s: PeakLive() = %+v, want %+v", fn.Name, got, want)
	}
	checkChains(t, v, c)
}

func checkChains(t testing.TB, v *naive, c *Chains) {
	t.Helper()
	name := v.fn.Name
	var number []int // of reachable writes in v.defs
	for d, def := range v.defs {
		if v.reachable[def.Instr] {
			number = append(number, d)
		}
	}
	if len(number) != len(c.Defs) {
		t.Fatalf("%s: %d writes, want %d", name, len(c.Defs), len(number))
	}
	for i, d := range c.Defs {
		if want := v.defs[number[i]]; d.Op != want.Op || d.Instr != want.Instr || d.Replaces != want.Replaces {
			t.Fatalf("%s: write %d is %+v, want %+v", name, i, d, want)
		}
		for _, u := range d.Uses {
			if !slices.Contains(c.Uses[u].Defs, i) {
				t.Fatalf("%s: use %d does not know write %d", name, u, i)
			}
		}
	}
	u := 0
	for i, in := range v.fn.Code {
		first := u
		in.Uses(func(o *Operand) {
			if !v.reachable[i] {
				return
			}
			use := c.Uses[u]
			var want []int
			for k, d := range number {
				if v.reaching[i][d] && v.defs[d].Op.Reg == o.Reg {
					want = append(want, k)
				}
			}
			entry := v.reaching[i][len(v.defs)+o.Reg.Index]
			if use.Op != o || use.Instr != i || use.Entry != entry || !slices.Equal(use.Defs, want) {
				t.Fatalf("%s: use %d is %+v, want instruction %d, entry %v, writes %v", name, u, use, i, entry, want)
			}
			if !entry && len(want) == 0 {
				t.Fatalf("%s: nothing reaches the use of %s in instruction %d", name, o.Text, i)
			}
			for _, d := range want {
				if !slices.Contains(c.Defs[d].Uses, u) {
					t.Fatalf("%s: write %d does not know use %d", name, d, u)
				}
			}
			u++
		})
		if got := len(c.UsesAt(i)); got != u-first {
			t.Fatalf("%s: UsesAt(%d) has %d, want %d", name, i, got, u-first)
		}
		if got, want := c.DefsAt(i), 0; v.reachable[i] {
			in.Defs(func(*Operand) { want++ })
			if len(got) != want {
				t.Fatalf("%s: DefsAt(%d) has %d, want %d", name, i, len(got), want)
			}
		}
	}
	if u != len(c.Uses) {
		t.Fatalf("%s: %d uses, want %d", name, len(c.Uses), u)
	}
}
