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
			{"and a plain arrival, nobody waits", plain, "", true},
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

// memoryBarrier is a message from one warp to another through a barrier: what makes the barrier known, how the writer
// arrives, how the reader waits, and what it does after it has read.
func memoryBarrier(ready, arrive, wait, after string) string {
	return `
setp.ne.u32 %p1, %r2, 0;
@%p1 bra READY;
mbarrier.init.shared.b64 [s+384], 2;
READY:
` + ready + `
and.b32 %r7, %r2, 31;
setp.ne.u32 %p1, %r7, 0;
@%p1 bra END;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra READER;
st.shared.u32 [s], 7;
` + arrive + `
bra END;
READER:
setp.ne.u32 %p1, %r2, 64;
@%p1 bra THIRD;
nanosleep.u32 500;
` + wait + `
ld.shared.u32 %r10, [s];
st.global.u32 [%rd2], %r10;
` + after + `
bra END;
THIRD:
nanosleep.u32 2000;
mbarrier.arrive.shared.b64 %rd20, [s+384];
END:`
}

func TestMemoryBarrierOrder(t *testing.T) {
	const (
		block   = "bar.sync 0;"
		arrive  = "mbarrier.arrive.shared.b64 %rd20, [s+384];"
		relaxed = "mbarrier.arrive.relaxed.cta.shared.b64 %rd20, [s+384];"
		fence   = "fence.acq_rel.cta;"
		wait    = "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [s+384], 0; @!%p2 bra WAIT;"
		asks    = "WAIT: mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p2, [s+384], 0; @!%p2 bra WAIT;"
	)
	for _, c := range []struct {
		name, ready, arrive, wait, after string
		racy                             bool
	}{
		{"a message", block, arrive, wait, "", false},
		{"no barrier after init", "", arrive, wait, "", true},
		{"init, a fence and no barrier", "fence.mbarrier_init.release.cluster;", arrive, wait, "", true},
		{"init, a fence and a barrier", "fence.mbarrier_init.release.cluster; " + block, arrive, wait, "", false},
		{"init, fence.proxy.async and a barrier", "fence.proxy.async; " + block, arrive, wait, "", false},
		{"who asks does not wait", block, arrive, "mbarrier.try_wait.parity.shared.b64 %p2, [s+384], 0;", "", true},
		{"a relaxed arrival", block, relaxed, wait, "", true},
		{"a fence and a relaxed arrival", block, fence + relaxed, wait, "", false},
		{"a relaxed wait", block, arrive, asks, "", true},
		{"a relaxed wait and a fence", block, arrive, asks + fence, "", false},
		{"an arrival is no wait", block, arrive, arrive, "", true},
		{"the barrier goes when its phase is complete", block, arrive, wait, "mbarrier.inval.shared.b64 [s+384];", false},
		{"the barrier goes before others have waited", block, arrive, "mbarrier.inval.shared.b64 [s+384];", "", true},
	} {
		r := run(t, loadText(t, kernelText(memoryBarrier(c.ready, c.arrive, c.wait, c.after))), textLaunch(1, 96))
		racy := false
		for i := range r.Findings {
			racy = racy || r.Findings[i].Class == Race
		}
		if racy != c.racy || !c.racy && len(r.Findings) > 0 {
			t.Errorf("%s: %v, want a race: %v", c.name, r.Findings, c.racy)
		}
	}
}
