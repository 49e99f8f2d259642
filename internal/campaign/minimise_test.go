package campaign

import (
	"fmt"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
)

const failingPy = `
import os
import numpy as np
from ops import softmax
calls = 0

def raises(inputs):  # one failure where rows are long, another one in every small case
    n = inputs["input"].shape[-1]
    if n < 20:
        raise IndexError("too short for the tile")
    raise ValueError("row of %d" % n)

def flaky(inputs):  # wrong every second time
    global calls
    calls += 1
    y = softmax(inputs)
    return y if calls % 2 == 0 else y + 1

def always(inputs):
    return softmax(inputs) + 1
`

// failing runs cases until one fails with that text and returns it.
func (tr *trial) failing(text string) verdict.Result {
	tr.t.Helper()
	_, results := tr.run(KindFuzz, Options{Seed: seed(2), Iterations: 12, Parallel: 1, Shapes: "regular"})
	for i := range results {
		if results[i].Verdict.Failed() && strings.Contains(results[i].Message, text) {
			return results[i]
		}
	}
	tr.t.Fatalf("no case fails with %q", text)
	return verdict.Result{}
}

func newFailing(t *testing.T, function string) *trial {
	tr := newTrial(t, head+fmt.Sprintf("\n[[ops]]\nname = \"softmax\"\ncandidate = \"failing.py:%s\"\n", function))
	tr.write("failing.py", failingPy)
	return tr
}

// Another exception is another bug.
func TestMinimiseKeepsTheException(t *testing.T) {
	tr := newFailing(t, "raises")
	res := tr.failing("ValueError")
	m, err := tr.Minimise(t.Context(), tr.project, MinimiseRequest{Target: Target{Case: res.Case}, MaxIters: 60})
	if err != nil {
		t.Fatal(err)
	}
	shape := m.Case.Inputs[0].Shape
	if !strings.Contains(m.Result.Message, "ValueError") || shape[len(shape)-1] != 20 {
		t.Errorf("minimised to %s: %s", m.Case, m.Result.Message)
	}
	again, err := tr.Reproduce(t.Context(), tr.project, Target{Seed: uint64(m.Result.Seed)})
	if err != nil || !again.StillFails() || again.Result.Message != m.Result.Message {
		t.Errorf("its seed replays as %+v, %v", again, err)
	}
}

// A candidate that fails now and then has no smallest case, and nothing that passes is stored as one.
func TestMinimiseOfAFlakyCandidate(t *testing.T) {
	tr := newFailing(t, "flaky")
	res := tr.failing("")
	for range 2 { // whichever turn it is
		_, err := tr.Minimise(t.Context(), tr.project, MinimiseRequest{Target: Target{Case: res.Case}, MaxIters: 9})
		if diag.CodeOf(err) != NotFailing {
			t.Errorf("Minimise = %v, want %s", err, NotFailing)
		}
	}
}

// Simpler values of the same shapes are a change, too.
func TestMinimiseSaysWhatChanged(t *testing.T) {
	tr := newFailing(t, "always")
	res := tr.failing("")
	request := MinimiseRequest{Target: Target{Case: res.Case}, Strategy: MinimiseValues, MaxIters: 20}
	m, err := tr.Minimise(t.Context(), tr.project, request)
	if err != nil || m.Unchanged {
		t.Fatalf("Minimise = %+v, %v, want simpler values", m, err)
	}
	request.Target = Target{Seed: uint64(m.Result.Seed)}
	if m, err = tr.Minimise(t.Context(), tr.project, request); err != nil || !m.Unchanged {
		t.Errorf("Minimise once more = %+v, %v, want no change", m, err)
	}
}

func TestClassOf(t *testing.T) {
	for message, want := range map[string]string{
		"ops.py:f raised ValueError: bad":                              "ValueError",
		"the script exited with status 1: numpy.linalg.LinAlgError: x": "numpy.linalg.LinAlgError",
		"ops.py:f crashed: SIGSEGV (segmentation fault)":               "SIGSEGV",
		"ops.py:f called sys.exit(3)":                                  "",
	} {
		if got := classOf(&verdict.Result{Reason: verdict.Raised, Message: message}); got.what != want {
			t.Errorf("classOf(%q) = %q, want %q", message, got.what, want)
		}
	}
}
