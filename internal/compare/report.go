// This file implements the result of a comparison: verdict, counts, statistics and worst elements.

package compare

import (
	"fmt"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// Verdict is what a comparison found.
type Verdict uint8

const (
	// Undecided: nothing was compared, or every element is undetermined.
	Undecided Verdict = iota
	// Pass: every determined element is accepted. An empty output of the right shape and dtype passes.
	Pass
	// Fail: at least one element is wrong.
	Fail
	// Error: the output has another shape or dtype than wanted; its values were not looked at.
	Error
)

// String returns the word used in reports.
func (v Verdict) String() string {
	switch v {
	case Undecided:
		return "undecided"
	case Pass:
		return "pass"
	case Fail:
		return "fail"
	case Error:
		return "error"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Kind is what was seen at one element.
type Kind uint8

const (
	// KindUnset is no observation.
	KindUnset Kind = iota
	// Accepted: finite and within the bound.
	Accepted
	// BeyondBound: finite, and further from want than the bound.
	BeyondBound
	// MatchedNaN: NaN where NaN is wanted.
	MatchedNaN
	// MatchedInf: the wanted infinity.
	MatchedInf
	// Overflowed: non-finite where a finite value is wanted that lies within its bound of the overflow threshold.
	Overflowed
	// NotDetermined: the contract of the operation does not decide.
	NotDetermined
	// UnexpectedNaN: NaN where a number or an infinity is wanted.
	UnexpectedNaN
	// UnexpectedInf: an infinity where a finite value is wanted.
	UnexpectedInf
	// MissingNaN: a number or an infinity where NaN is wanted.
	MissingNaN
	// MissingInf: a finite value where an infinity is wanted.
	MissingInf
	// OppositeInf: the infinity of the other sign.
	OppositeInf
	// Forbidden: a non-finite value that would be accepted if the options did not forbid it.
	Forbidden
	// OutOfRange: an index below 0 or not below the number of scores.
	OutOfRange
	// Duplicate: an index that stands in its row before.
	Duplicate

	kinds
)

// String returns the kind in words.
func (k Kind) String() string {
	names := [kinds]string{"unset", "accepted", "beyond its bound", "matching NaN", "matching Inf",
		"overflow within the bound", "undetermined", "unexpected NaN", "unexpected Inf", "missing NaN",
		"missing Inf", "Inf of the other sign", "forbidden non-finite value", "index out of range", "duplicate index"}
	if k >= kinds {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return names[k]
}

// Element is one element: what was got, what was wanted, and how far apart they are.
type Element struct {
	Index []int
	Kind  Kind
	// Wrong: this element alone makes the comparison fail.
	Wrong bool
	// Got and Want are nearest float64s; GotText and WantText are exact for 64-bit integers too.
	Got, Want         float64
	GotText, WantText string
	Bound             float64
	// Abs, Rel and ULP are zero unless both values are finite. For index outputs Abs is the shortfall of the score.
	Abs, Rel float64
	ULP      uint64
	// Ratio is Abs/Bound: above 1 is wrong. It saturates at the largest float64.
	Ratio float64
}

// Counts are numbers of elements. Every element is in exactly one of the kinds of Of.
type Counts struct {
	Total int
	// Mismatched elements make the comparison fail.
	Mismatched int
	// Undetermined elements were neither accepted nor refused.
	Undetermined int
	// Ignored elements are unexpected NaNs and infinities that CheckNaN or CheckInf being false lets pass.
	Ignored int
	// Of has the number of elements of each kind; read it with Of[UnexpectedNaN].
	Of [kinds]int
}

// Stats are the error statistics over the elements where got and want are finite and the element is determined. All
// are finite: what exceeds float64 is counted as its largest value. For index outputs the absolute error is the
// shortfall of the score, and there is no relative error and no ULP.
type Stats struct {
	Count  int     // elements with an absolute error
	MaxAbs float64 // |got - want|
	// MeanAbs and what follows, the maxima aside, are only set by Compare, not by Quick.
	MeanAbs float64
	// Percentiles are taken from a histogram: the value returned is at most 1/256 (0.4 %) below that of the element
	// sorted[round(q*(n-1))], and never above it. Below 2.2e-308 the resolution is 2^-1030 absolute.
	P50Abs, P90Abs, P99Abs float64
	RelCount               int     // elements with a relative error: want is not zero
	MaxRel                 float64 // |got - want| / |want|
	MeanRel                float64
	MaxULP                 uint64 // steps between got and want rounded to the output dtype (saturating)
	MeanULP                float64
	MaxRatio               float64 // |got - want| / bound
	MaxWant                float64 // largest |want|
}

// Worst lists the elements with the largest errors, the worst first. Wrong elements come before accepted ones, ties go
// by index. Elements without an error are not listed.
type Worst struct {
	Abs, Rel, ULP, Ratio []Element
	// Class lists the first wrong elements that have no numeric error: non-finite classes, bad indexes.
	Class []Element
}

// Report is the result of a comparison.
type Report struct {
	Verdict Verdict
	// Reason is one sentence where the verdict is Error.
	Reason string
	DType  dtype.DType
	Shape  tensor.Shape
	// Regime and Tol are those applied: never RegimeUnset on a report with values compared.
	Regime Regime
	Tol    Tolerance
	Counts Counts
	Stats  Stats
	// Full: statistics, worst elements, map and findings are filled in, not only counts and maxima.
	Full     bool
	Worst    Worst
	Map      *ErrorMap // nil when nothing is wrong
	Findings []Finding // the diagnosis, most telling first
	// Errors are the largest errors by magnitude; only with Options.Errors, of floats.
	Errors []ErrorBin
}

// Finding is one recognised pattern in the mismatches.
type Finding struct {
	Kind     string // stable, for machines: tail-of-tile, scale, offset, …
	Sentence string
}

// finish sets the verdict from the counts.
func (r *Report) finish() {
	switch {
	case r.Counts.Mismatched > 0:
		r.Verdict = Fail
	case r.Counts.Total > 0 && r.Counts.Undetermined == r.Counts.Total:
		r.Verdict = Undecided
	default:
		r.Verdict = Pass
	}
}
