// This file implements the result of a comparison.

package compare

import (
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// Verdict is what a comparison found.
type Verdict uint8

const (
	// Undecided: nothing was compared, or every element is undetermined.
	Undecided Verdict = iota
	// Pass: every determined element is accepted.
	Pass
	// Fail: at least one element is wrong.
	Fail
	// Error: the output has another shape or dtype than wanted; its values were not looked at.
	Error
)

// Mismatch is one element with what was got and wanted there. For 64-bit integers Got and Want are the nearest float64;
// GotText and WantText are exact for every dtype.
type Mismatch struct {
	Index             []int
	Got, Want         float64
	GotText, WantText string
	Bound             float64
	Abs, Rel          float64
	ULP               uint64
	Ratio             float64 // Abs/Bound; saturated
	Wrong             bool
}

// Counts are numbers of elements.
type Counts struct {
	Total, Mismatched, Undetermined int
}

// Stats are the error statistics over the elements where got and want are finite.
type Stats struct {
	Count                                   int
	MaxAbs, MeanAbs, P50Abs, P90Abs, P99Abs float64
	MaxRel, MeanRel                         float64
	MaxULP                                  uint64
	MeanULP                                 float64
	MaxRatio                                float64
}

// Finding is one recognised pattern in the mismatches.
type Finding struct {
	Kind     string
	Sentence string
}

// Report is the result of a comparison.
type Report struct {
	Verdict  Verdict
	Reason   string // one sentence where the verdict is Error
	DType    dtype.DType
	Shape    tensor.Shape
	Regime   Regime
	Tol      Tolerance
	Counts   Counts
	Stats    Stats
	Findings []Finding
}
