package cli

import "gpuemu/internal/diag"

// This file implements the stable error codes of the package.
const (
	// Usage means that the flags or arguments of a command do not fit it.
	Usage diag.Code = "cli-usage"
	// UnknownCommand means that there is no subcommand of that name.
	UnknownCommand diag.Code = "cli-unknown-command"
	// UnknownOp means that the catalogue has no operator of that name or alias.
	UnknownOp diag.Code = "cli-unknown-op"
	// BadInput means that the tensors of an input file are not those the operator takes: a name is missing or too
	// many, or a dtype or shape does not fit.
	BadInput diag.Code = "cli-bad-input"
	// ReadFailed means that a file given on the command line cannot be read.
	ReadFailed diag.Code = "cli-read-failed"
	// WriteFailed means that a result could not be written. A file is then either the old one or absent, never half.
	WriteFailed diag.Code = "cli-write-failed"
	// Interrupted means that a signal stopped the command. What was written before is complete.
	Interrupted diag.Code = "cli-interrupted"
	// DaemonRunning means that a daemon answers on the socket already.
	DaemonRunning diag.Code = "cli-daemon-running"
	// DaemonFailed means that a daemon did not start or stop in time.
	DaemonFailed diag.Code = "cli-daemon-failed"
	// Internal means a fault of gpuemu itself.
	Internal diag.Code = "cli-internal"
)
