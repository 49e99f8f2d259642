package daemon

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// This file implements results in the form of protocol v1, which has two verdicts where we have five: nothing but pass
// is sent as passed, and the first failure says which of the others it was.

// maxV1Failures is how many failures a result lists: the sentence on the whole, then the worst elements.
const maxV1Failures = 10

// v1Result converts a result. It never carries inputs: lists of results would be as large as all their tensors.
func v1Result(r *verdict.Result) wire.V1ValidationResult {
	out := wire.V1ValidationResult{
		Passed: r.Verdict == verdict.Pass, Seed: uint64(r.Seed), OpName: r.Op,
		MaxDiff: wire.F64(r.MaxAbs()), MaxRelDiff: wire.F64(r.MaxRel()),
		Timestamp: uint64(max(r.Time.Unix(), 0)), DurationMS: uint64(max(r.Duration.Milliseconds(), 0)),
		ErrorStats: v1Stats(r), Failures: []wire.V1ValidationFailure{}, // a summary of ci is encoded by several: no nil
	}
	if out.Passed {
		return out
	}
	out.Failures = v1Failures(r)
	if c, err := opspec.ParseCase(r.Case); err == nil {
		out.ReproInfo = v1Repro(c)
	}
	return out
}

func v1Results(list []verdict.Result) []wire.V1ValidationResult {
	out := make([]wire.V1ValidationResult, len(list))
	for i := range list {
		out[i] = v1Result(&list[i])
	}
	return out
}

// v1Repro says what a case is made of. Its shape is that of the first input.
func v1Repro(c opspec.Case) *wire.V1ReproductionInfo {
	out := &wire.V1ReproductionInfo{Seed: c.Seed, DType: c.DType.String(), Layout: wire.V1Contiguous,
		Shape: wire.Dims{}, Strides: []int64{}}
	if len(c.Inputs) > 0 {
		in := &c.Inputs[0]
		out.Shape, out.Strides, out.Layout = v1Dims(in.Shape), v1Int64s(in.Shape.Strides()), v1Layout(in.Layout)
	}
	return out
}

// v1Layout is the nearest of the three layouts that v1 knows.
func v1Layout(l tensor.Layout) wire.V1Layout {
	switch l {
	case tensor.Contiguous:
		return wire.V1Contiguous
	case tensor.Transposed, tensor.ChannelsLast:
		return wire.V1Transposed
	}
	return wire.V1Strided
}

// v1Failures says what is wrong with a result that did not pass: first the whole in one sentence, with the worst
// element, then single elements and invariants.
func v1Failures(r *verdict.Result) []wire.V1ValidationFailure {
	first := wire.V1ValidationFailure{Kind: v1Kind(r), Message: v1Message(r)}
	var rest []wire.V1ValidationFailure
	for i := range r.Outputs {
		o := &r.Outputs[i]
		for k := range o.Worst {
			f := v1Element(o, &o.Worst[k])
			if first.Index == nil {
				first.Index, first.Expected, first.Actual = f.Index, f.Expected, f.Actual
				if r.Reason == verdict.NonFinite {
					first.Kind = f.Kind
				}
				continue
			}
			rest = append(rest, f)
		}
	}
	for i := range r.Invariants {
		if inv := &r.Invariants[i]; inv.Outcome == "violated" && r.Reason != verdict.Invariant {
			rest = append(rest, wire.V1ValidationFailure{Kind: wire.V1InvariantViolation,
				Message: fmt.Sprintf("output %q: %s does not hold: %s", inv.Output, inv.Name, inv.Sentence)})
		}
	}
	out := append([]wire.V1ValidationFailure{first}, rest...)
	return out[:min(len(out), maxV1Failures)]
}

// v1Message is the sentence of a result, with the verdict where v1 has no word for it.
func v1Message(r *verdict.Result) string {
	msg := r.Message
	if msg == "" {
		msg = string(r.Reason)
	}
	switch r.Verdict {
	case verdict.NotRun:
		msg = "not run: " + msg
	case verdict.Undecided:
		msg = "undecided: " + msg
	case verdict.Error:
		msg = "error: " + msg
	}
	if r.Hint != "" {
		msg += "; " + r.Hint
	}
	return msg
}

// v1Kind is the kind of the whole.
func v1Kind(r *verdict.Result) wire.V1FailureKind {
	switch r.Reason {
	case verdict.Mismatch, verdict.NonFinite: // the worst element tells NaN from Inf
		return wire.V1ToleranceExceeded
	case verdict.Invariant, verdict.Overrun, verdict.NotFullyWritten, verdict.InputModified, verdict.Nondeterministic:
		return wire.V1InvariantViolation
	case verdict.WrongShape, verdict.WrongOutputs:
		return wire.V1ShapeMismatch
	case verdict.WrongDType:
		return wire.V1DTypeMismatch
	}
	return wire.V1ReferenceError // the only kind v1 has for what was not compared
}

// v1ElementKinds are the kinds of elements that are not ToleranceExceeded.
var v1ElementKinds = map[string]wire.V1FailureKind{
	compare.UnexpectedNaN.String(): wire.V1NaNDetected,
	compare.UnexpectedInf.String(): wire.V1InfDetected,
	compare.OppositeInf.String():   wire.V1InfDetected,
}

func v1Element(o *verdict.Output, e *verdict.Element) wire.V1ValidationFailure {
	f := wire.V1ValidationFailure{Kind: wire.V1ToleranceExceeded, Expected: v1Number(e.Want), Actual: v1Number(e.Got),
		Message: fmt.Sprintf("output %q at %v: got %s, want %s (%s)", o.Name, e.Index, e.Got, e.Want, e.Kind)}
	if kind, ok := v1ElementKinds[e.Kind]; ok {
		f.Kind = kind
	} else if e.Kind == compare.Forbidden.String() {
		f.Kind = wire.V1InfDetected
		if e.Got == "NaN" {
			f.Kind = wire.V1NaNDetected
		}
	}
	if len(e.Index) == len(o.Shape) {
		at := uint64(0)
		for i, n := range e.Index {
			at = at*uint64(o.Shape[i]) + uint64(n)
		}
		f.Index = &at
	}
	return f
}

// v1Number is the value of an element; NaN and Inf become null on the wire, the message has them.
func v1Number(text string) *wire.F64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return (*wire.F64)(&x)
}

// v1Stats are the errors of the output that is furthest from right; nil where no floating-point output was compared.
func v1Stats(r *verdict.Result) *wire.V1ErrorStats {
	var floats []*verdict.Output
	for i := range r.Outputs {
		if d, err := dtype.Parse(r.Outputs[i].DType); err == nil && d.IsFloat() {
			floats = append(floats, &r.Outputs[i])
		}
	}
	if len(floats) == 0 {
		return nil
	}
	o := slices.MaxFunc(floats, func(a, b *verdict.Output) int {
		switch {
		case a.MaxRatio < b.MaxRatio:
			return -1
		case a.MaxRatio > b.MaxRatio:
			return 1
		}
		return a.Mismatched - b.Mismatched
	})
	return &wire.V1ErrorStats{
		Count: uint64(o.Elements), NumExceeding: uint64(o.Mismatched),
		MaxAbs: wire.F64(o.MaxAbs), MeanAbs: wire.F64(o.MeanAbs),
		P50Abs: wire.F64(o.P50Abs), P90Abs: wire.F64(o.P90Abs), P99Abs: wire.F64(o.P99Abs),
		MaxRel: wire.F64(o.MaxRel), MeanRel: wire.F64(o.MeanRel), MaxULP: o.MaxULP, MeanULP: wire.F64(o.MeanULP),
	}
}
