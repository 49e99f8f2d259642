package ptxdiff

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// head and kernelText make a module of a body.
const head = ".version 8.0\n.target sm_80\n.address_size 64\n"

func kernelText(body string) string {
	return head + `.visible .entry k(.param .u64 k_0, .param .u32 k_1) {
	.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<30>; .reg .f32 %f<30>; .reg .b64 %rd<30>; .reg .f64 %d<9>;
` + body + "\n}\n"
}

func parse(t testing.TB, src string) *ptx.File {
	t.Helper()
	f, err := ptx.Parse("k.ptx", src)
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return f
}

func compare(t testing.TB, old, new string) *Result { return compareNamed(t, old, new, "") }

// compareNamed compares there and back.
func compareNamed(t testing.TB, old, new, kernel string) *Result {
	t.Helper()
	r, err := Compare(parse(t, old), parse(t, new), kernel, kernel)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Compare(parse(t, new), parse(t, old), kernel, kernel)
	if err != nil {
		t.Fatal(err)
	}
	if back.Rank != r.Rank {
		t.Errorf("the rank is %v, and %v the other way round", r.Rank, back.Rank)
	}
	return r
}

func list(r *Result) string {
	var b strings.Builder
	for _, c := range r.Changes {
		b.WriteString(c.Kind.String() + "/" + c.Rank.String() + " " + c.Old.Pos.String() + " " + c.New.Pos.String() + ": " +
			c.Message + "\n")
	}
	return b.String()
}

// load begins a body: %r1 is the thread, %rd1 the buffer, %f1 an element.
const load = `
	ld.param.u64 %rd1, [k_0]; ld.param.u32 %r2, [k_1];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
	ld.global.f32 %f1, [%rd3];
`

const store = "\nst.global.f32 [%rd3], %f9; ret;"

// TestCompare: a kernel, another version, the rank, and a sentence that must be among the changes.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		want           Rank
		message        string
	}{
		{"other registers", "add.f32 %f9, %f1, 0f3F800000;", "add.f32 %f20, %f1, 0f3F800000; mov.f32 %f9, %f20;", Same, ""},
		{"a register used again", "add.f32 %f2, %f1, %f1; mul.f32 %f9, %f2, %f1;",
			"mov.f32 %f3, %f1; add.f32 %f1, %f1, %f1; mul.f32 %f9, %f1, %f3;", Same, ""},
		{"commuted", "mul.f32 %f2, %f1, 0f40000000; add.f32 %f9, %f1, %f2;",
			"mul.f32 %f2, %f1, 0f40000000; add.f32 %f9, %f2, %f1;", Same, ""},
		{"not commuted", "mul.f32 %f2, %f1, 0f40000000; sub.f32 %f9, %f1, %f2;",
			"mul.f32 %f2, %f1, 0f40000000; sub.f32 %f9, %f2, %f1;", Structure, "source 1 of sub.f32 was ld.global.f32"},
		{"dead", "add.f32 %f9, %f1, %f1;", "add.f32 %f9, %f1, %f1; mul.f32 %f2, %f9, %f9;", Same, ""},
		{"bits for floats", "selp.f32 %f9, %f1, 0f00000000, %p1;", "selp.b32 %f9, %f1, 0, %p1;", Same, ""},
		{"the opposite selection", "setp.lt.f32 %p1, %f1, 0f00000000; selp.f32 %f9, %f1, 0f3F800000, %p1;",
			"setp.geu.f32 %p1, %f1, 0f00000000; selp.f32 %f9, 0f3F800000, %f1, %p1;", Same, ""},
		{"not quite the opposite", "setp.lt.f32 %p1, %f1, 0f00000000; selp.f32 %f9, %f1, 0f3F800000, %p1;",
			"setp.ge.f32 %p1, %f1, 0f00000000; selp.f32 %f9, 0f3F800000, %f1, %p1;", Structure,
			"setp.lt.f32 became setp.ge.f32"},
		{"constant", "mul.f32 %f9, %f1, 0f3C23D70A;", "mul.f32 %f9, %f1, 0f3DCCCCCD;", Constants,
			"constant 0f3C23D70A (0.01) became 0f3DCCCCCD (0.1) in mul.f32"},
		{"constant in a register", "mov.b32 %f2, 0fFF800000; max.f32 %f9, %f1, %f2;",
			"mov.b32 %f2, 0f00000000; max.f32 %f9, %f1, %f2;", Constants,
			"constant 0fFF800000 (-inf) became 0f00000000 (0) in mov.b32, feeding max.f32 at line 11"},
		{"constant under a guard", "mov.b32 %f9, 0xFF800000; setp.eq.u32 %p1, %r1, 0; @%p1 ld.global.b32 %f9, [%rd3];" +
			"max.f32 %f9, %f9, %f1;", "mov.b32 %f9, 0; setp.eq.u32 %p1, %r1, 0; @%p1 ld.global.b32 %f9, [%rd3];" +
			"max.f32 %f9, %f9, %f1;", Constants,
			"constant 0fFF800000 (-inf) became 0f00000000 (0) in mov.b32, feeding max.f32 at line 11"},
		{"half", "cvt.rn.f16.f32 %h1, %f1; mov.b16 %h2, 0x3C00; add.f16 %h3, %h1, %h2; cvt.f32.f16 %f9, %h3;",
			"cvt.rn.f16.f32 %h1, %f1; mov.b16 %h2, 0x4000; add.f16 %h3, %h1, %h2; cvt.f32.f16 %f9, %h3;", Constants,
			"constant 0x3C00 (1) became 0x4000 (2) in mov.b16, feeding add.f16 at line 11"},
		{"bfloat16", "cvt.rn.bf16.f32 %h1, %f1; mov.b16 %h2, 0x3F80; fma.rn.bf16 %h3, %h1, %h1, %h2; mov.b32 %f9, {%h3,%h3};",
			"cvt.rn.bf16.f32 %h1, %f1; mov.b16 %h2, 0x4000; fma.rn.bf16 %h3, %h1, %h1, %h2; mov.b32 %f9, {%h3,%h3};", Constants,
			"constant 0x3F80 (1) became 0x4000 (2) in mov.b16, feeding fma.rn.bf16 at line 11"},
		{"double", "cvt.f64.f32 %d1, %f1; mul.f64 %d2, %d1, 0d3FF0000000000000; cvt.rn.f32.f64 %f9, %d2;",
			"cvt.f64.f32 %d1, %f1; mul.f64 %d2, %d1, 0d4000000000000000; cvt.rn.f32.f64 %f9, %d2;", Constants,
			"constant 0d3FF0000000000000 (1) became 0d4000000000000000 (2) in mul.f64"},
		{"mask of threads", "vote.sync.any.pred %p1, %p2, -1; selp.f32 %f9, %f1, 0f00000000, %p1;",
			"vote.sync.any.pred %p1, %p2, 65535; selp.f32 %f9, %f1, 0f00000000, %p1;", Constants, "65535"},
		{"offset", "ld.global.f32 %f9, [%rd3+4];", "ld.global.f32 %f9, [%rd3+8];", Constants,
			"address offset +4 became +8 in ld.global.f32"},
		{"the same offset", "ld.global.f32 %f9, [%rd3+4];", "add.s64 %rd4, %rd3, 8; ld.global.f32 %f9, [%rd4+-4];", Same, ""},
		{"modifier", "cvt.rni.s32.f32 %r3, %f1; cvt.rn.f32.s32 %f9, %r3;",
			"cvt.rzi.s32.f32 %r3, %f1; cvt.rn.f32.s32 %f9, %r3;", Structure, "cvt.rni.s32.f32 became cvt.rzi.s32.f32"},
		{"added", "mov.f32 %f9, %f1;", "neg.f32 %f9, %f1;", Structure, "neg.f32 was added"},
		{"removed", "ex2.approx.f32 %f9, %f1;", "mov.f32 %f9, %f1;", Structure, "ex2.approx.f32 was removed"},
		{"guard", "setp.eq.u32 %p1, %r1, 0; mov.f32 %f9, %f1; @%p1 st.global.f32 [%rd3+4], %f1;",
			"setp.eq.u32 %p1, %r1, 0; mov.f32 %f9, %f1; st.global.f32 [%rd3+4], %f1;", Structure,
			"the guard of st.global.f32 was removed"},
		{"another parameter", "cvt.rn.f32.u32 %f9, %r2;", "cvt.rn.f32.u32 %f9, %r1;", Structure,
			"ld.param.u32 was removed"},
		{"order", "add.f32 %f2, %f1, 0f3F800000; mul.f32 %f3, %f1, 0f40000000; sub.f32 %f9, %f2, %f3;",
			"mul.f32 %f3, %f1, 0f40000000; add.f32 %f2, %f1, 0f3F800000; sub.f32 %f9, %f2, %f3;", Order,
			"add.f32 stands elsewhere, with the same operands"},
		{"order of loads", "ld.global.f32 %f2, [%rd3+4]; ld.global.f32 %f3, [%rd3+8]; sub.f32 %f9, %f2, %f3;",
			"ld.global.f32 %f3, [%rd3+8]; ld.global.f32 %f2, [%rd3+4]; sub.f32 %f9, %f2, %f3;", Order, "ld.global.f32"},
		{"order and a dependence", "add.f32 %f2, %f1, 0f3F800000; mul.f32 %f3, %f1, 0f40000000; sub.f32 %f9, %f2, %f3;",
			"mul.f32 %f3, %f1, 0f40000000; add.f32 %f2, %f3, 0f3F800000; sub.f32 %f9, %f2, %f3;", Structure,
			"add.f32 was added"},
		{"a load behind a store", "ld.global.f32 %f2, [%rd3+4]; st.global.f32 [%rd3+4], %f1; add.f32 %f9, %f2, %f1;",
			"st.global.f32 [%rd3+4], %f1; ld.global.f32 %f2, [%rd3+4]; add.f32 %f9, %f2, %f1;", Structure,
			"ld.global.f32 follows st.global.f32"},
		{"a store behind a barrier", "mov.f32 %f9, %f1; st.shared.f32 [%r1], %f1; bar.sync 0;",
			"mov.f32 %f9, %f1; bar.sync 0; st.shared.f32 [%r1], %f1;", Structure, "follows"},
		{"no barrier", "mov.f32 %f9, %f1; st.shared.f32 [%r1], %f1; bar.sync 0; ld.shared.f32 %f9, [%r1];",
			"mov.f32 %f9, %f1; st.shared.f32 [%r1], %f1; ld.shared.f32 %f9, [%r1];", Structure, "bar.sync was removed"},
		{"computed twice", "add.f32 %f2, %f1, %f1; mul.f32 %f9, %f2, %f2;",
			"add.f32 %f2, %f1, %f1; add.f32 %f3, %f1, %f1; mul.f32 %f9, %f2, %f3;", Order, "add.f32 is computed once more"},
		{"the second result", "setp.lt.f32 %p1|%p2, %f1, 0f00000000; selp.f32 %f9, %f1, 0f3F800000, %p2;",
			"setp.lt.f32 _|%p2, %f1, 0f00000000; selp.f32 %f9, %f1, 0f3F800000, %p2;", Same, ""},
		{"not the second result", "setp.lt.f32 %p1, %f1, 0f00000000; selp.f32 %f9, %f1, 0f3F800000, %p1;",
			"setp.lt.f32 _|%p1, %f1, 0f00000000; selp.f32 %f9, %f1, 0f3F800000, %p1;", Structure, ""},
		{"the opposite guard", "setp.eq.u32 %p1, %r1, 0; mov.f32 %f9, %f1; @%p1 st.global.f32 [%rd3+4], %f1;",
			"setp.eq.u32 %p1, %r1, 0; mov.f32 %f9, %f1; @!%p1 st.global.f32 [%rd3+4], %f1;", Structure,
			"the guard of st.global.f32 was setp.eq.u32 at line 11 and is not setp.eq.u32 at line 11"},
		{"results of a load", "ld.global.v2.f32 {%f2, %f3}, [%rd3]; sub.f32 %f9, %f2, %f3;",
			"ld.global.v2.f32 {%f3, %f2}, [%rd3]; sub.f32 %f9, %f2, %f3;", Structure, "source 1 of sub.f32"},
		{"a negative offset in 32 bits", "ld.shared.f32 %f9, [%r1];", "add.s32 %r3, %r1, -4; ld.shared.f32 %f9, [%r3+4];",
			Same, ""},
		{"a wide constant", "mad.wide.u32 %rd4, %r1, 4, 4294967296; ld.global.f32 %f9, [%rd4];",
			"mad.wide.u32 %rd4, %r1, 4, 8589934592; ld.global.f32 %f9, [%rd4];", Constants, "8589934592"},
		{"the sign of a byte", "ld.global.s8 %r3, [%rd1]; cvt.rn.f32.s32 %f9, %r3;",
			"ld.global.u8 %r3, [%rd1]; cvt.rn.f32.s32 %f9, %r3;", Structure, "ld.global.s8 became ld.global.u8"},
		{"no sign to extend", "ld.global.s32 %r3, [%rd1]; cvt.rn.f32.s32 %f9, %r3;",
			"ld.global.u32 %r3, [%rd1]; cvt.rn.f32.s32 %f9, %r3;", Same, ""},
		{"the sign of a product", "mul.hi.s32 %r3, %r1, %r2; cvt.rn.f32.s32 %f9, %r3;",
			"mul.hi.u32 %r3, %r1, %r2; cvt.rn.f32.s32 %f9, %r3;", Structure, "mul.hi.s32 became mul.hi.u32"},
		{"volatile loads",
			"ld.volatile.global.f32 %f2, [%rd3+4]; ld.volatile.global.f32 %f3, [%rd3+8]; sub.f32 %f9, %f2, %f3;",
			"ld.volatile.global.f32 %f3, [%rd3+8]; ld.volatile.global.f32 %f2, [%rd3+4]; sub.f32 %f9, %f2, %f3;", Structure,
			"follows"},
		{"order of shuffles",
			"shfl.sync.bfly.b32 %f2, %f1, 1, 31, -1; shfl.sync.bfly.b32 %f3, %f1, 2, 31, -1; sub.f32 %f9, %f2, %f3;",
			"shfl.sync.bfly.b32 %f3, %f1, 2, 31, -1; shfl.sync.bfly.b32 %f2, %f1, 1, 31, -1; sub.f32 %f9, %f2, %f3;", Order,
			"shfl.sync.bfly.b32 stands elsewhere"},
		{"two comparisons at once", "setp.lt.f16x2 %p1|%p2, %r1, %r2; selp.f32 %f9, %f1, 0f00000000, %p2;",
			"setp.lt.f16x2 %p1|%p2, %r1, %r2; selp.f32 %f9, 0f00000000, %f1, %p1;", Structure, ""},
		{"carry", "add.cc.u32 %r3, %r1, %r2; addc.u32 %r4, %r1, 0; cvt.rn.f32.u32 %f9, %r4;",
			"add.u32 %r3, %r1, %r2; addc.u32 %r4, %r1, 0; cvt.rn.f32.u32 %f9, %r4;", Structure, ""},
		{"when the clock is read", "mov.u32 %r3, %clock; bar.sync 0; cvt.rn.f32.u32 %f9, %r3;",
			"bar.sync 0; mov.u32 %r3, %clock; cvt.rn.f32.u32 %f9, %r3;", Structure, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compare(t, kernelText(load+c.old+store), kernelText(load+c.new+store))
			if r.Rank != c.want || !strings.Contains(list(r), c.message) {
				t.Errorf("the rank is %v, want %v; changes, which should have %q:\n%s", r.Rank, c.want, c.message, list(r))
			}
			if (r.Rank == Same) != (len(r.Changes) == 0) {
				t.Errorf("%d changes at rank %v", len(r.Changes), r.Rank)
			}
		})
	}
}

// loop sums elements; its pieces are what tests change.
func loop(start, step, test, first string) string {
	return load + `
	mov.f32 %f9, ` + first + `; mov.u32 %r3, ` + start + `;
	setp.ge.u32 %p1, %r3, %r2;
	@%p1 bra done;
again:
	mul.wide.u32 %rd4, %r3, 4; add.s64 %rd5, %rd1, %rd4;
	ld.global.f32 %f2, [%rd5];
	max.f32 %f9, %f9, %f2;
	add.u32 %r3, %r3, ` + step + `;
	setp.` + test + `.u32 %p2, %r3, %r2;
	@%p2 bra again;
done:` + store
}

// moved is the same loop with its blocks in another order, and a copy of the first value for each way.
const moved = load + `
	mov.u32 %r3, 0;
	setp.lt.u32 %p1, 0, %r2;
	@%p1 bra before;
	mov.f32 %f9, 0fFF800000;
	bra.uni end;
loop:
	mul.wide.u32 %rd4, %r3, 4; add.s64 %rd5, %rd1, %rd4;
	ld.global.f32 %f2, [%rd5];
	max.f32 %f10, %f9, %f2;
	add.u32 %r4, %r3, 1;
	mov.u32 %r3, %r4; mov.f32 %f9, %f10;
	setp.ge.u32 %p2, %r3, %r2;
	@%p2 bra end;
	bra.uni loop;
end:
	st.global.f32 [%rd3], %f9; exit;
before:
	mov.f32 %f9, 0fFF800000;
	bra.uni loop;`

// choices sets %f2 and %f3 to 1 or 2, each by a condition of its own.
const choices = load + `
	setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0;
	mov.f32 %f2, 0f3F800000; @%p1 bra one; bar.warp.sync -1; mov.f32 %f2, 0f40000000;
one:
	bar.warp.sync -1;
	mov.f32 %f3, 0f3F800000; @%p2 bra two; bar.warp.sync -1; mov.f32 %f3, 0f40000000;
two:
	bar.warp.sync -1;
`

// opposites chooses by a predicate that depends on another one.
func opposites(first, second string) string {
	return load + `
	setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0; ` + first + `.pred %p3, %p2;
	@%p1 bra one; bar.warp.sync -1; ` + second + `.pred %p3, %p2;
one: selp.f32 %f9, %f1, 0f00000000, %p3;` + store
}

// loops has two branches back, in blocks whose instructions depend on nothing that changes.
func loops(first, second string) string {
	return load + `
	setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0;
one:
	shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;
two:
	shfl.sync.bfly.b32 %r3, %r1, 2, 31, -1;
	@%p1 bra ` + first + `;
	shfl.sync.bfly.b32 %r3, %r1, 4, 31, -1;
	@%p2 bra ` + second + `;
	mov.f32 %f9, %f1;` + store
}

// TestControlFlow: branches, loops and where blocks stand.
func TestControlFlow(t *testing.T) {
	sum := loop("0", "1", "lt", "0fFF800000")
	inverted := strings.NewReplacer("@%p2 bra again;", "@!%p2 bra leave;\n bra.uni again;\nleave:", "setp.lt.u32 %p2",
		"setp.lo.u32 %p2").Replace(sum)
	early := load + `setp.ge.u32 %p1, %r1, %r2; @%p1 ret; mov.f32 %f9, %f1;` + store
	late := load + `setp.lt.u32 %p1, %r1, %r2; @!%p1 bra end; mov.f32 %f9, %f1; st.global.f32 [%rd3], %f9; end: ret;`
	arms := load + `setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra yes; mul.f32 %f9, %f1, 0f3DCCCCCD; bra end;
yes: add.f32 %f9, %f1, 0f3F800000; end:` + store
	swapped := load + `setp.leu.f32 %p1, %f1, 0f00000000; @%p1 bra no; add.f32 %f9, %f1, 0f3F800000; bra end;
no: mul.f32 %f9, %f1, 0f3DCCCCCD; end:` + store
	wrong := load + `setp.leu.f32 %p1, %f1, 0f00000000; @%p1 bra no; mul.f32 %f9, %f1, 0f3DCCCCCD; bra end;
no: add.f32 %f9, %f1, 0f3F800000; end:` + store
	for _, c := range []struct {
		name, old, new string
		want           Rank
		message        string
	}{
		{"a loop", sum, sum, Same, ""},
		{"its branch the other way", sum, inverted, Same, ""},
		{"its blocks in another order", sum, moved, Same, ""},
		{"another start of the maximum", sum, loop("0", "1", "lt", "0f00000000"), Constants,
			"constant 0fFF800000 (-inf) became 0f00000000 (0) in mov.f32, feeding max.f32 at line 18"},
		{"another step", sum, loop("0", "2", "lt", "0fFF800000"), Constants, "constant 1 became 2 in add.u32"},
		{"another bound", sum, loop("0", "1", "le", "0fFF800000"), Structure, "setp.lt.u32 became setp.le.u32"},
		{"another first element", sum, loop("%r1", "1", "lt", "0fFF800000"), Structure, "%tid.x"},
		{"computed before the loop", sum, strings.Replace(strings.Replace(sum, "mul.wide.u32 %rd4, %r3, 4;", "", 1),
			"again:", "mul.wide.u32 %rd4, %r3, 4;\nagain:", 1), Structure, ""},
		{"return or branch", early, late, Same, ""},
		{"arms swapped", arms, swapped, Same, ""},
		{"arms swapped, condition not", arms, wrong, Structure, ""},
		{"a load before its guard", load + `setp.ge.u32 %p1, %r1, %r2; mov.f32 %f9, %f1; @%p1 bra end;
ld.global.f32 %f9, [%rd3+4]; end:` + store, load + `setp.ge.u32 %p1, %r1, %r2;
ld.global.f32 %f2, [%rd3+4]; mov.f32 %f9, %f1; @%p1 bra end; mov.f32 %f9, %f2; end:` + store, Structure,
			"now stands under other conditions"},
		{"a sum before its guard", load + `setp.ge.u32 %p1, %r1, %r2; mov.f32 %f9, %f1; @%p1 bra end;
bar.warp.sync -1; add.f32 %f9, %f1, %f1; end:` + store, load + `setp.ge.u32 %p1, %r1, %r2; add.f32 %f2, %f1, %f1;
mov.f32 %f9, %f1; @%p1 bra end; bar.warp.sync -1; mov.f32 %f9, %f2; end:` + store, Order, "add.f32 stands elsewhere"},
		{"a load before its guard, which stays", load + `setp.ge.u32 %p1, %r1, %r2; mov.f32 %f9, %f1; @%p1 bra end;
bar.warp.sync -1; ld.global.f32 %f9, [%rd3+4]; end:` + store, load + `setp.ge.u32 %p1, %r1, %r2;
ld.global.f32 %f2, [%rd3+4]; mov.f32 %f9, %f1; @%p1 bra end; bar.warp.sync -1; mov.f32 %f9, %f2; end:` + store,
			Structure, "now stands under other conditions"},
		{"the other of two choices", choices + "mov.f32 %f9, %f2;" + store, choices + "mov.f32 %f9, %f3;" + store, Structure,
			"source 1 of st.global.f32 was one of several values that meet before line 15 and is one of several values that " +
				"meet before line 18"},
		{"a predicate or its opposite", opposites("mov", "not"), opposites("mov", "mov"), Structure, ""},
		{"the opposite or a predicate", opposites("not", "mov"), opposites("mov", "mov"), Structure, ""},
		{"where loops begin", loops("one", "two"), loops("two", "one"), Structure, "a branch leads elsewhere"},
		{"another start and more", sum, strings.Replace(loop("0", "1", "lt", "0f00000000"), "max.f32",
			"abs.f32 %f2, %f2; max.f32", 1), Structure,
			"constant 0fFF800000 (-inf) became 0f00000000 (0) in mov.f32, feeding max.f32 at line 18"},
		{"another start, other blocks and more", moved, strings.Replace(loop("0", "1", "lt", "0f00000000"), "max.f32",
			"abs.f32 %f2, %f2; max.f32", 1), Structure,
			"constant 0fFF800000 (-inf) became 0f00000000 (0) in mov.f32, feeding max.f32 at line 18"},
		{"a switch", load + `ts: .branchtargets a, b, c; brx.idx %r1, ts; a: mov.f32 %f9, 0f00000000; bra end;
b: neg.f32 %f9, %f1; bra end; c: abs.f32 %f9, %f1; end:` + store, load + `ts: .branchtargets a, c, b; brx.idx %r1, ts;
a: mov.f32 %f9, 0f00000000; bra end; b: neg.f32 %f9, %f1; bra end; c: abs.f32 %f9, %f1; end:` + store, Structure, ""},
		{"the same switch", load + `ts: .branchtargets a, b, c; brx.idx %r1, ts; a: mov.f32 %f9, 0f00000000; bra end;
b: neg.f32 %f9, %f1; bra end; c: abs.f32 %f9, %f1; end:` + store, load + `ts: .branchtargets x, y, z; brx.idx %r1, ts;
z: abs.f32 %f9, %f1; bra end; y: neg.f32 %f9, %f1; bra end; x: mov.f32 %f9, 0f00000000; end:` + store, Same, ""},
		{"an endless loop", "again: bra again;", "here: bar.sync 0; bra here;", Structure, "bar.sync was added"},
		{"nothing", "", "ret;", Same, ""},
		{"a trap", "", "trap;", Structure, ""},
		{"unreachable", "ret;", "ret; here: st.global.u32 [%rd1], 1; bra here;", Same, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compare(t, kernelText(c.old), kernelText(c.new))
			if r.Rank != c.want || !strings.Contains(list(r), c.message) {
				t.Errorf("the rank is %v, want %v; changes, which should have %q:\n%s", r.Rank, c.want, c.message, list(r))
			}
		})
	}
}

// TestModules: declarations and device functions.
func TestModules(t *testing.T) {
	base := `.const .align 4 .b8 table[8] = {0, 0, 128, 63};
.func (.param .b32 r) scale(.param .b32 a) { .reg .f32 %x<3>;
ld.param.f32 %x1, [a]; mul.f32 %x2, %x1, 0f40000000; st.param.f32 [r], %x2; ret; }
.visible .entry k(.param .u64 k_0) .maxntid 128 {
.reg .f32 %f<9>; .reg .b64 %rd<9>;
.shared .align 16 .b8 one[64]; .shared .align 16 .b8 two[64];
ld.param.u64 %rd1, [k_0]; ld.const.f32 %f1, [table];
st.shared.f32 [one], %f1; st.shared.f32 [two+4], %f1;
{ .param .b32 p0; .param .b32 r0; st.param.f32 [p0], %f1; call.uni (r0), scale, (p0); ld.param.f32 %f2, [r0]; }
st.global.f32 [%rd1], %f2; ret; }
`
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(base) }
	for _, c := range []struct {
		name, new string
		want      Rank
		message   string
	}{
		{"names", replace("table", "_ZN5tableE", "scale", "f", "one", "zwei", "two", "eins", "k_0", "p",
			"%f", "%value", "p0", "q"), Same, ""},
		{"debug", replace("ret; }", "ret; }\n.section .debug_info { .b8 1 }", "ld.param.u64",
			".loc 1 3 5\nld.param.u64"), Same, ""},
		{"declarations in another order", replace(".shared .align 16 .b8 one[64]; .shared .align 16 .b8 two[64];",
			".shared .align 16 .b8 two[64], one[64];"), Same, ""},
		{"an unused kernel", base + ".visible .entry other() { ret; }", Same, ""},
		{"a table", replace("128, 63", "0, 64"), Constants, "initial value table[3]: 63 became 64"},
		{"zeros of a table", replace("128, 63}", "128, 63, 0, 0}"), Same, ""},
		{"launch bounds", replace(".maxntid 128", ".maxntid 256"), Structure, ".maxntid 128 became .maxntid 256"},
		{"no launch bounds", replace(".maxntid 128", ""), Structure, ".maxntid 128 became nothing"},
		{"type of a parameter", replace(".param .u64 k_0", ".param .f64 k_0"), Structure,
			"parameter 0: .param .u64 became .param .f64"},
		{"one more parameter", replace(".param .u64 k_0", ".param .u64 k_0, .param .u32 n"), Structure,
			"parameter 1: nothing became .param .u32"},
		{"shared memory", replace("two[64]", "two[128]"), Structure, ".shared variable two: 64 bytes became 128 bytes"},
		{"alignment", replace(".align 16 .b8 two", ".align 4 .b8 two"), Structure, "variable two is declared otherwise"},
		{"one buffer for both", replace("[two+4]", "[one+4]"), Structure, "was the address of two and is the address of one"},
		{"buffers swapped throughout", replace("[two+4]", "[one+4]", "[one]", "[two]"), Same, ""},
		{"the function", replace("0f40000000", "0f3F000000"), Constants,
			"constant 0f40000000 (2) became 0f3F000000 (0.5) in mul.f32"},
		{"an indirect call", replace("call.uni (r0), scale, (p0);", `.reg .b64 %t; mov.u64 %t, scale;
proto: .callprototype (.param .b32 _) _ (.param .b32 _); call (r0), %t, (p0), proto;`), Structure,
			"call.uni became call"},
		{"a function without a body", ".extern .func (.param .b32 r) g(.param .b32 a);\n" + base, Same, ""},
		{"an array without a size", replace("table[8] = {0, 0, 128, 63}", "table[] = {0, 0, 128, 63, 0, 0, 0, 0}"), Same, ""},
		{"an array of another size", replace("table[8] = {0, 0, 128, 63}", "table[] = {0, 0, 128, 63}"), Structure,
			".const variable table: 8 bytes became 4 bytes"},
		{"no size at all", ".extern .shared .align 16 .b8 two[];\n" + replace(".shared .align 16 .b8 two[64];", ""),
			Structure, ".shared variable two: 64 bytes became unknown size"},
		{"other registers in the function", replace("%x1", "%x0"), Same, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compareNamed(t, head+base, head+c.new, "k")
			if r.Rank != c.want || !strings.Contains(list(r), c.message) {
				t.Errorf("the rank is %v, want %v; changes, which should have %q:\n%s", r.Rank, c.want, c.message, list(r))
			}
		})
	}
}

// TestPlaces: a change says where it is in both texts and in the source.
func TestPlaces(t *testing.T) {
	old := head + ".file 1 \"soft max.cu\"\n.visible .entry k(.param .u64 p) {\n.reg .f32 %f<3>; .reg .b64 %rd<3>;\n" +
		".loc 1 7 3\nld.param.u64 %rd1, [p];\n.loc 1 9 5\n  mov.f32 %f1, 0fFF800000;\nst.global.f32 [%rd1], %f1;\nret;\n}\n"
	new := strings.Replace(strings.Replace(old, "0fFF800000", "0f00000000", 1), ".loc 1 9 5", "\n.loc 1 10 5", 1)
	r := compare(t, old, new)
	if len(r.Changes) != 1 {
		t.Fatalf("%d changes:\n%s", len(r.Changes), list(r))
	}
	want := Change{Kind: ConstantChanged, Rank: Constants,
		Old: Place{diag.Pos{File: "k.ptx", Line: 10, Col: 3}, diag.Pos{File: "soft max.cu", Line: 9, Col: 5},
			"mov.f32 %f1, 0fFF800000;"},
		New: Place{diag.Pos{File: "k.ptx", Line: 11, Col: 3}, diag.Pos{File: "soft max.cu", Line: 10, Col: 5},
			"mov.f32 %f1, 0f00000000;"},
		Message: "constant 0fFF800000 (-inf) became 0f00000000 (0) in mov.f32, feeding st.global.f32 at line 12"}
	if r.Changes[0] != want {
		t.Errorf("got  %+v\nwant %+v", r.Changes[0], want)
	}
}

// TestRegistersOfFunctions: old PTX passes parameters and results in registers.
func TestRegistersOfFunctions(t *testing.T) {
	base := `.func (.reg .f32 %r) f(.reg .f32 %a, .reg .f32 %b) { sub.f32 %r, %a, %b; ret; }
.visible .entry k(.param .u64 p) { .reg .f32 %f<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [p]; ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4];
call (%f3), f, (%f1, %f2); st.global.f32 [%rd1], %f3; ret; }`
	for _, c := range []struct {
		name, old, new string
		want           Rank
	}{
		{"names", "%a", "%x", Same},
		{"operands of the function", "%a, %b;", "%b, %a;", Structure},
		{"a result that is not set", "sub.f32 %r,", "{ .reg .f32 %q; sub.f32 %q, %a, %b; }", Structure},
		{"arguments", "(%f1, %f2)", "(%f2, %f1)", Constants}, // the offsets of what they are loaded from
	} {
		t.Run(c.name, func(t *testing.T) {
			new := strings.ReplaceAll(base, c.old, c.new)
			if strings.HasPrefix(c.new, "{") {
				new = strings.Replace(base, "sub.f32 %r, %a, %b;", c.new, 1)
			}
			if r := compare(t, head+base, head+new); r.Rank != c.want {
				t.Errorf("the rank is %v, want %v\n%s", r.Rank, c.want, list(r))
			}
		})
	}
}

// TestDeclarations: pairs of modules that differ in declarations alone.
func TestDeclarations(t *testing.T) {
	module := func(declarations, body string) string {
		return head + declarations + `.visible .entry k(.param .u64 k_0) { .reg .b64 %rd<9>; .reg .b32 %r<9>;
ld.param.u64 %rd1, [k_0]; ` + body + "ret; }\n"
	}
	call := "{ .param .b32 p; st.param.b32 [p], 1; call NAME, (p); }"
	read := "ld.global.u64 %rd2, [t]; st.global.u64 [%rd1], %rd2; "
	for _, c := range []struct {
		name, old, new string
		want           Rank
	}{
		{"functions of others", module(".extern .func f(.param .b32 a);", strings.Replace(call, "NAME", "f", 1)),
			module(".extern .func g(.param .b32 a);", strings.Replace(call, "NAME", "g", 1)), Structure},
		{"the same function of others", module(".extern .func f(.param .b32 a);", strings.Replace(call, "NAME", "f", 1)),
			module(".extern .func f(.param .b32 b);", strings.Replace(call, "NAME", "f", 1)), Same},
		{"offset of an address in a table", module(".global .b8 b[64]; .global .u64 t[1] = {b+4};", read),
			module(".global .b8 b[64]; .global .u64 t[1] = {b+8};", read), Structure},
		{"byte of an address in a table", module(".global .b8 b[64]; .global .u64 t[1] = {0xFF(b)};", read),
			module(".global .b8 b[64]; .global .u64 t[1] = {0xFF00(b)};", read), Structure},
		{"name of what a table points to", module(".global .b8 b[64]; .global .u64 t[1] = {b+4};", read),
			module(".global .b8 x[64]; .global .u64 t[1] = {x+4};", read), Same},
		{"size of what a table points to", module(".global .b8 b[64]; .global .u64 t[1] = {b+4};", read),
			module(".global .b8 b[32]; .global .u64 t[1] = {b+4};", read), Structure},
		{"a register of the module", module(".reg .b32 %m, %n;", "st.global.b32 [%rd1], %m;"),
			module(".reg .b32 %m, %n;", "st.global.b32 [%rd1], %n;"), Structure},
		{"what is left in a register of the module", module(".reg .b32 %m;", "mov.b32 %m, 1;"),
			module(".reg .b32 %m;", "mov.b32 %m, 2;"), Constants},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := compare(t, c.old, c.new); r.Rank != c.want {
				t.Errorf("the rank is %v, want %v\n%s", r.Rank, c.want, list(r))
			}
		})
	}
}

// TestEdges: what comes along each edge into a block is compared with what comes along the same edge.
func TestEdges(t *testing.T) {
	more := strings.Replace(loop("0", "1", "lt", "0f00000000"), "max.f32", "abs.f32 %f2, %f2; max.f32", 1)
	r := compare(t, kernelText(moved), kernelText(more))
	places := map[int]bool{}
	for _, c := range r.Changes {
		if c.Kind == ConstantChanged {
			places[c.Old.Pos.Line] = true
		}
	}
	if len(places) != 2 || len(r.Changes) != 3 { // the two copies, and abs
		t.Errorf("constants of %d lines changed, want 2:\n%s", len(places), list(r))
	}
}

// TestOneChange: one fault is one change, not a list of its consequences.
func TestOneChange(t *testing.T) {
	sum := kernelText(loop("0", "1", "lt", "0fFF800000"))
	for _, c := range [][2]string{
		{"setp.lt.u32 %p2", "setp.le.u32 %p2"},
		{"setp.ge.u32 %p1", "setp.gt.u32 %p1"},
		{"max.f32 %f9, %f9, %f2;", "max.f32 %f9, %f9, %f2; abs.f32 %f9, %f9;"},
		{"ld.global.f32 %f2, [%rd5];", "ld.global.nc.f32 %f2, [%rd5];"},
		{"mov.u32 %r3, 0;", "mov.u32 %r3, 1;"},
		{"st.global.f32 [%rd3]", "st.global.f32 [%rd1]"},
		{"st.global.f32 [%rd3], %f9; ret;", "st.global.f32 [%rd3], %f9; trap;"},
		{"again:", "again: bar.sync 0;"},
	} {
		if !strings.Contains(sum, c[0]) {
			t.Fatalf("%s is not there", c[0])
		}
		if r := compare(t, sum, strings.Replace(sum, c[0], c[1], 1)); len(r.Changes) != 1 {
			t.Errorf("%s for %s: %d changes\n%s", c[1], c[0], len(r.Changes), list(r))
		}
	}
}

// TestIndirectCalls: the function behind a pointer is compared where it can be seen, and prototypes count.
func TestIndirectCalls(t *testing.T) {
	base := `.func (.param .b32 r) f(.param .b32 a) { .reg .f32 %x<3>;
ld.param.f32 %x1, [a]; mul.f32 %x2, %x1, 0f40000000; st.param.f32 [r], %x2; ret; }
.global .u64 pointers[2] = {f, f};
.visible .entry k(.param .u64 k_0) { .reg .f32 %f<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [k_0]; ld.global.u64 %rd2, [pointers]; ld.global.f32 %f1, [%rd1];
{ .param .b32 p0; .param .b32 r0; st.param.f32 [p0], %f1;
sig: .callprototype (.param .b32 _) _ (.param .b32 _); call (r0), %rd2, (p0), sig; ld.param.f32 %f2, [r0]; }
st.global.f32 [%rd1], %f2; ret; }`
	for _, c := range []struct {
		name, old, new string
		want           Rank
	}{
		{"name of the prototype", "sig", "other", Same},
		{"name of the table", "pointers", "table", Same},
		{"the function in the table", "0f40000000", "0f3F000000", Constants},
		{"the prototype", "_ (.param .b32 _)", "_ (.param .b64 _)", Structure},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := compare(t, head+base, head+strings.ReplaceAll(base, c.old, c.new)); r.Rank != c.want {
				t.Errorf("the rank is %v, want %v\n%s", r.Rank, c.want, list(r))
			}
		})
	}
}

// TestLimits: what is too large is refused with a reason, not computed for hours.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("large inputs take seconds")
	}
	var crossing strings.Builder // every register lives through every block
	crossing.WriteString(head + ".visible .entry k(.param .u64 p) {\n.reg .f32 %f<2200>; .reg .pred %p; .reg .b64 %rd;\n" +
		"ld.param.u64 %rd, [p];\n")
	for i := range 2200 {
		fmt.Fprintf(&crossing, "ld.global.f32 %%f%d, [%%rd+%d];\n", i, 4*i)
	}
	for i := range 2200 {
		fmt.Fprintf(&crossing, "setp.lt.f32 %%p, %%f%d, 0f00000000;\n@%%p bra L%d;\nbar.sync 0;\nL%d:\n", i, i, i)
	}
	for i := range 2200 {
		fmt.Fprintf(&crossing, "st.global.f32 [%%rd+%d], %%f%d;\n", 4*i, i)
	}
	crossing.WriteString("ret;\n}\n")
	for name, src := range map[string]string{
		"many instructions": kernelText(strings.Repeat("bar.sync\t0; // all\n", maxInstrs+1)),
		"many values":       crossing.String(),
	} {
		f := parse(t, src)
		_, err := Compare(f, f, "", "")
		var e *diag.Error
		if !errors.As(err, &e) || e.Code != Limit || e.Pos.Line == 0 || e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyChanges: the list of changes ends somewhere, and says so.
func TestManyChanges(t *testing.T) {
	var old, new strings.Builder
	for i := range 2 * maxChanges {
		fmt.Fprintf(&old, "st.global.u32 [%%rd1+%d], %d;\n", 4*i, i)
		fmt.Fprintf(&new, "st.global.u32 [%%rd1+%d], %d;\n", 4*i, i+1)
	}
	r := compare(t, kernelText(load+old.String()), kernelText(load+new.String()))
	if r.Rank != Constants || len(r.Changes) != maxChanges || r.Omitted != maxChanges {
		t.Errorf("%d changes and %d more at rank %v", len(r.Changes), r.Omitted, r.Rank)
	}
}

func TestErrors(t *testing.T) {
	two := head + ".visible .entry a() { ret; }\n.visible .entry b() { ret; }\n"
	for _, c := range []struct{ old, oldEntry, message, hint string }{
		{two, "", "k.ptx: the file has 2 kernels, and none was named [ptxdiff-no-kernel]", "it has a, b"},
		{two, "c", "k.ptx: the file has no kernel \"c\" [ptxdiff-no-kernel]", "it has a, b"},
		{head, "", "k.ptx: the file has 0 kernels, and none was named [ptxdiff-no-kernel]", "a kernel begins with .entry"},
	} {
		for _, swap := range []bool{false, true} {
			old, new, names := parse(t, c.old), parse(t, two), [2]string{c.oldEntry, "a"}
			if swap {
				old, new, names = new, old, [2]string{"a", c.oldEntry}
			}
			_, err := Compare(old, new, names[0], names[1])
			var e *diag.Error
			if !errors.As(err, &e) || err.Error() != c.message || e.Hint != c.hint {
				t.Errorf("Compare(…, %q) gives %v", c.oldEntry, err)
			}
		}
	}
}
