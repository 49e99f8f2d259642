package campaign

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
)

// otherProcess starts this test's program again, as a process that only waits for the end of its input.
func otherProcess(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWaitForInput$")
	cmd.Env = append(os.Environ(), "GPUEMU_TEST_WAIT=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // its status says nothing
	})
	return cmd
}

func TestWaitForInput(*testing.T) {
	if os.Getenv("GPUEMU_TEST_WAIT") != "" { // it is the process of otherProcess
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}

func TestAlive(t *testing.T) {
	other := otherProcess(t)
	if !alive(os.Getpid()) || !alive(other.Process.Pid) {
		t.Error("a living gpuemu is taken for dead")
	}
	for _, pid := range []int{0, -1, 1 << 30} {
		if alive(pid) {
			t.Errorf("alive(%d) = true", pid)
		}
	}
	if _, _, err := programOf(1); err == nil && os.Getpid() != 1 && alive(1) {
		t.Error("process 1 is taken for a gpuemu")
	}
	if err := other.Process.Kill(); err != nil { // a zombie until it is waited for
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(other.Process.Pid); {
		if time.Now().After(deadline) {
			t.Fatal("a process that was killed is taken for living")
		}
	}
}

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
	other := otherProcess(t)
	copyOf := func(id string, pid int) {
		t.Helper()
		twin := *c
		twin.ID, twin.PID, twin.State = id, pid, store.Running
		twin.Started = c.Started.Add(time.Hour) // the newest
		if err := tr.Store.CreateCampaign(t.Context(), &twin); err != nil {
			t.Fatal(err)
		}
	}
	copyOf("living", other.Process.Pid)
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
	copyOf("dead", 1<<30)
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
