package campaign

import (
	"context"
	"encoding/json"
	"fmt"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
)

// This file implements calibration: a tolerance fitted to the errors of a kernel that is believed to be right.

// CalibrateRequest says what to fit.
type CalibrateRequest struct {
	Op         string
	DType      dtype.DType
	Iterations int // cases; 0: DefaultIterations
	Seed       uint64
	Progress   func(done, total int)
}

// Calibrated is a fitted tolerance with what it was fitted to.
type Calibrated struct {
	Op, DType string
	*compare.Calibration
	// Skipped cases could not be used: they raised, or differ in the class of a value.
	Skipped int
}

// Calibrate runs a correct kernel, fits atol and rtol on one half of the cases, tries it on the other, and stores it.
func (e *Engine) Calibrate(ctx context.Context, p Project, req CalibrateRequest) (*Calibrated, error) {
	if req.Iterations == 0 {
		req.Iterations = DefaultIterations
	}
	if req.Iterations < compare.MinSamples || req.Iterations > MaxCases {
		return nil, diag.Errorf(BadOptions, fmt.Sprintf("use %d to %d", compare.MinSamples, MaxCases),
			"%d iterations asked for", req.Iterations)
	}
	sess, release, err := e.session(ctx, p, req.Op)
	if err != nil {
		return nil, err
	}
	defer release()
	s := sess.subject
	if s.blocked != nil {
		return nil, diag.Errorf(NotExecutable, s.blocked.hint, "op %q cannot be executed here: %s", req.Op, s.blocked.msg)
	}
	// The rules under which the op is tested may be the very calibration that is missing; none of them decides here.
	own := *s
	own.rules.regime, own.rules.errors = compare.Fixed, true
	sess = &session{subject: &own, executor: sess.executor}
	defer sess.executor.lend(&own, s)()
	o := &Options{DTypes: []dtype.DType{req.DType}}
	st := s.strategy(o)
	// Infinite and NaN values have no error to fit a tolerance to, and next to the overflow threshold an absolute
	// tolerance of 1e30 would be fitted, which an output of zeros passes: usual values are what a fixed tolerance is
	// for.
	st.FiniteOnly, st.Values = true, "normal"
	stream, err := newStream(s, st, req.Seed)
	if err != nil {
		return nil, err
	}
	samples, skipped, err := sess.samples(ctx, stream, req)
	if err != nil {
		return nil, err
	}
	if len(samples) < compare.MinSamples {
		return nil, diag.Errorf(TooFewSamples, "use more --iterations; calibration needs a candidate that is right",
			"only %d of %d cases could be compared, at least %d are needed", len(samples), req.Iterations, compare.MinSamples)
	}
	cal, err := compare.Calibrate(req.DType, samples)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(cal)
	if err != nil {
		return nil, fmt.Errorf("calibration of %s: %w", req.Op, err)
	}
	out := &Calibrated{Op: req.Op, DType: req.DType.String(), Calibration: cal, Skipped: skipped}
	return out, e.Store.SaveCalibration(ctx, store.Calibration{Project: p.path(), Op: req.Op, DType: out.DType,
		ATol: cal.Tol.Abs, RTol: cal.Tol.Rel, Body: body})
}

// samples runs the cases and takes the largest error of each.
func (s *session) samples(
	ctx context.Context, stream *gen.Stream, req CalibrateRequest,
) (out []compare.Sample, skipped int, err error) {
	for i := range req.Iterations {
		c, err := stream.Case(i)
		if err != nil {
			skipped++
			continue
		}
		inputs, err := gen.Inputs(s.subject.schema, c)
		if err != nil {
			return nil, 0, err
		}
		res, err := s.run(ctx, s.subject.schema, c, inputs)
		if err != nil {
			return nil, 0, err
		}
		if sample, ok := sampleOf(res); ok {
			out = append(out, sample)
		} else {
			skipped++
		}
		if req.Progress != nil {
			req.Progress(i+1, req.Iterations)
		}
	}
	return out, skipped, nil
}

// sampleOf takes the error of a case that was compared; one of another shape or type, or one that fails by its class
// of values, has none.
func sampleOf(res *verdict.Result) (compare.Sample, bool) {
	open := res.Verdict == verdict.Undecided && res.Reason != verdict.Vacuous // whose error counts whatever it separates
	if len(res.Outputs) == 0 || res.Verdict == verdict.Error || open || res.Reason == verdict.NonFinite {
		return compare.Sample{}, false
	}
	var s compare.Sample
	for i := range res.Outputs {
		s.MaxAbs = max(s.MaxAbs, res.Outputs[i].MaxAbs)
		s.MaxWant = max(s.MaxWant, res.Outputs[i].MaxWant)
		s.Bins = append(s.Bins, res.Outputs[i].Errors...)
	}
	return s, true
}
