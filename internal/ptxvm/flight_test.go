package ptxvm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// copyProgram is a kernel that copies asynchronously, closes groups, waits, and looks at shared memory on the way:
// mostly all threads together, sometimes only some of them.
func copyProgram(random *rand.Rand) string {
	var b strings.Builder
	b.WriteString(`mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; cvt.u64.u32 %rd3, %r2; add.s64 %rd4, %rd1, %rd3;
add.s64 %rd5, %rd2, %rd3; mov.u32 %r3, s; add.u32 %r3, %r3, %r2; mov.u32 %r9, 0; mov.u32 %r8, 16;
mov.u32 %r7, s; add.u32 %r7, %r7, 1024;
`)
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
	"cp.async.bulk.wait_group 0;\n", "ret;\n"}

// TestFlights: what threads copy together is what they copy one by one, which they do where somebody counts.
func TestFlights(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 1))
	x := make([]byte, 1024)
	for i := range x {
		x[i] = byte(i * 7)
	}
	for i := range 600 {
		body := copyProgram(random)
		p, err := loadModule(t, "", body)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		threads := 32
		if i%5 == 0 {
			threads = 1 + random.IntN(32)
		}
		var outs [2][]byte
		for k := range outs {
			outs[k] = make([]byte, 1024)
			_, err := p.Run(&Launch{Grid: line(1), Block: line(threads), Checks: NoChecks, Counters: k == 1,
				Args: []Arg{{Name: "x", Buffer: x}, {Name: "y", Buffer: outs[k]}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(outs[0], outs[1]) {
			t.Fatalf("program %d, %d threads: together\n%x\none by one\n%x\n%s", i, threads, outs[0], outs[1], body)
		}
	}
}
