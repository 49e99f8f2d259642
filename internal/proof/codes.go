package proof

import "gpuemu/internal/diag"

// This file implements the stable error codes of the package. Why a receipt is refused has codes of its own, see
// docs/formats/receipt.md.
const (
	// Usage means that the flags or arguments of a command do not fit it.
	Usage diag.Code = "proof-usage"
	// UnknownCommand means that there is no subcommand of that name.
	UnknownCommand diag.Code = "proof-unknown-command"
	// ReadFailed means that a file given on the command line cannot be read.
	ReadFailed diag.Code = "proof-read-failed"
	// WriteFailed means that a result could not be written. A file is then either the old one or absent, never half.
	WriteFailed diag.Code = "proof-write-failed"
	// Interrupted means that a signal stopped the command. What was written before is complete.
	Interrupted diag.Code = "proof-interrupted"
	// RunFailed means that a run is not signed because it did not finish, failed, or tested nothing.
	RunFailed diag.Code = "proof-run-failed"
	// CodeChanged means that the code is not the one that was there when the run began or ended: what was tested is not
	// what would be signed.
	CodeChanged diag.Code = "proof-code-changed"
	// HiddenCode means that a file that decides what tests do is ignored by Git, so that it is not part of what is signed.
	HiddenCode diag.Code = "proof-hidden-code"
	// NotSigned means that somebody was asked whether to sign, and said no.
	NotSigned diag.Code = "proof-not-signed"
	// NotMerged means that receipts are not merged because one of them is not accepted.
	NotMerged diag.Code = "proof-not-merged"
	// Internal means a fault of gpu-proof itself.
	Internal diag.Code = "proof-internal"
)
