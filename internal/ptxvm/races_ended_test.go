package ptxvm

import "testing"

// This file implements a test of threads that end before a barrier of their block. The axioms of
// internal/testkit/litmus have no barrier that does not wait for them.

// TestEndedBeforeABarrier: a thread acquires what block 0 released, releases that itself and ends. Its block passes a
// barrier, after which another warp releases, too. Block 2 acquires first from the warp, then from the ended thread: as
// what the ended thread did counts as ordered by the barrier, so must what it knew.
func TestEndedBeforeABarrier(t *testing.T) {
	const body = `
setp.eq.u32 %p1, %r38, 1;
@%p1 bra MIDDLE;
setp.ne.u32 %p2, %r2, 0;
@%p2 bra END;
setp.eq.u32 %p1, %r38, 2;
@%p1 bra LAST;
st.global.u32 [%rd2], 7;
st.release.gpu.global.u32 [%rd2+4], 100;
bra END;
MIDDLE:
setp.ge.u32 %p1, %r2, 32;
@%p1 bra STAYS;
setp.ne.u32 %p2, %r2, 0;
@%p2 bra END;
WAITF: ld.acquire.gpu.global.u32 %r7, [%rd2+4];
setp.ne.u32 %p3, %r7, 100;
@%p3 bra WAITF;
st.release.gpu.global.u32 [%rd2+8], 100;
bra END;
STAYS:
bar.sync 0;
setp.ne.u32 %p2, %r2, 32;
@%p2 bra END;
st.release.gpu.global.u32 [%rd2+12], 100;
bra END;
LAST:
WAITH: ld.acquire.gpu.global.u32 %r7, [%rd2+12];
setp.ne.u32 %p3, %r7, 100;
@%p3 bra WAITH;
WAITG: ld.acquire.gpu.global.u32 %r7, [%rd2+8];
setp.ne.u32 %p3, %r7, 100;
@%p3 bra WAITG;
ld.global.u32 %r8, [%rd2];
st.global.u32 [%rd2+16], %r8;
END:`
	silent(t, run(t, loadText(t, kernelText(body)), textLaunch(3, 64)))
}
