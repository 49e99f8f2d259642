package receipt

// This file implements what the importers of other runners' reports have in common.

import (
	"math"
	"slices"
	"time"

	"gpuemu/internal/diag"
)

// badness orders outcomes: of two entries of one test the worse one counts.
var badness = []string{Passed, XFailed, XPassed, Skipped, Failed, Errored}

// gathered collects the tests of a report in the order of their first entry.
type gathered struct {
	tests []Test
	of    map[string]int
}

// add takes in one entry. A second one of the same id does not hide the first.
func (g *gathered) add(t Test) {
	if g.of == nil {
		g.of = map[string]int{}
	}
	i, twice := g.of[t.ID]
	if !twice {
		g.of[t.ID] = len(g.tests)
		g.tests = append(g.tests, t)
		return
	}
	old := &g.tests[i]
	old.Seconds += t.Seconds
	if slices.Index(badness, t.Outcome) > slices.Index(badness, old.Outcome) {
		old.Outcome, old.Reason, old.Phase = t.Outcome, t.Reason, t.Phase
	}
}

// results makes a result file of what was gathered. Nobody took a snapshot of the code, and nothing is outside.
func (g *gathered) results(runner string, finished bool) (*Results, error) {
	if len(g.tests) == 0 {
		return nil, diag.Errorf(ImportEmpty, "run some tests, and look at what the runner wrote", "the report holds no test")
	}
	r := &Results{Format: ResultsFormat, Runner: Runner{Name: runner}, Mode: "local", Root: ".", Finished: finished,
		Arguments: []string{}, Collected: []string{}, Deselected: []string{}, Tests: g.tests, Devices: []Device{},
		Challenges: []Challenge{}, Code: ResultsCode{Scope: []string{}, Exclude: []string{}, Outputs: []string{}}}
	for _, t := range g.tests {
		r.Collected = append(r.Collected, t.ID)
		if t.Outcome == Failed || t.Outcome == Errored {
			r.ExitStatus = 1
		}
	}
	return r, checkTests(r.Tests)
}

// SetTimes gives r the times that a report does not have: it ended when the report was written, and began as much
// earlier as its tests took.
func (r *Results) SetTimes(ended time.Time) {
	total := 0.0
	for _, t := range r.Tests {
		total += t.Seconds
	}
	const longest = 365 * 24 * 3600 // seconds; a report may say what it likes
	took := time.Duration(math.Ceil(min(total, longest))) * time.Second
	r.StartedAt = ended.Add(-took).UTC().Format(TimeForm)
	r.EndedAt = ended.UTC().Format(TimeForm)
}
