// This file implements the stable codes of the errors this package returns.

package compare

import "gpuemu/internal/diag"

const (
	// BadTolerance: an absolute or relative tolerance is NaN, infinite or negative.
	BadTolerance diag.Code = "compare-bad-tolerance"
	// BadOptions: an option has a value that is not allowed (an unknown regime, a negative count, a tile below 2).
	BadOptions diag.Code = "compare-bad-options"
	// BadWant: the expected values do not fit together (lengths, dtypes, a bound that is NaN or negative). It is a
	// fault of the reference or of the tool, never a verdict on the candidate.
	BadWant diag.Code = "compare-bad-want"
	// BadGot: there is no output to compare, or its storage does not hold what its shape and strides say.
	BadGot diag.Code = "compare-bad-got"
	// NoBound: the regime asks for per-element bounds and the reference has none.
	NoBound diag.Code = "compare-no-bound"
	// UnknownProfile: a tolerance profile of that name does not exist.
	UnknownProfile diag.Code = "compare-unknown-profile"
	// UnknownRegime: a tolerance regime of that name does not exist.
	UnknownRegime diag.Code = "compare-unknown-regime"
	// BadSamples: the errors of the correct controls cannot be calibrated from: too few, NaN, infinite or negative, or as
	// large as the values.
	BadSamples diag.Code = "compare-bad-samples"
)
