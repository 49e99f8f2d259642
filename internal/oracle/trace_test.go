package oracle_test

import (
	"crypto/sha256"
	"math"
	"testing"

	"gpuemu/internal/oracle"
)

// TestReleasedMemory evaluates every operator in memory that holds NaN: nothing of it may be left in values or bounds.
func TestReleasedMemory(t *testing.T) {
	reused := 0
	for _, op := range oracle.Ops() {
		d := op.Schema.AllowedDTypes()[0]
		ts := newTrials(op, d, "normal", "adversarial", "mixed")
		for i := range 30 {
			tr, err := ts.next(i)
			if err != nil {
				t.Fatal(err)
			}
			want := sha256.New()
			digest(want, tr)
			old := map[*float64]bool{}
			for name, w := range tr.want {
				for k := range w.Value {
					w.Value[k], w.Bound[k] = math.NaN(), math.NaN()
				}
				if len(w.Value) > 0 {
					old[&w.Value[0]], old[&w.Bound[0]] = true, true
				}
				oracle.Release(tr.want[name])
			}
			if tr.want, err = oracle.Evaluate(op, tr.inputs, tr.attrs, tr.c.DType); err != nil {
				t.Fatal(err)
			}
			for _, w := range tr.want {
				if len(w.Value) > 0 && (old[&w.Value[0]] || old[&w.Bound[0]]) {
					reused++
				}
			}
			got := sha256.New()
			if digest(got, tr); string(got.Sum(nil)) != string(want.Sum(nil)) {
				t.Fatalf("%s: values or bounds are others in memory that was used before", tr.c)
			}
		}
	}
	if reused == 0 { // a pool may lose what it was given, but not always
		t.Error("no memory was used again")
	}
}
