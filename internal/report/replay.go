// This file implements the command that repeats a case.

package report

import (
	"slices"
	"strconv"

	"gpuemu/internal/escape"
	"gpuemu/internal/opspec"
	"gpuemu/internal/verdict"
)

// Replay returns the command that repeats a case, "" where the case could not be made. It names the case by its text,
// which needs no store: the same command works on another machine. An op that nobody but a client knows has none: what
// is returned then says how its inputs are found again, in Python.
func Replay(r *verdict.Result) string {
	switch {
	case r.Case == "":
		return ""
	case !ofClientAlone(r):
		return ReplayCase(r.Case)
	case r.Inputs == "":
		return "run the fuzz of the client again with its seed: the inputs of " + escape.Text(r.Op) + " are not stored"
	}
	return "in Python, with this store: gpuemu.Client().reproduce(" + strconv.QuoteToASCII(r.Case) + ").inputs, and " +
		"call the kernel with them: only its client knows " + escape.Text(r.Op)
}

// ofClientAlone reports whether a client made the inputs of a case, executed it and said what is right, so that the
// engine knows the name of the op and no more.
func ofClientAlone(r *verdict.Result) bool {
	if !r.ByClient() || r.Reference != verdict.ClientSide {
		return false
	}
	c, err := opspec.ParseCase(r.Case)
	return err == nil && slices.ContainsFunc(c.Inputs, func(in opspec.CaseInput) bool { return in.Values == "stored" })
}

// ReplayCase is the command that repeats the case with that text.
func ReplayCase(text string) string { return "gpuemu reproduce " + escape.Shell(text) }
