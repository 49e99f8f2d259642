package campaign

import (
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// A tolerance that zeros would keep makes no run green, whatever the candidate computes.
func TestVacuousCasesAreNoPass(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax", "[ops.tolerances]\nfloat32 = 10"))
	sum, results := tr.run(KindFuzz, Options{Seed: seed(3), Iterations: 6})
	if sum.Passed != 0 || sum.Undecided != 6 || sum.Vacuous() != 6 || sum.ExitCode() != 3 {
		t.Errorf("summary %+v with exit code %d, want 6 vacuous cases and 3", sum, sum.ExitCode())
	}
	if !slices.ContainsFunc(sum.Health, func(h verdict.HealthCheck) bool {
		return h.Check == HealthVacuous && strings.HasPrefix(h.Message, "6 of 6 cases (100.0 %)")
	}) {
		t.Errorf("health checks %+v, want %s", sum.Health, HealthVacuous)
	}
	for _, r := range results {
		if r.Reason != verdict.Vacuous || !strings.Contains(r.Message, "zeros would have passed too") || r.Hint == "" ||
			r.Outputs[0].Vacuous == 0 {
			t.Errorf("result %+v", r)
		}
	}
	again, err := tr.Reproduce(t.Context(), tr.project, Target{Seed: uint64(results[0].Seed)})
	if err != nil || again.Result == nil || again.Result.Reason != verdict.Vacuous {
		t.Errorf("Reproduce = %+v, %v, want a vacuous case", again, err)
	}
}

// A comparison of given tensors has no operator to judge: the tolerance alone decides.
func TestComparedByToleranceAlone(t *testing.T) {
	of := func(name string, values ...float64) tensor.Named {
		x := tensor.New(dtype.Float32, tensor.Shape{len(values)})
		x.SetFloat64s(values)
		return tensor.Named{Name: name, Tensor: x}
	}
	tol := &compare.Tolerance{Abs: 1}
	small, large := of("small", 0.1, 0.2, 0.3), of("large", 10, 20, 30)
	for _, c := range []struct {
		name   string
		got    []tensor.Named
		want   verdict.Verdict
		reason verdict.Reason
	}{
		{"large alone", []tensor.Named{large}, verdict.Pass, ""},
		{"both", []tensor.Named{small, large}, verdict.Pass, ""},
		{"one wrong", []tensor.Named{small, of("large", 10, 20, 39)}, verdict.Fail, verdict.Mismatch},
	} {
		want := []tensor.Named{small, large}[2-len(c.got):]
		res, err := CompareTensors(c.got, want, tol, dtype.Invalid, false)
		if err != nil || res.Verdict != c.want || res.Reason != c.reason {
			t.Errorf("%s: %+v, %v, want %s %s", c.name, res, err, c.want, c.reason)
		}
	}
}

// A client's outputs are judged by the same rule, and a finding still fails the case.
func TestVacuousSubmissions(t *testing.T) {
	tr := newTrial(t, head+"\n[[ops]]\nname = \"softmax\"\n")
	batch, err := tr.HandOut(t.Context(), tr.project, HandOut{Op: "softmax", Options: Options{Seed: seed(4)}})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close(false)
	c, inputs, err := batch.Case(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := catalogueSubject(nil, "softmax")
	wants, err := s.evaluate(c, inputs)
	if err != nil {
		t.Fatal(err)
	}
	sub := Submission{Op: "softmax", Case: c.String(), Outputs: rounded(wants), Tolerance: &compare.Tolerance{Abs: 2}}
	res, err := tr.Submit(t.Context(), tr.project, sub)
	if err != nil || res.Verdict != verdict.Undecided || res.Reason != verdict.Vacuous {
		t.Errorf("Submit = %+v, %v, want a vacuous case", res, err)
	}
	sub.Findings = []verdict.Finding{{Kind: string(verdict.Overrun), Name: "output", Sentence: "wrote behind output"}}
	res, err = tr.Submit(t.Context(), tr.project, sub)
	if err != nil || res.Verdict != verdict.Fail || res.Numeric == nil || *res.Numeric != verdict.Undecided {
		t.Errorf("with a finding: Submit = %+v, %v, want a failure whose values are undecided", res, err)
	}
}
