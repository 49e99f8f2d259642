package ptxvm

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// This file implements tests of calls, branches, barriers and what lanes do together.

// perThread stores %r9 of each thread.
const perThread = `
mul.wide.u32 %rd9, %r1, 4;
add.s64 %rd9, %rd2, %rd9;
st.global.u32 [%rd9], %r9;`

// each32 runs a body for 32 threads and compares what each leaves in %r9.
func each32(t *testing.T, module, body string, want func(i int) uint32) {
	t.Helper()
	y := make([]byte, 128)
	silent(t, runModule(t, module, body+perThread, 32, unused(), y))
	equal(t, body, y, pack(sequence(32, want)...))
}

const functions = `
.func (.param .b32 r) triple(.param .b32 a) {
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [a];
	mul.lo.u32 %r2, %r1, 3;
	st.param.u32 [r], %r2;
	ret;
}
.func (.reg .b32 r) plus(.reg .b32 a, .reg .b32 b) {
	.reg .pred p;
	setp.gt.u32 p, a, 20;
	@p bra BIG;
	add.u32 r, a, b;
	ret;
BIG:
	mov.u32 r, 1000;
	ret;
}
.func (.param .b32 r) both(.param .b32 a) {
	.reg .b32 %r<4>;
	.param .b32 in, out;
	ld.param.u32 %r1, [a];
	st.param.u32 [in], %r1;
	call (out), triple, (in);
	ld.param.u32 %r2, [out];
	call (%r3), plus, (%r2, 5);
	st.param.u32 [r], %r3;
	ret;
}
.func never(.param .b32 a) {
	exit;
}
`

func TestCalls(t *testing.T) {
	plus := func(a, b uint32) uint32 {
		if a > 20 {
			return 1000
		}
		return a + b
	}
	each32(t, functions, "call (%r9), plus, (%r1, 7);", func(i int) uint32 { return plus(uint32(i), 7) })
	each32(t, functions, `
.param .b32 in, out;
mov.u32 %r9, 4;
setp.lt.u32 %p1, %r1, 9;
st.param.u32 [in], %r1;
@%p1 call (out), both, (in);
@%p1 ld.param.u32 %r9, [out];`, func(i int) uint32 {
		if i < 9 {
			return plus(3*uint32(i), 5)
		}
		return 4
	})
	// Each lane calls what its address says.
	for _, list := range []string{".callprototype (.param .b32 _) _ (.param .b32 _);", ".calltargets triple, both;"} {
		each32(t, functions, `
.param .b32 in, out;
P: `+list+`
mov.u64 %rd3, triple;
mov.u64 %rd4, both;
and.b32 %r2, %r1, 1;
setp.eq.u32 %p1, %r2, 0;
selp.u64 %rd3, %rd3, %rd4, %p1;
st.param.u32 [in], %r1;
call (out), %rd3, (in), P;
ld.param.u32 %r9, [out];`, func(i int) uint32 {
			if i&1 == 0 {
				return 3 * uint32(i)
			}
			return plus(3*uint32(i), 5)
		})
	}
	// Threads that end in a function do not come back.
	y := make([]byte, 128)
	silent(t, runModule(t, functions, `
.param .b32 in;
setp.ge.u32 %p1, %r1, 5;
mov.u32 %r9, 1;
st.param.u32 [in], %r1;
@%p1 call never, (in);`+perThread, 32, unused(), y))
	equal(t, "those that are left", y, pack(sequence(32, func(i int) uint32 { return uint32(truth(i < 5)) })...))
}

func TestCallChecks(t *testing.T) {
	r := runModule(t, functions, `
.param .b32 in, out;
P: .callprototype (.param .b32 _) _ (.param .b32 _);
st.param.u32 [in], %r1;
call (out), %rd1, (in), P;`, 1, unused(), unused())
	if len(r.Findings) != 1 || r.Findings[0].Class != OutOfBoundsRead {
		t.Errorf("a call to memory: %v", r.Findings)
	}
}

// TestRefused loads what is not executed here.
func TestRefused(t *testing.T) {
	again := ".func again(.param .b32 a) { .param .b32 b; .local .b32 c; st.param.u32 [b], 1; call again, (b); ret; }"
	address := ".func again(.param .b32 a) { .reg .b64 %rd1; mov.b64 %rd1, a; call again, (a); ret; }"
	for _, c := range []struct{ module, body, want string }{
		{again, ".param .b32 p; st.param.u32 [p], 1; call again, (p);", "an array of its own"},
		{address, ".param .b32 p; st.param.u32 [p], 1; call again, (p);", "address of a parameter"},
		{".extern .func malloc(.param .b64 a);", ".param .b64 p; st.param.u64 [p], 1; call malloc, (p);", "no body"},
		{"", "alloca.u64 %rd3, %rd4;", "alloca"},
		{"", "ld.global.b128 %rd3, [%rd1];", "b128"},
		{"", "atom.global.add.s64 %rd3, [%rd1], %rd4;", "s64"},
		{"", "ld.global.u64 %r2, [%rd1];", "too small"},
		{"", "ld.global.v2.u32 {%r2}, [%rd1];", "2 registers"},
		{".extern .global .b32 far;", "ld.global.u32 %r2, [far];", "another module"},
		{"", "bar.arrive 1;", "number of threads"},
		{"", "cp.async.ca.shared.global [s], [%rd1], 12;", "operands"},
		{"", "mov.u32 %r2, %envreg3;", "%envreg3"},
	} {
		_, err := loadModule(t, c.module, c.body)
		var d *diag.Error
		if !errors.As(err, &d) || d.Code != Unsupported || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.body, err, c.want)
		}
	}
}

func TestIndexedBranch(t *testing.T) {
	body := `
rem.u32 %r2, %r1, 5;
setp.lt.u32 %p1, %r2, 4;
mov.u32 %r9, 1;
T: .branchtargets A, B, A, C;
@%p1 brx.idx %r2, T;
mov.u32 %r9, 50;
bra END;
A: add.u32 %r9, %r9, 10;
bra END;
B: add.u32 %r9, %r9, 20;
C: add.u32 %r9, %r9, 30;
END:
activemask.b32 %r3;
popc.b32 %r3, %r3;
add.u32 %r9, %r9, %r3;`
	each32(t, "", body, func(i int) uint32 { return []uint32{11, 51, 11, 31, 50}[i%5] + 32 })
	r := runText(t, strings.Replace(body, "4;", "5;", 1), 32, unused(), make([]byte, 128))
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Message, "place 4 of a list of 4") {
		t.Errorf("a place behind the list: %v", r.Findings)
	}
}

func TestBarriers(t *testing.T) {
	for _, c := range []struct {
		name, body string
		threads    int
		want       func(i int) uint32
	}{
		{"count", "setp.gt.u32 %p1, %r1, 9; bar.red.popc.u32 %r9, 0, %p1;", 70, func(int) uint32 { return 60 }},
		{"not", "setp.gt.u32 %p1, %r1, 9; barrier.cta.red.popc.aligned.u32 %r9, 0, !%p1;", 70,
			func(int) uint32 { return 10 }},
		{"and", "setp.gt.u32 %p1, %r1, 0; bar.red.and.pred %p2, 1, %p1; selp.u32 %r9, 1, 0, %p2;", 64,
			func(int) uint32 { return 0 }},
		{"or", "setp.gt.u32 %p1, %r1, 62; bar.red.or.pred %p2, 1, %p1; selp.u32 %r9, 1, 0, %p2;", 64,
			func(int) uint32 { return 1 }},
		{"some", `setp.lt.u32 %p1, %r1, 64;
mov.u32 %r9, 0;
@!%p1 bra END;
bar.red.popc.u32 %r9, 2, 64, %p1;
END:`, 96, func(i int) uint32 { return 64 * uint32(truth(i < 64)) }},
		{"arrive", `setp.lt.u32 %p1, %r1, 32;
mov.u32 %r9, 7;
@%p1 bra MAKE;
bar.sync 3, 64;
ld.shared.u32 %r9, [s];
bra END;
MAKE:
st.shared.u32 [s], 99;
bar.arrive 3, 64;
END:`, 64, func(i int) uint32 { return 7 + 92*uint32(truth(i >= 32)) }},
		{"unaligned", `setp.lt.u32 %p1, %r1, 5;
mov.u32 %r9, 1;
@%p1 bra FEW;
barrier.sync 0;
bra END;
FEW: add.u32 %r9, %r9, 1;
barrier.sync 0;
END:`, 64, func(i int) uint32 { return 1 + uint32(truth(i < 5)) }},
		{"ended", `mov.u32 %r9, 1;
setp.gt.u32 %p1, %r1, 40;
setp.lt.u32 %p2, %r1, 3;
or.pred %p1, %p1, %p2;
@%p1 exit;
bar.sync 0;`, 96, func(i int) uint32 { return uint32(truth(i >= 3 && i <= 40)) }},
	} {
		y := make([]byte, 4*c.threads)
		r := runText(t, c.body+perThread, c.threads, unused(), y)
		silent(t, r)
		equal(t, c.name, y, pack(sequence(c.threads, c.want)...))
	}
}

// TestMemberMasks lets lanes of a part of the warp, and lanes of different parts at once, do things together.
func TestMemberMasks(t *testing.T) {
	value := func(i int) uint32 { return uint32(i*7) % 32 / 3 }
	start := "mul.lo.u32 %r2, %r1, 7; and.b32 %r2, %r2, 31; div.u32 %r2, %r2, 3;\n"
	low := "setp.lt.u32 %p1, %r1, 12; mov.u32 %r9, 0;\n"
	fold := func(from, to int, f func(a, b uint32) uint32) uint32 {
		v := value(from)
		for i := from + 1; i < to; i++ {
			v = f(v, value(i))
		}
		return v
	}
	same := func(i, from, to int) (m uint32) {
		for j := from; j < to; j++ {
			if value(i) == value(j) {
				m |= 1 << j
			}
		}
		return m
	}
	part := func(in func(i int) uint32) func(i int) uint32 {
		return func(i int) uint32 {
			if i < 12 {
				return in(i)
			}
			return 0
		}
	}
	each32(t, "", start+low+"@%p1 redux.sync.add.u32 %r9, %r2, 0xfff;", part(func(int) uint32 {
		return fold(0, 12, func(a, b uint32) uint32 { return a + b })
	}))
	each32(t, "", start+low+"@%p1 redux.sync.max.s32 %r9, %r2, 0xfff;", part(func(int) uint32 {
		return fold(0, 12, func(a, b uint32) uint32 { return max(a, b) })
	}))
	each32(t, "", start+"redux.sync.xor.b32 %r9, %r2, -1;", func(int) uint32 {
		return fold(0, 32, func(a, b uint32) uint32 { return a ^ b })
	})
	each32(t, "", start+low+"@%p1 match.any.sync.b32 %r9, %r2, 0xfff;", part(func(i int) uint32 { return same(i, 0, 12) }))
	each32(t, "", start+"shr.u32 %r3, %r1, 4; match.all.sync.b32 %r9|%p2, %r3, -1; @%p2 mov.u32 %r9, 5;",
		func(int) uint32 { return 0 })
	each32(t, "", low+"@%p1 match.all.sync.b32 %r9|%p2, %r9, 0xfff;", part(func(int) uint32 { return 0xfff }))
	each32(t, "", start+low+"setp.gt.u32 %p2, %r2, 4; @%p1 vote.sync.ballot.b32 %r9, %p2, 0xfff;",
		part(func(int) (m uint32) {
			for j := range 12 {
				m |= uint32(truth(value(j) > 4)) << j
			}
			return m
		}))
	each32(t, "", low+"@%p1 elect.sync %r3|%p2, 0xfff; @!%p1 mov.u32 %r3, 0; selp.u32 %r9, 1, 0, %p1;"+
		"setp.ne.u32 %p3, %r3, 0; @%p3 mov.u32 %r9, 77;", part(func(int) uint32 { return 1 }))
	// Lanes with an equal value name each other and nobody else, in one instruction.
	each32(t, "", start+"match.any.sync.b32 %r3, %r2, -1; redux.sync.add.u32 %r9, %r1, %r3;", func(i int) (sum uint32) {
		for m := same(i, 0, 32); m != 0; m &= m - 1 {
			sum += uint32(bits.TrailingZeros32(m))
		}
		return sum
	})
	// The two sides of a branch meet in the instruction behind it, and those that have ended are not waited for.
	each32(t, "", low+`@%p1 bra LOW;
add.u32 %r9, %r1, 1;
LOW: shfl.sync.idx.b32 %r9, %r1, 20, 31, -1;`, func(int) uint32 { return 20 })
	y := make([]byte, 128)
	silent(t, runText(t, low+"@!%p1 exit; shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;"+perThread, 32, unused(), y))
	equal(t, "those that are left", y, pack(sequence(32, part(func(i int) uint32 { return uint32(i ^ 1) }))...))
}

func TestMaskChecks(t *testing.T) {
	for _, body := range []string{
		"shfl.sync.idx.b32 %r9, %r1, 0, 31, 0xffff;",
		"setp.lt.u32 %p1, %r1, 12; @%p1 shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;",
		"setp.eq.u32 %p1, %r1, 12; selp.u32 %r2, 0x1000, -1, %p1; vote.sync.ballot.b32 %r9, %p1, %r2;",
	} {
		r := runText(t, body, 32, unused(), unused())
		if len(r.Findings) != 1 || r.Findings[0].Class != BadMask {
			t.Errorf("%s: %v, want one of %s", body, r.Findings, BadMask)
		}
	}
}

// TestPrintf prints every kind of argument.
func TestPrintf(t *testing.T) {
	module := `.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[5] = {119, 111, 114, 100, 0};
`
	for _, c := range []struct{ format, args, want string }{
		{"plain 100%%\n", "", "plain 100%\n"},
		{"%d|%5d|%-5d|%05d|%+d", "b32 -7,b32 42,b32 42,b32 42,b32 42", "-7|   42|42   |00042|+42"},
		{"%u %x %#X %o", "b32 -1,b32 48879,b32 48879,b32 8", "4294967295 beef 0XBEEF 10"},
		{"%lld %llu %hhd %hu", "b64 -5,b64 -1,b32 511,b32 65537", "-5 18446744073709551615 -1 1"},
		{"%d %f %d", "b32 1,f64 0d3FF8000000000000,b32 2", "1 1.500000 2"},
		{"%.2f %10.3e %g %g %G", "f64 0d400921FB54442D18,f64 0d400921FB54442D18,f64 0d3F50624DD2F1A9FC,f64 " +
			"0d4415AF1D78B58C40,f64 0d3E112E0BE826D695", "3.14  3.142e+00 0.001 1e+20 1E-09"},
		{"%f %5f %-5f| %F %+f", "f64 0d7FF8000000000000,f64 0d7FF0000000000000,f64 0d7FF0000000000000,f64 " +
			"0d7FF8000000000000,f64 0d7FF0000000000000", "nan   inf inf  | NAN +inf"},
		{"%a", "f64 0d3FF8000000000000", "0x1.8p+0"},
		{"%c%c %s %8s %.2s", "b32 72,b32 105,b64 text,b64 text,b64 text", "Hi word     word wo"},
		{"%*d|%.*f", "b32 6,b32 42,b32 1,f64 0d3FF8000000000000", "    42|1.5"},
	} {
		var text []string
		for _, b := range []byte(c.format) {
			text = append(text, fmt.Sprint(b))
		}
		body := ".local .align 8 .b8 l[64];\n.param .b64 f, a; .param .b32 r;\nmov.u64 %rd4, text;\n"
		at, count := 0, 0
		for _, arg := range strings.Split(c.args, ",") {
			typ, v, ok := strings.Cut(arg, " ")
			if !ok {
				continue
			}
			size := typeBytes(typ)
			at = alignUp(at, size)
			if v == "text" {
				v = "%rd4"
			}
			body += fmt.Sprintf("st.local.%s [l+%d], %s;\n", typ, at, v)
			at += size
			count++
		}
		body += `mov.u64 %rd5, format;
st.param.b64 [f], %rd5;
mov.u64 %rd6, l;
cvta.local.u64 %rd6, %rd6;
st.param.b64 [a], %rd6;
call (r), vprintf, (f, a);
ld.param.u32 %r9, [r];
st.global.u32 [%rd2], %r9;`
		format := fmt.Sprintf(".global .align 1 .b8 format[%d] = {%s, 0};", len(text)+1, strings.Join(text, ", "))
		y := make([]byte, 4)
		r := runModule(t, module+format, body, 1, unused(), y)
		silent(t, r)
		if string(r.Printed) != c.want {
			t.Errorf("%q prints %q, want %q", c.format, r.Printed, c.want)
		}
		equal(t, c.format, y, pack(uint32(count)))
	}
}

// TestMeetAfterBarrier has lanes of two warps that meet at a barrier before they come to where the others wait.
func TestMeetAfterBarrier(t *testing.T) {
	const module = `.func (.reg .b32 %r) flip(.reg .b32 %x) { shfl.sync.bfly.b32 %r, %x, 31, 31, -1; ret; }`
	const body = `
and.b32 %r2, %r1, 31;
setp.lt.u32 %p1, %r2, 16;
@%p1 bra wait;
call (%r9), flip, (%r1);
bra done;
wait:
barrier.cta.sync 1, COUNT;
call (%r9), flip, (%r1);
done:`
	y := make([]byte, 256)
	silent(t, runModule(t, module, strings.Replace(body, "COUNT", "32", 1)+perThread, 64, unused(), y))
	equal(t, "lanes", y, pack(sequence(64, func(i int) uint32 { return uint32(i ^ 31) })...))
	r := runModule(t, module, strings.Replace(body, "COUNT", "64", 1)+perThread, 64, unused(), y)
	if len(r.Findings) != 1 || r.Findings[0].Class != BadMask {
		t.Errorf("a barrier that is never complete: %v", r.Findings)
	}
}

// TestMeetThoughSomeEnd has lanes that part, some of which could end before the others are back: those that do not end
// meet behind the branch all the same, and come to the barrier together.
func TestMeetThoughSomeEnd(t *testing.T) {
	const (
		part = "setp.ge.u32 %p1, %r1, 4; setp.eq.u32 %p2, %r1, END; mov.u32 %r3, 0; A: @%p1 bra L;"
		meet = "mov.u32 %r2, 1; L: bar.sync 0;"
		loop = "add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 3; @%p3 bra A;"
		// Ways to the end that have a loop: it does not wait for anybody, or it may.
		turns = "add.u32 %r4, %r1, 0; B: add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 9; @%p4 bra B;"
		polls = "B: ld.volatile.global.u32 %r5, [%rd1]; setp.eq.u32 %p4, %r5, 9; @%p4 bra B;"
	)
	for _, c := range []struct {
		body, end string
		want      Class
	}{
		{part + "@%p2 bra T;" + meet + "ret; T: trap;", "77", ""},
		{part + "@%p2 trap;" + meet, "77", ""},
		{part + "@%p2 bra T;" + meet + loop + "ret; T: trap;", "77", ""},
		{part + "@%p2 bra E;" + meet + "E:", "2", ""},
		{part + "@%p2 exit;" + meet, "2", ""},
		{part + "@%p2 bra T;" + meet + "ret; T: mov.u32 %r2, 2; exit;", "2", ""},
		{part + "@%p2 bra T;" + meet + loop + "ret; T:" + turns + "exit;", "77", ""},
		{part + "@%p2 bra T;" + meet + loop + "ret; T:" + turns + "exit;", "2", ""},
		{part + "@%p2 bra T;" + meet + loop + "bra Z; T:" + turns + "Z: st.global.u32 [%rd2], 1;", "2", ""},
		{part + "@%p2 bra T;" + meet + "ret; T:" + polls + "exit;", "77", ""},
		{part + "@%p2 bra T;" + strings.Replace(meet, "sync 0", "sync 1, 64", 1) + "ret; T:" + polls + "exit;", "77", ""},
		{part + "@%p2 bra T;" + meet + "ret; T:" + polls + "bar.sync 0; exit;", "2", BarrierDivergence},
		{part + "@%p2 bra T;" + meet + "ret; T: trap;", "2", Trap},
		{part + "@%p2 bra T; bar.sync 0; L: mov.u32 %r2, 1; ret; T: trap;", "77", BarrierDivergence},
	} {
		r := runModule(t, "", strings.Replace(c.body, "END", c.end, 1), 64, unused(), unused())
		if c.want == "" {
			silent(t, r)
		} else if len(r.Findings) == 0 || r.Findings[0].Class != c.want {
			t.Errorf("%s: %v, want %s", c.body, r.Findings, c.want)
		}
	}
}
