package campaign

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
)

// A campaign whose process died is continued; one that a living process runs is not.
func TestResumeIsForOne(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax", ""))
	o := Options{Seed: seed(3), Iterations: 12, Parallel: 1}
	r, err := tr.Prepare(t.Context(), Request{Kind: KindFuzz, Project: tr.project, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	c, err := tr.Store.Campaign(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	other, err := store.Open(t.Context(), tr.Store.Dir(), store.Options{}) // as another process has it
	if err != nil {
		t.Fatal(err)
	}
	copyOf := func(st *store.Store, id string) {
		t.Helper()
		twin := *c
		twin.ID, twin.State = id, store.Running
		twin.Started = c.Started.Add(time.Hour) // the newest
		if err := st.CreateCampaign(t.Context(), &twin); err != nil {
			t.Fatal(err)
		}
	}
	copyOf(other, "living")
	name, newest := "living", ""
	for _, id := range []*string{&name, &newest} {
		again, err := tr.Prepare(t.Context(), Request{Kind: KindFuzz, Project: tr.project, Options: o, Resume: id})
		switch {
		case *id == "" && (err != nil || again.ID != r.ID):
			t.Errorf("without a name: %+v, %v, want the one that nobody runs", again, err)
		case *id != "" && diag.CodeOf(err) != store.CampaignTaken,
			*id != "" && !strings.Contains(err.Error(), "is running in process"):
			t.Errorf("a campaign of a living process: %v, want %s", err, store.CampaignTaken)
		}
	}
	if err := other.Close(); err != nil { // its lock is gone, and its process has the number of this one
		t.Fatal(err)
	}
	if other, err = store.Open(t.Context(), tr.Store.Dir(), store.Options{}); err != nil {
		t.Fatal(err)
	}
	copyOf(other, "dead")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := tr.Prepare(t.Context(), Request{Kind: KindFuzz, Project: tr.project, Options: o, Resume: &newest})
	if err != nil || again.ID != "dead" {
		t.Fatalf("after the death of its process: %+v, %v", again, err)
	}
	if c, err := tr.Store.Campaign(t.Context(), "dead"); err != nil || c.PID != os.Getpid() || c.State != store.Running {
		t.Errorf("taken over: %+v, %v", c, err)
	}
	if sum, err := again.Execute(t.Context(), nil); err != nil || !sum.Complete {
		t.Errorf("continued: %+v, %v", sum, err)
	}
}

// Two requests of one process do not work on one campaign either.
func TestResumeOfWhatRunsHere(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax", ""))
	o := Options{Seed: seed(3), Iterations: 5, Parallel: 1}
	r, err := tr.Prepare(t.Context(), Request{Kind: KindFuzz, Project: tr.project, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	twin, err := tr.Prepare(t.Context(), Request{Kind: KindFuzz, Project: tr.project, Options: o, Resume: &r.ID})
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	_, err = r.Execute(t.Context(), func(Event) {
		once.Do(func() {
			_, err := tr.Prepare(t.Context(), Request{Kind: KindFuzz, Project: tr.project, Options: o, Resume: &r.ID})
			if diag.CodeOf(err) != store.CampaignTaken {
				t.Errorf("Prepare of a running campaign = %v, want %s", err, store.CampaignTaken)
			}
			if _, err := twin.Execute(t.Context(), nil); diag.CodeOf(err) != store.CampaignTaken {
				t.Errorf("Execute of a running campaign = %v, want %s", err, store.CampaignTaken)
			}
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// What is finished behind a case that hangs is kept when the run ends; nothing comes after a fail-fast.
func TestOrderFlush(t *testing.T) {
	var got []int
	out := newOrder(func(r *verdict.Result) error {
		got = append(got, r.Index)
		if r.Verdict.Failed() {
			return errFailFast
		}
		return nil
	})
	for _, i := range []int{3, 1, 0, 5} {
		if err := out.put(i, &verdict.Result{Index: i}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, []int{0, 1}) {
		t.Fatalf("handed on %v", got)
	}
	if err := out.flush(); err != nil || !slices.Equal(got, []int{0, 1, 3, 5}) {
		t.Errorf("flush = %v, handed on %v", err, got)
	}
	stopping := newOrder(out.emit)
	got = nil
	_ = stopping.put(1, &verdict.Result{Index: 1}) // waits
	_ = stopping.put(0, &verdict.Result{Index: 0, Verdict: verdict.Fail})
	if err := stopping.flush(); err != errFailFast || !slices.Equal(got, []int{0}) {
		t.Errorf("after a fail-fast: %v, handed on %v", err, got)
	}
}

// A cause of the caller's own is no fault of the store.
func TestCancelWithACause(t *testing.T) {
	tr := newTrial(t, head+op("softmax", "softmax", ""))
	ctx, cancel := context.WithCancelCause(t.Context())
	r, err := tr.Prepare(ctx, Request{Kind: KindFuzz, Project: tr.project,
		Options: Options{Seed: seed(3), Iterations: 100, Parallel: 1}})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := r.Execute(ctx, func(Event) { cancel(os.ErrDeadlineExceeded) })
	if err != nil || sum.Stopped != "cancelled" {
		t.Errorf("Execute = %+v, %v", sum, err)
	}
}
