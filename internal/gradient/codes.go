// This file implements the stable error codes of the package.

package gradient

import "gpuemu/internal/diag"

const (
	// NoGradient means that an operator, or one of its inputs, has no gradient.
	NoGradient diag.Code = "gradient-none"
	// GradMismatch means that a gradient of an output has another shape than the output, or a name that none has.
	GradMismatch diag.Code = "gradient-output-mismatch"
	// TooLarge means that a gradient would take more work or memory than is allowed for one.
	TooLarge diag.Code = "gradient-too-large"
)
