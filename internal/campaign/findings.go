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
// no output at all keeps that reason.
func (s *subject) conclude(res *verdict.Result, run observed) {
	list := slices.Clone(run.findings)
	for _, name := range run.modified {
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
	for _, f := range list {
		sentences = append(sentences, f.Sentence)
	}
	res.Findings = list
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
