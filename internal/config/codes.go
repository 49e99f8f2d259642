// This file implements the stable error codes of the package.

package config

import "gpuemu/internal/diag"

const (
	// NotFound means that there is no gpuemu.toml where it is looked for: in the working directory and above it, up to
	// the repository's root or the home directory.
	NotFound diag.Code = "config-not-found"
	// Unreadable means that gpuemu.toml is there and cannot be read: permissions, or it is no regular file.
	Unreadable diag.Code = "config-unreadable"
	// ForeignOwner means that gpuemu.toml, or the link to it, belongs to another user. Running its ops would execute
	// that user's choice of programs.
	ForeignOwner diag.Code = "config-foreign-owner"
	// Limit means that gpuemu.toml is larger, or has more entries, than is accepted.
	Limit diag.Code = "config-limit"
	// Syntax means that gpuemu.toml is not a TOML document.
	Syntax diag.Code = "config-syntax"
	// UnknownKey means that gpuemu.toml has a key or table that nothing reads.
	UnknownKey diag.Code = "config-unknown-key"
	// MissingKey means that an entry lacks a key it cannot do without.
	MissingKey diag.Code = "config-missing-key"
	// WrongType means that a value has another type than its key needs: a string for a number, a table for a list.
	WrongType diag.Code = "config-wrong-type"
	// BadValue means that a value has the right type and is not allowed: negative, NaN, an unknown name, too large.
	BadValue diag.Code = "config-bad-value"
	// Duplicate means that a name stands twice where it must be unique.
	Duplicate diag.Code = "config-duplicate"
	// Conflict means that two keys for the same thing have different values.
	Conflict diag.Code = "config-conflict"
	// BadSchema means that the table [ops.schema] is not a valid schema of an operator.
	BadSchema diag.Code = "config-bad-schema"
	// UnknownOp means that gpuemu.toml has no op of that name.
	UnknownOp diag.Code = "config-unknown-op"
	// NotEditable means that gpuemu.toml is written in a form that a command cannot change without rewriting it.
	NotEditable diag.Code = "config-not-editable"
)
