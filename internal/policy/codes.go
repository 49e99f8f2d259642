// This file implements the stable error codes of the package: what may be wrong with a policy file. Why a receipt is
// refused is another matter, see reasons.go.

package policy

import "gpuemu/internal/diag"

const (
	// Syntax means that a policy file is neither YAML nor JSON, or uses what YAML has and a policy does not need: several
	// documents, anchors and aliases, keys that are no text.
	Syntax diag.Code = "policy-syntax"
	// Limit means that a policy file, or a list that it names, is larger than is read.
	Limit diag.Code = "policy-limit"
	// UnknownKey means that a policy file has a key that nothing reads.
	UnknownKey diag.Code = "policy-unknown-key"
	// DuplicateKey means that a policy file has a key twice.
	DuplicateKey diag.Code = "policy-duplicate-key"
	// WrongType means that a value of a policy file has another type than its key needs.
	WrongType diag.Code = "policy-wrong-type"
	// BadValue means that a value of a policy file has the right type and is not allowed.
	BadValue diag.Code = "policy-bad-value"
	// Conflict means that two keys of a policy file contradict each other.
	Conflict diag.Code = "policy-conflict"
	// Unreadable means that a file that a policy names cannot be read.
	Unreadable diag.Code = "policy-unreadable"
)
