// This file implements the SARIF form of runs: failed cases at the lines of kernels where the emulator knows them.

package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strings"

	"gpuemu/internal/escape"
	"gpuemu/internal/inspect"
	"gpuemu/internal/verdict"
)

// maxNotRun is how many reasons for cases that were not run are told: they are few, or all the same.
const maxNotRun = 20

// RunSARIF writes the failures of a run as SARIF 2.1.0, with those of its compiled kernels. A finding of the emulator
// is at its line of the source, else of the PTX; other failures are at the configuration. What is wrong at one line is
// one result, however many cases show it.
func RunSARIF(w io.Writer, s Source, opt SARIFOptions) error {
	doc, err := lintDetails(&s.Summary)
	if err != nil {
		return err
	}
	if doc == nil {
		doc = &inspect.Document{}
	}
	opt.Version = s.Version
	c := &runSARIF{SARIFOptions: &opt, run: opt.lintRun(doc), rules: map[string]int{}, seen: map[string]int{},
		same: map[string]int{}, summary: &s.Summary}
	if len(doc.Kernels)+len(doc.Unread) == 0 {
		c.run.Tool.Driver.Rules = []sarifRule{} // nothing was looked at by them
	}
	err = s.tallied(func(r *verdict.Result) error {
		switch {
		case r.Verdict.Failed():
			c.failed(r)
		case r.Verdict == verdict.NotRun:
			c.notRun(r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range c.found {
		if f := &c.found[i]; f.cases > 1 {
			c.run.Results[f.result].Message.Text += fmt.Sprintf(" (the %s of %d cases)", f.shown, f.cases)
		}
	}
	if code := s.ExitCode(); code == 3 {
		c.run.Invocations[0].Successful = false
	}
	return c.run.write(w)
}

// runSARIF collects the results of one run.
type runSARIF struct {
	*SARIFOptions
	run   *sarifRun
	rules map[string]int // index of a rule by its ID
	seen  map[string]int // index in found by what a result is about
	found []sarifFound
	same  map[string]int // results by fingerprint

	summary *verdict.Summary
}

// sarifFound is a result and how many cases show it.
type sarifFound struct {
	result, cases int
	shown         string // which of the cases the result is about: the first or the smallest
}

// failed adds what is wrong with a case: its findings with a place, or else the case itself.
func (c *runSARIF) failed(r *verdict.Result) {
	placed := false
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Site != nil {
			placed = true
			c.add(r, verdict.Reason(f.Kind), f.Sentence, c.site(f.Site), fmt.Sprint(f.Site.Source, f.Site.Line, f.Site.PTXLine))
		}
	}
	reason := r.Reason
	if placed {
		if r.Numeric == nil || !r.Numeric.Failed() {
			return
		}
		reason = verdict.Mismatch // of the values, which the message has behind the findings
	}
	g := c.summary.Group(r)
	if g == nil || g.Minimal == nil {
		c.add(r, reason, r.Message, []sarifLocation{c.location(c.Config, 1)}, bugKey(g))
		return
	}
	message := g.Minimal.Message
	if g.Pattern != "" {
		message += "; " + g.Op + " fails when " + g.Pattern
	}
	c.add(g.Minimal, reason, message, []sarifLocation{c.location(c.Config, 1)}, bugKey(g))
}

// bugKey tells the groups of failures apart that have no line of their own.
func bugKey(g *verdict.Group) string {
	if g == nil {
		return ""
	}
	return g.First
}

// add adds a result, or counts one more case of a result that is there.
func (c *runSARIF) add(r *verdict.Result, reason verdict.Reason, message string, at []sarifLocation, line string) {
	key := strings.Join([]string{string(reason), r.Op, at[0].Physical.Artifact.URI, line}, "\x00")
	if i, ok := c.seen[key]; ok {
		c.found[i].cases++
		return
	}
	if len(c.run.Results) >= maxSARIFResults {
		return
	}
	// Lines move with every change, so the identity of a result is what it is about, and the how manieth it is.
	sum := sha256.Sum256([]byte(strings.Join([]string{string(reason), r.Op, at[0].Physical.Artifact.URI}, "\x00")))
	id := hex.EncodeToString(sum[:8])
	c.same[id]++
	res := sarifResult{RuleID: "gpuemu/" + string(reason), Level: "error", Locations: at[:1], Related: at[1:],
		Message:      sarifText{escape.SARIF(fmt.Sprintf("%s: %s. Case: %s. Replay: %s", r.Op, message, r.Case, Replay(r)))},
		Fingerprints: map[string]string{"primaryLocationLineHash": fmt.Sprintf("%s:%d", id, c.same[id])}}
	res.RuleIndex = c.rule(res.RuleID, reason, r)
	c.seen[key] = len(c.found)
	shown := "first"
	if r.ShrunkFrom != nil {
		shown = "smallest"
	}
	c.found = append(c.found, sarifFound{len(c.run.Results), 1, shown})
	c.run.Results = append(c.run.Results, res)
}

// runRules say what a reason means.
var runRules = map[verdict.Reason]string{
	verdict.Mismatch:          "A kernel computes wrong values",
	verdict.NonFinite:         "A kernel gives NaN or infinities where numbers are wanted, or the other way round",
	verdict.OutOfBoundsWrite:  "A kernel writes where it has no memory",
	verdict.OutOfBoundsRead:   "A kernel reads where it has no memory",
	verdict.Misaligned:        "A kernel uses an address that is no multiple of the size of the access",
	verdict.Race:              "Threads of a kernel access the same memory without synchronization: a data race",
	verdict.AsyncHazard:       "A kernel uses what an asynchronous copy is still at",
	verdict.BarrierDivergence: "Not all threads of a block come to a barrier",
	verdict.BadMask:           "A member mask does not name the lanes that execute the instruction",
	verdict.Deadlock:          "Threads of a kernel wait for each other for ever",
	verdict.Uninitialised:     "A value that was never set is used",
	verdict.Unwritten:         "Elements of an output are never written",
	verdict.Nondeterministic:  "A kernel gives other bits in another order of its blocks and warps",
}

// rule is the index of the rule of a reason.
func (c *runSARIF) rule(id string, reason verdict.Reason, r *verdict.Result) int {
	if i, ok := c.rules[id]; ok {
		return i
	}
	name := ""
	for word := range strings.SplitSeq(string(reason), "_") {
		if word != "" {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	short := runRules[reason]
	if short == "" {
		short = "A case fails: " + strings.ReplaceAll(string(reason), "_", " ")
	}
	help := r.Hint
	if help == "" || r.Reason != reason {
		help = "gpuemu reproduce shows the case, gpuemu minimize the smallest one that fails in the same way."
	}
	c.rules[id] = len(c.run.Tool.Driver.Rules)
	c.run.Tool.Driver.Rules = append(c.run.Tool.Driver.Rules, sarifRule{ID: id, Name: name, Short: sarifText{short},
		Full: sarifText{short + "."}, Help: sarifText{help}, Default: sarifDefault{"error"},
		Properties: map[string]any{"tags": []string{"gpu", "correctness"}}})
	return c.rules[id]
}

// site is the place of a finding: the line of the source, where that is a file of the repository, with that of the PTX
// beside it; else the PTX; else the configuration.
func (c *runSARIF) site(s *verdict.Site) []sarifLocation {
	var list []sarifLocation
	module := strings.TrimPrefix(s.PTX, verdict.CompiledFrom) // compilers name sources from where that one lies
	for _, source := range []string{path.Join(path.Dir(module), s.Source), s.Source} {
		if uri, ok := c.source(source); ok && s.Source != "" && s.Line > 0 {
			list = append(list, sarifLocation{Physical: sarifPhysical{uri, sarifRegion{s.Line}}})
			break
		}
	}
	if uri, ok := c.source(s.PTX); ok {
		compiled := sarifLocation{Physical: sarifPhysical{uri, sarifRegion{max(s.PTXLine, 1)}}}
		if len(list) > 0 {
			id := 1
			compiled.ID, compiled.Message = &id, &sarifText{"the compiled code"}
		}
		list = append(list, compiled)
	}
	if len(list) == 0 {
		list = append(list, c.location(c.Config, 1))
	}
	return list
}

// notRun tells why cases were not run, each reason once.
func (c *runSARIF) notRun(r *verdict.Result) {
	calls := &c.run.Invocations[0]
	message := escape.SARIF(fmt.Sprintf("%s was not run: %s", r.Op, r.Message))
	for _, n := range calls.Notifications {
		if n.Message.Text == message {
			return
		}
	}
	if len(calls.Notifications) < maxNotRun {
		calls.Notifications = append(calls.Notifications, sarifNotification{Level: "error", Message: sarifText{message}})
	}
}
