// This file implements the JUnit form: the XML that Jenkins, GitLab and GitHub actions read.

package report

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/verdict"
)

// suite is what the attributes of a testsuite need before its first testcase is written.
type suite struct {
	op     string
	counts verdict.Counts
	time   time.Duration
	runs   int // stretches of results of this op in the order of Each
	wrote  int
}

// JUnit writes the report as JUnit XML: one testsuite per op, in the order in which ops first appear; then one for the
// comparison with a baseline; then, where the exit code is 3, one that says why the run is not green, because readers
// of JUnit take skipped cases for green. It goes through the results twice, and once per op where ops are mixed.
func JUnit(w io.Writer, s Source) error {
	j := &junit{out: bufio.NewWriterSize(w, 1<<16), source: &s, byOp: map[string]*suite{}}
	last := ""
	err := s.tallied(func(r *verdict.Result) error {
		p := j.byOp[r.Op]
		if p == nil {
			p = &suite{op: r.Op}
			j.byOp[r.Op] = p
			j.suites = append(j.suites, p)
		}
		if p.runs == 0 || last != r.Op {
			p.runs++
			j.mixed = j.mixed || p.runs > 1
		}
		last = r.Op
		p.counts.Add(r.Verdict)
		p.time += max(0, r.Duration)
		return nil
	})
	if err != nil {
		return err
	}
	if err := j.write(); err != nil {
		j.out.Flush()
		return err
	}
	return j.out.Flush()
}

// junit is the state of one JUnit.
type junit struct {
	out    *bufio.Writer
	source *Source
	suites []*suite
	byOp   map[string]*suite
	mixed  bool
}

func (j *junit) printf(format string, args ...any) { fmt.Fprintf(j.out, format, args...) }

func (j *junit) write() error {
	sum := &j.source.Summary
	doc, err := lintDetails(sum)
	if err != nil {
		return err
	}
	var extra []extraCase
	if doc != nil {
		extra = lintCases(doc)
	}
	extra = append(extra, biasCases(sum)...)
	extra = append(extra, j.source.Baseline.junitCases(sum.Regressions > 0)...)
	if j.source.ExitCode() == 3 {
		extra = append(extra, extraCase{suite: "gpuemu", name: "run", fault: "error", kind: "not_green",
			message: j.source.Conclusion(), body: []string{"exit code 3"}})
	}
	tests, failures, errs := sum.Total, sum.Failed-sum.Errors, sum.Errors
	for i := range extra {
		c := extra[i].counts()
		tests, failures, errs = tests+c.Total, failures+c.Failed-c.Errors, errs+c.Errors
	}
	j.printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
	j.printf("<testsuites name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" time=\"%s\">\n",
		escape.XML(j.name()), tests, failures, errs, seconds(sum.Duration))
	if j.mixed {
		for _, p := range j.suites {
			if err = j.stretch(p.op); err != nil {
				return err
			}
		}
	} else if err = j.stretch(""); err != nil {
		return err
	}
	for len(extra) > 0 {
		n := 1
		for n < len(extra) && extra[n].suite == extra[0].suite {
			n++
		}
		j.extraSuite(extra[:n])
		extra = extra[n:]
	}
	j.printf("</testsuites>\n")
	return nil
}

// biasCases are the findings of the test of a whole campaign for errors with a common sign.
func biasCases(sum *verdict.Summary) []extraCase {
	var out []extraCase
	for i := range sum.Ops {
		for _, b := range sum.Ops[i].Bias {
			out = append(out, extraCase{suite: "gpuemu bias", name: sum.Ops[i].Op + " " + b.DType + " " + b.Kind,
				fault: "failure", kind: string(verdict.Biased), message: b.Sentence()})
		}
	}
	return out
}

func (j *junit) name() string {
	name := "gpuemu"
	for _, part := range []string{j.source.Summary.Kind, j.source.Summary.Project} {
		if part != "" {
			name += " " + part
		}
	}
	return name
}

// stretch writes suites in the order of the results: that of one op, or all of them where each op stands together.
func (j *junit) stretch(op string) error {
	var open *suite
	closeSuite := func() error {
		if open == nil {
			return nil
		}
		if open.wrote != open.counts.Total {
			return j.changed()
		}
		j.printf("  </testsuite>\n")
		return nil
	}
	err := j.source.Each(func(r *verdict.Result) error {
		if op != "" && r.Op != op {
			return nil
		}
		if open == nil || open.op != r.Op {
			if err := closeSuite(); err != nil {
				return err
			}
			if open = j.byOp[r.Op]; open == nil || open.wrote > 0 {
				return j.changed()
			}
			j.openSuite(open)
		}
		open.wrote++
		j.testcase(r)
		return nil
	})
	if err != nil {
		return err
	}
	return closeSuite()
}

// changed: the numbers in the attributes are written already, so the results must be the same in every pass.
func (j *junit) changed() error {
	return diag.Errorf(Inconsistent, "if the campaign is still running, wait for its end or stop it",
		"the results changed while the report was written")
}

func (j *junit) openSuite(p *suite) {
	sum := &j.source.Summary
	j.printf("  <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"%s\"%s>\n",
		escape.XML(p.op), p.counts.Total, p.counts.Failed-p.counts.Errors, p.counts.Errors,
		p.counts.NotRun+p.counts.Undecided,
		seconds(p.time), j.timestamp())
	j.printf("    <properties>\n")
	property := func(name, value string) {
		if value != "" {
			j.printf("      <property name=\"%s\" value=\"%s\"/>\n", name, escape.XML(value))
		}
	}
	property("seed", fmt.Sprint(uint64(sum.Seed)))
	property("campaign", sum.Campaign)
	property("shard", sum.Shard)
	property("version", j.source.Version)
	for i := range sum.Ops {
		if op := &sum.Ops[i]; op.Op == p.op {
			property("candidate", op.Candidate)
			property("reference", op.Reference)
		}
	}
	j.printf("    </properties>\n")
}

func (j *junit) timestamp() string {
	if j.source.Summary.Started.IsZero() {
		return ""
	}
	return fmt.Sprintf(" timestamp=\"%s\"", j.source.Summary.Started.UTC().Format("2006-01-02T15:04:05"))
}

// testcase writes one case. A failure or error has the text of the report as its body.
func (j *junit) testcase(r *verdict.Result) {
	name := r.DType + " " + r.Case
	if r.DType == "" || r.Case == "" {
		name = fmt.Sprintf("%s%s case %d", r.DType, r.Case, r.Index)
	}
	j.printf("    <testcase name=\"%s\" classname=\"gpuemu.%s\" time=\"%s\"", escape.XML(name), escape.XML(r.Op),
		seconds(r.Duration))
	element := ""
	switch r.Verdict {
	case verdict.Pass:
	case verdict.Fail:
		element = "failure"
	case verdict.Error:
		element = "error"
	default:
		element = "skipped"
	}
	if element == "" {
		j.printf("/>\n")
		return
	}
	message := r.Message
	if message == "" {
		message = r.Verdict.String()
	}
	if element == "skipped" { // schemas know no body for it that readers show
		message = r.Verdict.String() + ": " + message
		if r.Hint != "" {
			message += "; " + r.Hint
		}
		j.printf(">\n      <skipped message=\"%s\"/>\n    </testcase>\n", escape.XML(message))
		return
	}
	j.printf(">\n      <%s message=\"%s\" type=\"%s\">%s%s</%s>\n", element, escape.XML(message),
		escape.XML(string(r.Reason)), xmlLines(failureLines(r, true, false)),
		xmlLines(smallestLines(j.source.Summary.Group(r))), element)
	if command := Replay(r); command != "" {
		if note := StoreNote(r); note != "" {
			command += "\n" + note
		}
		j.printf("      <system-out>seed: %d\nreplay: %s\n</system-out>\n", r.Seed, escape.XML(command))
	}
	j.printf("    </testcase>\n")
}

// extraCase is a testcase that stands for no case of a campaign.
type extraCase struct {
	suite, name          string
	fault, kind, message string   // fault: "", failure, error or skipped
	body                 []string // of the fault; of what passes or is skipped, what else there is to say
}

func (c *extraCase) counts() (n verdict.Counts) {
	switch c.fault {
	case "failure":
		n.Add(verdict.Fail)
	case "error":
		n.Add(verdict.Error)
	case "skipped":
		n.Add(verdict.NotRun)
	default:
		n.Add(verdict.Pass)
	}
	return n
}

// extraSuite writes cases of one suite.
func (j *junit) extraSuite(cases []extraCase) {
	var n verdict.Counts
	for i := range cases {
		c := cases[i].counts()
		n.Total, n.Failed, n.Errors, n.NotRun = n.Total+1, n.Failed+c.Failed, n.Errors+c.Errors, n.NotRun+c.NotRun
	}
	j.printf("  <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"0.000\"%s>\n",
		escape.XML(cases[0].suite), n.Total, n.Failed-n.Errors, n.Errors, n.NotRun, j.timestamp())
	for i := range cases {
		c := &cases[i]
		j.printf("    <testcase name=\"%s\" classname=\"gpuemu.%s\" time=\"0.000\"", escape.XML(c.name), escape.XML(c.suite))
		switch {
		case c.fault == "" && len(c.body) == 0:
			j.printf("/>\n")
		case c.fault == "":
			j.printf(">\n      <system-out>%s</system-out>\n    </testcase>\n", xmlLines(c.body))
		case c.fault == "skipped":
			j.printf(">\n      <skipped message=\"%s\"/>\n", escape.XML(c.message))
			if len(c.body) > 0 {
				j.printf("      <system-out>%s</system-out>\n", xmlLines(c.body))
			}
			j.printf("    </testcase>\n")
		default:
			j.printf(">\n      <%s message=\"%s\" type=\"%s\">%s</%s>\n    </testcase>\n", c.fault, escape.XML(c.message),
				escape.XML(c.kind), xmlLines(c.body), c.fault)
		}
	}
	j.printf("  </testsuite>\n")
}

// seconds is a duration as schemas of JUnit want it: at most three digits after the point.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", max(0, d).Seconds()) }
