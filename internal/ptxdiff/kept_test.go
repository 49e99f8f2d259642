package ptxdiff

import (
	"strings"
	"testing"
)

// This file implements tests of what the normal form must keep: names that others know, bits of literals, fields of
// registers, places in tables.

// TestNamesOfOthers: a host sets visible variables and textures by name, so another name is another variable.
func TestNamesOfOthers(t *testing.T) {
	module := func(declarations, body string) string {
		return head + declarations + "\n.visible .entry k(.param .u64 p) {\n" +
			".reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;\n" +
			"ld.param.u64 %rd1, [p];\n" + body + "\nst.global.b32 [%rd1], %r1; ret; }\n"
	}
	read := "ld.global.b32 %r1, [NAME];"
	constant := "ld.const.b32 %r1, [NAME];"
	texture := "tex.1d.v4.s32.f32 {%r1, %r2, %r3, %r4}, [NAME, {%f1}];"
	for _, c := range []struct {
		name, old, new, body string // declarations; the new body names b
		want                 Rank
		message              string
	}{
		{"visible", ".visible .global .u32 a, b;", "", read, Structure,
			"the address of ld.global.b32 was the address of a and is the address of b"},
		{"visible constant", ".visible .const .u32 a = 1; .visible .const .u32 b = 1;", "", constant, Structure,
			"was the address of a and is the address of b"},
		{"of another module", ".extern .const .u32 a;", ".extern .const .u32 b;", constant, Structure,
			"was the address of a and is the address of b"},
		{"weak", ".weak .global .u32 a, b;", "", read, Structure, ""},
		{"texture", ".global .texref a; .global .texref b;", "", texture, Structure, ""},
		{"texture of old", ".tex .u32 a; .tex .u32 b;", "", texture, Structure, ""},
		{"set by nobody here", ".visible .global .u32 a;", ".visible .global .u32 b;", read, Structure, ""},
		{"a table with another name", ".visible .const .u32 a = 7;", ".visible .const .u32 b = 7;", constant, Same, ""},
		{"a table with another name and value", ".visible .const .u32 a = 7;", ".visible .const .u32 b = 8;", constant,
			Constants, "initial value b: 7 became 8"},
		{"internal", ".global .u32 a, b;", "", read, Same, ""},
		{"shared", ".extern .shared .b8 a[];", ".extern .shared .b8 b[];", "ld.shared.b32 %r1, [NAME];", Same, ""},
		{"no longer visible", ".visible .global .u32 a = 1;", ".global .u32 a = 1;", "ld.global.b32 %r1, [a];", Structure,
			"variable a is declared otherwise"},
		{"defined elsewhere", ".visible .global .u32 a;", ".extern .global .u32 a;", "ld.global.b32 %r1, [a];", Structure,
			"variable a is declared otherwise"},
		{"behind a table", ".visible .global .u32 a, b; .global .u64 t = a;",
			".visible .global .u32 a, b; .global .u64 t = b;", "ld.global.u64 %rd2, [t]; ld.global.b32 %r1, [%rd2];", Structure,
			"variable t is declared otherwise"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.new == "" {
				c.new = c.old
			}
			r := compare(t, module(c.old, strings.ReplaceAll(c.body, "NAME", "a")),
				module(c.new, strings.ReplaceAll(c.body, "NAME", "b")))
			if r.Rank != c.want || !strings.Contains(list(r), c.message) {
				t.Errorf("the rank is %v, want %v; changes, which should have %q:\n%s", r.Rank, c.want, c.message, list(r))
			}
		})
	}
}

// TestAliases: the function behind an alias is what is called.
func TestAliases(t *testing.T) {
	base := head + `.func f() { .reg .b32 %q; .local .b32 x; mov.b32 %q, 1; st.local.b32 [x], %q; ret; }
.func g() { .reg .b32 %q; .local .b32 x; mov.b32 %q, 2; st.local.b32 [x], %q; ret; }
.visible .func h();
.alias h, f;
.visible .entry k() { call.uni h; ret; }
`
	for _, c := range []struct {
		name    string
		changes []string
		want    Rank
	}{
		{"another function", []string{".alias h, f;", ".alias h, g;"}, Constants},
		{"the same function changed", []string{"mov.b32 %q, 1", "mov.b32 %q, 3"}, Constants},
		{"another name of it", []string{"func h", "func i", "alias h", "alias i", "uni h", "uni i"}, Same},
		{"the function itself", []string{"call.uni h", "call.uni f"}, Same},
	} {
		if r := compare(t, base, strings.NewReplacer(c.changes...).Replace(base)); r.Rank != c.want {
			t.Errorf("%s: the rank is %v, want %v\n%s", c.name, r.Rank, c.want, list(r))
		}
	}
}

// TestLiterals: an immediate keeps all bits that the instruction sees, and no more.
func TestLiterals(t *testing.T) {
	for _, c := range []struct {
		name, body, old, new string
		want                 Rank
	}{
		{"address of a byte to store", "st.shared.u8 [N], %r1;", "256", "512", Constants},
		{"address of a byte to load", "ld.shared.u8 %r3, [N]; st.global.u32 [%rd3], %r3;", "256", "512", Constants},
		{"address of a half", "ld.shared.u16 %h1, [N]; st.global.u16 [%rd3], %h1;", "0", "65536", Constants},
		{"coordinate of a surface", "suld.b.1d.b8.trap {%h1}, [s, {N}]; st.global.u16 [%rd3], %h1;", "256", "512",
			Constants},
		{"count of a shift", "cvt.u16.u32 %h1, %r1; shl.b16 %h2, %h1, N; st.global.u16 [%rd3], %h2;", "1", "65537",
			Constants},
		{"count of another shift", "cvt.u16.u32 %h1, %r1; shr.u16 %h2, %h1, N; st.global.u16 [%rd3], %h2;", "1", "65537",
			Constants},
		{"stride of a matrix", "wmma.load.a.sync.aligned.row.m16n16k16.shared.u8 {%r3, %r4}, [%rd2], N;" +
			"st.global.u32 [%rd3], %r3;", "256", "512", Constants},
		{"policy of a cache", "st.global.L2::cache_hint.u32 [%rd3], %r1, N;", "1", "4294967297", Constants},
		{"what is shifted", "shl.b16 %h2, N, %r1; st.global.u16 [%rd3], %h2;", "-1", "0xFFFF", Same},
		{"a byte to store", "st.global.u8 [%rd3], N;", "-1", "255", Same},
		{"a number of 32 bits", "add.u32 %r3, %r1, N; st.global.u32 [%rd3], %r3;", "-1", "0xFFFFFFFF", Same},
		{"a mask of threads", "shfl.sync.idx.b32 %r3, %r1, 0, 31, N; st.global.u32 [%rd3], %r3;", "-1", "0xFFFFFFFF", Same},
		{"a factor of a wide product", "mul.wide.s32 %rd4, %r1, N; st.global.u64 [%rd3], %rd4;", "-4", "0xFFFFFFFC", Same},
		{"a factor of a wide product and sum", "mad.wide.s32 %rd4, %r1, N, %rd1; st.global.u64 [%rd3], %rd4;", "-4",
			"0xFFFFFFFC", Same},
		{"the sum of a wide product", "mad.wide.s32 %rd4, %r1, 4, N; st.global.u64 [%rd3], %rd4;", "-4", "0xFFFFFFFC",
			Constants},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(kernelText(load+c.body+"ret;"), head, head+".global .surfref s;\n", 1)
			r := compare(t, strings.ReplaceAll(text, "N", c.old), strings.ReplaceAll(text, "N", c.new))
			if r.Rank != c.want {
				t.Errorf("the rank is %v, want %v\n%s", r.Rank, c.want, list(r))
			}
		})
	}
}

// TestFields: a part of a register is another value than another part, wherever operands change places.
func TestFields(t *testing.T) {
	begin := load + `.reg .v4 .b32 %v, %w; ld.global.v4.b32 %v, [%rd3]; ld.shared.v4.b32 %w, [%r1];`
	end := " st.global.b32 [%rd1], %r9; ret;"
	for _, c := range []struct {
		name, old, new string
		want           Rank
		message        string
	}{
		{"of a comparison", "setp.lt.s32 %p1, %v.x, 5; selp.b32 %r9, 1, 0, %p1;",
			"setp.lt.s32 %p1, %v.y, 5; selp.b32 %r9, 1, 0, %p1;", Structure,
			"source 1 of setp.lt.s32 was field x of ld.global.v4.b32 at line 11 and is field y of ld.global.v4.b32 at line 11"},
		{"of a selection", "setp.lt.s32 %p1, %r1, 5; selp.b32 %r9, %v.x, %v.y, %p1;",
			"setp.ge.s32 %p1, %r1, 5; selp.b32 %r9, %v.x, %v.y, %p1;", Structure, ""},
		{"of the opposite selection", "setp.lt.s32 %p1, %r1, 5; selp.b32 %r9, %v.x, %v.y, %p1;",
			"setp.ge.s32 %p1, %r1, 5; selp.b32 %r9, %v.y, %v.x, %p1;", Same, ""},
		{"exchanged", "mul.lo.u32 %r9, %v.x, %w.y;", "mul.lo.u32 %r9, %w.x, %v.y;", Structure, ""},
		{"commuted", "mul.lo.u32 %r9, %v.x, %w.y;", "mul.lo.u32 %r9, %w.y, %v.x;", Same, ""},
		{"of equal names, commuted", "mad.lo.u32 %r9, %v.x, %w.x, %r1;", "mad.lo.u32 %r9, %w.x, %v.x, %r1;", Same, ""},
		{"with another instruction", "mul.lo.u32 %r9, %v.x, %r1;", "mul.hi.u32 %r9, %v.x, %r1;", Structure,
			"mul.lo.u32 became mul.hi.u32"},
		{"that is written", "mov.b32 %v.x, %r1; mul.lo.u32 %r9, %v.x, %v.y;",
			"mov.b32 %v.y, %r1; mul.lo.u32 %r9, %v.x, %v.y;", Structure, ""},
		{"of an address", "ld.shared.b32 %r9, [%v.x+4];", "ld.shared.b32 %r9, [%v.y+4];", Structure, "the address of"},
		{"that is added to", "add.u32 %r3, %v.x, 8; ld.shared.b32 %r9, [%r3];", "ld.shared.b32 %r9, [%v.x+8];", Same, ""},
		{"of a scalar", "vadd.u32.u32.u32 %r9, %r1.b0, %r2.b1;", "vadd.u32.u32.u32 %r9, %r1.b1, %r2.b0;", Structure, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compare(t, kernelText(begin+c.old+end), kernelText(begin+c.new+end))
			if r.Rank != c.want || !strings.Contains(list(r), c.message) {
				t.Errorf("the rank is %v, want %v; changes, which should have %q:\n%s", r.Rank, c.want, c.message, list(r))
			}
		})
	}
}

// TestTables: initial values are compared where they lie, whatever rows the declaration makes of them.
func TestTables(t *testing.T) {
	module := func(declaration string) string {
		return head + ".global .b8 x[4]; .global " + declaration + `;
.visible .entry k(.param .u64 p) { .reg .b64 %rd<9>; .reg .b32 %r<9>;
ld.param.u64 %rd1, [p]; ld.global.b32 %r1, [a+8]; st.global.b32 [%rd1], %r1; ret; }
`
	}
	for _, c := range []struct {
		old, new string
		want     Rank
		message  string
	}{
		{".b32 a[2][3] = {{1, 2}, {3, 4}}", ".b32 a[3][2] = {{1, 2}, {3, 4}}", Constants,
			"initial value a[1][0]: 0 became 3"},
		{".b32 a[2][3] = {{1, 2}, {3, 4}}", ".b32 a[2][3] = {{1, 2, 0}, {3, 4, 0}}", Same, ""},
		{".b32 a[2][3] = {{1, 2}, {3, 4}}", ".b32 a[6] = {1, 2, 0, 3, 4}", Same, ""},
		{".b32 a[2][3] = {{1, 2}, {3, 4}}", ".b32 a[2][3] = {1, 2, 0, 3, 4}", Same, ""},
		{".b32 a[2][3] = {{1, 2}, {3, 4}}", ".b32 a[2][3] = {1, 2, 3, 4}", Constants, "initial value a[0][2]: 0 became 3"},
		{".b32 a[][3] = {{1, 2}, {3, 4}}", ".b32 a[2][3] = {{1, 2}, {3, 4}}", Same, ""},
		{".v4 .b32 a[2] = {{1, 2}, {3, 4}}", ".b32 a[8] = {1, 2, 0, 0, 3, 4}", Same, ""},
		{".v4 .b32 a[2] = {{1, 2}, {3, 4}}", ".v2 .b32 a[4] = {{1, 2}, {3, 4}}", Constants,
			"initial value a[1][0]: 0 became 3"},
		{".b32 a[2][2][2] = {{{1}, {2}}, {{3}}}", ".b32 a[8] = {1, 0, 2, 0, 3}", Same, ""},
		{".b32 a[4] = {1}", ".b32 a[4] = {1, 0, x}", Structure, ""},
		{".b32 a[1000000000] = {1}", ".b32 a[1000000000] = {1, 2}", Constants, "initial value a[1]: 0 became 2"},
		{".b32 a = 1", ".b32 a = 2", Constants, "initial value a: 1 became 2"},
	} {
		r := compare(t, module(c.old), module(c.new))
		if r.Rank != c.want || !strings.Contains(list(r), c.message) {
			t.Errorf("%s, %s: the rank is %v, want %v; changes, which should have %q:\n%s", c.old, c.new, r.Rank, c.want,
				c.message, list(r))
		}
	}
}

// TestClocks: when a clock is read counts, whatever reads it.
func TestClocks(t *testing.T) {
	for _, read := range []string{
		"cvt.u64.u32 %rd5, %clock;", "add.u64 %rd5, %rd1, %clock64;", "mov.b64 %rd5, {%r1, %clock};",
	} {
		again := strings.Replace(read, "%rd5", "%rd6", 1)
		end := "sub.u64 %rd7, %rd6, %rd5; st.global.u64 [%rd3], %rd7; ret;"
		r := compare(t, kernelText(load+read+"bar.sync 0;"+again+end), kernelText(load+"bar.sync 0;"+read+again+end))
		if r.Rank != Structure {
			t.Errorf("%s: the rank is %v\n%s", read, r.Rank, list(r))
		}
	}
}

// TestSpellings: the same said otherwise.
func TestSpellings(t *testing.T) {
	base := head + `.extern .func f();
.visible .entry k() .maxntid 256, 1, 1 { call f; ret; }
`
	for _, c := range []struct {
		old, new string
		want     Rank
	}{
		{"call f", "call.uni f", Same},
		{".maxntid 256, 1, 1", ".maxntid 256", Same},
		{".maxntid 256, 1, 1", ".maxntid 256, 2", Structure},
		{".maxntid 256, 1, 1", ".maxntid 1, 1, 256", Structure},
		{".maxntid 256, 1, 1", ".reqntid 256", Structure},
	} {
		if r := compare(t, base, strings.Replace(base, c.old, c.new, 1)); r.Rank != c.want {
			t.Errorf("%s for %s: the rank is %v, want %v\n%s", c.new, c.old, r.Rank, c.want, list(r))
		}
	}
}
