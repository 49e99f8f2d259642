package ptxvm

import (
	"fmt"
	"strings"
	"testing"
)

// TestManyFindings: a kernel with more findings of a class than are kept says how many there are, and what each costs
// is a count.
func TestManyFindings(t *testing.T) {
	const stores = 1500
	var body strings.Builder
	for i := range stores {
		fmt.Fprintf(&body, "st.global.u32 [%%rd1+%d], %%r2;\n", 1<<20+4*i)
	}
	r := run(t, loadText(t, kernelText(body.String())), textLaunch(1, 1))
	if len(r.Findings) != maxFindings || r.Dropped != stores-maxFindings {
		t.Errorf("%d findings and %d more, want %d and %d", len(r.Findings), r.Dropped, maxFindings, stores-maxFindings)
	}
	f := newFindings()
	for i := range 10 * maxOfClass {
		key := findingKey{class: Race, other: fmt.Sprint(i)}
		if !f.again(key) {
			f.add(key, &Finding{Class: Race})
		}
	}
	if len(f.list) != maxOfClass || len(f.beyond) != maxOfClass {
		t.Errorf("%d findings are kept and %d counted, want %d", len(f.list), len(f.beyond), maxOfClass)
	}
	if key := (findingKey{class: Trap}); f.again(key) {
		t.Error("a class without findings is full")
	}
}
