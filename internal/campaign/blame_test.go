package campaign

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// write puts another file of Python into the project.
func (tr *trial) write(name, text string) {
	tr.t.Helper()
	if err := os.WriteFile(filepath.Join(tr.project.Config.Dir, name), []byte(text), 0o600); err != nil {
		tr.t.Fatal(err)
	}
}

const morePy = `
import numpy as np
from ops import softmax, softmax_ref64
calls = 0

def short(inputs):
    return softmax(inputs)[..., :1]

def writes(inputs):
    y = softmax(inputs)
    inputs["input"][...] = 0
    return y

def flaky(inputs):
    global calls
    calls += 1
    y = softmax(inputs)
    return np.nextafter(y, y + np.float32(calls % 2))

def ref16(inputs):
    return softmax_ref64(inputs).astype(np.float16)

def argmax(inputs):
    return np.argmax(inputs["input"], axis=-1).astype(np.int64)

def argmax64(inputs):
    return argmax(inputs).astype(np.float64)

def argmax32(inputs):
    return argmax(inputs).astype(np.int32)

def argmin64(inputs):
    return np.argmin(inputs["input"], axis=-1).astype(np.float64)
`

func (tr *trial) only(kind string, o Options) verdict.Result {
	tr.t.Helper()
	_, results := tr.run(kind, o)
	for i := range results {
		if results[i].Verdict != results[0].Verdict || results[i].Reason != results[0].Reason {
			tr.t.Errorf("results differ: %v %v %s, %v %v", results[0].Verdict, results[0].Reason, results[0].Message,
				results[i].Verdict, results[i].Reason)
		}
	}
	return results[0]
}

// The guards speak where they are asked for: they hold, or are violated, and are never passed over.
func TestInvariantsOfExecution(t *testing.T) {
	for _, c := range []struct {
		candidate, invariant, outcome string
		verdict                       verdict.Verdict
		reason                        verdict.Reason
	}{
		{"ops.py:softmax", "inputs_unchanged", "holds", verdict.Pass, ""},
		{"more.py:writes", "inputs_unchanged", "violated", verdict.Fail, verdict.InputModified},
		{"ops.py:softmax", "deterministic", "holds", verdict.Pass, ""},
		{"more.py:flaky", "deterministic", "violated", verdict.Fail, verdict.Nondeterministic},
		{"more.py:short", "normalized", "", verdict.Error, verdict.WrongShape},
		{"more.py:short", "symmetric", "", verdict.Error, verdict.WrongShape},
	} {
		t.Run(c.candidate+" "+c.invariant, func(t *testing.T) {
			tr := newTrial(t, head+fmt.Sprintf("\n[[ops]]\nname = \"softmax\"\ncandidate = %q\ninvariants = [%q]\n",
				c.candidate, c.invariant))
			tr.write("more.py", morePy)
			res := tr.only(KindFuzz, Options{Seed: seed(1), Iterations: 3, Parallel: 1, Shapes: "regular"})
			if res.Verdict != c.verdict || res.Reason != c.reason {
				t.Errorf("%v %v: %s", res.Verdict, res.Reason, res.Message)
			}
			if c.outcome != "" && (len(res.Invariants) != 1 || res.Invariants[0].Outcome != c.outcome) {
				t.Errorf("invariants %+v, want %s", res.Invariants, c.outcome)
			}
		})
	}
}

// A reference may reply in any type that holds the values; one that computes something else is found in each of them.
func TestTypesOfReferences(t *testing.T) {
	for _, c := range []struct {
		op, candidate, reference string
		verdict                  verdict.Verdict
		reason                   verdict.Reason
	}{
		{"argmax", "more.py:argmax", "more.py:argmax64", verdict.Pass, ""},
		{"argmax", "more.py:argmax", "more.py:argmax32", verdict.Pass, ""},
		{"argmax", "more.py:argmax", "more.py:argmin64", verdict.NotRun, verdict.ReferenceDiffers},
		{"softmax", "ops.py:softmax", "more.py:ref16", verdict.Pass, ""},
		{"softmax", "ops.py:softmax", "ops.py:softmax_ref_wrong", verdict.NotRun, verdict.ReferenceDiffers},
	} {
		t.Run(c.reference, func(t *testing.T) {
			tr := newTrial(t, head+fmt.Sprintf("\n[[ops]]\nname = %q\ncandidate = %q\nreference = %q\n", c.op, c.candidate,
				c.reference))
			tr.write("more.py", morePy)
			res := tr.only(KindFuzz, Options{Seed: seed(1), Iterations: 5, Shapes: "regular", Parallel: 1})
			if res.Verdict != c.verdict || res.Reason != c.reason {
				t.Errorf("%v %v: %s", res.Verdict, res.Reason, res.Message)
			}
		})
	}
}

// Integers are exact under a calibration too, and never without a rule.
func TestRulesForIntegers(t *testing.T) {
	r := rules{regime: compare.Calibrated, checkNaN: true, checkInf: true}
	r.setCalibrated(dtype.Float32, 3, 3)
	for _, c := range []struct {
		out      dtype.DType
		hasBound bool
		regime   compare.Regime
		tol      compare.Tolerance
	}{
		{dtype.Float32, false, compare.Calibrated, compare.Tolerance{Abs: 3, Rel: 3}},
		{dtype.Int8, true, compare.Bound, compare.Tolerance{}},
		{dtype.Int8, false, compare.Fixed, compare.Tolerance{}},
	} {
		opt, err := r.options(c.out, dtype.Float32, c.hasBound)
		if err != nil || opt.Regime != c.regime || opt.Tol != c.tol {
			t.Errorf("options(%s, bound %v) = %v %v, %v", c.out, c.hasBound, opt.Regime, opt.Tol, err)
		}
	}
	bound := rules{regime: compare.Bound}
	if _, err := bound.options(dtype.Int64, dtype.Float32, false); err != nil {
		t.Errorf("exact integers need no bound: %v", err)
	}
}

// A regime that lacks its tolerance for one of the dtypes is found before the first case.
func TestRegimeOfEveryDType(t *testing.T) {
	tr := newTrial(t, strings.Replace(head, `["float32"]`, `["float32", "float16"]`, 1)+
		op("double", "double", "reference = \"ops.py:double64\"\ninput_names = [\"x\"]\ntolerance = \"calibrated\""))
	o := Options{Seed: seed(1), Iterations: 5}
	request := Request{Kind: KindFuzz, Project: tr.project, Options: o}
	if _, err := tr.Prepare(t.Context(), request); diag.CodeOf(err) != NoCalibration {
		t.Errorf("Prepare = %v, want %s", err, NoCalibration)
	}
	// The calibration that is asked for can be made although it is asked for.
	cal, err := tr.Calibrate(t.Context(), tr.project, CalibrateRequest{Op: "double", DType: dtype.Float32, Iterations: 40})
	if err != nil || cal.Skipped > 0 {
		t.Fatalf("Calibrate = %+v, %v", cal, err)
	}
	_, err = tr.Prepare(t.Context(), request)
	if diag.CodeOf(err) != NoCalibration || !strings.Contains(err.Error(), "float16") {
		t.Errorf("Prepare = %v, want %s for float16", err, NoCalibration)
	}
	request.Options.DTypes = []dtype.DType{dtype.Float32}
	if _, err := tr.Prepare(t.Context(), request); err != nil {
		t.Errorf("Prepare for the calibrated dtype: %v", err)
	}
}

// A candidate that gives no output has no error that a tolerance could be fitted to.
func TestCalibrateNeedsOutputs(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax_shape", ""))
	_, err := tr.Calibrate(t.Context(), tr.project, CalibrateRequest{Op: "softmax", DType: dtype.Float32, Iterations: 40})
	if diag.CodeOf(err) != TooFewSamples {
		t.Errorf("Calibrate = %v, want %s", err, TooFewSamples)
	}
}

// An op's own schema names the outputs, whatever the catalogue calls them; one that declares others is no candidate's
// fault.
func TestOwnSchemaNamesOutputs(t *testing.T) {
	const schema = `
[ops.schema]
dims = [{ name = "R", candidates = [3] }, { name = "C", candidates = [8, 33] }]
inputs = [{ name = "input", dims = ["R", "C"] }]
outputs = [{ name = "%s", dims = ["R", "%s"] }]
`
	for _, c := range []struct {
		dim     string
		verdict verdict.Verdict
	}{{"C", verdict.Pass}, {"R", verdict.NotRun}} {
		own := op("own", "softmax", `reference = "builtin:softmax"`)
		tr := newTrial(t, head+own+fmt.Sprintf(schema, "probabilities", c.dim))
		res := tr.only(KindFuzz, Options{Seed: seed(1), Iterations: 2, Parallel: 1})
		if res.Verdict != c.verdict || res.Verdict == verdict.Pass && res.Outputs[0].Name != "probabilities" {
			t.Errorf("with outputs over %s: %v %v: %s %+v", c.dim, res.Verdict, res.Reason, res.Message, res.Outputs)
		}
	}
}

// A submitted case belongs to the op it is submitted for.
func TestSubmitForAnotherOp(t *testing.T) {
	tr := newTrial(t, head)
	batch, err := tr.HandOut(t.Context(), tr.project, HandOut{Op: "relu", Options: Options{Seed: seed(4)}})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close(false)
	c, inputs, err := batch.Case(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tr.Submit(t.Context(), tr.project, Submission{Op: "softmax", Case: c.String(), Outputs: named(c, inputs)})
	if diag.CodeOf(err) != BadOptions {
		t.Errorf("Submit = %v, want %s", err, BadOptions)
	}
}

// What an edited file gives is what counts, also where only an imported one was edited.
func TestSessionSeesEdits(t *testing.T) {
	tr := newTrial(t, head+"\n[[ops]]\nname = \"softmax\"\ncandidate = \"entry.py:kernel\"\n")
	tr.write("entry.py", "from part import kernel\n")
	tr.write("part.py", "from ops import softmax as kernel\n")
	_, results := tr.run(KindFuzz, Options{Seed: seed(1), Iterations: 1})
	for i, want := range []struct {
		source  string
		verdict verdict.Verdict
	}{{"softmax", verdict.Pass}, {"softmax_raises", verdict.Error}, {"softmax", verdict.Pass}} {
		tr.write("part.py", fmt.Sprintf("from ops import %s as kernel  # %d\n", want.source, i))
		r, err := tr.Reproduce(t.Context(), tr.project, Target{Case: results[0].Case})
		if err != nil || r.Result.Verdict != want.verdict {
			t.Fatalf("edit %d: %+v, %v, want %v", i, r.Result, err, want.verdict)
		}
	}
}

// The sessions used last are kept, not those that came first.
func TestSessionsAreEvicted(t *testing.T) {
	text := head
	for i := range maxSessions + 3 {
		text += op(fmt.Sprintf("op%d", i), "softmax", `schema = "softmax"`)
	}
	tr := newTrial(t, text)
	for i := range maxSessions + 3 {
		_, release, err := tr.session(t.Context(), tr.project, fmt.Sprintf("op%d", i))
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	if len(tr.sessions.open) != maxSessions {
		t.Fatalf("%d sessions are open, want %d", len(tr.sessions.open), maxSessions)
	}
	for key := range tr.sessions.open {
		if strings.Contains(key, "\x00op0\x00") || strings.Contains(key, "\x00op2\x00") {
			t.Errorf("%q is kept, newer ones are not", key)
		}
	}
	// A request that is still at work when the engine is closed does no harm.
	s, release, err := tr.session(t.Context(), tr.project, "op10")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	other := *s.subject
	defer s.executor.lend(&other, s.subject)()
	tr.Close()
}

func TestConvertedSaturates(t *testing.T) {
	reply := tensor.New(dtype.Float64, tensor.Shape{1})
	dtype.Encode(reply.Data, dtype.Float64, []float64{1000})
	got := converted(reply, &compare.Want{DType: dtype.Int8, Shape: tensor.Shape{1}, Saturating: true})
	if v := got.Float64s()[0]; v != 127 {
		t.Errorf("1000 as int8 = %v, want 127", v)
	}
}
