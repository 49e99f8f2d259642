package ptxvm

import (
	"strings"
	"testing"
)

// TestSkippedStores: an element that nobody wrote comes with the condition that skipped the store, whatever form it
// has; where no thread skipped it, the grid is in question.
func TestSkippedStores(t *testing.T) {
	const less = "setp.ge.s32 %p1, %r2, %r1; "
	for _, tt := range []struct{ name, body, says string }{
		{"a branch over it", less + "@%p1 bra END; st.global.u32 [%rd12], %r2; END: ;",
			"is skipped where %p1 is true: setp.ge.s32 at k.ptx:25 (%tid.x >= n)"},
		{"a branch to it", "setp.lt.s32 %p1, %r2, %r1; @%p1 bra STORE; ret; STORE: st.global.u32 [%rd12], %r2;",
			"is skipped where %p1 is false: setp.lt.s32 at k.ptx:25 (%tid.x < n)"},
		{"a negated branch", "setp.lt.s32 %p1, %r2, %r1; @!%p1 bra END; st.global.u32 [%rd12], %r2; END: ;",
			"is skipped where %p1 is false: setp.lt.s32"},
		{"a guard", "setp.lt.s32 %p1, %r2, %r1; @%p1 st.global.u32 [%rd12], %r2;",
			"is skipped where %p1 is false: setp.lt.s32"},
		{"a negated guard", less + "@!%p1 st.global.u32 [%rd12], %r2;", "is skipped where %p1 is true: setp.ge.s32"},
		{"an early end", less + "@%p1 ret; st.global.u32 [%rd12], %r2;", "is skipped where %p1 is true: setp.ge.s32"},
		{"another condition outside", "setp.gt.s32 %p2, %r2, 1000; @%p2 bra END; " + less +
			"@%p1 bra END; st.global.u32 [%rd12], %r2; END: ;", "is skipped where %p1 is true"},
		{"the condition outside", less + "@%p1 bra END; setp.gt.s32 %p2, %r2, 1000; @%p2 bra END; " +
			"st.global.u32 [%rd12], %r2; END: ;", "is skipped where %p1 is true"},
		{"none", "st.global.u32 [%rd1], %r2; st.global.u32 [%rd2], %r2;", "no thread skips the store at k.ptx:25"},
		{"skipped by all", "setp.lt.s32 %p1, %r2, 0; @%p1 st.global.u32 [%rd12], %r2;",
			"is skipped where %p1 is false: setp.lt.s32 at k.ptx:25 (%tid.x < 0)"},
	} {
		for _, workers := range []int{1, 2} {
			l := textLaunch(2, 32)
			l.Workers = workers
			l.Args[1].Role, l.Args[1].Name = Out, "y"
			l.Args[3].Value, l.Args[3].Name = word(20), "n"
			r := run(t, loadText(t, kernelText(tt.body)), l)
			var said string
			for _, f := range r.Findings {
				if f.Class == Unwritten {
					said = f.Message
				}
			}
			if !strings.Contains(said, tt.says) {
				t.Errorf("%s, %d workers: %q, want %q", tt.name, workers, said, tt.says)
			}
		}
	}
}
