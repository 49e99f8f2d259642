package runner

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	TargetMissing  diag.Code = "runner-target-missing"  // the file or program to execute does not exist
	TargetSyntax   diag.Code = "runner-target-syntax"   // a candidate or reference has no known form
	TargetNotExec  diag.Code = "runner-target-not-exec" // a script is neither Python nor executable
	BuiltinUnknown diag.Code = "runner-builtin-unknown" // builtin:NAME names no operator of the catalogue
	PythonMissing  diag.Code = "runner-python-missing"  // no Python interpreter where one is named, or none at all
	BadLaunch      diag.Code = "runner-launch"          // grid, block, shared or args of a kernel do not fit it
)
