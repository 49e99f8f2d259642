package demo

import (
	"context"
	"fmt"
	"path"
	"strings"

	"gpuemu/internal/campaign"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements one row: allclose, the campaign, the smallest failing case.

// one judges a row. The error is that of ctx or of the store.
func (r *run) one(ctx context.Context, row *Row) error {
	begin := r.opt.Now()
	defer func() { row.Seconds = r.opt.Now().Sub(begin).Seconds() }()
	var err error
	if row.Allclose, err = r.allclose(ctx, row); err != nil {
		return err
	}
	seed := uint64(Seed)
	options := campaign.Options{Ops: []string{row.ID}, Seed: &seed, Iterations: soundCases, Parallel: 1}
	if row.Broken {
		options.Iterations, options.FailFast = brokenCases, true
	}
	prepared, err := r.engine.Prepare(ctx, campaign.Request{Kind: campaign.KindFuzz, Project: r.project, Options: options})
	if err != nil {
		return err
	}
	var failed *verdict.Result
	sum, err := prepared.Execute(ctx, func(e campaign.Event) {
		switch {
		case failed != nil: // the one that was executed at the same time
			return
		case e.Result.Verdict.Failed():
			failed = e.Result
		case e.Result.Verdict == verdict.NotRun && row.Message == "":
			row.Message = e.Result.Message
		}
		row.Cases++
		r.oneCase()
	})
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case failed != nil:
		return r.shrink(ctx, row, failed)
	case sum.NotRun > 0:
		row.Verdict = verdict.NotRun
	case sum.Passed > 0: // cases that the reference cannot decide count for nothing, as in every campaign
		row.Verdict = verdict.Pass
	}
	return nil
}

// shrink fills in the failure and its smallest case.
func (r *run) shrink(ctx context.Context, row *Row, failed *verdict.Result) error {
	row.Verdict = failed.Verdict
	f := &Failure{Reason: failed.Reason, Case: failed.Case, Seed: failed.Seed, Message: failed.Message}
	row.Fail = f
	small, err := r.engine.Minimise(ctx, r.project, campaign.MinimiseRequest{Target: campaign.Target{Case: failed.Case},
		MaxIters: shrinkRuns, Progress: func(int, int) { r.oneCase() }})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%s: %w", row.ID, err)
	}
	f.Smallest, f.SmallestSeed = small.Result.Case, small.Result.Seed
	f.Short = short(small.Case)
	f.Diagnosis, f.DiagnosisOfFirst = diagnosis(failed, small.Result)
	return nil
}

// diagnosis is the most telling sentence on a failure: what the emulator saw, of the smallest case, in which the
// fewest threads do it; else the pattern of the errors, of the first case, which has most of them; else one element.
// It counts rows and elements, so ofFirst says when they are those of the first case and not of the smallest.
func diagnosis(first, smallest *verdict.Result) (sentence string, ofFirst bool) {
	if len(smallest.Findings) > 0 {
		return brief(&smallest.Findings[0]), false
	}
	for i := range first.Outputs {
		if o := &first.Outputs[i]; o.Mismatched > 0 && len(o.Diagnosis) > 0 {
			return o.Diagnosis[0].Sentence, first.Case != smallest.Case
		}
	}
	if len(smallest.Outputs) == 1 {
		return strings.TrimPrefix(smallest.Message, fmt.Sprintf("output %q: ", smallest.Outputs[0].Name)), false
	}
	return smallest.Message, false
}

// brief is a finding with its line of the source, and without the line of the PTX.
func brief(f *verdict.Finding) string {
	text := f.Sentence
	if s := f.Site; s != nil && s.Line > 0 {
		thread := fmt.Sprintf(", thread %d,%d,%d: ", s.Thread[0], s.Thread[1], s.Thread[2])
		for _, end := range []string{thread, fmt.Sprintf("(%s:%d): ", s.Source, s.Line)} { // not every finding has a thread
			if _, what, ok := strings.Cut(text, end); ok {
				text = what
				break
			}
		}
		text = fmt.Sprintf("%s:%d: %s", path.Base(s.Source), s.Line, strings.ReplaceAll(text, path.Dir(s.Source)+"/", ""))
	}
	return f.Kind + " at " + text
}

// short is a case in a few words: what decides whether it fails.
func short(c opspec.Case) string {
	words := []string{c.DType.String()}
	for _, d := range c.Dims {
		words = append(words, fmt.Sprintf("%s=%d", d.Name, d.Value))
	}
	for _, in := range c.Inputs {
		if in.Layout != tensor.Contiguous {
			words = append(words, in.Layout.String()+" "+in.Name)
		}
	}
	return strings.Join(words, " ")
}
