package ptxvm

import (
	"strings"
	"testing"
)

// TestClusterBarrier: clusters are one block, so barrier.cluster is a barrier of the block in two steps.
func TestClusterBarrier(t *testing.T) {
	const store, load = "st.shared.u32 [%r20], %r2;", "xor.b32 %r22, %r2, 33; mad.lo.u32 %r22, %r22, 4, %r21;" +
		"ld.shared.u32 %r23, [%r22]; st.global.u32 [%rd12], %r23;"
	const arrive, wait = "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"
	for _, tt := range []struct {
		name, body string
		class      Class
		says       string
	}{
		{"arrive and wait", store + arrive + wait + load, "", ""},
		{"of release and acquire", store + "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" + load, "", ""},
		{"twice", store + arrive + wait + load + arrive + wait + "st.shared.u32 [%r22], %r2;", "", ""},
		{"a relaxed arrival", store + "barrier.cluster.arrive.relaxed.aligned;" + wait + load, Race, "%r23"},
		{"a store after the arrival", arrive + store + wait + load, Race, "%r23"},
		{"a load before the wait", store + arrive + load + wait, Race, ""},
		{"a fence before a relaxed arrival", store + "barrier.cluster.arrive.relaxed;" + wait + "bar.sync 0;" + load, "", ""},
		{"some have ended", "setp.ge.s32 %p1, %r2, 32; @%p1 bra end;" + store + arrive + wait +
			"ld.shared.u32 %r23, [%r20]; st.global.u32 [%rd12], %r23; end:", "", ""},
		{"a warp does not arrive", "setp.ge.s32 %p1, %r2, 32; @%p1 bra other;" + arrive + wait + "bra end;" +
			"other: bar.sync 1; bra end; end:", Deadlock, ""},
		{"a wait without an arrival", wait, BarrierDivergence, "has not arrived"},
		{"two arrivals", arrive + arrive + wait, BarrierDivergence, "arrives at the barrier of the cluster again"},
		{"half a warp", "and.b32 %r22, %r2, 1; setp.ne.s32 %p1, %r22, 0; @%p1 " + arrive + wait, BarrierDivergence,
			"must arrive together"},
	} {
		l := textLaunch(1, 64)
		r := run(t, loadText(t, kernelText("mov.u32 %r21, s; mad.lo.u32 %r20, %r2, 4, %r21;"+tt.body)), l)
		if tt.class == "" && len(r.Findings) > 0 || tt.class != "" && (len(r.Findings) == 0 ||
			r.Findings[0].Class != tt.class || !strings.Contains(r.Findings[0].String()+r.Findings[0].Instr.String(), tt.says)) {
			t.Errorf("%s: %s, want %q", tt.name, list(r), tt.class)
		}
	}
}
