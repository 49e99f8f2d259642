package report

import (
	"bytes"
	"strings"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/verdict"
)

// TestBias: errors with a common sign over all cases fail a run in which every case passed, in every format.
func TestBias(t *testing.T) {
	var tally verdict.Tally
	var results []verdict.Result
	for i := range 20 {
		r := verdict.Result{Index: i, Op: "layernorm", DType: "float32", Case: "c", Verdict: verdict.Pass,
			Outputs: []verdict.Output{{Name: "output", DType: "float32", Shape: []int{4}, Regime: "bound", Elements: 4,
				Lean: &compare.Lean{Units: 4, Below: 4}}}}
		tally.Add(&r)
		results = append(results, r)
	}
	sum := verdict.Summary{Kind: "test", Planned: 20, Complete: true, Counts: tally.Counts(), Ops: tally.Ops()}
	s := Source{Summary: sum, Each: Slice(results)}
	if got := s.ExitCode(); got != 1 {
		t.Fatalf("exit code %d, want 1", got)
	}
	want := "80 of 80 independent rows are too small"
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text":  func(b *bytes.Buffer) error { return Text(b, s, TextOptions{Width: 1000}) },
		"JUnit": func(b *bytes.Buffer) error { return JUnit(b, s) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s does not say %q:\n%s", name, want, b.String())
		}
	}
	if line := s.Conclusion(); !strings.Contains(line, "FAILED: errors with a common sign in 1 op") {
		t.Errorf("conclusion %q", line)
	}
}
