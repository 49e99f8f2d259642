// This file implements the rows of questions to a store that is full.

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gpuemu/internal/opspec"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
)

// storedResults is how many results a store keeps, storedCampaign how many are of one campaign.
const (
	storedResults  = store.DefaultRowBudget
	storedCampaign = 40_000
)

func storedRows() []row {
	const note = "The command from start to end, without a daemon, on a store of 1,000,000 results in 25 campaigns; one " +
		"of 10,000 failed. On two cores."
	return []row{
		{name: "gpuemu coverage, 10⁶ results", goal: goal{atMost: 3}, note: note,
			measure: func(b *bench) (*result, error) { return b.asked(0, "coverage") }},
		{name: "gpuemu report --since-hours, 10⁶ results", goal: goal{atMost: 3}, note: note,
			measure: func(b *bench) (*result, error) { return b.asked(1, "report", "--since-hours", "1000") }},
	}
}

// asked runs a command on the full store and gives the best time.
func (b *bench) asked(exit int, args ...string) (*result, error) {
	home, err := b.fullHome()
	if err != nil {
		return nil, err
	}
	var list series
	for range b.rounds {
		cmd := b.command(home, b.project, args...)
		start := time.Now()
		text, err := cmd.CombinedOutput()
		list = append(list, time.Since(start))
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exit {
			return nil, fmt.Errorf("%v: %w, want exit code %d\n%s", args, err, exit, text)
		}
	}
	best := list.best()
	return &result{ours: short(best), figure: best.Seconds(), unit: " s", noise: list.noise()}, nil
}

// fullHome makes a home with a full store when it is first asked for.
func (b *bench) fullHome() (string, error) {
	home := filepath.Join(b.dir, "full")
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	ctx := context.Background()
	s, err := store.Open(ctx, filepath.Join(home, "db"), store.Options{})
	if err != nil {
		return "", err
	}
	defer s.Close()
	if _, err := opspec.ParseCase(storedResult(0, time.Now()).Case); err != nil {
		return "", err
	}
	begin := time.Now().Add(-storedResults * time.Millisecond)
	for first := 0; first < storedResults; first += storedCampaign {
		c := store.Campaign{Kind: "fuzz", Project: "bench", ConfigPath: filepath.Join(b.project, "gpuemu.toml"),
			Planned: storedCampaign}
		if err := s.CreateCampaign(ctx, &c); err != nil {
			return "", err
		}
		w := s.Writer(c.ID)
		for i := range storedCampaign {
			if err := w.Add(ctx, storedResult(i, begin.Add(time.Duration(first+i)*time.Millisecond))); err != nil {
				return "", err
			}
		}
		if err := w.Close(); err != nil {
			return "", err
		}
		if err := s.FinishCampaign(ctx, c.ID, store.Finished, nil); err != nil {
			return "", err
		}
	}
	return home, nil
}

// storedResult makes up a result as a campaign stores it.
func storedResult(i int, at time.Time) *verdict.Result {
	const text = "%s dtype=float32 dims=B:%d,S:16,H:%d in=input:float32[%d,16,%d]:contiguous:uniform seed=%d gen=%d"
	op, h := []string{"functions", "bound", "catalogue"}[i%3], 1+i%1025
	r := &verdict.Result{Index: i, Op: op, DType: "float32", Seed: verdict.Seed(i + 1), Verdict: verdict.Pass, Time: at,
		Case:      fmt.Sprintf(text, op, 1+i%8, h, 1+i%8, h, i+1, opspec.GenVersion),
		Candidate: "kernels.py:candidate", Reference: "kernels.py:reference", Duration: 800_000,
		CandidateTime: 300_000, ReferenceTime: 310_000,
		Outputs: []verdict.Output{{Name: "output", DType: "float32", Shape: []int{1 + i%8, 16, h}, Regime: "bound",
			Elements: 16 * h, MaxAbs: 1.1920929e-07, MeanAbs: 2.1e-09, P50Abs: 1.1e-09, P90Abs: 4.3e-09, P99Abs: 2.9e-08,
			MaxRel: 1.3e-07, MeanRel: 3.1e-08, MaxULP: 1, MeanULP: 0.1, MaxRatio: 0.4, MaxWant: 0.9}}}
	if i%10_000 == 0 {
		r.Verdict, r.Reason, r.Message = verdict.Fail, verdict.Mismatch, "1 of 16 elements differs"
		r.Outputs[0].Mismatched = 1
	}
	return r
}
