package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuemu/internal/report"
	"gpuemu/internal/store"
	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// crashProject has a candidate that is wrong on some cases, so that failures have to survive as well.
const crashProject = `
[project]
name = "crash"
[validation]
dtypes = ["float32"]
values = "normal"
[[ops]]
name = "softmax"
candidate = "ops.py:softmax"
`

const crashOps = `
import time
import numpy as np

def softmax(inputs):
    time.sleep(0.012)  # long enough for 50 kills before the end
    x = inputs["input"]
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    if y.shape[-1] == 13:
        y[..., -1] *= 2
    return y
`

// TestCrash: a campaign of 2,000 cases whose workers and whose daemon (or whose own process) are killed at random 50
// times (make soak-crashes: 200) gives, after --resume, the results of an undisturbed run: none lost, none twice.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("50 kills take a minute; make unit runs it, the race detector (-short) does not")
	}
	const cases = 2000
	kills := testkit.Soak(t, 50)
	dir := t.TempDir()
	for name, text := range map[string]string{"gpuemu.toml": crashProject, "ops.py": crashOps} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &crashTrial{t: t, dir: dir, python: testkit.Python(t)}
	args := []string{"fuzz", "--op", "softmax", "--seed", "11", "--shapes", "boundary",
		"--parallel", "2", "--iterations", strconv.Itoa(cases)}

	p.home = filepath.Join(t.TempDir(), "calm")
	want := p.document(append(args, "--format", "json"))
	if len(want.Results) != cases || want.Summary.Failed == 0 {
		t.Fatalf("the undisturbed run has %d results, %d failed", len(want.Results), want.Summary.Failed)
	}

	p.home = filepath.Join(t.TempDir(), "wild")
	r := rand.New(rand.NewPCG(1, 2)) // which process dies when is a matter of timing anyway
	for i := range kills {
		if i%2 == 1 { // every other time the work is done by a daemon, which dies as well
			p.startDaemon()
		}
		cmd := args
		if p.started() {
			cmd = append(args, "--resume")
		}
		// A fast machine would be done before the last kill: past its half a run is killed as it starts. On a slow
		// one nothing would ever be done: as long as that is so, a run gets more time.
		wait := time.Duration(300+r.IntN(500)) * time.Millisecond
		switch done := p.finished(); {
		case 2*done*kills > cases*i:
			wait = time.Duration(r.IntN(100)) * time.Millisecond
		case done == 0:
			wait += time.Duration(i) * 50 * time.Millisecond
		}
		p.killed(cmd, r, wait)
	}
	p.killDaemon()
	if n := p.finished(); n == 0 || n >= cases {
		t.Fatalf("%d of %d cases are finished after %d kills: the kills were not in the middle", n, cases, kills)
	}
	got := p.document(append(args, "--resume", "--format", "json"))
	if len(got.Results) != cases || !got.Summary.Complete {
		t.Fatalf("after %d kills: %d results, complete %v", kills, len(got.Results), got.Summary.Complete)
	}
	for i := range got.Results {
		if a, b := bare(got.Results[i]), bare(want.Results[i]); a != b {
			t.Fatalf("case %d differs:\n%s\n%s", i, a, b)
		}
	}
	if got.Summary.Counts != want.Summary.Counts {
		t.Errorf("counts %+v, want %+v", got.Summary.Counts, want.Summary.Counts)
	}
}

// bare is a result without times.
func bare(r verdict.Result) string {
	r.Time, r.Duration, r.CandidateTime, r.ReferenceTime = time.Time{}, 0, 0, 0
	b, _ := json.Marshal(r)
	return string(b)
}

type crashTrial struct {
	daemon    *exec.Cmd // nil: none is running
	t         *testing.T
	dir, home string
	python    string
}

func (p *crashTrial) command(args []string) *exec.Cmd {
	cmd := exec.Command("gpuemu", args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GPUEMU_HOME="+p.home, "GPUEMU_PYTHON="+p.python)
	return cmd
}

// document runs to the end and reads the JSON report.
func (p *crashTrial) document(args []string) *report.Document {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := p.command(args)
	out := &strings.Builder{}
	errs := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	_ = cmd.Wait() // it exits with 1, because cases fail
	doc, err := report.Read(strings.NewReader(out.String()), "report")
	if err != nil {
		p.t.Fatalf("gpuemu %v: %v\n%s", args, err, errs)
	}
	return doc
}

// started reports whether a campaign is recorded.
func (p *crashTrial) started() bool { return p.campaign() != nil }

// finished is the number of cases that are stored.
func (p *crashTrial) finished() int {
	n := 0
	c := p.campaign()
	if c == nil {
		return 0
	}
	st := p.store()
	defer st.Close()
	if _, count, err := st.FinishedIndexes(context.Background(), c.ID); err == nil {
		n = count
	}
	return n
}

// campaign is the one campaign of the disturbed home; there must never be two.
func (p *crashTrial) campaign() *store.Campaign {
	if _, err := os.Stat(filepath.Join(p.home, "db")); err != nil {
		return nil
	}
	st := p.store()
	defer st.Close()
	list, err := st.Campaigns(context.Background(), store.CampaignFilter{})
	if err != nil || len(list) > 1 {
		p.t.Fatalf("%d campaigns, %v", len(list), err)
	}
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

func (p *crashTrial) store() *store.Store {
	p.t.Helper()
	st, err := store.Open(context.Background(), filepath.Join(p.home, "db"), store.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

// startDaemon starts a daemon on the home's socket; it is killed with the run that uses it.
func (p *crashTrial) startDaemon() {
	cmd := p.command([]string{"daemon", "start"})
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.daemon = cmd
	for range 500 {
		if p.command([]string{"daemon", "status"}).Run() == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Fatal("the daemon does not start")
}

func (p *crashTrial) killDaemon() {
	if p.daemon != nil {
		_ = p.daemon.Process.Kill()
		_ = p.daemon.Wait()
		p.daemon = nil
	}
}

// killed starts a run and kills it after a while, or one of its workers and then it.
func (p *crashTrial) killed(args []string, r *rand.Rand, after time.Duration) {
	cmd := p.command(args)
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	wait := func(d time.Duration) bool {
		select {
		case <-done:
			return false
		case <-time.After(d):
			return true
		}
	}
	if !wait(after) {
		p.killDaemon()
		return
	}
	parent := cmd.Process.Pid
	if p.daemon != nil {
		parent = p.daemon.Process.Pid
	}
	if r.IntN(2) == 0 {
		for _, pid := range children(parent) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		wait(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	p.killDaemon()
	_ = cmd.Process.Kill()
	<-done
}

// children lists the direct children of a process.
func children(pid int) []int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(pid) + "/children")
	if err != nil {
		return nil
	}
	var out []int
	for _, field := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(field); err == nil {
			out = append(out, n)
		}
	}
	return out
}
