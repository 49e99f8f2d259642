package ptxvm

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// outcome is what a launch leaves: its buffers, and its findings as text.
func outcome(t *testing.T, p *Program, l *Launch) (buffers [][]byte, findings string) {
	t.Helper()
	r := run(t, p, l)
	for i := range l.Args {
		buffers = append(buffers, l.Args[i].Buffer)
	}
	return buffers, fmt.Sprint(list(r), r.Steps)
}

// TestWorkers proves that the number of workers cannot be seen: in memory, in findings, in the number of instructions.
func TestWorkers(t *testing.T) {
	bounds, err := ParseChecks("bounds,uninit,barrier")
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"findings": "ld.global.u32 %r10, [%rd11+64]; st.global.u32 [%rd12-8], %r10; setp.lt.s32 %p1, %r10, 40;" +
			"@%p1 bra L; st.global.u32 [%rd13], %r20; L: ",
		"integers": "red.global.add.u32 [%rd2], %r3; red.global.max.u32 [%rd2+4], %r3;",
		"floats":   "cvt.rn.f32.s32 %f1, %r3; add.f32 %f1, %f1, 0f3DCCCCCD; red.global.add.f32 [%rd2], %f1;",
		"tickets":  "atom.global.add.u32 %r10, [%rd2], 1; st.global.u32 [%rd13], %r10;",
	} {
		p := loadText(t, kernelText(body))
		var want [][]byte
		var said string
		for _, workers := range []int{1, 2, 3, 8, 0} {
			l := textLaunch(40, 96)
			for i := range l.Args[:3] {
				l.Args[i].Buffer = words(40*96 - 32*i)
			}
			l.Checks, l.Workers, l.apart = bounds, workers, true
			got, says := outcome(t, p, l)
			if workers == 1 {
				want, said = got, says
			}
			if !reflect.DeepEqual(got, want) || says != said {
				t.Errorf("%s: %d workers leave something else than one: %s\n%s", name, workers, says, said)
			}
		}
	}
}

// TestWaitForOtherBlock lets every block wait for the next one, so that none comes to its end before the last one has
// begun, and in reverse order for the one before.
func TestWaitForOtherBlock(t *testing.T) {
	for name, text := range map[string]string{
		"next": "add.s32 %r10, %r38, 1; mov.u32 %r11, %nctaid.x; setp.eq.s32 %p1, %r10, %r11; @%p1 bra SET;" +
			"mul.wide.s32 %rd20, %r10, 4;",
		"before": "sub.s32 %r10, %r38, 1; setp.eq.s32 %p1, %r38, 0; @%p1 bra SET; mul.wide.s32 %rd20, %r10, 4;",
	} {
		p := loadText(t, kernelText(text+`
add.s64 %rd20, %rd2, %rd20;
WAIT: ld.acquire.gpu.global.u32 %r12, [%rd20];
setp.ne.s32 %p2, %r12, 77;
@%p2 bra WAIT;
SET: mul.wide.s32 %rd21, %r38, 4;
add.s64 %rd21, %rd2, %rd21;
mov.u32 %r13, 77;
st.release.gpu.global.u32 [%rd21], %r13;
`))
		for k := range 3 {
			l := textLaunch(12, 32)
			l.MaxSteps = 1 << 26
			r, err := p.run(l, orderNumber(k, 5, 12))
			if err != nil || len(r.Findings) > 0 {
				t.Fatalf("%s, order %d: %v %v", name, k, err, r)
			}
			if got := l.Args[1].Buffer[:48]; !bytes.Equal(got, bytes.Repeat([]byte{77, 0, 0, 0}, 12)) {
				t.Errorf("%s, order %d: %d", name, k, got)
			}
		}
	}
}

// TestMessagePassing is a sum over blocks as CUDA's sample threadFenceReduction has it: the last block to take a ticket
// reads what the others wrote. The ticket orders the two if there are fences on both sides, or reads are volatile.
func TestMessagePassing(t *testing.T) {
	const before = "setp.ne.s32 %p1, %r2, 0; @%p1 bra END; mul.wide.s32 %rd20, %r38, 4; add.s64 %rd21, %rd2, %rd20;" +
		"st.global.u32 [%rd21], %r38; membar.gl;"
	const after = "ld.global.u32 %r12, [%rd2]; ld.global.u32 %r13, [%rd2+4]; add.s32 %r12, %r12, %r13;" +
		"st.global.u32 [%rd3], %r12; END: "
	const ticket = "atom.global.add.u32 %r10, [%rd1], 1; setp.ne.s32 %p2, %r10, 2; @%p2 bra END;"
	for name, c := range map[string]struct {
		ticket, after string
		findings      int
	}{
		"ticket":          {ticket + "membar.gl;", after, 0},
		"volatile reads":  {ticket, strings.ReplaceAll(after, "ld.global", "ld.volatile.global"), 0},
		"no second fence": {ticket, after, 1},
		"no ticket":       {"setp.ne.s32 %p2, %r38, 1; @%p2 bra END; membar.gl;", after, 1},
	} {
		l := textLaunch(2, 32)
		if r := run(t, loadText(t, kernelText(before+c.ticket+c.after)), l); len(r.Findings) != c.findings {
			t.Errorf("%s: %s", name, list(r))
		}
	}
}

// TestNoAllocation proves that a block that follows another one allocates nothing of its own.
func TestNoAllocation(t *testing.T) {
	p := loadFixture(t, "clang19/softmax.ptx", "softmax_block")
	count := func(rows int, checks Checks) float64 {
		l, _ := softmaxLaunch(rows, 64)
		l.Checks, l.Workers = checks, 1
		return testing.AllocsPerRun(3, func() {
			if _, err := p.Run(l); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, checks := range []Checks{NoChecks, AllChecks} {
		few, many := count(2, checks), count(34, checks)
		if many > few+16 { // pages of the larger buffers
			t.Errorf("checks %d: 2 blocks make %.0f allocations, 34 make %.0f", checks, few, many)
		}
	}
}
