package cudatool

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	Missing  diag.Code = "cudatool-missing"   // no installed program can do what was asked for; the input may be right
	Refused  diag.Code = "cudatool-refused"   // a compiler, assembler or disassembler refused its input
	TimedOut diag.Code = "cudatool-timeout"   // a program took longer than it may
	Limit    diag.Code = "cudatool-limit"     // a program wrote more than is read, or an argument is too long
	Broken   diag.Code = "cudatool-broken"    // a program could not be started, was killed or wrote nothing
	BadArch  diag.Code = "cudatool-bad-arch"  // an architecture is not of the form sm_NN
	NoSource diag.Code = "cudatool-no-source" // a source file is not there or is no regular file
)
