// This file implements the options of a comparison.

package compare

import "gpuemu/internal/dtype"

// NonFinite says what a NaN or an infinity in the output means.
type NonFinite uint8

const (
	// NonFiniteUnset means Match.
	NonFiniteUnset NonFinite = iota
	// Match: NaN matches only NaN, an infinity only the same infinity.
	Match
	// Forbid: every NaN or infinity in the output is a failure, a matching or undetermined one too.
	Forbid
)

// Options are the rules of one comparison. The zero value does not check NaN and Inf: start from DefaultOptions.
type Options struct {
	Regime Regime
	// Tol is the tolerance of the regimes Calibrated and Fixed.
	Tol Tolerance
	// CheckNaN and CheckInf: a NaN (an infinity) where want has none is a failure; false: it is counted only.
	CheckNaN, CheckInf bool
	NonFinite          NonFinite
	// Worst is the number of worst elements kept per measure; 0: DefaultWorst.
	Worst int
	// WrongOnly leaves accepted elements out of the lists of worst elements: what is wrong is listed as without it. A
	// comparison that passes then ranks nothing.
	WrongOnly bool
	// Tiles are the tile sizes of the candidate, for the diagnosis; nil: powers of two from 16 to 1024 are tried.
	Tiles []int
	// Poison are the bit patterns the output held before the candidate ran, for the diagnosis; nil: unknown.
	Poison []uint64
	// WantDType is the type in which the reference replied, if narrower than float64: half an ulp of it is added to
	// every bound. Invalid (zero): float64.
	WantDType dtype.DType
	// Errors has the report list the largest errors by magnitude, for calibration.
	Errors bool
	// Workers bounds the goroutines used; 0: GOMAXPROCS. The report does not depend on it.
	Workers int
}

// MaxWorst is the most worst elements that can be asked for; more is a dump of the tensor, not a report.
const MaxWorst = 1000

// DefaultWorst is how many worst elements a report keeps per measure: enough to see a pattern, short enough to print.
const DefaultWorst = 5

// DefaultOptions checks NaN and Inf by class, under the bound of the reference or the default tolerance of the dtype.
func DefaultOptions() Options {
	return Options{CheckNaN: true, CheckInf: true, NonFinite: Match, Worst: DefaultWorst}
}
