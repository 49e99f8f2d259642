package main

// This file implements the runs that the product itself judges: campaigns as gpuemu fuzz makes them.

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"gpuemu/bench/detection/record"
	"gpuemu/internal/campaign"
	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/store"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// until says when a campaign ends.
type until uint8

const (
	untilFirst  until = iota // at the first case that fails
	untilValues              // at the first whose values are wrong, whatever the checks have found before
	untilEnd                 // with the last case
)

// mostNotRun is how many cases may not be run before a campaign is given up: a mutant that never ends takes seconds
// for each.
const mostNotRun = 5

// fuzz runs a campaign of a subject and says what came of it. The configuration is the subject's, or a changed copy.
func (w *worker) fuzz(ctx context.Context, cfg *config.Config, o campaign.Options, end until) (*record.Record, error) {
	rec := &record.Record{ID: cfg.Ops[0].Name, Seed: fmt.Sprint(*o.Seed)}
	o.Parallel = 1 // without FailFast, which an exceeded budget ends as well
	start := time.Now()
	run, err := w.engine.Prepare(ctx, campaign.Request{Kind: campaign.KindFuzz, Project: campaign.Project{Config: cfg},
		Options: o})
	if err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err = run.Execute(inner, func(e campaign.Event) {
		if inner.Err() != nil {
			return // cases after the end were begun before it
		}
		add(rec, e.Result, time.Since(start))
		if end == untilFirst && rec.First > 0 || end == untilValues && rec.FirstValues > 0 || rec.NotRun >= mostNotRun {
			cancel()
		}
	})
	if err == nil {
		err = ctx.Err()
	}
	if rec.First == 0 {
		rec.Seconds = seconds(time.Since(start))
	}
	return rec, err
}

// add counts the result of a case. A kernel that exceeds its budget is an error to the engine; here it counts as not
// run, because the budget of the study is its own choice and no evidence against a slow kernel.
func add(rec *record.Record, res *verdict.Result, since time.Duration) {
	rec.Cases++
	for i := range res.Outputs {
		rec.Elements += res.Outputs[i].Elements
		rec.Undetermined += res.Outputs[i].Undetermined
	}
	switch {
	case res.Verdict == verdict.NotRun, res.Reason == verdict.OverBudget:
		rec.NotRun++
		if rec.First == 0 && rec.Message == "" {
			rec.Message = shortened(string(res.Reason) + ": " + res.Message)
		}
	case res.Verdict == verdict.Undecided:
		rec.Undecided++
	case res.Verdict.Failed():
		if rec.Failed++; rec.First == 0 {
			rec.First, rec.Seconds = rec.Cases, seconds(since)
			rec.FailDType, rec.Case, rec.Reason = res.DType, res.Case, string(res.Reason)
			rec.Message = shortened(res.Message)
			for _, f := range res.Findings {
				if !slices.Contains(rec.Findings, f.Kind) {
					rec.Findings = append(rec.Findings, f.Kind)
				}
			}
			slices.Sort(rec.Findings)
		}
		if byValues(res) {
			if rec.FailedValues++; rec.FirstValues == 0 {
				rec.FirstValues = rec.Cases
			}
		}
	}
}

// byValues reports whether a failed case fails by the values of its outputs alone.
func byValues(res *verdict.Result) bool {
	if res.Numeric != nil {
		return res.Numeric.Failed()
	}
	return len(res.Findings) == 0
}

// seconds keeps what is worth writing of a duration.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// strategy is one of the ways to choose cases that are compared.
type strategy struct {
	name           string
	values, shapes string
	dtype          dtype.DType // Invalid: all that the subject has
	// native: sizes are those that the operator lists, without those around tiles; regular: the powers of two of them.
	native, regular bool
	// published: as the published tool, whose layouts are labels on contiguous data.
	published bool
}

// strategies are the seven of the published gpuemu's third paper, with our comparison, and ours.
var strategies = []strategy{
	{name: "default", values: "uniform", native: true, published: true},
	{name: "boundary", values: "uniform", shapes: "boundary", published: true},
	{name: "regular", values: "uniform", regular: true, published: true},
	{name: "single_dtype_f32", values: "uniform", dtype: dtype.Float32, native: true, published: true},
	{name: "single_dtype_f16", values: "uniform", dtype: dtype.Float16, native: true, published: true},
	{name: "nan_injected", values: "nan_injected", native: true, published: true},
	{name: "adversarial", values: "adversarial", native: true, published: true},
	{name: "ours"},
}

// options are those of a campaign with this strategy; ok is false where the subject has not the number format.
func (st *strategy) options(s *subject) (o campaign.Options, ok bool) {
	o.Values, o.Shapes = st.values, st.shapes
	if st.published {
		o.Layouts = []tensor.Layout{tensor.Contiguous}
	}
	if st.native || st.regular {
		o.Dims = map[string][]int{}
		for i := range s.entry.Schema.Dims {
			d := &s.entry.Schema.Dims[i]
			if len(d.Candidates) == 0 {
				continue
			}
			o.Dims[d.Name] = d.Candidates
			if powers := powersOfTwo(d); st.regular && len(powers) > 0 {
				o.Dims[d.Name] = powers
			}
		}
	}
	if st.dtype != dtype.Invalid {
		o.DTypes = []dtype.DType{st.dtype}
	}
	return o, st.dtype == dtype.Invalid || slices.Contains(s.dtypes, st.dtype)
}

// powersOfTwo are the sizes of a dimension that are, 1 left out where there are others.
func powersOfTwo(d *opspec.Dim) (list []int) {
	all, _ := d.Sizes()
	for _, n := range all {
		if n > 0 && n&(n-1) == 0 {
			list = append(list, n)
		}
	}
	if len(list) > 1 && list[0] == 1 {
		list = list[1:]
	}
	return list
}

// regime is one of the ways to come to a tolerance.
type regime struct {
	name   string
	values string // "": the default
	apply  func(ctx context.Context, w *worker, s *subject, op *config.Op) error
}

// regimes are compared on the default values and on normal ones: a fixed tolerance knows no magnitude, and the default
// values have many.
var regimes = func() (list []regime) {
	for _, values := range []string{"", "normal"} {
		suffix := ""
		if values != "" {
			suffix = "/" + values
		}
		list = append(list, regime{"fixed" + suffix, values, fixedPublished}, regime{"fixed-default" + suffix, values,
			fixedDefault}, regime{"calibrated" + suffix, values, calibrated}, regime{"bound" + suffix, values, bound})
	}
	return list
}()

// fixedPublished are the absolute tolerances of the published gpuemu.
func fixedPublished(_ context.Context, _ *worker, s *subject, op *config.Op) error {
	op.Regime, op.Tolerances = compare.Fixed, publishedTolerances(s.entry)
	return nil
}

// fixedDefault are the documented tolerances by number format.
func fixedDefault(_ context.Context, _ *worker, _ *subject, op *config.Op) error {
	op.Regime = compare.Fixed
	return nil
}

func bound(_ context.Context, _ *worker, _ *subject, op *config.Op) error {
	op.Regime = compare.Bound
	return nil
}

// calibrationSeed is that of the cases to which tolerances are fitted: others than those of any run.
const calibrationSeed = 0x63616c6962726174 // "calibrat"

// calibrated are tolerances fitted to the base kernel: 1.5 times the 95th percentile of its errors.
func calibrated(ctx context.Context, w *worker, s *subject, op *config.Op) error {
	base, err := w.study.subject(w.study.baseOf(s.id))
	if err != nil {
		return err
	}
	op.Regime = compare.Calibrated
	for _, d := range s.dtypes {
		tol, err := w.study.calibration(ctx, w, base, d)
		if err != nil {
			return fmt.Errorf("calibrate %s in %s: %w", base.id, d, err)
		}
		if err := w.engine.Store.SaveCalibration(ctx, store.Calibration{Project: s.config.Path, Op: s.id,
			DType: d.String(), ATol: tol.Abs, RTol: tol.Rel}); err != nil {
			return err
		}
	}
	return nil
}

// calibration is a tolerance that is fitted when it is first asked for.
type calibration struct {
	once sync.Once
	tol  compare.Tolerance
	err  error
}

// calibration is the tolerance of a base kernel.
func (st *study) calibration(ctx context.Context, w *worker, base *subject, d dtype.DType) (compare.Tolerance, error) {
	key := base.id + " " + d.String()
	st.mu.Lock()
	c := st.calibrations[key]
	if c == nil {
		c = &calibration{}
		st.calibrations[key] = c
	}
	st.mu.Unlock()
	c.once.Do(func() {
		fitted, err := w.engine.Calibrate(ctx, campaign.Project{Config: base.config}, campaign.CalibrateRequest{Op: base.id,
			DType: d, Iterations: campaign.DefaultIterations, Seed: calibrationSeed})
		if c.err = err; err == nil {
			c.tol = fitted.Tol
		}
	})
	return c.tol, c.err
}
