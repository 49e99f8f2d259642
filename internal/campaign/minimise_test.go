package campaign

import (
	"fmt"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/store"
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

def twofold(inputs):  # a factor where rows are long, another bug where they are not
    y = softmax(inputs)
    n = y.shape[-1]
    return y * y.dtype.type(2) if n >= 20 else -y if n >= 8 else y

def half(inputs):  # wrong in float16, and in another way in float32
    y = softmax(inputs)
    return y * y.dtype.type(2) if y.dtype == np.float16 else -y

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

// countStored is how many results the store has.
func (tr *trial) countStored() int {
	tr.t.Helper()
	list, err := tr.Store.List(tr.t.Context(), store.Filter{})
	if err != nil {
		tr.t.Fatal(err)
	}
	return len(list)
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

// Other wrong values are another bug.
func TestMinimiseKeepsTheCause(t *testing.T) {
	tr := newFailing(t, "twofold")
	text := "softmax dtype=float32 dims=B:2,S:3,H:40 attrs=math:gpu in=input:float32[2,3,40]:strided:normal seed=3 gen=1"
	for _, c := range []struct {
		any  bool
		last int // size of the rows
	}{{false, 20}, {true, 8}} {
		m, err := tr.Minimise(t.Context(), tr.project, MinimiseRequest{Target: Target{Case: text}, MaxIters: 80,
			AnyFailure: c.any})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Original.Kind().String(); got != "mismatch/scale" {
			t.Fatalf("the case is %s, want scaled values", got)
		}
		if shape := m.Case.Inputs[0].Shape; shape[len(shape)-1] != c.last {
			t.Errorf("with any failure %v minimised to %s, want rows of %d", c.any, m.Case, c.last)
		}
	}
}

// Another dtype may have another bug, and the case is asked for as it was found.
func TestMinimiseKeepsTheDType(t *testing.T) {
	tr := newFailing(t, "half")
	text := "softmax dtype=float16 dims=B:2,S:3,H:40 attrs=math:gpu in=input:float16[2,3,40]:strided:normal seed=3 gen=1"
	for anyDType, want := range map[bool]dtype.DType{false: dtype.Float16, true: dtype.Float32} {
		m, err := tr.Minimise(t.Context(), tr.project, MinimiseRequest{Target: Target{Case: text}, MaxIters: 80,
			AnyDType: anyDType, AnyFailure: anyDType})
		if err != nil {
			t.Fatal(err)
		}
		if m.Case.DType != want {
			t.Errorf("with any dtype %v minimised to %s, want %s", anyDType, m.Case, want)
		}
	}
}

// What a report prints must replay where there is no store.
func TestMinimiseNamesACaseThatNeedsNoStore(t *testing.T) {
	tr := newFailing(t, "always")
	res := tr.failing("")
	m, err := tr.Minimise(t.Context(), tr.project, MinimiseRequest{Target: Target{Case: res.Case}, MaxIters: 60})
	if err != nil || m.Portable == "" || commonValues(m.Case) != valuesStored {
		t.Fatalf("Minimise = %+v, %v, want stored values and a portable case", m, err)
	}
	stored := tr.countStored()
	text, err := tr.Minimise(t.Context(), tr.project, MinimiseRequest{Target: Target{Case: res.Case}, MaxIters: 60,
		TextOnly: true})
	if err != nil || text.Portable != m.Portable || text.Case.String() != m.Portable || text.Result.Case != m.Portable {
		t.Errorf("Minimise to a text = %+v, %v, want %s", text, err, m.Portable)
	}
	if n := tr.countStored(); n != stored {
		t.Errorf("%d results are stored, want %d as before", n, stored)
	}
	elsewhere := newFailing(t, "always")
	again, err := elsewhere.Reproduce(t.Context(), elsewhere.project, Target{Case: m.Portable})
	if err != nil || !again.StillFails() {
		t.Errorf("Reproduce with an empty store = %+v, %v", again, err)
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
	text := "softmax dtype=float32 dims=B:1,S:2,H:4 attrs=math:gpu in=input:float32[1,2,4]:strided:normal seed=3 gen=1"
	request := MinimiseRequest{Target: Target{Case: text}, Strategy: MinimiseValues, MaxIters: 200}
	m, err := tr.Minimise(t.Context(), tr.project, request)
	if err != nil || m.Unchanged {
		t.Fatalf("Minimise = %+v, %v, want simpler values", m, err)
	}
	request.Target = Target{Seed: uint64(m.Result.Seed)}
	if m, err = tr.Minimise(t.Context(), tr.project, request); err != nil || !m.Unchanged {
		t.Errorf("Minimise once more = %+v, %v, want no change", m, err)
	}
}
