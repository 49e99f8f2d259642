package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/report"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// asKilled stores a campaign as a process that was killed leaves it: running, with results and without a summary.
func (f *fixture) asKilled(t *testing.T, results int) string {
	t.Helper()
	ctx := context.Background()
	other, err := store.Open(ctx, filepath.Join(f.opt.Home, "db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := store.Campaign{Kind: "fuzz", ConfigPath: f.config, Planned: 2000}
	if err := other.CreateCampaign(ctx, &c); err != nil {
		t.Fatal(err)
	}
	w := other.Writer(c.ID)
	for i := range results {
		r := &verdict.Result{Index: i, Op: "wrong", DType: "float32", Verdict: verdict.Pass, Time: time.Now(),
			Seed: verdict.Seed(i + 1), Case: fmt.Sprintf(
				"wrong dtype=float32 dims=n:4 in=x:float32[4]:contiguous:normal seed=%d gen=1", i+1)}
		if i%10 == 0 {
			r.Verdict, r.Reason = verdict.Fail, verdict.Mismatch
		}
		if err := w.Add(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range []func() error{w.Close, other.Close} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	return c.ID
}

// TestCountsOfAKilledCampaign: a campaign without a summary has the counts of its stored results.
func TestCountsOfAKilledCampaign(t *testing.T) {
	f := newFixture(t)
	id := f.asKilled(t, 123)
	gone, err := f.store.Interrupt(t.Context())
	if err != nil || len(gone) != 1 || gone[0] != id {
		t.Fatalf("Interrupt = %q, %v, want %q", gone, err, id)
	}
	c := f.local()
	list, err := c.Campaigns(t.Context(), &wire.CampaignsRequest{State: store.Interrupted})
	if err != nil || len(list) != 1 || list[0].Done != 123 || list[0].Failed != 13 || list[0].Planned != 2000 {
		t.Errorf("Campaigns = %+v, %v, want 123 of 2000 done, 13 failed", list, err)
	}
}

// TestTextOfStoredResults: the text, which reads failed results alone, says what the text of all of them says.
func TestTextOfStoredResults(t *testing.T) {
	f := newFixture(t)
	f.asKilled(t, 310)
	f.asKilled(t, 300) // of the same cases, later
	ctx := t.Context()
	p, err := f.project(f.config, "", wire.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, format := range []string{"text", "json"} {
		src, err := f.storedSource(ctx, p, &wire.ReportRequest{Config: f.config, SinceHours: 1, Format: format})
		if err != nil {
			t.Fatal(err)
		}
		src.Summary.Started = time.Time{}
		var b strings.Builder
		if err := report.Text(&b, src.Source, report.TextOptions{Verbose: true}); err != nil {
			t.Fatal(err)
		}
		src.close()
		texts[format] = b.String()
	}
	if texts["text"] != texts["json"] || !strings.Contains(texts["text"], "31 of 310 cases failed") {
		t.Errorf("the failed ones alone:\n%s\nall:\n%s", texts["text"], texts["json"])
	}
}
