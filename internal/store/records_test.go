package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

func TestBaselines(t *testing.T) {
	ctx := context.Background()
	now := start
	s := open(t, Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	_, err := s.Baseline(ctx, "main", "p")
	wantCode(t, err, NotFound)
	for _, tag := range []string{"main", "v1", "main"} {
		ok(t, s.SaveBaseline(ctx, tag, "p", json.RawMessage(`{"tag":"`+tag+`"}`), nil))
	}
	ok(t, s.SaveBaseline(ctx, "other", "q", json.RawMessage(`{}`), json.RawMessage(`{"regs":5}`)))
	b, err := s.Baseline(ctx, "main", "p")
	ok(t, err)
	if string(b.Body) != `{"tag":"main"}` || b.Artifacts != nil || !b.Saved.Equal(start.Add(3*time.Second)) {
		t.Errorf("Baseline = %+v", b)
	}
	if b, err = s.Baseline(ctx, "other", "q"); err != nil || string(b.Artifacts) != `{"regs":5}` {
		t.Errorf("Baseline = %+v, %v", b, err)
	}
	_, err = s.Baseline(ctx, "mian", "p")
	wantCode(t, err, NotFound)
	if want := `no baseline "mian": project "p" has main, v1 [store-not-found]`; err.Error() != want ||
		diag.HintOf(err) != "did you mean main?" {
		t.Errorf("error %q, hint %q, want %q", err, diag.HintOf(err), want)
	}
	// Report and artifacts of a tag can be stored one without the other.
	ok(t, s.SaveBaselineArtifacts(ctx, "v1", "p", json.RawMessage(`{"regs":7}`)))
	if b, err = s.Baseline(ctx, "v1", "p"); err != nil || string(b.Artifacts) != `{"regs":7}` ||
		string(b.Body) != `{"tag":"v1"}` {
		t.Errorf("Baseline = %+v, %v", b, err)
	}
	ok(t, s.SaveBaselineReport(ctx, "v1", "p", json.RawMessage(`{"tag":2}`)))
	if b, err = s.Baseline(ctx, "v1", "p"); err != nil || string(b.Artifacts) != `{"regs":7}` ||
		string(b.Body) != `{"tag":2}` {
		t.Errorf("Baseline = %+v, %v", b, err)
	}
	ok(t, s.SaveBaselineArtifacts(ctx, "kernels", "r", json.RawMessage(`{}`)))
	if b, err = s.Baseline(ctx, "kernels", "r"); err != nil || b.Body != nil {
		t.Errorf("Baseline = %+v, %v", b, err)
	}
	list, err := s.Baselines(ctx)
	ok(t, err)
	var tags []string
	for _, b := range list {
		tags = append(tags, b.Project+" "+b.Tag)
	}
	if !slices.Equal(tags, []string{"r kernels", "p v1", "q other", "p main"}) {
		t.Errorf("Baselines = %q", tags)
	}
	for _, err := range []error{
		s.SaveBaseline(ctx, "", "p", json.RawMessage(`{}`), nil), s.SaveBaseline(ctx, "x", "p", json.RawMessage(`{`), nil),
		s.SaveBaseline(ctx, "x", "p", json.RawMessage(`{}`), json.RawMessage(`]`)),
		s.SaveBaselineReport(ctx, "x", "p", json.RawMessage(`]`)),
		s.SaveBaselineArtifacts(ctx, "", "p", json.RawMessage(`{}`)),
	} {
		if diag.CodeOf(err) != BadRecord {
			t.Errorf("error %v, want code %s", err, BadRecord)
		}
	}
}

func TestCalibrationsArtifactsFuzzConfigs(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{Now: func() time.Time { return start }})
	if none, err := s.Calibrations(ctx, "p", "softmax"); len(none) != 0 || err != nil {
		t.Errorf("Calibrations of nothing = %v, %v", none, err)
	}
	for _, atol := range []float64{1, 2.5e-7} {
		ok(t, s.SaveCalibration(ctx, Calibration{Project: "p", Op: "softmax", DType: "float32", ATol: atol, RTol: 1e-6,
			Body: json.RawMessage(`{"cases":5}`)}))
	}
	for _, other := range []Calibration{{Project: "p", Op: "softmax", DType: "bfloat16"},
		{Project: "q", Op: "softmax", DType: "float32"}, {Project: "p", Op: "gelu", DType: "float32"}} {
		ok(t, s.SaveCalibration(ctx, other))
	}
	found, err := s.Calibrations(ctx, "p", "softmax")
	ok(t, err)
	if len(found) != 2 || found[0].DType != "bfloat16" {
		t.Fatalf("Calibrations = %+v", found)
	}
	if c := found[1]; c.DType != "float32" || c.ATol != 2.5e-7 || c.RTol != 1e-6 || string(c.Body) != `{"cases":5}` ||
		!c.Saved.Equal(start) {
		t.Errorf("Calibration = %+v", c)
	}
	if err := s.SaveCalibration(ctx, Calibration{Op: "o", DType: "d", ATol: -1}); diag.CodeOf(err) != BadRecord {
		t.Errorf("a negative tolerance: %v", err)
	}

	for _, kernel := range []string{"b", "a", "b"} {
		ok(t, s.PutArtifact(ctx, "p", kernel, json.RawMessage(`{"name":"`+kernel+`"}`)))
	}
	list, err := s.Artifacts(ctx, "p")
	if ok(t, err); len(list) != 2 || list[0].Kernel != "a" || string(list[1].Body) != `{"name":"b"}` {
		t.Errorf("Artifacts = %+v", list)
	}
	if a, found, err := s.Artifact(ctx, "p", "a"); err != nil || !found || string(a.Body) != `{"name":"a"}` {
		t.Errorf("Artifact = %+v, %v, %v", a, found, err)
	}
	if _, found, err := s.Artifact(ctx, "q", "a"); found || err != nil {
		t.Errorf("Artifact of another project = %v, %v", found, err)
	}

	const seed = 1<<64 - 1
	ok(t, s.SaveFuzzConfig(ctx, seed, json.RawMessage(`{"op":"softmax"}`)))
	if body, found, err := s.FuzzConfig(ctx, seed); err != nil || !found || string(body) != `{"op":"softmax"}` {
		t.Errorf("FuzzConfig = %s, %v, %v", body, found, err)
	}
	if _, found, err := s.FuzzConfig(ctx, seed-1); found || err != nil {
		t.Errorf("FuzzConfig of another seed = %v, %v", found, err)
	}
}

func TestPruneResultsPassingFirst(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{RowBudget: 1000})
	old := campaign(t, s, Campaign{})
	fill(t, s, old, 0, 900)
	ok(t, s.FinishCampaign(ctx, old, Finished, nil))
	if rep, err := s.Prune(ctx); err != nil || rep != (PruneReport{}) {
		t.Errorf("Prune within the budget = %+v, %v", rep, err)
	}
	running := campaign(t, s, Campaign{})
	fill(t, s, running, 900, 1200)
	campaign(t, s, Campaign{}) // prunes
	c, err := s.Campaign(ctx, old)
	ok(t, err)
	got := stored(t, s, old)
	if len(got)+len(stored(t, s, running)) != 900 || c.Pruned != 300 || len(stored(t, s, running)) != 300 {
		t.Errorf("%d and %d results left, %d pruned", len(got), len(stored(t, s, running)), c.Pruned)
	}
	// Of 0…899 the 810 that passed go first, oldest first: 300 of them lie below 334.
	for i := range 900 {
		if want := i%10 == 0 || i >= 334; slices.Contains(got, i) != want {
			t.Errorf("result %d is there: %v, want %v", i, !want, want)
		}
	}
	s.opt.RowBudget = 100 // fewer than are protected
	rep, err := s.Prune(ctx)
	ok(t, err)
	if rep.Passing != 510 || rep.Failing != 90 || len(stored(t, s, old)) != 0 || len(stored(t, s, running)) != 300 {
		t.Errorf("Prune = %+v, %d results of the running campaign left", rep, len(stored(t, s, running)))
	}
}

func TestVacuumShrinksTheDatabase(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{RowBudget: 300})
	id := campaign(t, s, Campaign{})
	fill(t, s, id, 0, 8_000)
	ok(t, s.FinishCampaign(ctx, id, Finished, nil))
	pages := func() (n int) { ok(t, s.w.QueryRow("PRAGMA page_count").Scan(&n)); return n }
	before := pages()
	_, err := s.Prune(ctx)
	ok(t, err)
	if after := pages(); after > before/2 {
		t.Errorf("%d pages before, %d after", before, after)
	}
}

func TestPruneTensorsFailuresLast(t *testing.T) {
	ctx := context.Background()
	later := time.Now().Add(2 * pruneGrace) // the files are of now
	s := open(t, Options{Now: func() time.Time { return later }})
	save := func(value float64) string {
		x := tensor.New(dtype.Float32, tensor.MustShape(25_000))
		x.SetFloat64s(slices.Repeat([]float64{value}, 25_000))
		key, err := s.SaveTensors(ctx, []tensor.Named{{Name: "x", Tensor: x}}, nil)
		ok(t, err)
		return key
	}
	name := func(i int, key string, v verdict.Verdict) {
		r := result(i)
		r.Inputs, r.Verdict = key, v
		ok(t, s.AddResult(ctx, r, ""))
	}
	oldFailure, newFailure, oldPass, newPass, nobody := save(1), save(2), save(3), save(4), save(5)
	name(1, oldFailure, verdict.Fail)
	name(2, oldPass, verdict.Pass)
	name(3, newPass, verdict.Pass)
	name(4, newFailure, verdict.Error)
	left := filepath.Join(s.dir, blobDir, tempPrefix+"x")
	ok(t, os.WriteFile(left, nil, 0o600))
	ok(t, os.Chtimes(left, start, later.Add(-2*pruneGrace)))
	info, err := os.Stat(s.blob(nobody))
	ok(t, err)
	size := info.Size()
	for _, step := range []struct {
		budget int64
		gone   []string
	}{
		{6 * size, nil},
		{5*size - 1, []string{nobody}},
		{4*size - 1, []string{nobody, oldPass}},
		{3*size - 1, []string{nobody, oldPass, newPass}},
		{2*size - 1, []string{nobody, oldPass, newPass, oldFailure}},
	} {
		s.opt.BlobBudget = step.budget
		_, err := s.Prune(ctx)
		ok(t, err)
		for _, key := range []string{oldFailure, newFailure, oldPass, newPass, nobody} {
			_, err := os.Stat(s.blob(key))
			if gone := slices.Contains(step.gone, key); (err != nil) != gone {
				t.Errorf("budget %d: file of tensor %s: %v, want it gone: %v", step.budget, key[:4], err, gone)
			}
		}
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("an unfinished file of a dead process is still there")
	}
	_, err = s.LoadTensors(ctx, oldPass)
	wantCode(t, err, TensorsMissing)
	s.opt.Now, s.opt.BlobBudget = time.Now, 1 // everything is fresh now
	if rep, err := s.Prune(ctx); err != nil || rep.Tensors != 0 {
		t.Errorf("Prune took fresh files: %+v, %v", rep, err)
	}
}

// TestMaxInputs: the campaign that begins says how many bytes of tensors are kept.
func TestMaxInputs(t *testing.T) {
	later := time.Now().Add(2 * pruneGrace) // the files are of now
	s := open(t, Options{Now: func() time.Time { return later }})
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(1000), make([]float64, 1000))
	key, err := s.SaveTensors(context.Background(), []tensor.Named{{Name: "x", Tensor: x}}, nil)
	ok(t, err)
	for _, tt := range []struct {
		max  int64
		gone bool
	}{{0, false}, {1 << 20, false}, {1000, true}} {
		campaign(t, s, Campaign{MaxInputs: tt.max})
		if _, err := os.Stat(s.blob(key)); (err != nil) != tt.gone {
			t.Errorf("a campaign with at most %d bytes began: %v, want the file gone: %v", tt.max, err, tt.gone)
		}
	}
}

func TestHealth(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	fill(t, s, campaign(t, s, Campaign{}), 0, 25)
	lines, err := s.Health(ctx)
	ok(t, err)
	var text []string
	for _, l := range lines {
		if !l.OK || l.Fix != "" {
			t.Errorf("line %+v of a healthy store", l)
		}
		text = append(text, l.Name+": "+l.Value)
	}
	schema := fmt.Sprintf("schema: version %d of %[1]d", SchemaVersion)
	for _, want := range []string{"integrity: ok", schema, "campaigns: 1",
		"results: 25, 3 of them failed; at most 1000000 are kept", "tensors: 0 files, 0.0 MiB; at most 2048.0 MiB are kept"} {
		if !slices.Contains(text, want) {
			t.Errorf("Health says\n%s\nwithout %q", strings.Join(text, "\n"), want)
		}
	}
}
