package artifact

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	Unreadable    diag.Code = "artifact-unreadable"     // a file is not there, or cannot be read
	UnknownFormat diag.Code = "artifact-unknown-format" // a file is none of PTX, cubin, fatbin, host file and SASS
	Limit         diag.Code = "artifact-limit"          // a file is larger than is read, or has one kernel too often
	NoKernel      diag.Code = "artifact-no-kernel"      // a file has no kernel, or none of the name that was asked for
	Mismatch      diag.Code = "artifact-mismatch"       // files that were given as one kernel have no kernel in common
)
