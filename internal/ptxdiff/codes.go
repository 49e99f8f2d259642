package ptxdiff

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	NoKernel diag.Code = "ptxdiff-no-kernel" // a file does not have the kernel that is to be compared
	Limit    diag.Code = "ptxdiff-limit"     // a kernel is larger than what is compared
)
