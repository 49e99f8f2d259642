package ptxvm

import (
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/testkit"
)

// TestStuck: loops that wait for what never comes, and loops that only look like it.
func TestStuck(t *testing.T) {
	testkit.ValuesOnly(t)
	const poll = "again: ld.volatile.global.u32 %r10, [%rd2]; setp.ne.s32 %p1, %r10, 77; @%p1 bra again;"
	for _, tt := range []struct {
		name, body string
		blocks     int
		class      Class
		code       diag.Code
	}{
		{"nobody stores it", poll, 3, Deadlock, ""},
		{"a long period", "mov.u32 %r11, 0; again: add.s32 %r11, %r11, 1; and.b32 %r11, %r11, 63;\n" +
			"ld.volatile.global.u32 %r10, [%rd2]; setp.ne.s32 %p1, %r10, 77; @%p1 bra again;", 1, Deadlock, ""},
		{"lanes of one warp wait for others that wait", "setp.lt.s32 %p2, %r2, 16; @%p2 bra again;\n" +
			"bar.warp.sync -1; bra done;" + poll + "bar.warp.sync -1; done:", 1, Deadlock, ""},
		{"another block stores it late", "setp.eq.s32 %p2, %r38, 0; @%p2 bra again; mov.u32 %r11, 0;\n" +
			"late: add.s32 %r11, %r11, 1; setp.lt.s32 %p3, %r11, 20000; @%p3 bra late;\n" +
			"mov.u32 %r12, 77; st.volatile.global.u32 [%rd2], %r12; bra done;" + poll + "done:", 2, "", ""},
		{"memory changes", "again: atom.global.add.u32 %r10, [%rd2], 1; bra again;", 1, "", Budget},
		{"a register changes", "mov.u32 %r11, 0; again: add.s32 %r11, %r11, 1; ld.volatile.global.u32 %r10, [%rd2];\n" +
			"bra again;", 1, "", Budget},
		{"it waits for nothing", "again: bra again;", 1, "", Budget},
	} {
		l := textLaunch(tt.blocks, 32)
		l.MaxSteps = 1 << 19
		r, err := loadText(t, kernelText(tt.body)).Run(l)
		switch {
		case diag.CodeOf(err) != tt.code:
			t.Errorf("%s: %v, want code %q", tt.name, err, tt.code)
		case err != nil:
		case tt.class == "" && len(r.Findings) > 0:
			t.Errorf("%s: %s", tt.name, list(r))
		case tt.class != "" && (len(r.Findings) != 1 || r.Findings[0].Class != tt.class ||
			r.Findings[0].Instr.Op != "ld" || !strings.Contains(r.Findings[0].Message, "wait in a loop")):
			t.Errorf("%s: %s, want %s at the load", tt.name, list(r), tt.class)
		}
	}
}

// TestStuckAmongWorkers has two blocks that wait in loops for what never comes, one in shared memory and one in global
// memory, while others write to global memory for long. Both are found however many workers there are, and the others
// come to their end.
func TestStuckAmongWorkers(t *testing.T) {
	p := loadText(t, kernelText(`
setp.eq.s32 %p1, %r38, 1;
@%p1 bra SHARED;
setp.eq.s32 %p1, %r38, 2;
@%p1 bra GLOBAL;
mov.u32 %r10, 0;
WORK:
add.s32 %r10, %r10, 1;
st.global.u32 [%rd12], %r10;
setp.lt.s32 %p2, %r10, 40000;
@%p2 bra WORK;
bra END;
SHARED:
st.shared.u32 [%r5], 0;
WAIT:
ld.shared.u32 %r11, [%r5];
setp.eq.s32 %p3, %r11, 0;
@%p3 bra WAIT;
bra END;
GLOBAL:
ld.global.u32 %r12, [%rd11];
setp.ne.s32 %p4, %r12, 0;
@%p4 bra GLOBAL;
END:
`))
	for _, workers := range workerCounts {
		l := textLaunch(6, 1)
		l.Workers, l.Checks, l.MaxSteps = workers, NoChecks, 1<<24
		r := run(t, p, l)
		if len(r.Findings) != 2 || r.Findings[0].Class != Deadlock || r.Findings[1].Class != Deadlock {
			t.Errorf("%d workers: %s", workers, list(r))
		}
		for _, block := range []int{0, 3, 4, 5} {
			if got := getBytes(l.Args[1].Buffer[4*block:], 4); got != 40000 {
				t.Errorf("%d workers: block %d has left %d, want 40000", workers, block, got)
			}
		}
	}
}

// lockSteps is how many instructions of warps 64 threads may take to get a lock one after the other: only the first one
// has to wait until somebody looks whether anything still changes.
const lockSteps = 1 << 19

// TestLockOfLanes: every lane takes the lock that the one before gives back behind the loop in which others wait.
func TestLockOfLanes(t *testing.T) {
	testkit.ValuesOnly(t)
	l := textLaunch(1, 64)
	r := run(t, loadText(t, kernelText(`
TRY: atom.global.cas.b32 %r10, [%rd3], 1, 2;
setp.ne.s32 %p1, %r10, 1;
@%p1 bra TRY;
membar.gl;
ld.global.u32 %r11, [%rd3+4];
add.s32 %r11, %r11, 1;
st.global.u32 [%rd3+4], %r11;
membar.gl;
atom.global.exch.b32 %r12, [%rd3], 1;`)), l)
	silent(t, r)
	if r.Steps > lockSteps {
		t.Errorf("%d instructions, want at most %d", r.Steps, lockSteps)
	}
	equal(t, "lock and counter", l.Args[2].Buffer[:8], pack(uint32(1), uint32(66)))
}
