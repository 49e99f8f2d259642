package ptxvm

import (
	"fmt"
	"testing"
)

// This file implements tests of what barriers in memory order. The axioms of internal/testkit/litmus do not know them.

// asyncArrivals is a copy of each thread to shared memory, what makes the copies known, and a load of what a thread
// of another lane or warp has copied.
func asyncArrivals(threads int, arrival, wait string, other int) string {
	return fmt.Sprintf(`
setp.ne.u32 %%p1, %%r2, 0;
@%%p1 bra READY;
mbarrier.init.shared.b64 [s+384], %d;
READY:
bar.sync 0;
add.s32 %%r7, %%r5, %%r4;
cp.async.ca.shared.global [%%r7], [%%rd11], 4;
%s
%s
xor.b32 %%r8, %%r2, %d;
mad.lo.s32 %%r9, %%r8, 4, %%r5;
ld.shared.u32 %%r10, [%%r9];
st.global.u32 [%%rd12], %%r10;`, threads, arrival, wait, other)
}

// TestAsyncArrivals has kernels as cuda::memcpy_async makes them.
func TestAsyncArrivals(t *testing.T) {
	const (
		noinc = "cp.async.mbarrier.arrive.noinc.shared.b64 [s+384];"
		plain = "cp.async.mbarrier.arrive.shared.b64 [s+384]; mbarrier.arrive.shared.b64 %rd20, [s+384];"
		wait  = "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [s+384], 0; @!%p2 bra WAIT;"
	)
	for _, threads := range []int{32, 64} {
		for _, c := range []struct {
			name, arrival, wait string
			racy                bool
		}{
			{"noinc", noinc, wait, false},
			{"noinc, nobody waits", noinc, "", true},
			{"and a plain arrival", plain, wait, false},
			{"no arrival for the copy", "mbarrier.arrive.shared.b64 %rd20, [s+384];", wait, true},
		} {
			r := run(t, loadText(t, kernelText(asyncArrivals(threads, c.arrival, c.wait, threads/2))), textLaunch(1, threads))
			racy := false
			for i := range r.Findings {
				racy = racy || r.Findings[i].Class == Race || r.Findings[i].Class == AsyncHazard
			}
			if racy != c.racy || !c.racy && len(r.Findings) > 0 {
				t.Errorf("%s, %d threads: %v, want a race: %v", c.name, threads, r.Findings, c.racy)
			}
		}
	}
}
