// This file implements the error codes of the package.

package oracle

import "gpuemu/internal/diag"

const (
	// InputMismatch: the tensors given do not fit the operator's schema.
	InputMismatch diag.Code = "oracle-input-mismatch"
	// DTypeRefused: the operator is not defined for that element type.
	DTypeRefused diag.Code = "oracle-dtype-refused"
	// IndexRange: an index input points outside the tensor it indexes.
	IndexRange diag.Code = "oracle-index-range"
)
