// Package report writes what a campaign found, as text, JSON, JUnit XML and SARIF, and works on reports: reading them
// back, comparing with a baseline, joining the parts of a sharded run, saying what was exercised.
//
// It judges no kernel: verdicts come from package campaign. Main types are Source, a report still to be written, whose
// results are visited one by one so that memory does not grow with their number, and Document, a report read from JSON.
// Whatever a user's code printed is escaped before it reaches a terminal or an XML parser. Formats: docs/formats.
package report

import (
	"errors"
	"fmt"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/inspect"
	"gpuemu/internal/verdict"
)

// This file implements what is reported, and the line that says how it ended.

// Format is the version of the JSON form that is written and read.
const Format = 1

// Source is a report to be written.
type Source struct {
	Version  string // of gpuemu
	Summary  verdict.Summary
	Baseline *Comparison // nil: none was asked for
	// Artifacts are compiled kernels and what is known of them; nil where they were not asked for.
	Artifacts *inspect.Snapshot
	Notes     []string // what the reader should know besides, one sentence each
	// Omitted counts results that passed or are undecided and that Each leaves out: the text lists none of them.
	Omitted verdict.Counts
	// Each calls yield for every result, in the same order every time it is called, and stops with yield's error. The
	// result is valid during the call only. Text and JUnit go through the results more than once.
	Each func(yield func(*verdict.Result) error) error
}

// Document is a report read from JSON, with all its results. It is also what a baseline is.
type Document struct {
	Format   int             `json:"gpuemu_report"`
	Version  string          `json:"version"`
	Summary  verdict.Summary `json:"summary"`
	Baseline *Comparison     `json:"baseline,omitempty"`
	Notes    []string        `json:"notes,omitempty"`
	// Artifacts are compiled kernels with their PTX texts, so that a later run can be compared with them.
	Artifacts *inspect.Snapshot `json:"artifacts,omitempty"`
	Results   []verdict.Result  `json:"results"`

	// Name is where the document came from: a file or a tag. It is not part of the JSON form.
	Name string `json:"-"`
}

// Source returns the document as something to be written.
func (d *Document) Source() Source {
	return Source{Version: d.Version, Summary: d.Summary, Baseline: d.Baseline, Notes: d.Notes, Artifacts: d.Artifacts,
		Each: Slice(d.Results)}
}

// Slice returns an iterator over results in memory.
func Slice(results []verdict.Result) func(yield func(*verdict.Result) error) error {
	return func(yield func(*verdict.Result) error) error {
		for i := range results {
			if err := yield(&results[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// ExitCode is the exit code that the report deserves: that of its summary, and 3 instead of 0 where a comparison with a
// baseline was made and no case is in both.
func (s *Source) ExitCode() int {
	code := s.Summary.ExitCode()
	if code == 0 && s.Baseline.NothingInCommon() {
		return 3
	}
	return code
}

// Conclusion is the last line of a report: how it ended and, unless it is green, why.
func (s *Source) Conclusion() string {
	sum := &s.Summary
	switch s.ExitCode() {
	case 0:
		line := fmt.Sprintf("passed: %d of %d cases", sum.Passed, sum.Total)
		if sum.Lint != nil {
			line += ", " + plural(sum.Lint.Kernels, "compiled kernel")
		}
		if sum.Undecided > 0 {
			line += fmt.Sprintf(", %d undecided", sum.Undecided) + nonZero(" (%d vacuous)", sum.Vacuous())
		}
		if asked := sum.PlannedTotal; !sum.Complete && sum.Stopped != "" && sum.Shard == "" && asked > sum.Total {
			line += fmt.Sprintf("; %s ended it, %d cases were asked for", sum.Stopped, asked)
		}
		return line
	case 1:
		var parts []string
		if sum.Failed > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d cases failed%s, %d passed%s", sum.Failed, sum.Total,
				nonZero(" (%d with an error)", sum.Errors), sum.Passed,
				nonZero(", %d not run", sum.NotRun)+nonZero(", %d undecided", sum.Undecided)+
					nonZero(" (%d vacuous)", sum.Vacuous())))
		}
		if n := sum.Biases(); n > 0 {
			parts = append(parts, "errors with a common sign in "+plural(n, "op"))
		}
		if sum.Lint != nil && sum.Lint.Errors > 0 {
			parts = append(parts, plural(sum.Lint.Errors, "error")+" in compiled kernels")
		}
		if sum.Regressions > 0 {
			name := "the baseline"
			if s.Baseline != nil && s.Baseline.Name != "" {
				name = fmt.Sprintf("baseline %q", s.Baseline.Name)
			}
			parts = append(parts, fmt.Sprintf("%s against %s", plural(sum.Regressions, "regression"), name))
		}
		if sum.Total < sum.Planned {
			parts = append(parts, s.unfinished())
		}
		return "FAILED: " + strings.Join(parts, "; ")
	}
	return "not green: " + strings.Join(s.notGreen(), "; ")
}

// notGreen says why an exit code is 3. The conditions are those of verdict.Summary.ExitCode.
func (s *Source) notGreen() []string {
	sum := &s.Summary
	var why []string
	switch {
	case sum.Total == 0 && sum.Lint == nil:
		nothing := "nothing ran"
		if sum.Stopped != "" {
			nothing += " (" + escape.Text(sum.Stopped) + ")"
		}
		why = append(why, nothing)
	case sum.NotRun > 0:
		why = append(why, fmt.Sprintf("%d of %d cases were not run, %d passed", sum.NotRun, sum.Total, sum.Passed))
	}
	if sum.Total > 0 && sum.Total < sum.Planned {
		why = append(why, s.unfinished())
	}
	for i := range sum.Ops {
		op := &sum.Ops[i]
		if float64(op.Undecided) > verdict.UndecidedShare*float64(op.Total) {
			why = append(why, fmt.Sprintf("%d of %d cases of %s are undecided%s, more than %.0f %%", op.Undecided, op.Total,
				op.Op, nonZero(" (%d vacuous)", op.Vacuous), 100*verdict.UndecidedShare))
		}
	}
	if sum.Lint != nil && sum.Lint.Unread > 0 {
		why = append(why, fmt.Sprintf("%d of %d compiled kernels could not be looked at", sum.Lint.Unread,
			sum.Lint.Unread+sum.Lint.Kernels))
	}
	if s.Baseline.NothingInCommon() {
		why = append(why, fmt.Sprintf("no case in common with baseline %q", s.Baseline.Name))
	}
	return why
}

func (s *Source) unfinished() string {
	text := fmt.Sprintf("%d of %d planned cases were finished", s.Summary.Total, s.Summary.Planned)
	if s.Summary.Stopped != "" {
		text += " (" + s.Summary.Stopped + ")"
	}
	return text
}

// nonZero formats n, or returns "" for 0.
func nonZero(format string, n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(format, n)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// tallied calls yield for every result and then makes sure that there were as many of each verdict as the summary says,
// so that no report contradicts itself.
func (s *Source) tallied(yield func(*verdict.Result) error) error {
	seen := s.Omitted
	if s.Each == nil {
		return errors.New("report: internal error: a source without results")
	}
	err := s.Each(func(r *verdict.Result) error {
		seen.Add(r.Verdict)
		return yield(r)
	})
	if err != nil {
		return err
	}
	if seen != s.Summary.Counts {
		return diag.Errorf(Inconsistent, "if the campaign is still running, wait for its end or stop it",
			"the results (%s) are not those of the summary (%s)", countsText(seen), countsText(s.Summary.Counts))
	}
	return nil
}

func countsText(c verdict.Counts) string {
	return fmt.Sprintf("%d passed, %d failed with %d errors, %d not run, %d undecided, %d in all", c.Passed, c.Failed,
		c.Errors, c.NotRun, c.Undecided, c.Total)
}
