package runner

// This file implements what is said of code that has no more memory.

import (
	"fmt"
	"strings"

	"gpuemu/internal/launchfile"
	"gpuemu/internal/verdict"
)

// allocationFailures are what libraries print when the system gives them no more memory. Code that fails so has failed
// whatever it printed; the words decide only whether the limit is named.
var allocationFailures = []string{
	"MemoryError",          // Python, and numpy's _ArrayMemoryError
	"std::bad_alloc",       // C++, uncaught
	"allocate memory",      // ENOMEM in words; PyTorch's allocator of the CPU
	"ran out of memory",    // worker.py
	"RESOURCE_EXHAUSTED: ", // JAX
}

// withMemory makes a failure one of the memory limit where what the code printed last says so.
func (f *Failure) withMemory(limits Limits, printed string) *Failure {
	if limits.Memory <= 0 {
		return f
	}
	for _, words := range allocationFailures {
		if strings.Contains(printed, words) {
			own := overMemory(f.Msg, limits)
			own.Stderr = f.Stderr
			return own
		}
	}
	return f
}

// overMemory is the failure of code that needs more memory than it has.
func overMemory(msg string, limits Limits) *Failure {
	reserved := ""
	if limits.reserved {
		reserved = ", and what is reserved and never used"
	}
	return &Failure{Reason: verdict.MemoryLimit, Msg: msg,
		Hint: fmt.Sprintf("the limit is %s, the interpreter and its libraries included%s: raise memory of the op if it "+
			"needs more", launchfile.FormatMemory(limits.Memory), reserved)}
}
