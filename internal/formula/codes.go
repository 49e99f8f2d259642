package formula

import "gpuemu/internal/diag"

// This file implements the stable error codes of the package.

const (
	// Syntax means that an expression of a launch is not one, or uses what is not allowed there.
	Syntax diag.Code = "formula-syntax"
	// UnknownName means that an expression names something that the op does not have.
	UnknownName diag.Code = "formula-name"
	// WrongKind means that a part of an expression has another kind than its place asks for.
	WrongKind diag.Code = "formula-kind"
	// Arithmetic means that an expression divides by zero, leaves 64 bits, or asks for an axis that a tensor lacks.
	Arithmetic diag.Code = "formula-arithmetic"
)
