package pattern

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	Syntax          diag.Code = "pattern-syntax"           // a text is no pattern: empty, or with odd characters
	UnknownOpcode   diag.Code = "pattern-unknown-opcode"   // a pattern begins with an opcode that neither PTX nor SASS has
	UnknownModifier diag.Code = "pattern-unknown-modifier" // a pattern of PTX has a modifier that PTX does not have
	// Impossible means that a pattern of PTX has modifiers which its opcode does not have, or not in this order.
	Impossible diag.Code = "pattern-impossible"
)
