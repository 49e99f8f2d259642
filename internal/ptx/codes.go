package ptx

// This file implements the stable error codes of the package. A code is never reused for another meaning.

import "gpuemu/internal/diag"

const (
	NotPTX           diag.Code = "ptx-not-ptx"           // a file does not begin as PTX does
	Syntax           diag.Code = "ptx-syntax"            // the text does not follow the grammar of PTX
	BadLiteral       diag.Code = "ptx-literal"           // a number or a string is malformed or out of range
	UnknownDirective diag.Code = "ptx-unknown-directive" // a directive is not known
	UnknownOpcode    diag.Code = "ptx-unknown-opcode"    // an opcode is not known
	UnknownModifier  diag.Code = "ptx-unknown-modifier"  // a modifier of an instruction is not known
	OperandCount     diag.Code = "ptx-operand-count"     // an instruction has too few or too many operands
	Undeclared       diag.Code = "ptx-undeclared"        // a register, label, variable or function is not declared
	Redeclared       diag.Code = "ptx-redeclared"        // a name is declared twice in one scope
	BadTarget        diag.Code = "ptx-bad-target"        // a branch leads to what is not a label
	Limit            diag.Code = "ptx-limit"             // a file is too large, too deeply nested or too entangled
)
