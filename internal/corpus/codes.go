package corpus

import "gpuemu/internal/diag"

// This file implements the stable error codes of the package. A code is never reused for another meaning.

const (
	UnknownID diag.Code = "corpus-unknown" // there is no kernel or mutant of that name in the corpus
	NoPTX     diag.Code = "corpus-no-ptx"  // the corpus has no PTX of a kernel for that number format and architecture
)
