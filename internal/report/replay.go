// This file implements the command that repeats a case.

package report

import (
	"gpuemu/internal/escape"
	"gpuemu/internal/verdict"
)

// Replay returns the command that repeats a case, "" where the case could not be made. It names the case by its text,
// which needs no store: the same command works on another machine.
func Replay(r *verdict.Result) string {
	if r.Case == "" {
		return ""
	}
	return ReplayCase(r.Case)
}

// ReplayCase is Replay of the case with that text.
func ReplayCase(text string) string { return "gpuemu reproduce " + escape.Shell(text) }
