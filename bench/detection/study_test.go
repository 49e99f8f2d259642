package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpuemu/bench/detection/record"
	"gpuemu/internal/campaign"
	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/corpus"
	"gpuemu/internal/dtype"
	"gpuemu/internal/testkit"
)

// testWorker is a worker of a study that has the subjects given.
func testWorker(t *testing.T, cases int, list ...*subject) *worker {
	t.Helper()
	st := &study{dir: t.TempDir(), cases: cases, seeds: []uint64{1}, subjects: map[string]*subject{},
		calibrations: map[string]*calibration{}}
	for _, s := range list {
		st.subjects[s.id] = s
	}
	w, closeWorker, err := st.newWorker(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeWorker)
	return w
}

// TestFuzz: what a campaign of the product says of a right kernel, of a wrong constant, and of one whose values are
// right and that writes where it must not.
func TestFuzz(t *testing.T) {
	right, wrong := softmax(t, "right", "softmax"), softmax(t, "wrong", "softmax", log2e, wrongLog2e)
	over := softmax(t, "over", "softmax_over")
	w := testWorker(t, 12, right, wrong, over)
	run := func(s *subject, job job) *record.Record {
		t.Helper()
		rec, err := job(t.Context(), w, s)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	if rec := run(right, w.study.falseAlarms("mixed", dtype.Float32)); rec.Cases != 12 || rec.Failed+rec.NotRun != 0 ||
		rec.DType != "float32" || rec.Elements == 0 {
		t.Errorf("right kernel: %+v", rec)
	}
	rec := run(wrong, w.study.ours(1))
	if rec.First == 0 || rec.First != rec.Cases || rec.Failed != 1 || rec.FirstValues != rec.First ||
		rec.Reason != "mismatch" || !strings.HasPrefix(rec.Case, "wrong dtype=float32 ") || rec.FailDType != "float32" {
		t.Errorf("wrong constant: %+v", rec)
	}
	w.study.mutants = []corpus.Mutant{{ID: "wrong", Kernel: "right"}, {ID: "over", Kernel: "right"}}
	rec = run(wrong, w.study.regime(&regimes[3], 1))
	if rec.FirstValues == 0 || rec.Cases != rec.FirstValues {
		t.Errorf("a mutant beyond its first wrong values: %+v", rec)
	}
	rec = run(over, w.study.regime(&regimes[3], 1))
	if rec.First == 0 || rec.FirstValues != 0 || rec.Cases != 12 || !slices.Contains(rec.Findings, "oob_write") {
		t.Errorf("writes out of bounds: %+v", rec)
	}
	w.study.mutants = nil // as a base kernel it is run to the end
	if rec = run(wrong, w.study.regime(&regimes[3], 1)); rec.Cases != 12 || rec.Failed < 2 {
		t.Errorf("a base kernel: %+v", rec)
	}
	w.study.full = true
	if rec = run(wrong, w.study.ours(1)); rec.Cases != 12 || rec.Failed < 2 || rec.FailedValues != rec.Failed {
		t.Errorf("all cases of a wrong constant: %+v", rec)
	}
}

// TestFuzzEndless: a kernel that never ends is given up, and is not called found.
func TestFuzzEndless(t *testing.T) {
	s := softmax(t, "endless", "softmax", "st.global.f32", "for: bra for; st.global.f32")
	s.config.Ops[0].Kernel.Budget = 1 << 10
	w := testWorker(t, 50, s)
	rec, err := w.study.ours(1)(t.Context(), w, s)
	if err != nil || rec.First != 0 || rec.NotRun != mostNotRun || !strings.HasPrefix(rec.Message, "over_budget") {
		t.Errorf("%+v, %v", rec, err)
	}
}

// TestStrategies: each gives cases, of the sizes, formats and layouts that it is about.
func TestStrategies(t *testing.T) {
	s := softmax(t, "right", "softmax")
	w := testWorker(t, 3, s)
	for i := range strategies {
		st := &strategies[i]
		rec, err := w.study.strategy(st, 1)(t.Context(), w, s)
		if err != nil {
			t.Fatal(err)
		}
		if ran := rec.Cases == 3; ran != (st.dtype != dtype.Float16) || rec.Failed+rec.NotRun > 0 {
			t.Errorf("%s: %+v", st.name, rec)
		}
	}
	if o, _ := strategies[2].options(s); fmt.Sprint(o.Dims["H"]) != "[64 256 1024]" || o.Shapes != "" {
		t.Errorf("regular: %+v", o)
	}
	o, ok := strategies[0].options(s)
	if !ok || fmt.Sprint(o.Dims["H"]) != "[1 3 64 256 257 1024 1025]" || o.Values != "uniform" || len(o.Layouts) != 1 {
		t.Errorf("default: %+v, %v", o, ok)
	}
}

// TestRegimes: a right kernel passes where tolerances are its bound, or above it, and each regime has its own.
func TestRegimes(t *testing.T) {
	testkit.ValuesOnly(t)
	s := softmax(t, "right", "softmax")
	w := testWorker(t, 10, s)
	tolerances := map[string]compare.Tolerance{}
	for i := range regimes {
		cfg := *s.config
		cfg.Ops = slices.Clone(cfg.Ops)
		if err := regimes[i].apply(t.Context(), w, s, &cfg.Ops[0]); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(regimes[i].name, "/")
		if regimes[i].values == "normal" && name != "calibrated" { // one case in twenty is above a 95th percentile
			rec, err := w.study.regime(&regimes[i], 1)(t.Context(), w, s)
			if err != nil || rec.Cases != 10 || rec.Failed+rec.NotRun > 0 {
				t.Errorf("%s: %+v, %v", regimes[i].name, rec, err)
			}
		}
		tolerances[name] = cfg.Ops[0].Tolerances[dtype.Float32]
		if want := map[string]compare.Regime{"fixed": compare.Fixed, "fixed-default": compare.Fixed,
			"calibrated": compare.Calibrated, "bound": compare.Bound}[name]; cfg.Ops[0].Regime != want {
			t.Errorf("%s: regime %s", regimes[i].name, cfg.Ops[0].Regime)
		}
	}
	if tolerances["fixed"] != (compare.Tolerance{Abs: 1e-5}) || s.config.Ops[0].Regime != compare.RegimeUnset {
		t.Errorf("tolerances %v, regime of the subject %s", tolerances, s.config.Ops[0].Regime)
	}
	if tol := w.study.calibrations["right float32"].tol; tol.Abs <= 0 || tol.Abs > 1e-5 || tol.Rel < 0 || tol.Rel > 1e-5 {
		t.Errorf("calibrated %v", tol)
	}
}

// TestChoose: held-out operators take part only where they are asked for.
func TestChoose(t *testing.T) {
	kernels := []corpus.Kernel{{Name: "k"}}
	mutants := []corpus.Mutant{{ID: "k.a.1", Kernel: "k"}, {ID: "k.b.1", Kernel: "k", HeldOut: true}}
	for _, tt := range []struct {
		only    string
		heldOut bool
		want    string
	}{{"", false, "k k.a.1"}, {"", true, "k k.a.1 k.b.1"}, {"b", true, "k.b.1"}, {"b", false, ""}} {
		st := &study{}
		err := st.choose(kernels, mutants, regexp.MustCompile(tt.only), tt.heldOut)
		if got := strings.Join(st.ids(true, true), " "); got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("-only %q, held out %v: %q, %v, want %q", tt.only, tt.heldOut, got, err, tt.want)
		}
		if len(st.mutants) > 0 && st.baseOf(st.mutants[0].ID) != "k" {
			t.Errorf("base of %s: %s", st.mutants[0].ID, st.baseOf(st.mutants[0].ID))
		}
	}
}

// TestTasks: every run has its tasks, in a fixed order.
func TestTasks(t *testing.T) {
	st := &study{kernels: []corpus.Kernel{{Name: "k", DTypes: []dtype.DType{dtype.Float32, dtype.Float16}}},
		mutants: []corpus.Mutant{{ID: "m", Kernel: "k"}}, seeds: []uint64{1, 2}}
	for run, want := range map[string]int{record.FalseAlarms: 4, record.Ours: 2, record.Strategies: 2 * 8 * 2,
		record.Regimes: 2 * 8 * 2, record.Baselines: 2 * len(baselines), record.Equivalence: 1} {
		if list, err := st.tasks(run); err != nil || len(list) != want {
			t.Errorf("%s: %d tasks, %v, want %d", run, len(list), err, want)
		}
	}
	if len(runs) != 6 {
		t.Errorf("%d runs", len(runs))
	}
	if _, err := st.tasks("device"); err == nil {
		t.Error("the device's run is done here")
	}
}

// TestWork: records come in the order of the tasks whatever the number of workers; a task that goes wrong is reported;
// what is there when the study is interrupted is kept.
func TestWork(t *testing.T) {
	st := &study{dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var list []task
	for i := range 40 {
		list = append(list, task{id: fmt.Sprint(i), do: func(ctx context.Context, _ *worker) (*record.Record, error) {
			switch {
			case i == 7:
				return nil, errors.New("seven")
			case i == 30:
				cancel()
				return nil, ctx.Err()
			case i > 30: // those that are at work when the study is interrupted
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &record.Record{Run: record.Ours, ID: fmt.Sprint(i), Cases: 1}, nil
		}})
	}
	var got []string
	var faults []error
	err := st.work(ctx, list, 3, func(_ int, rec *record.Record) { got = append(got, rec.ID) },
		func(_ int, err error) { faults = append(faults, err) })
	if err != nil || len(faults) != 1 || len(got) != 29 || got[6] != "6" || got[7] != "8" {
		t.Errorf("records %v, faults %v, %v", got, faults, err)
	}
}

// TestWrite: a file of records can be read back.
func TestWrite(t *testing.T) {
	r, err := parse([]string{"ours", "-seeds", "3", "-only", "softmax", "-o", filepath.Join(t.TempDir(), "x.jsonl.gz")},
		io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	st := &study{dir: t.TempDir()}
	list := []task{{id: "a", do: func(context.Context, *worker) (*record.Record, error) {
		return &record.Record{Run: record.Ours, ID: "a", Cases: 3, Failed: 1, First: 3}, nil
	}}, {id: "b", do: func(context.Context, *worker) (*record.Record, error) { return nil, errors.New("not b") }}}
	if err := r.execute(t.Context(), st, list, io.Discard); err == nil || !strings.Contains(err.Error(), "not b") {
		t.Errorf("execute: %v, want that b could not be done", err)
	}
	f, err := record.ReadFile(r.output)
	if err != nil || len(f.Records) != 1 || f.Records[0].First != 3 || f.Header.Note != "1 of 2 records" ||
		f.Header.Command != `detection ours -cases 100 -seed 1 -seeds 3 -only "softmax"` || f.Header.Budget != 100 {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestParse: what is wrong on the command line is told before anything runs.
func TestParse(t *testing.T) {
	for _, args := range [][]string{nil, {"device"}, {"ours", "-cases", "0"}, {"ours", "more"}, {"ours", "-x"}} {
		if r, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q: %+v", args, r)
		}
	}
	r, err := parse([]string{"false-alarms"}, io.Discard)
	if err != nil || r.cases != 200 || r.heldOut || r.output != "bench/detection/records/false-alarms.jsonl.gz" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCorpus: what the corpus has can be run as it is: a project is written, read and launched.
func TestCorpus(t *testing.T) {
	w := testWorker(t, 1)
	w.study.arch = corpus.MutantArch
	ids := []string{"softmax_row"}
	if m := corpus.Mutants(); len(m) > 0 {
		ids = append(ids, m[0].ID)
	}
	for _, id := range ids {
		s, err := w.study.subject(id)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := w.fuzz(t.Context(), s.config, campaign.Options{Seed: &w.study.seeds[0], Iterations: 1}, untilEnd)
		if err != nil || rec.Cases != 1 || rec.NotRun != 0 || id == "softmax_row" && rec.Failed != 0 {
			t.Errorf("%s: %+v, %v", id, rec, err)
		}
		if filepath.Base(s.config.Path) != config.FileName {
			t.Errorf("%s: project %s", id, s.config.Path)
		}
	}
}
