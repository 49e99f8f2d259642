package campaign

import (
	"fmt"
	"slices"
	"strings"

	"gpuemu/internal/invariant"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements findings: what was seen of an execution beside its outputs, by a worker, by a client, or in a
// second execution.

// findingHints say what to look at, by kind.
var findingHints = map[verdict.Reason]string{
	verdict.Overrun: "check the index of every store against the size of its tensor, in the last tile above all",
	verdict.NotFullyWritten: "does the grid cover every element, and does every thread store its own? " +
		"sizes that are no multiple of the tile are where this happens",
	verdict.InputModified: "work on a copy, or set invariants = { inputs_unchanged = false } if it is meant to",
	verdict.Nondeterministic: "look for a race or a missing barrier; " +
		"sums by atomic operations differ from run to run as well",

	verdict.OutOfBoundsWrite: "check the index of every store against the size of its tensor, in the last tile above all",
	verdict.OutOfBoundsRead:  "check the index of every load against the size of its tensor, in the last tile above all",
	verdict.Misaligned:       "a vector access needs an address that is a multiple of its size: do rows begin at one?",
	verdict.Race:             "put a barrier between the accesses, or make them atomic",
	verdict.AsyncHazard:      "wait for the copies before what they bring is read: wait_group, then a barrier",
	verdict.BarrierDivergence: "let all threads of the block come to the barrier: guard the work, not the barrier, and " +
		"do not return early",
	verdict.BadMask:       "the mask names the lanes that execute the instruction, no more and no fewer",
	verdict.Deadlock:      "who waits for whom? blocks of a grid need not run at the same time",
	verdict.Assertion:     "the kernel's own assert does not hold",
	verdict.Trap:          "the kernel stops itself",
	verdict.ResourceLimit: "use less shared or local memory, or set arch to that of the GPU the kernel runs on",
	verdict.Uninitialised: "set shared memory, registers and local arrays before they are used, in the last tile too",
	verdict.Unwritten: "does the grid cover every element, and does every thread store its own? " +
		"sizes that are no multiple of the tile are where this happens",
}

// compareRuns adds a finding where two executions on the same inputs gave other bits.
func compareRuns(list []verdict.Finding, name string, got, again *tensor.Tensor) ([]verdict.Finding, error) {
	r, err := invariant.Check("deterministic", &invariant.Context{Output: got, Again: again})
	if err != nil || r.Outcome != invariant.Violated {
		return list, err
	}
	return append(slices.Clip(list), verdict.Finding{Kind: string(verdict.Nondeterministic), Name: name,
		Sentence: fmt.Sprintf("output %q: %s", name, r.Sentence)}), nil
}

// conclude lets findings decide on the case. They are the cause where elements are wrong too; a candidate that returned
// no output at all keeps that reason. decided says that the outputs could be judged.
func (s *subject) conclude(res *verdict.Result, run observed, decided bool) {
	list := slices.Clone(run.findings)
	seen := slices.ContainsFunc(list, func(f verdict.Finding) bool { // the emulator says where, too
		return f.Site != nil && verdict.Reason(f.Kind) == verdict.InputModified
	})
	for _, name := range run.modified {
		if seen {
			break
		}
		list = append(list, verdict.Finding{Kind: string(verdict.InputModified), Name: name,
			Sentence: "the candidate wrote to " + name})
	}
	list = slices.DeleteFunc(list, func(f verdict.Finding) bool {
		return verdict.Reason(f.Kind) == verdict.InputModified && !s.guardInputs
	})
	if len(list) == 0 {
		return
	}
	order := verdict.FindingReasons()
	slices.SortStableFunc(list, func(a, b verdict.Finding) int {
		return slices.Index(order, verdict.Reason(a.Kind)) - slices.Index(order, verdict.Reason(b.Kind))
	})
	var sentences []string
	more := run.dropped
	for i, f := range list {
		if i > 0 && f.Site != nil { // those of the emulator are long, and the list has them
			more++
			continue
		}
		sentences = append(sentences, f.Sentence)
	}
	if more > 0 {
		sentences = append(sentences, fmt.Sprintf("further findings: %d", more))
	}
	numeric := res.Verdict
	if numeric == verdict.Undecided && decided {
		numeric = verdict.Pass
	}
	res.Findings, res.FindingsDropped, res.Numeric = list, run.dropped, &numeric
	if res.Verdict == verdict.Error {
		res.Message += "; " + strings.Join(sentences, "; ")
		return
	}
	if res.Message != "" {
		sentences = append(sentences, res.Message)
	}
	res.Verdict, res.Reason, res.Message = verdict.Fail, verdict.Reason(list[0].Kind), strings.Join(sentences, "; ")
	res.Hint = findingHints[res.Reason]
}
