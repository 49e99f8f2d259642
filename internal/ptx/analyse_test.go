package ptx

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file tests all analyses together: on random code, on what compilers write, on big functions and on anything.

// randomCode writes a function of a few blocks with all kinds of writes and reads.
func randomCode(r *rand.Rand) string {
	var b strings.Builder
	head := ".entry k() {\n.reg .b32 %r0, %r1, %out;"
	if r.IntN(2) == 0 {
		head = ".func (.reg .b32 %r0, .reg .b32 %out) k(.reg .b32 %r1) {"
	}
	b.WriteString(".version 8.0\n.target sm_80\n.func stop() .noreturn;\n" + head +
		"\n.reg .b32 %r2, %r3; .reg .b64 %d0, %d1; .reg .pred %p0, %p1; .reg .v2 .b32 %v;\n")
	blocks := 1 + r.IntN(8)
	reg := func() string { return []string{"%r0", "%r1", "%r2", "%r3", "%out", "%v.x"}[r.IntN(6)] }
	pred := func() string { return fmt.Sprintf("%%p%d", r.IntN(2)) }
	label := func() string { return fmt.Sprintf("L%d", r.IntN(blocks+1)) }
	guard := func() {
		if r.IntN(3) == 0 {
			b.WriteString("@" + pred() + " ")
		}
	}
	for i := range blocks {
		fmt.Fprintf(&b, "L%d:\n", i)
		for range r.IntN(5) {
			guard()
			switch r.IntN(7) {
			case 0:
				fmt.Fprintf(&b, "mov.b64 {%s, %s}, %%d%d;\n", reg(), reg(), r.IntN(2))
			case 1:
				fmt.Fprintf(&b, "ld.global.b64 %%d%d, [%%d%d];\n", r.IntN(2), r.IntN(2))
			case 2:
				fmt.Fprintf(&b, "setp.lt.s32 %s|%s, %s, 4;\n", pred(), pred(), reg())
			case 3:
				fmt.Fprintf(&b, "st.global.v2.b32 [%%d0], %%v;\n")
			default:
				fmt.Fprintf(&b, "add.s32 %s, %s, %s;\n", reg(), reg(), reg())
			}
		}
		guard()
		switch r.IntN(8) {
		case 0, 1, 2:
			fmt.Fprintf(&b, "bra %s;\n", label())
		case 3:
			fmt.Fprintf(&b, "brx.idx %%r1, T;\n")
		case 4:
			fmt.Fprintf(&b, "%s;\n", []string{"ret", "exit", "trap", "call stop"}[r.IntN(4)])
		default:
			b.WriteString("mov.b32 %r2, 1;\n")
		}
	}
	fmt.Fprintf(&b, "L%d:\nT: .branchtargets %s, %s;\n}\n", blocks, label(), label())
	return b.String()
}

func TestRandomCode(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 3000 {
		src := randomCode(r)
		f := parseString(t, src)
		checkFlow(t, f.Functions[1])
		if t.Failed() {
			t.Fatalf("program %d:\n%s", i, src)
		}
	}
}

// TestFixtures: all analyses agree with the naive ones on what compilers write, and nothing is read before it is
// written.
func TestFixtures(t *testing.T) {
	checked := 0
	files := fixtures(t)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f, err := Parse(path, files[path])
		if err != nil {
			t.Fatal(err)
		}
		for _, fn := range f.Functions {
			if len(fn.Code) > 3000 {
				t.Logf("%s: %s has %d instructions, too many for the naive analysis", path, fn.Name, len(fn.Code))
				analyse(t, fn)
				continue
			}
			checkFlow(t, fn)
			checked++
			if !strings.HasPrefix(path, "testdata") { // those are written by hand, for the parser
				checkInitialised(t, path, fn)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d functions were checked", checked)
	}
}

// checkInitialised: compilers write registers before they read them. Triton makes two exceptions: threads for which a
// guarded load did nothing compute with what was there, and drop the result; and wgmma adds to nothing at first, which
// an operand tells it.
func checkInitialised(t *testing.T, path string, fn *Function) {
	t.Helper()
	l, c := analyse(t, fn)
	excused := map[*Register]bool{}
	for _, use := range c.Uses {
		if !use.Entry || excused[use.Op.Reg] {
			continue
		}
		guarded := len(use.Defs) > 0
		for _, d := range use.Defs {
			guarded = guarded && fn.Code[c.Defs[d].Instr].Guard != nil
		}
		in := fn.Code[use.Instr]
		if strings.Contains(path, "triton") && (guarded || in.Op == "wgmma" && in.Has("mma_async")) {
			excused[use.Op.Reg] = true
			continue
		}
		t.Errorf("%s: %s in %s reads %s, which may not have been written", path, in.Mnemonic(), fn.Name, use.Op.Text)
	}
	for _, r := range l.Uninitialised() {
		if !excused[r] {
			t.Errorf("%s: %s is said not to be initialised in %s, but no use says so", path, r.Name, fn.Name)
		}
	}
}

func BenchmarkAnalyse(b *testing.B) {
	var list []*Function
	instrs := 0
	for path, src := range fixtures(b) {
		f, err := Parse(path, src)
		if err != nil {
			b.Fatal(err)
		}
		for _, fn := range f.Functions {
			list = append(list, fn)
			instrs += len(fn.Code)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, fn := range list {
			g := NewGraph(fn)
			g.PostDominators()
			g.Loops()
			l, _ := analyse(b, fn)
			l.PeakLive()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(instrs), "ns/instr")
}

// FuzzAnalyse: no analysis of what parses panics or takes long.
func FuzzAnalyse(f *testing.F) {
	for path, src := range fixtures(f) {
		if len(src) < 20_000 {
			f.Add(src)
			continue
		}
		f.Logf("%s has %d bytes, too many for a seed", path, len(src))
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		f.Add(randomCode(r))
	}
	f.Fuzz(func(t *testing.T, src string) {
		file, err := Parse("f.ptx", src)
		if err != nil {
			return
		}
		begin := time.Now()
		for _, fn := range file.Functions {
			g := NewGraph(fn)
			checkGraph(t, g)
			g.Dominators()
			g.PostDominators()
			g.Loops()
			l, c := analyse(t, fn)
			l.PeakLive()
			l.Uninitialised()
			if len(fn.Code) < 50 && len(fn.Registers) < 50 {
				checkFlow(t, fn)
			}
			for _, u := range c.Uses {
				if len(u.Defs) == 0 && !u.Entry {
					t.Fatalf("nothing reaches a use of %s", u.Op.Text)
				}
			}
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Fatalf("%d bytes took %v", len(src), took)
		}
	})
}

// bigCode are functions that make an analysis slow which is not careful, by name.
func bigCode(n int) map[string]string {
	write := func(line func(b *strings.Builder)) string {
		var b strings.Builder
		b.WriteString(".version 8.0\n.target sm_80\n.entry k() {\n.reg .pred %p;\n")
		fmt.Fprintf(&b, ".reg .b32 %%r<%d>;\n", n+2)
		line(&b)
		b.WriteString("}\n")
		return b.String()
	}
	return map[string]string{
		"straight": write(func(b *strings.Builder) {
			for i := range n {
				fmt.Fprintf(b, "add.s32 %%r%d, %%r%d, %%r%d;\n", i+1, i, i/2)
			}
		}),
		// Two chains of n/5 blocks and between them as many blocks that both lead to.
		"ladder": write(func(b *strings.Builder) {
			b.WriteString("@%p bra C0;\n")
			for _, chain := range []string{"A", "C"} {
				for i := range n / 5 {
					fmt.Fprintf(b, "%s%d: @%%p bra R%d;\n", chain, i, i)
				}
				b.WriteString("ret;\n")
			}
			for i := range n / 5 {
				fmt.Fprintf(b, "R%d: mov.b32 %%r1, 0; ret;\n", i)
			}
		}),
		"early exits": write(func(b *strings.Builder) {
			for i := range n / 2 {
				fmt.Fprintf(b, "mov.b32 %%r%d, 0; @%%p bra end;\n", i)
			}
			b.WriteString("end: st.global.b32 [0], %r1;\n")
		}),
		"nested loops": write(func(b *strings.Builder) {
			for i := range n / 2 {
				fmt.Fprintf(b, "L%d: add.s32 %%r%d, %%r%d, 1;\n", i, i, i+1)
			}
			for i := range n / 2 {
				fmt.Fprintf(b, "@%%p bra L%d;\n", n/2-1-i)
			}
		}),
		"all live": write(func(b *strings.Builder) { // from the first block to the last one
			for i := range n / 3 {
				fmt.Fprintf(b, "mov.b32 %%r%d, 0;\n", i)
			}
			for i := range n / 3 {
				fmt.Fprintf(b, "@%%p bra L%d; L%d:\n", i, i)
			}
			for i := range n / 3 {
				fmt.Fprintf(b, "st.global.b32 [0], %%r%d;\n", i)
			}
		}),
		"guarded": write(func(b *strings.Builder) {
			for range n / 2 {
				b.WriteString("@%p mov.b32 %r1, 0;\n")
			}
			for range n / 2 {
				b.WriteString("st.global.b32 [0], %r1;\n")
			}
		}),
		"threaded": write(func(b *strings.Builder) { // every arm reads what all the others write
			b.WriteString("T: .branchtargets A0")
			for i := range n / 400 {
				fmt.Fprintf(b, ", A%d", i)
			}
			b.WriteString(";\n")
			for i := range n / 400 {
				fmt.Fprintf(b, "A%d: st.global.b32 [0], %%r1; @%%p mov.b32 %%r1, 0; brx.idx %%r2, T;\n", i)
			}
		}),
		"back and forth": write(func(b *strings.Builder) { // a sweep takes what is live one block further
			for i := range n / 10 {
				fmt.Fprintf(b, "L%d: st.global.b32 [0], %%r%d; @%%p bra L%d;\n", i, i, max(0, i-1))
			}
		}),
	}
}

// TestBigFunctions: functions of 10⁵ instructions are analysed, or refused with a reason.
func TestBigFunctions(t *testing.T) {
	want := map[string]string{
		"nested loops": "function k has 99999 blocks and 50001 registers that live from one to another, too many to " +
			"analyse [ptx-limit]",
		"back and forth": "the control flow of function k is too entangled to find its live registers [ptx-limit]",
		"guarded":        "writes and reads of registers in function k are too entangled to connect them [ptx-limit]",
	}
	for name, src := range bigCode(100_000) {
		t.Run(name, func(t *testing.T) {
			g := NewGraph(parseString(t, src).Kernels()[0])
			g.Dominators()
			g.PostDominators()
			g.Loops()
			l, err := g.Liveness()
			if err == nil {
				l.PeakLive()
				_, err = l.Chains()
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != want[name] {
				t.Errorf("got %q, want %q", got, want[name])
			}
		})
	}
}
