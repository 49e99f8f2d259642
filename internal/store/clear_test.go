package store

import (
	"testing"

	"gpuemu/internal/verdict"
)

// Failures are cleared of one project and op; what passed, what is of another project and what runs stay.
func TestClearFailures(t *testing.T) {
	s := open(t, Options{})
	ctx := t.Context()
	put := func(op, path string, v verdict.Verdict) {
		t.Helper()
		r := result(1)
		r.Op, r.Verdict = op, v
		if err := s.AddResult(ctx, r, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/a/gpuemu.toml", "/b/gpuemu.toml", ""} {
		for _, op := range []string{"softmax", "relu"} {
			put(op, path, verdict.Fail)
			put(op, path, verdict.Error)
			put(op, path, verdict.Pass)
		}
	}
	running := &Campaign{Kind: "test", ConfigPath: "/a/gpuemu.toml", Planned: 1}
	if err := s.CreateCampaign(ctx, running); err != nil {
		t.Fatal(err)
	}
	w := s.Writer(running.ID)
	now := result(0)
	now.Verdict = verdict.Fail
	if err := w.Add(ctx, now); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, op            string
		cleared, left, kept int // kept: failures and results in the store afterwards
	}{
		{"/a/gpuemu.toml", "softmax", 2, 11, 17},
		{"/a/gpuemu.toml", "softmax", 0, 11, 17},
		{"/a/gpuemu.toml", "", 2, 9, 15},
		{"", "", 4, 5, 11},
	} {
		n, err := s.ClearFailures(ctx, c.path, c.op)
		if err != nil || n != c.cleared {
			t.Errorf("ClearFailures(%q, %q) = %d, %v, want %d", c.path, c.op, n, err, c.cleared)
		}
		failed, err := s.List(ctx, Filter{FailedOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.List(ctx, Filter{})
		if err != nil || len(failed) != c.left || len(all) != c.kept {
			t.Errorf("after it: %d failures of %d results, %v, want %d of %d", len(failed), len(all), err, c.left, c.kept)
		}
	}
}
