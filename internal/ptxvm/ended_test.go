package ptxvm

import (
	"strings"
	"testing"
)

// TestEndedBeforeBarrier proves that a barrier orders what warps did that have ended before it, as nobody waits for
// them: kernels let threads return that have nothing more to do. A barrier of some threads says nothing about others.
func TestEndedBeforeBarrier(t *testing.T) {
	const text = "setp.lt.u32 %p1, %r2, 32; @%p1 bra FIRST; st.shared.u32 [%r6], %r2; ret;" +
		"FIRST: BARRIER; ld.shared.u32 %r10, [%r6+128]; st.global.u32 [%rd12], %r10;"
	for _, c := range []struct {
		barrier string
		race    bool
	}{
		{"bar.sync 0", false},
		{"bar.sync 0, 32", true},
		{"bar.warp.sync -1", true},
	} {
		p := loadText(t, kernelText(strings.Replace(text, "BARRIER", c.barrier, 1)))
		r, err := p.run(textLaunch(1, 64), orderNumber(1, 0, 1)) // the second warp comes first
		if err != nil {
			t.Fatal(err)
		}
		races := 0
		for _, f := range r.Findings {
			if f.Class == Race {
				races++
			}
		}
		if races > 0 != c.race {
			t.Errorf("%s: found %s, want a race: %v", c.barrier, list(r), c.race)
		}
	}
}
