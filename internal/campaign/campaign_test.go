package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/store"
	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// A project for tests: ops in Python, right and wrong ones.
const opsPy = `
import os, sys, time
import numpy as np

def softmax(inputs):
    x = inputs["input"].astype(np.float32)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(inputs["input"].dtype)

def softmax_tail(inputs):  # forgets the last, partial tile of 16 columns
    y = softmax(inputs).copy()
    n = y.shape[-1]
    if n % 16 and n > 16:
        y[..., n - n % 16:] = 0
    return y

def softmax_raises(inputs):
    raise ValueError("no such kernel")

def softmax_shape(inputs):
    return softmax(inputs)[..., :1]

def softmax_dtype(inputs):
    return softmax(inputs).astype(np.float64)

def softmax_slow(inputs):
    time.sleep(0.02)
    return softmax(inputs)

def softmax_ref64(inputs):
    x = inputs["input"].astype(np.float64)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def softmax_ref_wrong(inputs):
    return softmax_ref64(inputs) * 1.01

def double(inputs):
    return (inputs["x"].astype(np.float64) * 2).astype(inputs["x"].dtype)

def double64(inputs):
    return inputs["x"].astype(np.float64) * 2
`

const head = `
[project]
name = "trial"
[validation]
dtypes = ["float32"]
values = "normal"
[ci]
fuzz_iterations = 12
[ci.quick]
fuzz_iterations = 4
`

type trial struct {
	*Engine
	t       *testing.T
	project Project
}

// newTrial makes a project of the config text in a fresh directory.
func newTrial(t *testing.T, text string) *trial {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ops.py"), []byte(opsPy), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "gpuemu.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(context.Background(), filepath.Join(dir, "db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{Store: st, RunDir: t.TempDir(), Python: testkit.Python(t), Now: time.Now}
	t.Cleanup(func() {
		e.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &trial{Engine: e, t: t, project: Project{Config: cfg}}
}

func op(name, candidate, more string) string {
	return fmt.Sprintf("\n[[ops]]\nname = %q\ncandidate = \"ops.py:%s\"\n%s\n", name, candidate, more)
}

// run executes a campaign and returns its summary and the stored results.
func (tr *trial) run(kind string, o Options) (*verdict.Summary, []verdict.Result) {
	tr.t.Helper()
	r, err := tr.Prepare(context.Background(), Request{Kind: kind, Project: tr.project, Options: o})
	if err != nil {
		tr.t.Fatal(err)
	}
	sum, err := r.Execute(context.Background(), nil)
	if err != nil {
		tr.t.Fatal(err)
	}
	return sum, tr.results(r.ID)
}

func (tr *trial) results(id string) []verdict.Result {
	tr.t.Helper()
	var out []verdict.Result
	err := tr.Store.Results(context.Background(), id, func(r *verdict.Result) error {
		out = append(out, *r)
		return nil
	})
	if err != nil {
		tr.t.Fatal(err)
	}
	return out
}

func seed(n uint64) *uint64 { return &n }

// essence is a result without times.
func essence(r verdict.Result) string {
	r.Time, r.Duration, r.CandidateTime, r.ReferenceTime = time.Time{}, 0, 0, 0
	b, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestRightAndWrongCandidates(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax", "")+op("tail", "softmax_tail", `schema = "softmax"`))
	sum, results := tr.run(KindTest, Options{})
	if sum.Planned != 24 || sum.Total != 24 || !sum.Complete || len(results) != 24 {
		t.Fatalf("summary %+v with %d results", sum, len(results))
	}
	for _, o := range sum.Ops {
		switch {
		case o.Op == "softmax" && (o.Failed != 0 || o.Passed != 12):
			t.Errorf("softmax: %+v, want 12 passed", o)
		case o.Op == "tail" && o.Failed == 0:
			t.Errorf("tail: %+v, want failures", o)
		}
	}
	if sum.ExitCode() != 1 {
		t.Errorf("ExitCode() = %d, want 1", sum.ExitCode())
	}
	for _, r := range results {
		if r.Verdict != verdict.Fail {
			continue
		}
		if r.Reason != verdict.Mismatch || !strings.Contains(r.Message, "elements are wrong") {
			t.Errorf("failure %+v", r)
		}
		if len(r.Outputs[0].Worst) == 0 {
			t.Errorf("case %d: no worst elements", r.Index)
		}
	}
}

func TestQuickIsASubsetOfThorough(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax", ""))
	_, quick := tr.run(KindCI, Options{Quick: true})
	_, all := tr.run(KindCI, Options{})
	if len(quick) != 4 || len(all) != 12 {
		t.Fatalf("%d quick and %d thorough cases", len(quick), len(all))
	}
	for _, q := range quick {
		if !q.Quick || !slices.ContainsFunc(all, func(r verdict.Result) bool { return r.Key() == q.Key() }) {
			t.Errorf("quick case %s is not among the thorough ones", q.Case)
		}
	}
	seeds := map[verdict.Seed]bool{}
	for _, r := range all {
		if seeds[r.Seed] {
			t.Errorf("seed %d twice", r.Seed)
		}
		seeds[r.Seed] = true
	}
}

func TestSameResultsWhateverTheParallelism(t *testing.T) {
	tr := newTrial(t, head+op("tail", "softmax_tail", `schema = "softmax"`))
	iterations := 30
	if testing.Short() {
		iterations = 12
	}
	for _, failFast := range []bool{false, true} {
		var want []verdict.Result
		for _, parallel := range []int{1, 3, 8} {
			_, got := tr.run(KindFuzz, Options{Seed: seed(5), Iterations: iterations, Parallel: parallel, FailFast: failFast})
			if parallel == 1 {
				want = got
				continue
			}
			if len(got) != len(want) {
				t.Fatalf("fail-fast %v, parallel %d: %d results, want %d", failFast, parallel, len(got), len(want))
			}
			for i := range got {
				if essence(got[i]) != essence(want[i]) {
					t.Errorf("parallel %d: case %d differs:\n%s\n%s", parallel, i, essence(got[i]), essence(want[i]))
				}
			}
		}
		if last := want[len(want)-1]; failFast && (!last.Verdict.Failed() || len(want) == iterations) {
			t.Errorf("fail-fast ended after %d cases with %s", len(want), last.Verdict)
		}
	}
}

func TestShardsMakeTheWhole(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax", ""))
	_, whole := tr.run(KindFuzz, Options{Seed: seed(9), Iterations: 10})
	var parts []verdict.Result
	for i := 1; i <= 3; i++ {
		sum, part := tr.run(KindFuzz, Options{Seed: seed(9), Iterations: 10, Shard: Shard{I: i, N: 3}})
		if sum.Planned != len(part) || sum.PlannedTotal != 10 || sum.ExitCode() != 0 {
			t.Errorf("shard %d: %+v with %d results", i, sum, len(part))
		}
		parts = append(parts, part...)
	}
	slices.SortFunc(parts, func(a, b verdict.Result) int { return a.Index - b.Index })
	if len(parts) != len(whole) {
		t.Fatalf("%d results of all shards, want %d", len(parts), len(whole))
	}
	for i := range parts {
		if parts[i].Case != whole[i].Case {
			t.Errorf("case %d: %s, want %s", i, parts[i].Case, whole[i].Case)
		}
	}
}

func TestVerdictsOfBadCandidates(t *testing.T) {
	for _, c := range []struct {
		candidate string
		verdict   verdict.Verdict
		reason    verdict.Reason
		message   string
		exit      int
	}{
		{"softmax_raises", verdict.Error, verdict.Raised, "no such kernel", 1},
		{"softmax_shape", verdict.Error, verdict.WrongShape, "shape", 1},
		{"softmax_dtype", verdict.Error, verdict.WrongDType, "float64", 1},
	} {
		tr := newTrial(t, head+op("bad", c.candidate, `schema = "softmax"`))
		sum, results := tr.run(KindTest, Options{Quick: true})
		r := results[0]
		if r.Verdict != c.verdict || r.Reason != c.reason || !strings.Contains(r.Message+r.Stderr, c.message) {
			t.Errorf("%s: %s %s %q %q", c.candidate, r.Verdict, r.Reason, r.Message, r.Stderr)
		}
		if sum.ExitCode() != c.exit {
			t.Errorf("%s: exit %d, want %d", c.candidate, sum.ExitCode(), c.exit)
		}
	}
}

// Nothing passes that did not run.
func TestWithoutCandidateNothingPasses(t *testing.T) {
	tr := newTrial(t, head+"\n[[ops]]\nname = \"softmax\"\n")
	sum, results := tr.run(KindTest, Options{Quick: true})
	if sum.Passed != 0 || sum.NotRun != 4 || sum.ExitCode() != 3 || results[0].Reason != verdict.NoCandidate {
		t.Errorf("summary %+v, first result %+v", sum, results[0])
	}
}

func TestReferences(t *testing.T) {
	good := newTrial(t, head+op("softmax", "softmax", `reference = "ops.py:softmax_ref64"`))
	sum, results := good.run(KindTest, Options{Quick: true})
	if sum.Passed != 4 || results[0].Outputs[0].Regime != "bound" {
		t.Errorf("with a right reference: %+v, regime %s", sum.Counts, results[0].Outputs[0].Regime)
	}
	wrong := newTrial(t, head+op("softmax", "softmax", `reference = "ops.py:softmax_ref_wrong"`))
	sum, results = wrong.run(KindTest, Options{Quick: true})
	if sum.NotRun == 0 || sum.ExitCode() != 3 || !slices.ContainsFunc(results, func(r verdict.Result) bool {
		return r.Reason == verdict.ReferenceDiffers && strings.Contains(r.Message, "disagrees with the catalogue")
	}) {
		t.Errorf("with a wrong reference: %+v", sum.Counts)
	}
	failing := newTrial(t, head+op("softmax", "softmax", `reference = "ops.py:softmax_raises"`))
	if sum, results := failing.run(KindTest, Options{Quick: true}); sum.NotRun != 4 || sum.ExitCode() != 3 ||
		results[0].Reason != verdict.ReferenceFailed {
		t.Errorf("with a failing reference: %+v %+v", sum.Counts, results[0])
	}
	free := newTrial(t, head+op("double", "double", `reference = "ops.py:double64"
input_names = ["x"]`))
	sum, results = free.run(KindTest, Options{Quick: true})
	if sum.Passed != 4 || results[0].Outputs[0].Regime != "spread" {
		t.Errorf("an op of its own: %+v %+v", sum.Counts, results[0])
	}
}

func TestCancelledAndResumed(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax_slow", ""))
	o := Options{Seed: seed(3), Iterations: 30, Parallel: 2}
	_, want := tr.run(KindFuzz, o)
	ctx, cancel := context.WithCancel(context.Background())
	r, err := tr.Prepare(ctx, Request{Kind: KindFuzz, Project: tr.project, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	sum, err := r.Execute(ctx, func(Event) {
		if n.Add(1) == 7 {
			cancel()
		}
	})
	stopped := err == nil && !sum.Complete && sum.Total >= 7 && sum.Total < 30
	if !stopped || sum.Stopped != "cancelled" || sum.ExitCode() != 3 {
		t.Fatalf("cancelled: %+v, %v", sum, err)
	}
	last := ""
	request := Request{Kind: KindFuzz, Project: tr.project, Options: o, Resume: &last}
	again, err := tr.Prepare(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	if again.ID != r.ID || again.Resumed != sum.Total {
		t.Errorf("resumed %s with %d finished, want %s with %d", again.ID, again.Resumed, r.ID, sum.Total)
	}
	sum, err = again.Execute(context.Background(), nil)
	if err != nil || !sum.Complete || sum.Total != 30 || sum.ExitCode() != 0 {
		t.Fatalf("resumed: %+v, %v", sum, err)
	}
	got := tr.results(r.ID)
	for i := range got {
		if got[i].Case != want[i].Case || got[i].Verdict != want[i].Verdict {
			t.Errorf("case %d differs from that of an undisturbed run", i)
		}
	}
}

func TestResumeRefusesOtherCode(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax_slow", ""))
	o := Options{Seed: seed(3), Iterations: 30, Parallel: 1}
	ctx, cancel := context.WithCancel(context.Background())
	r, err := tr.Prepare(ctx, Request{Kind: KindFuzz, Project: tr.project, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Execute(ctx, func(Event) { cancel() }); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tr.project.Config.Dir, "ops.py")
	if err := os.WriteFile(path, []byte(opsPy+"\n# changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = tr.Prepare(context.Background(), Request{Kind: KindFuzz, Project: tr.project, Options: o, Resume: &r.ID})
	if diag.CodeOf(err) != NotResumable || !strings.Contains(err.Error(), "candidate or reference changed") {
		t.Errorf("Prepare = %v, want %s", err, NotResumable)
	}
}

func TestTimeLimit(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax_slow", ""))
	sum, results := new(verdict.Summary), []verdict.Result(nil)
	// A busy machine may take more than a second to start a worker: then nothing has come out of it yet.
	for limit := time.Second; sum.Total == 0 && limit < time.Minute; limit *= 2 {
		sum, results = tr.run(KindFuzz, Options{Seed: seed(1), Iterations: 10000, TimeLimit: limit})
	}
	if sum.Complete || sum.Stopped != "time-limit" || len(results) != sum.Total || sum.Total == 0 || sum.ExitCode() != 0 {
		t.Errorf("summary %+v with %d results", sum, len(results))
	}
}

func TestReproduceAndMinimise(t *testing.T) {
	tr := newTrial(t, head+op("tail", "softmax_tail", `schema = "softmax"`))
	ctx := context.Background()
	_, results := tr.run(KindFuzz, Options{Seed: seed(5), Iterations: 20})
	i := slices.IndexFunc(results, func(r verdict.Result) bool { return r.Verdict == verdict.Fail })
	if i < 0 {
		t.Fatal("nothing failed")
	}
	failing := results[i]
	replay, err := tr.Reproduce(ctx, tr.project, Target{Seed: uint64(failing.Seed)})
	if err != nil || !replay.StillFails() || replay.Result.Message != failing.Message {
		t.Fatalf("Reproduce = %+v, %v", replay, err)
	}
	byText, err := tr.Reproduce(ctx, tr.project, Target{Case: failing.Case})
	if err != nil || !byText.StillFails() {
		t.Errorf("Reproduce by text = %+v, %v", byText, err)
	}
	m, err := tr.Minimise(ctx, tr.project, MinimiseRequest{Target: Target{Seed: uint64(failing.Seed)}, MaxIters: 200})
	if err != nil {
		t.Fatal(err)
	}
	dims := m.Case.DimMap()
	if dims["N"]+dims["H"]+dims["D"]+dims["C"] > 17 && elems(m.Case) > 17 {
		t.Errorf("minimised to %s, want 17 elements", m.Case)
	}
	if m.Result.Verdict != verdict.Fail || m.Result.Seed == failing.Seed || m.Executed > 203 {
		t.Errorf("minimised: %s seed %d, executed %d", m.Result.Verdict, m.Result.Seed, m.Executed)
	}
	again, err := tr.Reproduce(ctx, tr.project, Target{Seed: uint64(m.Result.Seed)})
	if err != nil || !again.StillFails() || again.Result.Message != m.Result.Message {
		t.Errorf("the minimised case by its own seed: %+v, %v", again, err)
	}
	if _, err := tr.Reproduce(ctx, tr.project, Target{Seed: 12345}); diag.CodeOf(err) != UnknownCase {
		t.Errorf("unknown seed: %v", err)
	}
}

func TestSubmit(t *testing.T) {
	tr := newTrial(t, head+"\n[[ops]]\nname = \"softmax\"\n")
	ctx := context.Background()
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
	right := rounded(wants)
	res, err := tr.Submit(ctx, tr.project, Submission{Op: "softmax", Case: c.String(), Outputs: right})
	if err != nil || res.Verdict != verdict.Pass || res.Candidate != "client" {
		t.Fatalf("Submit = %+v, %v", res, err)
	}
	wrong := rounded(wants)
	wrong[0].Tensor.SetBytes(make([]byte, len(wrong[0].Tensor.Data)))
	res, err = tr.Submit(ctx, tr.project, Submission{Op: "softmax", Inputs: named(c, inputs), Seed: 77, Outputs: wrong})
	if err != nil || res.Verdict != verdict.Fail || res.Inputs == "" {
		t.Fatalf("Submit = %+v, %v", res, err)
	}
	l, err := tr.Locate(ctx, tr.project, Target{Seed: 77})
	if err != nil || string(l.Inputs["input"].Bytes()) != string(inputs["input"].Bytes()) {
		t.Errorf("the inputs of a failing submission are lost: %v", err)
	}
	replay, err := tr.Reproduce(ctx, tr.project, Target{Seed: 77})
	if err != nil || replay.Result != nil || replay.Stored == nil {
		t.Errorf("Reproduce of a client's case = %+v, %v", replay, err)
	}
}

func TestCalibrate(t *testing.T) {
	tr := newTrial(t, head+op("double", "double", `reference = "ops.py:double64"
input_names = ["x"]`))
	ctx := context.Background()
	cal, err := tr.Calibrate(ctx, tr.project, CalibrateRequest{Op: "double", DType: 2, Iterations: 50, Seed: 1})
	if err != nil || cal.HeldIn+cal.HeldOut+cal.Skipped != 50 {
		t.Fatalf("Calibrate = %+v, %v", cal, err)
	}
	_, results := tr.run(KindTest, Options{Quick: true})
	if got := results[0].Outputs[0].Regime; got != "calibrated" {
		t.Errorf("regime after calibration = %s, want calibrated", got)
	}
}

func TestWrongRequests(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax", "")+op("gone", "nothing", `schema = "softmax"`)+
		"\n[[ops]]\nname = \"lost\"\ncandidate = \"nofile.py:f\"\nschema = \"softmax\"\n")
	for _, c := range []struct {
		o    Options
		code diag.Code
	}{
		{Options{Ops: []string{"sofmax"}}, UnknownOp},
		{Options{Ops: []string{"softmax"}, Parallel: -1}, BadOptions},
		{Options{Ops: []string{"softmax"}, Values: "nope"}, "gen-unknown-distribution"},
	} {
		_, err := tr.Prepare(context.Background(), Request{Kind: KindTest, Project: tr.project, Options: c.o})
		if diag.CodeOf(err) != c.code || diag.HintOf(err) == "" {
			t.Errorf("%+v: %v (hint %q), want code %s", c.o, err, diag.HintOf(err), c.code)
		}
	}
	lost := Request{Kind: KindTest, Project: tr.project, Options: Options{Ops: []string{"lost"}}}
	_, err := tr.Prepare(context.Background(), lost)
	if err == nil || !strings.Contains(err.Error(), "nofile.py") || errors.Is(err, context.Canceled) {
		t.Errorf("missing file: %v", err)
	}
	sum, results := tr.run(KindTest, Options{Ops: []string{"gone"}, Quick: true})
	if sum.ExitCode() == 0 || !strings.Contains(results[0].Message+results[0].Stderr, "nothing") {
		t.Errorf("missing function: %+v", results[0])
	}
}

// elems is the number of input elements of a case.
func elems(c opspec.Case) int {
	n := 0
	for _, in := range c.Inputs {
		n += in.Shape.Elems()
	}
	return n
}
