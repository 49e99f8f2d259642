package inspect

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	// UnknownKernel means that gpuemu.toml has no kernel of the name that was asked for.
	UnknownKernel diag.Code = "inspect-unknown-kernel"
	// AmbiguousKernel means that several kernels of gpuemu.toml may be meant, so that it is not known whose limits count.
	AmbiguousKernel diag.Code = "inspect-ambiguous-kernel"
	// NothingToInspect means that no file is named and gpuemu.toml has no [[kernels]].
	NothingToInspect diag.Code = "inspect-nothing"
	// BadSnapshot means that stored records of kernels cannot be read: they are damaged or of a newer gpuemu.
	BadSnapshot diag.Code = "inspect-bad-snapshot"
)
