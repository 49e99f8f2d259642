package artifact

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

// textOf is a module with a kernel k.
func textOf(before, body string) string {
	return ".version 8.0\n.target sm_80\n.address_size 64\n" + before + "\n.visible .entry k() {\n.reg .b32 %r<4>;\n" +
		".reg .b64 %rd<4>;\n" + body + "\nret;\n}\n"
}

// kernelOf reads the only kernel of a text.
func kernelOf(t *testing.T, text string) *Metrics {
	t.Helper()
	f, err := Read("k.ptx", []byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return one(t, f, "k")
}

// TestLocalMemory: what is shown as local memory is all that the text has, or nothing is.
func TestLocalMemory(t *testing.T) {
	const f512 = ".func f() { .local .align 4 .b8 b[512]; .reg .b32 %r<2>; st.local.u32 [b], %r1; ret; }\n"
	for _, tt := range []struct {
		name, before, body string
		want               int // -1: not known
		says               string
	}{
		{"none", "", "mov.u32 %r1, 1;", 0, ""},
		{"a function without a body", ".extern .func foo();", "call foo;", -1,
			"foo is called, and its code is not in the text"},
		{"the same further down", ".extern .func foo();\n.func f() { call foo; ret; }", "call f;", -1, "foo is called"},
		{"a variable of the module", ".local .align 4 .b8 buf[1024];", "st.local.u32 [buf], %r1;", 1024, ""},
		{"one that a called function names",
			".local .b8 buf[1024];\n.func f() { .local .b8 b[8]; st.local.u8 [buf], 1; ret; }",
			"st.local.u8 [buf], 1; call f;", 1032, ""},
		{"one that nobody names", ".local .b8 buf[1024];", "", 0, ""},
		{"one of another module", ".extern .local .b8 buf[1024];", "st.local.u8 [buf], 1;", -1, "buf is declared in another"},
		{"an alias", f512 + ".visible .func h();\n.alias h, f;", "call h;", 512, ""},
		{"an alias of a function without a body", ".extern .func f();\n.visible .func h();\n.alias h, f;", "call h;", -1,
			"h is called"},
		{"too large", "", ".local .align 4 .b8 buf[2199023255552]; st.local.u32 [buf], %r1;", -1, "buf is larger than any"},
		{"too large, called", ".func f() { .local .b8 b[2199023255552]; ret; }", "call f;", -1, "b is larger than any"},
		{"taken while it runs", "", "alloca.u64 %rd1, %rd2, 16;", -1, "alloca takes as much as"},
		{"recursion", ".func f();\n.func g() { call f; ret; }\n.func f() { call g; ret; }", "call f;", -1, "calls itself"},
		{"a pointer", f512, "mov.u64 %rd1, f; call %rd1, p;\np: .callprototype _ ();", -1, "through a pointer"},
	} {
		m := kernelOf(t, textOf(tt.before, tt.body))
		notes := strings.Join(m.Notes, "; ")
		if tt.want < 0 {
			if m.Local != nil || m.Stack != nil || !strings.Contains(notes, "local memory is not known: ") ||
				!strings.Contains(notes, tt.says) {
				t.Errorf("%s: local %v, stack %v, %q; want not known with %q", tt.name, m.Local, m.Stack, notes, tt.says)
			}
			continue
		}
		check(t, tt.name+": local", m.Local, figure(tt.want, Declared))
		check(t, tt.name+": stack", m.Stack, figure(tt.want, Estimated))
		check(t, tt.name+": notes", notes, "")
	}
}

// TestSystemCalls: a kernel that prints, or that checks what it assumes, takes the local memory that it declares.
func TestSystemCalls(t *testing.T) {
	root := filepath.Join(testkit.Root(t), "testdata")
	text := must(Load(context.Background(), filepath.Join(root, "ptx", "nvcc13", "print-sm90.ptx"), Options{}))
	machine := must(Load(context.Background(), filepath.Join(root, "cubin", "nvcc-print-sm90.cubin"), Options{}))
	called := 0
	for i := range text.Kernels {
		m := &text.Kernels[i]
		called += m.PTXCode.Opcodes["call"]
		if exact := one(t, machine, m.Kernel); m.Local == nil || m.Local.Value != exact.Local.Value {
			t.Errorf("%s: local memory %v, in the cubin %v", m.Kernel, m.Local, exact.Local)
		}
		check(t, m.Kernel+": what is missing", m.PTXCode.Partial, "")
	}
	if called == 0 {
		t.Error("no kernel calls anything")
	}
}

// TestCalledCode: patterns are looked for, and instructions counted, in what a kernel calls, too.
func TestCalledCode(t *testing.T) {
	const helper = ".func g() { .reg .f32 %f<4>;\ndiv.rn.f32 %f1, %f2, %f3;\nret; }\n"
	for _, tt := range []struct {
		name, before, body string
		total, divisions   int
		line               int // of the first division
	}{
		{"directly", helper, "call g;", 4, 1, 5},
		{"through another", helper + ".func f() { call g; call g; ret; }", "call f;", 7, 1, 5},
		{"through an alias", helper + ".visible .func h();\n.alias h, g;", "call h;", 4, 1, 5},
		{"through a pointer", helper, "mov.u64 %rd1, g; call %rd1, p;\np: .callprototype _ ();", 5, 1, 5},
		{"in the kernel, too", helper, "{ .reg .f32 %f<4>; div.rn.f32 %f1, %f2, %f3; }\ncall g;", 5, 2, 11},
		{"not called", helper, "", 1, 0, 0},
	} {
		m := kernelOf(t, textOf(tt.before, tt.body))
		check(t, tt.name+": total", m.PTXCode.Total, tt.total)
		check(t, tt.name+": div", m.PTXCode.Opcodes["div"], tt.divisions)
		forbidden := Lint(m, Policy{Forbidden: patterns(t, "div.*")})
		required := Lint(m, Policy{Required: patterns(t, "div.*")})
		if forbidden.Passed() != (tt.divisions == 0) || required.Passed() != (tt.divisions > 0) {
			t.Errorf("%s: forbidden %+v, required %+v, with %d divisions", tt.name, forbidden, required, tt.divisions)
		}
		if tt.divisions > 0 {
			check(t, tt.name+": the place", forbidden.Violations[0].Line, tt.line)
		}
	}
}

// TestCodeElsewhere: of a function whose code is not in the text nothing is ruled out.
func TestCodeElsewhere(t *testing.T) {
	m := kernelOf(t, textOf(".extern .func foo();", "call foo;"))
	r := Lint(m, Policy{MaxInstructions: limit(2), Forbidden: patterns(t, "div.*", "call"), Required: patterns(t, "ret")})
	var got []string
	for _, v := range r.Violations {
		got = append(got, string(v.Severity)+": "+v.Message)
	}
	check(t, "what is said", got, []string{
		"note: k: more than the 2 counted instructions, at most 2 are allowed: foo is called, and its code is not in the " +
			"text",
		`note: k: the forbidden pattern "div.*" cannot be ruled out: foo is called, and its code is not in the text`,
		`error: k: call matches the forbidden pattern "call"`})
	r = Lint(m, Policy{MaxInstructions: limit(1)})
	if len(r.Violations) != 1 || r.Passed() {
		t.Errorf("a limit that is broken: %+v, want one error", r.Violations)
	}
	r = Lint(m, Policy{Forbidden: patterns(t, "div.*"), Strict: true})
	if r.Passed() {
		t.Error("strict: it passes")
	}
}
