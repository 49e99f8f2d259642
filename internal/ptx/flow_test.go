package ptx

import (
	"strings"
	"testing"
)

// names are the registers that a visitor sees.
func names(visit func(func(*Operand))) string {
	var list []string
	visit(func(o *Operand) {
		name := o.Text
		if o.Field != "" {
			name += "." + o.Field
		}
		list = append(list, name)
	})
	return strings.Join(list, " ")
}

func TestDefsAndUses(t *testing.T) {
	for code, want := range map[string][2]string{
		"add.s32 a, b, c;":                                  {"a", "b c"},
		"@p add.s32 a, b, c;":                               {"a", "p b c"},
		"@!p ret;":                                          {"", "p"},
		"mov.b32 a, 5;":                                     {"a", ""},
		"mov.u32 a, %tid.x;":                                {"a", ""},
		"mov.b64 {a, b}, x;":                                {"a b", "x"},
		"mov.b64 {a, _}, x;":                                {"a", "x"},
		"mov.b64 x, {a, b};":                                {"x", "a b"},
		"mov.b32 v.x, a;":                                   {"v.x", "a"},
		"mov.b32 a, v.y;":                                   {"a", "v.y"},
		"ld.global.v4.b32 {a,b,c,d}, [x+4];":                {"a b c d", "x"},
		"st.global.b32 [x], a;":                             {"", "x a"},
		"st.shared.v2.b32 [a], {b, c};":                     {"", "a b c"},
		"setp.lt.and.s32 p|q, a, b, !r;":                    {"p q", "a b r"},
		"shfl.sync.bfly.b32 a|p, b, 1, 31, -1;":             {"a p", "b"},
		"atom.global.add.u32 a, [x], b;":                    {"a", "x b"},
		"atom.global.cas.b32 _, [x], a, b;":                 {"", "x a b"},
		"red.global.add.u32 [x], a;":                        {"", "x a"},
		"bar.sync a, b;":                                    {"", "a b"},
		"barrier.sync 0;":                                   {"", ""},
		"bar.red.popc.u32 a, 0, p;":                         {"a", "p"},
		"call f, (a);":                                      {"", "a"},
		"call (a), f, (b, c);":                              {"a", "b c"},
		"call (a), x, (b), proto;":                          {"a", "x b"},
		"call x, proto;":                                    {"", "x"},
		"brx.idx a, list;":                                  {"", "a"},
		"tex.2d.v4.f32.f32 {a,b,c,d}, [t, {e, g}];":         {"a b c d", "e g"},
		"mbarrier.arrive.shared.b64 x, [a];":                {"x", "a"},
		"mbarrier.arrive.shared.b64 _, [a];":                {"", "a"},
		"mbarrier.arrive.expect_tx.shared::cta.b64 [a], b;": {"", "a b"},
		"mbarrier.try_wait.parity.shared.b64 p, [a], b;":    {"p", "a b"},
		"mbarrier.init.shared.b64 [a], b;":                  {"", "a b"},
		"cp.async.cg.shared.global [a], [x], 16, b;":        {"", "a x b"},
		"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {a,b,c,d}, x, y, p, 1, 1, 0, 0;": {"a b c d", "a b c d x y p"},
		"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {a,b,c,d}, {a,b,c,d}, {e,g}, {a,b,c,d};": {"a b c d",
			"a b c d e g a b c d"},
		"wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [x], {a,b,c,d,e,g,a,b}, c;": {"", "x a b c d e g a b c"},
		"vadd.s32.u32.s32 a.b0, b.h1, c, d;":                                            {"a.b0", "b.h1 c d"},
		"ret;":                                                                          {"", ""},
	} {
		f := parseString(t, ".version 8.0\n.target sm_90a\n.global .texref t;\n.func f();\n.entry k() {\n"+
			".reg .b32 a, b, c, d, e, g; .reg .b64 x, y; .reg .pred p, q, r; .reg .v2 .b32 v;\n"+
			"here: list: .branchtargets here; proto: .callprototype _ ();\n"+code+"\n}\n")
		in := f.Kernels()[0].Code[0]
		if defs, uses := names(in.Defs), names(in.Uses); defs != want[0] || uses != want[1] {
			t.Errorf("%s writes %q and reads %q, want %q and %q", code, defs, uses, want[0], want[1])
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string][2]int{
		".pred": {0, 1}, ".b8": {1, 0}, ".f16": {1, 0}, ".b32": {1, 0}, ".f16x2": {1, 0}, ".b64": {2, 0}, ".f64": {2, 0},
		".b128": {4, 0}, ".v2 .b32": {2, 0}, ".v4 .f64": {8, 0}, ".v2 .pred": {0, 2}, ".v8 .b32": {8, 0},
	} {
		f := parseString(t, ".version 8.0\n.target sm_80\n.entry k() { .reg "+text+" x; mov.b32 x, 0; }")
		if n, p := f.Kernels()[0].Registers[0].Size(); n != want[0] || p != want[1] {
			t.Errorf("%s takes %d registers and %d predicates, want %v", text, n, p, want)
		}
	}
}

// analyse computes everything about a function.
func analyse(t testing.TB, fn *Function) (*Liveness, *Chains) {
	t.Helper()
	l, err := NewGraph(fn).Liveness()
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Chains()
	if err != nil {
		t.Fatal(err)
	}
	return l, c
}

func registerNames(list []*Register) string {
	var names []string
	for _, r := range list {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func TestLiveness(t *testing.T) {
	const head = ".reg .b32 %r<10>;\n.reg .pred %p<10>;\n.reg .b64 %rd<10>;\n.reg .v2 .b32 %v;\n"
	for name, c := range map[string]struct {
		fn, code      string
		in            string // live registers before each block
		uninitialised string
		peak          Peak
	}{
		"straight": {code: "mov.b32 %r1, 0; mov.b32 %r2, 1; add.s32 %r3, %r1, %r2; st.global.b32 [0], %r3;",
			peak: Peak{2, 1, 0, 0}},
		"dead write": {code: "mov.b64 %rd1, 0; mov.b64 %rd2, 0; st.global.b64 [0], %rd1;", peak: Peak{4, 1, 0, 0}},
		"dead write under a guard": {code: "setp.eq.s32 %p1, 0, 0; @%p1 mov.b32 %r1, 0; mov.b64 %rd1, 0; ret;",
			peak: Peak{2, 2, 1, 0}},
		"guarded write": {code: "setp.eq.s32 %p1, 0, 0; @%p1 mov.b32 %r1, 0; st.global.b32 [0], %r1;",
			in: "%r1", uninitialised: "%r1", peak: Peak{1, 1, 1, 0}},
		"component": {code: "mov.b32 %v.x, 0; mov.b32 %v.y, 0; st.global.v2.b32 [0], %v;",
			in: "%v", uninitialised: "%v", peak: Peak{2, 0, 0, 0}},
		"part of a scalar": {code: "vadd.s32.u32.s32 %r1.b0, 1, 2, 3; st.global.b32 [0], %r1;", peak: Peak{1, 0, 0, 0}},
		"order of first use": {code: "mov.b32 %r1, 0; mov.b64 %rd1, 0; x: st.global.b64 [0], %rd1; @%p1 bra x;" +
			"st.global.b32 [0], %r1;",
			in: "%p1|%r1 %rd1 %p1|%r1", uninitialised: "%p1", peak: Peak{3, 1, 0, 0}},
		"loop": {code: "mov.b32 %r1, 0; a: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 9; @%p1 bra a; ret;",
			in: "|%r1|", peak: Peak{1, 0, 1, 2}},
		"unreachable": {code: "mov.b32 %r1, 0; ret; st.global.b32 [0], %r1;", in: "|", peak: Peak{1, 0, 0, 0}},
		"read in one arm": {code: "mov.b32 %r1, 0; @%p1 bra a; ret; a: st.global.b32 [0], %r1;",
			in: "%p1||%r1", uninitialised: "%p1", peak: Peak{1, 0, 0, 0}},
		"parameter and result": {fn: ".func (.reg .b32 out) k(.reg .b32 arg)", code: "add.s32 out, arg, 1; ret;",
			in: "arg", peak: Peak{1, 0, 0, 0}},
		"result of a trap": {fn: ".func (.reg .b32 out) k()", code: "setp.eq.s32 %p1, 0, 0; @%p1 trap; mov.b32 out, 1;",
			in: "|", peak: Peak{1, 2, 1, 0}},
		"no result": {fn: ".func (.reg .b32 out) k()", code: "@%p1 mov.b32 out, 1;",
			in: "%p1 out", uninitialised: "%p1 out", peak: Peak{1, 0, 0, 0}},
		"nothing": {peak: Peak{0, -1, 0, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.fn == "" {
				c.fn = ".entry k()"
			}
			f := parseString(t, ".version 8.0\n.target sm_80\n"+c.fn+" {\n"+head+c.code+"\n}\n")
			l, _ := analyse(t, f.Functions[0])
			var in []string
			for b := range l.Graph.Blocks {
				in = append(in, registerNames(l.In(b)))
			}
			if got := strings.Join(in, "|"); got != c.in {
				t.Errorf("live before blocks: %q, want %q", got, c.in)
			}
			if got := registerNames(l.Uninitialised()); got != c.uninitialised {
				t.Errorf("Uninitialised() = %q, want %q", got, c.uninitialised)
			}
			if got := l.PeakLive(); got != c.peak {
				t.Errorf("PeakLive() = %+v, want %+v", got, c.peak)
			}
			checkFlow(t, f.Functions[0])
		})
	}
}

// TestModuleRegisters: a register of the module is another one in each function.
func TestModuleRegisters(t *testing.T) {
	f := parseString(t, ".version 8.0\n.target sm_80\n.reg .b32 shared_one;\n"+
		".func f() { mov.b32 shared_one, 0; }\n.func g() { .reg .b32 x; mov.b32 x, 0; { mov.b32 shared_one, x; } "+
		"st.global.b32 [0], shared_one; }\n")
	for i, want := range []string{"shared_one", "x shared_one"} {
		fn := f.Functions[i]
		if got := registerNames(fn.Registers); got != want {
			t.Errorf("%s has registers %s, want %s", fn.Name, got, want)
		}
		for n, r := range fn.Registers {
			if r.Index != n {
				t.Errorf("%s of %s is number %d, want %d", r.Name, fn.Name, r.Index, n)
			}
		}
		checkFlow(t, fn)
	}
}
