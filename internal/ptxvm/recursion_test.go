package ptxvm

import (
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
)

func ackermann(m, n uint32) uint32 {
	switch {
	case m == 0:
		return n + 1
	case n == 0:
		return ackermann(m-1, 1)
	}
	return ackermann(m-1, ackermann(m, n-1))
}

// TestRecursion runs the fixtures whose function calls itself: lanes are at different depths.
func TestRecursion(t *testing.T) {
	files, err := filepath.Glob("../../testdata/ptx/*/calls*.ptx")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, name := range files {
		f, err := ptx.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Load(f, "call_recursive")
		if err != nil {
			if !strings.Contains(err.Error(), "an array of its own") {
				t.Error(err)
			}
			continue
		}
		ran++
		x := sequence(64, func(i int) uint32 { return uint32(i * 7) })
		y := make([]byte, 256)
		silent(t, run(t, p, &Launch{Grid: line(1), Block: line(64), MaxSteps: 1 << 22,
			Args: []Arg{{Name: "x", Buffer: pack(x...), Role: In}, {Name: "y", Buffer: y, Role: Out}}}))
		equal(t, name, y, pack(sequence(64, func(i int) uint32 { return ackermann(x[i]&1, x[i]&3) })...))
	}
	if ran < 8 {
		t.Errorf("only %d kernels were executed", ran)
	}
}

// even and odd call each other, with what they still need in registers and in parameters; one uses a register for its
// result. Both add their argument after the call.
const evenAndOdd = `
.func (.param .b32 r) odd(.param .b32 a);
.func (.reg .b32 %r) even(.param .b32 a) {
	.reg .b32 %x<4>; .reg .pred %p<2>; .param .b32 b, c;
	ld.param.u32 %x1, [a];
	mov.b32 %r, 0;
	setp.eq.u32 %p1, %x1, 0;
	@%p1 ret;
	sub.u32 %x2, %x1, 1;
	st.param.u32 [b], %x2;
	call (c), odd, (b);
	ld.param.u32 %x2, [c];
	ld.param.u32 %x3, [a];
	add.u32 %x2, %x2, %x3;
	add.u32 %r, %x2, %x1;
	ret;
}
.func (.param .b32 r) odd(.param .b32 a) {
	.reg .b32 %x<4>; .reg .pred %p<2>; .param .b32 b;
	ld.param.u32 %x1, [a];
	setp.ne.u32 %p1, %x1, 0;
	@%p1 bra more;
	st.param.u32 [r], 1000;
	ret;
more:
	sub.u32 %x2, %x1, 1;
	st.param.u32 [b], %x2;
	call (%x3), even, (b);
	add.u32 %x3, %x3, %x1;
	st.param.u32 [r], %x3;
	ret;
}`

func TestMutualRecursion(t *testing.T) {
	y := make([]byte, 4*32)
	silent(t, runModule(t, evenAndOdd, `
.param .b32 p;
rem.u32 %r2, %r1, 11;
st.param.u32 [p], %r2;
call (%r3), even, (p);
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd3, %rd2, %rd3;
st.global.u32 [%rd3], %r3;`, 32, unused(), y))
	var even, odd func(n uint32) uint32
	even = func(n uint32) uint32 {
		if n == 0 {
			return 0
		}
		return odd(n-1) + 2*n
	}
	odd = func(n uint32) uint32 {
		if n == 0 {
			return 1000
		}
		return even(n-1) + n
	}
	equal(t, "sums", y, pack(sequence(32, func(i int) uint32 { return even(uint32(i % 11)) })...))
	r := runModule(t, ".func again(.param .b32 a) { .param .b32 b; st.param.u32 [b], 1; call again, (b); ret; }",
		".param .b32 p; st.param.u32 [p], 1; call again, (p);", 32, unused(), unused())
	if len(r.Findings) != 1 || r.Findings[0].Class != OutOfBoundsWrite {
		t.Errorf("without end: %v", r.Findings)
	}
}
