package daemon

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"gpuemu/internal/report"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// handed is the first case of the op that a client executes.
func (f *fixture) handed(t *testing.T, c *Client) (text string, inputs []tensor.Named) {
	t.Helper()
	err := c.Cases(t.Context(), &wire.CasesRequest{Config: f.config, Op: "theirs", Seed: 3, Count: 1},
		func(h *wire.CaseHeader, in []tensor.Named) error {
			text, inputs = h.Case, in
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return text, inputs
}

// submitted sends an output of relu, to which something was added, and wants that verdict.
func (f *fixture) submitted(t *testing.T, c *Client, added float64, want verdict.Verdict) string {
	t.Helper()
	text, inputs := f.handed(t, c)
	values := inputs[0].Tensor.Float64s()
	for i, v := range values {
		values[i] = max(v, 0) + added
	}
	out := tensor.FromFloat64s(inputs[0].Tensor.DType, inputs[0].Tensor.Shape, values)
	res, err := c.Submit(t.Context(), &wire.SubmitHeader{Config: f.config, Case: text}, nil,
		[]tensor.Named{{Name: "output", Tensor: out}})
	if err != nil || res.Verdict != want {
		t.Fatalf("Submit = %+v, %v, want %s", res, err, want)
	}
	return text
}

// reported is the report over all that is stored.
func (f *fixture) reported(t *testing.T, c *Client) (int, *report.Document) {
	t.Helper()
	var out bytes.Buffer
	exit, err := c.Report(t.Context(), &wire.ReportRequest{Config: f.config, Format: "json", All: true}, &out)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := report.Read(&out, "report")
	if err != nil {
		t.Fatal(err)
	}
	return exit, doc
}

// A green run does not hide what a client found, and only the latest verdict on a case counts.
func TestReportOfLatestVerdicts(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	green := &wire.RunRequest{Config: f.config, Kind: "test", Quick: true, Ops: []string{"relu"}}
	failing := f.submitted(t, c, 1, verdict.Fail)
	sum, err := c.Run(t.Context(), green, nil)
	if err != nil || sum.ExitCode() != 0 {
		t.Fatalf("Run = %+v, %v", sum, err)
	}
	if exit, doc := f.reported(t, c); exit != 1 || doc.Summary.Failed != 1 || doc.Summary.Passed != sum.Passed {
		t.Errorf("with a failed submission: exit code %d, %+v", exit, doc.Summary.Counts)
	}
	f.submitted(t, c, 0, verdict.Pass)
	exit, doc := f.reported(t, c)
	if exit != 0 || doc.Summary.Total != sum.Total+1 || doc.Summary.Failed != 0 {
		t.Errorf("after the same case passed: exit code %d, %+v", exit, doc.Summary.Counts)
	}
	if _, err := c.Run(t.Context(), green, nil); err != nil {
		t.Fatal(err)
	}
	if _, again := f.reported(t, c); again.Summary.Counts != doc.Summary.Counts {
		t.Errorf("after the same run: %+v, want %+v", again.Summary.Counts, doc.Summary.Counts)
	}
	// A minimized case fails for ever: no run comes back to it.
	from := verdict.Seed(3)
	small := &verdict.Result{Op: "theirs", DType: "float32", Case: failing + " smaller", Verdict: verdict.Fail,
		Reason: verdict.Mismatch, ShrunkFrom: &from}
	if err := f.store.AddResult(t.Context(), small, f.config); err != nil {
		t.Fatal(err)
	}
	if exit, _ := f.reported(t, c); exit != 0 {
		t.Errorf("with a minimized case of a failure that is fixed: exit code %d, want 0", exit)
	}
}

// The cases that an interrupted run has not come to are not green, though nothing of them is stored.
func TestReportOfAnInterruptedRun(t *testing.T) {
	f := newFixture(t)
	c := f.local()
	run := &wire.RunRequest{Config: f.config, Kind: "test", Ops: []string{"relu"}}
	if _, err := c.Run(t.Context(), run, nil); err != nil {
		t.Fatal(err)
	}
	if exit, _ := f.reported(t, c); exit != 0 {
		t.Fatalf("exit code %d of a finished run, want 0", exit)
	}
	killed := &store.Campaign{Kind: "test", ConfigPath: f.config, Planned: 10, Started: time.Now().Add(time.Hour)}
	other, err := store.Open(t.Context(), filepath.Join(f.opt.Home, "db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return other.CreateCampaign(t.Context(), killed) }, other.Close, // gone without an end
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.store.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, doc := f.reported(t, c); exit != 3 || doc.Summary.Planned <= doc.Summary.Total {
		t.Errorf("exit code %d, %d of %d cases, want 3", exit, doc.Summary.Total, doc.Summary.Planned)
	}
}

// A kernel that a client calls and the candidate of the project are two subjects: what the one passes hides no failure
// of the other. A candidate that was renamed is the project's as before.
func TestVerdictsOfClientsAreTheirOwn(t *testing.T) {
	const client, file, renamed = verdict.ClientSide, "kernels.py:f", "kernels/new.py:f"
	for _, tt := range []struct {
		failed, passed string
		open           int
	}{{client, file, 1}, {file, client, 1}, {client, client, 0}, {file, renamed, 0}} {
		f := newFixture(t)
		c := f.local()
		for i, candidate := range []string{tt.failed, tt.passed} {
			r := &verdict.Result{Op: "relu", DType: "float32", Candidate: candidate, Seed: 9, Verdict: verdict.Pass,
				Case: "relu dtype=float32 dims=n:4 in=x:float32[4]:contiguous:normal seed=9 gen=1",
				Time: time.Now().Add(time.Duration(i-2) * time.Minute)}
			if i == 0 {
				r.Verdict, r.Reason = verdict.Fail, verdict.Mismatch
			}
			if err := f.store.AddResult(t.Context(), r, f.config); err != nil {
				t.Fatal(err)
			}
		}
		if exit, doc := f.reported(t, c); exit != tt.open || doc.Summary.Failed != tt.open {
			t.Errorf("%+v: report ends with %d, %+v", tt, exit, doc.Summary.Counts)
		}
		var text bytes.Buffer
		exit, err := c.Report(t.Context(), &wire.ReportRequest{Config: f.config, All: true}, &text)
		if err != nil || exit != tt.open {
			t.Errorf("%+v: the text ends with %d, %v, want %d\n%s", tt, exit, err, tt.open, &text)
		}
		open, err := c.Failures(t.Context(), &wire.FailuresRequest{Config: f.config, Open: true})
		if err != nil || len(open) != tt.open {
			t.Errorf("%+v: %d open failures, %v, want %d", tt, len(open), err, tt.open)
		}
		all, fixed, err := c.MarkedFailures(t.Context(), &wire.FailuresRequest{Config: f.config, Marked: true})
		if err != nil || len(all) != 1 || len(fixed) != 1-tt.open {
			t.Errorf("%+v: %d failures, fixed %v, %v", tt, len(all), fixed, err)
		}
	}
}
