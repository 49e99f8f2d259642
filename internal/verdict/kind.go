package verdict

import (
	"regexp"

	"gpuemu/internal/compare"
)

// This file implements the kind of a failure: what must stay the same while a case shrinks, and what failures that may
// be one bug have in common.

// Kind is what kind of failure a result is. The zero value is that of results that did not fail.
type Kind struct {
	Verdict Verdict
	Reason  Reason
	What    string // the exception, the signal or the invariant, where there is one
	Cause   string // what the diagnosis takes for the cause of wrong values; "": it names none
}

// exception finds the name of an exception or of a signal in the message of a failure: "f raised ValueError: …", "the
// script exited with status 1: ValueError: …", "the worker crashed: SIGSEGV (…)".
var exception = regexp.MustCompile(`(?: raised | status \d+: | crashed: )([\w.]+)`)

// Kind returns the kind of a failure.
func (r *Result) Kind() Kind {
	if !r.Verdict.Failed() {
		return Kind{}
	}
	k := Kind{Verdict: r.Verdict, Reason: r.Reason}
	switch r.Reason {
	case Raised, Crashed:
		if m := exception.FindStringSubmatch(r.Message); m != nil {
			k.What = m[1]
		}
	case Invariant:
		for i := range r.Invariants {
			if r.Invariants[i].Outcome == "violated" {
				k.What = r.Invariants[i].Name
				break
			}
		}
	case Mismatch, NonFinite:
		k.Cause = r.cause()
	}
	return k
}

// cause is the first cause that a diagnosis names. Places are none: where the wrong elements lie depends on the size of
// the case.
func (r *Result) cause() string {
	for i := range r.Outputs {
		for _, f := range r.Outputs[i].Diagnosis {
			switch f.Kind {
			case compare.FindTail, compare.FindEdge, compare.FindGroup:
			case compare.FindRowScale: // of one row, a common factor
				return compare.FindScale
			case compare.FindRowOffset:
				return compare.FindOffset
			default:
				return f.Kind
			}
		}
	}
	return ""
}

// Like reports whether a failure of kind k, of a case that was made smaller, may be the failure of kind want. A cause
// may go unnamed on either side, because not every pattern shows in every case; it does not become another one.
func (k Kind) Like(want Kind) bool {
	if k.Cause == "" || want.Cause == "" {
		k.Cause = want.Cause
	}
	return k == want
}

// String is the kind in one word, such as mismatch/scale or raised/ValueError.
func (k Kind) String() string {
	text := string(k.Reason)
	if k.What != "" {
		text += "/" + k.What
	}
	if k.Cause != "" {
		text += "/" + k.Cause
	}
	return text
}
