package ptxvm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

// copyProgram is a kernel that copies asynchronously, closes groups, waits, and looks at shared memory on the way:
// mostly all threads together, sometimes only some of them.
func copyProgram(random *rand.Rand) string {
	var b strings.Builder
	fmt.Fprintf(&b, `mov.u32 %%r1, %%tid.x; shl.b32 %%r2, %%r1, 4; cvt.u64.u32 %%rd3, %%r2; add.s64 %%rd5, %%rd2, %%rd3;
and.b32 %%r2, %%r2, %d; cvt.u64.u32 %%rd3, %%r2; add.s64 %%rd4, %%rd1, %%rd3;
mov.u32 %%r3, s; add.u32 %%r3, %%r3, %%r2; mov.u32 %%r9, 0; mov.u32 %%r7, s; add.u32 %%r7, %%r7, 2560;
`, []int{511, 1023}[random.IntN(2)]) // both warps in one place, or each in its own
	guards := []string{"", "", "", "", "", "@%p1 ", "@!%p1 ", "@%p2 "}
	fmt.Fprintf(&b, "setp.lt.u32 %%p1, %%r1, %d; setp.eq.u32 %%p2, %%r1, 5;\n", random.IntN(40))
	odd := random.IntN(3) == 0 // some that is out of the ordinary
	for range 4 + random.IntN(24) {
		guard := guards[0]
		if odd {
			guard = guards[random.IntN(len(guards))]
		}
		slot := 512 * random.IntN(3)
		at := 512 * random.IntN(2)
		switch random.IntN(10) {
		case 0, 1:
			fmt.Fprintf(&b, "%scp.async.cg.shared.global [%%r3+%d], [%%rd4+%d], 16;\n", guard, slot, at)
		case 2:
			size := 4 << random.IntN(3)
			fmt.Fprintf(&b, "%scp.async.ca.shared.global [%%r3+%d], [%%rd4+%d], %d;\n", guard, slot, at, size)
		case 3:
			fmt.Fprintf(&b, "%scp.async.ca.shared.global [%%r3+%d], [%%rd4+%d], 16, %%p%d;\n", guard, slot, at,
				1+random.IntN(2))
		case 4:
			fmt.Fprintf(&b, "selp.u32 %%r6, %d, 0, %%p1; %scp.async.ca.shared.global [%%r3+%d], [%%rd4+%d], 16, %%r6;\n",
				[]int{16, 16, 16, 7, 1 << 20}[random.IntN(5)], guard, slot, at)
		case 5, 6:
			fmt.Fprintf(&b, "%scp.async.commit_group;\n", guard)
		case 7:
			fmt.Fprintf(&b, "%scp.async.wait_group %d;\n", guard, random.IntN(4))
		case 8:
			if random.IntN(3) == 0 {
				b.WriteString("bar.sync 0;\n")
			}
			fmt.Fprintf(&b, "ld.shared.u32 %%r4, [%%r3+%d]; mad.lo.u32 %%r9, %%r9, 31, %%r4;\n", slot+4*random.IntN(4))
		case 9:
			b.WriteString(guard + rareCopies[random.IntN(len(rareCopies))])
		}
	}
	b.WriteString("st.global.u32 [%rd5], %r9;\n")
	return b.String()
}

var rareCopies = []string{"cp.async.wait_all;\n", "cp.async.wait_group 0;\n",
	"cp.async.ca.shared.global [%r7], [%rd1], 4;\n", // by all threads to one place
	"cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 16; cp.async.bulk.commit_group;\n",
	"cp.async.bulk.wait_group 0;\n", "ret;\n", "st.global.u32 [%rd4], 7;\n", "st.shared.u32 [%r3+512], 7;\n",
	"cp.async.cg.shared.global [%r3+3840], [%rd4], 16;\n"} // beyond s

// TestFlights: what threads copy together is what they copy one by one, which they do where somebody counts. Checks
// find the same, whatever is in the way.
func TestFlights(t *testing.T) {
	testkit.ValuesOnly(t)
	random := rand.New(rand.NewPCG(6, 1))
	x := make([]byte, 2048)
	for i := range x {
		x[i] = byte(i * 7)
	}
	found := 0
	for i := range 300 {
		body := copyProgram(random)
		p, err := loadModule(t, ".shared .align 16 .b8 other[1024];", "mov.u32 %r5, other;\n"+body)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		threads := 64
		if i%5 == 0 {
			threads = 1 + random.IntN(64)
		}
		for _, checks := range []Checks{NoChecks, CheckAsync, CheckUninit, CheckRace, AllChecks} {
			var outs [2][]byte
			var says [2]string
			for k := range outs {
				outs[k] = make([]byte, 1024)
				r, err := p.Run(&Launch{Grid: line(1), Block: line(threads), Checks: checks, Counters: k == 1,
					Args: []Arg{{Name: "x", Buffer: bytes.Clone(x)}, {Name: "y", Buffer: outs[k]}}})
				if err != nil {
					t.Fatal(err)
				}
				var lines []string // who is first depends on the order
				for _, f := range r.Findings {
					lines = append(lines, fmt.Sprintf("%v %s (%d)\n", f.PTX, f.Class, f.Count))
				}
				slices.Sort(lines)
				says[k] = strings.Join(lines, "")
			}
			if !bytes.Equal(outs[0], outs[1]) || says[0] != says[1] {
				t.Fatalf("program %d, %d threads, checks %v: together\n%x\n%s\none by one\n%x\n%s\n%s", i, threads, checks,
					outs[0], says[0], outs[1], says[1], body)
			}
			if says[0] != "" {
				found++
			}
		}
	}
	if found < 150 {
		t.Errorf("%d programs have findings, want more: what is out of the ordinary is not tried", found)
	}
}
