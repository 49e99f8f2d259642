package launchfile

import "gpuemu/internal/diag"

// This file implements the stable error codes of the package.
const (
	// Syntax means that a launch file is not JSON.
	Syntax diag.Code = "launchfile-syntax"
	// BadKey means that a key of a launch file is missing or has a value it cannot have.
	BadKey diag.Code = "launchfile-key"
	// BadSize means that a grid, a block, shared memory or all tensors together are larger than possible.
	BadSize diag.Code = "launchfile-size"
	// BadScalar means that the value of a scalar argument is none of its dtype.
	BadScalar diag.Code = "launchfile-scalar"
	// BadPath means that a launch file names a data file outside its own directory.
	BadPath diag.Code = "launchfile-path"
	// BadData means that a data file does not have the bytes its tensor needs.
	BadData diag.Code = "launchfile-data"
	// Unreadable means that a launch file or one of its data files cannot be read.
	Unreadable diag.Code = "launchfile-read"
)
