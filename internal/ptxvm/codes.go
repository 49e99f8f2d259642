package ptxvm

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	Unsupported diag.Code = "ptxvm-unsupported" // an instruction, modifier or directive is not executed here
	NoEntry     diag.Code = "ptxvm-no-entry"    // a module has no kernel of that name, or several and none is named
	BadLaunch   diag.Code = "ptxvm-launch"      // grid, block, shared memory or arguments do not fit the kernel
	BadCheck    diag.Code = "ptxvm-check"       // a check has no such name
	MemoryLimit diag.Code = "ptxvm-memory"      // a launch needs more memory than it was allowed to
	Budget      diag.Code = "ptxvm-budget"      // a kernel executed more instructions than it was allowed to
)
