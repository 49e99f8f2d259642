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
// which needs no store: the same command works on another machine. Where only a Python client knows the op, its schema
// or what is right, it is the call that takes them.
func Replay(r *verdict.Result) string {
	switch {
	case r.Case == "":
		return ""
	case r.Schema != verdict.ClientSide && !referenceOfClient(r):
		return ReplayCase(r.Case)
	case r.Inputs == "" && given(r):
		return "run the fuzz of the client again with its seed: the inputs of " + escape.Text(r.Op) + " are not stored"
	}
	return ReplayInPython(r)
}

// ReplayInPython is the call that repeats a case with a kernel of the caller's.
func ReplayInPython(r *verdict.Result) string {
	arguments := ""
	if r.Schema == verdict.ClientSide {
		arguments = ", op_schema=op_schema"
	}
	if referenceOfClient(r) {
		arguments += ", reference=reference"
	}
	return "in Python: gpuemu.Client().replay(" + strconv.QuoteToASCII(r.Case) + ", run_op" + arguments + ")"
}

// referenceOfClient reports whether a client executed the case and said what is right.
func referenceOfClient(r *verdict.Result) bool {
	return r.ByClient() && r.Reference == verdict.ClientSide
}

// StoreNote says where the inputs of a case are that its text does not give; "" where it does.
func StoreNote(r *verdict.Result) string {
	switch {
	case r.Case == "" || !given(r):
		return ""
	case r.Inputs == "":
		return "the text of this case does not give its inputs, and they are not stored"
	}
	return "this store alone has the inputs: gpuemu reproduce " + strconv.FormatUint(uint64(r.Seed), 10) + " --op " +
		escape.Shell(r.Op) + " --export FILE.safetensors writes them to a file"
}

// given reports whether the inputs of a case, or one of them, do not follow from its text.
func given(r *verdict.Result) bool {
	c, err := opspec.ParseCase(r.Case)
	return err == nil && slices.ContainsFunc(c.Inputs, func(in opspec.CaseInput) bool { return in.Values == "stored" })
}

// ReplayCase is the command that repeats the case with that text.
func ReplayCase(text string) string { return "gpuemu reproduce " + escape.Shell(text) }
