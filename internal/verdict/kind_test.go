package verdict

import (
	"testing"

	"gpuemu/internal/compare"
)

func TestKindNamesTheException(t *testing.T) {
	for message, want := range map[string]string{
		"ops.py:f raised ValueError: bad":                              "ValueError",
		"the script exited with status 1: numpy.linalg.LinAlgError: x": "numpy.linalg.LinAlgError",
		"ops.py:f crashed: SIGSEGV (segmentation fault)":               "SIGSEGV",
		"ops.py:f called sys.exit(3)":                                  "",
	} {
		r := &Result{Verdict: Error, Reason: Raised, Message: message}
		if got := r.Kind(); got.What != want {
			t.Errorf("Kind of %q = %+v, want %q", message, got, want)
		}
	}
}

// mismatch is a result whose diagnosis names patterns.
func mismatch(kinds ...string) *Result {
	r := &Result{Verdict: Fail, Reason: Mismatch, Outputs: []Output{{Name: "exact"}, {Name: "y", Mismatched: 1}}}
	for _, kind := range kinds {
		r.Outputs[1].Diagnosis = append(r.Outputs[1].Diagnosis, Finding{Kind: kind})
	}
	return r
}

func TestKindNamesTheCause(t *testing.T) {
	for _, c := range []struct {
		r    *Result
		want string
	}{
		{mismatch(), "mismatch"},
		{mismatch(compare.FindTail), "mismatch"},
		{mismatch(compare.FindEdge, compare.FindUnwritten), "mismatch/unwritten"},
		{mismatch(compare.FindRowScale), "mismatch/scale"},
		{mismatch(compare.FindRowOffset), "mismatch/offset"},
		{&Result{Verdict: Fail, Reason: Overrun, Outputs: mismatch(compare.FindSign).Outputs}, "overrun"},
		{&Result{Verdict: Error, Reason: Raised, Message: "f raised KeyError: x"}, "raised/KeyError"},
		{&Result{Verdict: Fail, Reason: Invariant, Invariants: []Invariance{{Name: "finite", Outcome: "holds"},
			{Name: "normalized", Outcome: "violated"}}}, "invariant/normalized"},
		{&Result{Verdict: Pass, Outputs: mismatch(compare.FindSign).Outputs}, ""},
	} {
		if got := c.r.Kind().String(); got != c.want {
			t.Errorf("Kind = %q, want %q", got, c.want)
		}
	}
}

// A smaller case may show less of a failure than the first one, and not something else.
func TestKindLike(t *testing.T) {
	scaled, plain := mismatch(compare.FindScale).Kind(), mismatch().Kind()
	for _, c := range []struct {
		got, want Kind
		like      bool
	}{
		{scaled, scaled, true}, {plain, plain, true},
		{plain, scaled, true}, // too few elements to see the factor
		{scaled, plain, true}, // the first case had something else in its way
		{mismatch(compare.FindSign).Kind(), scaled, false},
		{(&Result{Verdict: Fail, Reason: NonFinite}).Kind(), plain, false},
		{(&Result{Verdict: Error, Reason: Raised}).Kind(), plain, false},
	} {
		if got := c.got.Like(c.want); got != c.like {
			t.Errorf("%s like %s = %v, want %v", c.got, c.want, got, c.like)
		}
	}
}
