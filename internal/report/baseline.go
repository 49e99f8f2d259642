// This file implements the comparison with a baseline. The rule is documented in docs/formats/report.md.

package report

import (
	"fmt"
	"math"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/escape"
	"gpuemu/internal/inspect"
	"gpuemu/internal/verdict"
)

// MaxListed is how many entries a list of a Comparison has at most; the counts beside the lists are exact.
const MaxListed = 1000

// Comparison is what a run has in common with a baseline and where it is worse.
//
// Cases match by op, dtype and case text, which holds shapes, layouts, distributions, seed and generator version:
// nothing else is ever compared with each other.
type Comparison struct {
	Name      string  `json:"name"`               // the tag or file of the baseline
	Campaign  string  `json:"campaign,omitempty"` // of the baseline
	Threshold float64 `json:"threshold"`
	// WarnThreshold is the growth from which errors are noted; 0: none are.
	WarnThreshold float64 `json:"warn_threshold,omitempty"`
	// Skipped says why nothing was compared: the baseline does not exist. Everything below is then 0.
	Skipped string `json:"skipped,omitempty"`

	Cases        int `json:"cases"`         // different cases of the baseline
	Common       int `json:"common"`        // of those, how many are in the run, too
	New          int `json:"new"`           // results of the run that the baseline does not have
	Fixed        int `json:"fixed"`         // failed then, pass now
	StillFailing int `json:"still_failing"` // failed then and now
	// Regressed counts the cases that are worse; Regressions are the first of them.
	Regressed   int          `json:"regressed"`
	Regressions []Regression `json:"regressions,omitempty"`
	// Grown counts the cases whose error grew by more than WarnThreshold and not by more than Threshold; Growths are the
	// first of them. They are notes: no exit code depends on them.
	Grown   int          `json:"grown,omitempty"`
	Growths []Regression `json:"growths,omitempty"`
	// Lost counts cases that passed then and are not judged now (not_run or undecided); LostCases are the first of them.
	Lost      int       `json:"lost"`
	LostCases []CaseRef `json:"lost_cases,omitempty"`
	// Vanished counts cases of the baseline that are not in the run; VanishedCases are the first of them. VanishedOps are
	// the ops and kernels of which nothing is left.
	Vanished      int       `json:"vanished"`
	VanishedCases []CaseRef `json:"vanished_cases,omitempty"`
	VanishedOps   []string  `json:"vanished_ops,omitempty"`

	// Artifacts is the comparison of compiled kernels; nil where neither side has any.
	Artifacts *inspect.Comparison `json:"artifacts,omitempty"`
	// Unread are the kernels that could not be looked at now, each with the reason.
	Unread []string `json:"unread,omitempty"`
}

// Worse counts what is worse than in the baseline: cases and kernels.
func (c *Comparison) Worse() int {
	if c.Artifacts == nil {
		return c.Regressed
	}
	return c.Regressed + c.Artifacts.Regressed
}

// Kinds of regressions.
const (
	NowFails  = "now_fails"  // passed then, fails now
	ErrorGrew = "error_grew" // the largest absolute error of an output grew by more than the threshold
)

// Regression is one case that is worse than in the baseline.
type Regression struct {
	CaseRef
	Kind    string  `json:"kind"`
	Output  string  `json:"output,omitempty"` // error_grew: whose error
	Before  float64 `json:"before"`           // largest absolute error then
	Now     float64 `json:"now"`
	Message string  `json:"message"`
}

// CaseRef names a case.
type CaseRef struct {
	Op    string       `json:"op"`
	DType string       `json:"dtype"`
	Case  string       `json:"case"`
	Seed  verdict.Seed `json:"seed"`
}

func refOf(r *verdict.Result) CaseRef { return CaseRef{r.Op, r.DType, r.Case, r.Seed} }

// NoBaseline is the comparison with a baseline that does not exist: said in every format, no reason to stop.
func NoBaseline(name, why string) *Comparison { return &Comparison{Name: name, Skipped: why} }

// NothingInCommon reports whether a comparison was made that compared nothing. A baseline of kernels alone has no
// cases.
func (c *Comparison) NothingInCommon() bool {
	if c == nil || c.Skipped != "" || c.Common > 0 {
		return false
	}
	return c.Cases > 0 || c.Artifacts == nil || c.Artifacts.Common == 0
}

// caseKey is what cases match by. Its strings are those of the document: a million of them cost no copy.
type caseKey struct{ op, dtype, text string }

// Thresholds say how much the largest error of an output may grow against a baseline: 0.1 is a tenth.
type Thresholds struct {
	Regression float64 // by more is a regression
	Warn       float64 // by more is noted; 0, or what is not below Regression: nothing is
}

// Compare is CompareWithin without notes.
func Compare(baseline *Document, now Source, threshold float64) (*Comparison, error) {
	return CompareWithin(baseline, now, Thresholds{Regression: threshold})
}

// CompareWithin compares a run with a baseline. A case has regressed if
//
//   - it passed then and fails now, or
//   - the largest absolute error of one of its outputs is now more than (1 + threshold) times what it was, and more
//     than half a unit in the last place of the largest expected value: a correctly rounded result may have as much.
//     An output that had no error at all is measured in units of its bound instead: any error is infinitely many times
//     0. More than threshold times the bound is a regression.
//
// Where a baseline has a case twice (a report over several runs), the later result counts. What the caller makes of
// Regressed is its business: Summary.Regressions decides on the exit code.
func CompareWithin(baseline *Document, now Source, limits Thresholds) (*Comparison, error) {
	for _, limit := range []struct {
		what  string
		value float64
	}{{"regression", limits.Regression}, {"warning", limits.Warn}} {
		if !(limit.value >= 0) || math.IsInf(limit.value, 0) {
			return nil, diag.Errorf(BadThreshold, "0.1 allows errors to grow by a tenth",
				"%s threshold %g, want a number of 0 or more", limit.what, limit.value)
		}
	}
	c := &Comparison{Name: baseline.Name, Campaign: baseline.Summary.Campaign, Threshold: limits.Regression}
	if limits.Warn < limits.Regression {
		c.WarnThreshold = limits.Warn
	}
	before := make(map[caseKey]int, len(baseline.Results))
	for i := range baseline.Results {
		r := &baseline.Results[i]
		key := caseKey{r.Op, r.DType, r.Case}
		if at, twice := before[key]; !twice || !r.Time.Before(baseline.Results[at].Time) {
			before[key] = i
		}
	}
	c.Cases = len(before)
	matched := make([]bool, len(baseline.Results))
	ops := map[string]bool{}
	err := now.Each(func(r *verdict.Result) error {
		ops[r.Op] = true
		at, ok := before[caseKey{r.Op, r.DType, r.Case}]
		if !ok {
			c.New++
			return nil
		}
		if !matched[at] {
			matched[at] = true
			c.Common++
		}
		c.add(&baseline.Results[at], r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.vanished(baseline, before, matched, ops)
	return c, nil
}

// add compares one case.
func (c *Comparison) add(then, now *verdict.Result) {
	switch {
	case then.Verdict == verdict.Pass && now.Verdict.Failed():
		message := fmt.Sprintf("passed then, %s now", now.Verdict)
		if now.Message != "" {
			message += ": " + now.Message
		}
		c.regressed(Regression{CaseRef: refOf(now), Kind: NowFails, Before: then.MaxAbs(), Now: now.MaxAbs(),
			Message: message})
		return
	case then.Verdict.Failed() && now.Verdict == verdict.Pass:
		c.Fixed++
	case then.Verdict.Failed() && now.Verdict.Failed():
		c.StillFailing++
	case then.Verdict == verdict.Pass && now.Verdict != verdict.Pass:
		c.Lost++
		if len(c.LostCases) < MaxListed {
			c.LostCases = append(c.LostCases, refOf(now))
		}
	}
	if !c.watch(then, now, c.Threshold, c.regressed) && c.WarnThreshold > 0 && !now.Verdict.Failed() {
		c.watch(then, now, c.WarnThreshold, func(r Regression) {
			c.Grown++
			r.Before, r.Now = finite(r.Before), finite(r.Now)
			if len(c.Growths) < MaxListed {
				c.Growths = append(c.Growths, r)
			}
		})
	}
}

// watch tells of the first output whose error grew by more than the threshold, and reports whether there is one.
func (c *Comparison) watch(then, now *verdict.Result, threshold float64, tell func(Regression)) bool {
	for i := range now.Outputs {
		o := &now.Outputs[i]
		at := slices.IndexFunc(then.Outputs, func(p verdict.Output) bool { return p.Name == o.Name })
		if at < 0 || !grew(&then.Outputs[at], o, threshold) {
			continue
		}
		p := &then.Outputs[at]
		tell(Regression{CaseRef: refOf(now), Kind: ErrorGrew, Output: o.Name, Before: p.MaxAbs, Now: o.MaxAbs,
			Message: fmt.Sprintf("largest absolute error of output %q was %.4g, is %.4g%s", o.Name, p.MaxAbs, o.MaxAbs,
				growth(p, o))})
		return true // one a case
	}
	return false
}

func growth(then, now *verdict.Output) string {
	if then.MaxAbs == 0 {
		return fmt.Sprintf(" (%s of its bound)", digits(now.MaxRatio, 3))
	}
	return fmt.Sprintf(" (%.3g times)", now.MaxAbs/then.MaxAbs)
}

// grew is the rule on errors.
func grew(then, now *verdict.Output, threshold float64) bool {
	if then.MaxAbs == 0 && now.MaxRatio <= threshold || now.MaxAbs <= then.MaxAbs*(1+threshold) {
		return false
	}
	return !(now.MaxAbs <= rounding(now))
}

// rounding is what rounding to the output type alone may cost: half a unit in the last place of the largest expected
// value; 0 for integers, whose errors are never rounding.
func rounding(o *verdict.Output) float64 {
	d, err := dtype.Parse(o.DType)
	if err != nil || !d.IsFloat() {
		return 0
	}
	return d.HalfULP(o.MaxWant)
}

func (c *Comparison) regressed(r Regression) {
	c.Regressed++
	r.Before, r.Now = finite(r.Before), finite(r.Now)
	if len(c.Regressions) < MaxListed {
		c.Regressions = append(c.Regressions, r)
	}
}

// vanished lists what the baseline has and the run has not, in the order of the baseline.
func (c *Comparison) vanished(baseline *Document, before map[caseKey]int, matched []bool, ops map[string]bool) {
	for i := range baseline.Results {
		r := &baseline.Results[i]
		if !ops[r.Op] && !slices.Contains(c.VanishedOps, r.Op) {
			c.VanishedOps = append(c.VanishedOps, r.Op)
		}
		if matched[i] || before[caseKey{r.Op, r.DType, r.Case}] != i {
			continue
		}
		c.Vanished++
		if len(c.VanishedCases) < MaxListed {
			c.VanishedCases = append(c.VanishedCases, refOf(r))
		}
	}
	slices.Sort(c.VanishedOps)
}

// lines is the comparison in words, clean.
func (c *Comparison) lines(verbose bool) []string {
	lines := c.caseLines(verbose)
	if c.Artifacts != nil {
		lines = append(lines, artifactLines(c.Artifacts, verbose)...)
	}
	for _, u := range c.Unread {
		lines = append(lines, "not looked at: "+escape.Text(u))
	}
	return lines
}

// caseLines is what the comparison says of cases.
func (c *Comparison) caseLines(verbose bool) []string {
	name := fmt.Sprintf("baseline %s: ", escape.Text(fmt.Sprintf("%q", c.Name)))
	switch {
	case c.Skipped != "":
		return []string{name + "not compared: " + escape.Text(c.Skipped)}
	case c.Cases == 0 && c.Artifacts != nil:
		return []string{name + "it has no cases"}
	case c.Common == 0:
		return []string{name + fmt.Sprintf("no case in common: it has %d, and none of them was run", c.Cases),
			"the same --seed, ops, dtypes and gpuemu make the same cases"}
	}
	lines := []string{name + fmt.Sprintf("%s, %d of %d cases in common, %d new, %d fixed, %d still failing "+
		"(threshold %g %%)", plural(c.Regressed, "regression"), c.Common, c.Cases, c.New, c.Fixed, c.StillFailing,
		100*c.Threshold)}
	limit := maxCompared
	if verbose {
		limit = MaxListed
	}
	for i := range min(limit, len(c.Regressions)) {
		r := &c.Regressions[i]
		lines = append(lines, "regression: "+r.CaseRef.text()+": "+escape.Text(r.Message))
	}
	more := func(shown, all int, what string) {
		if all > shown {
			lines = append(lines, fmt.Sprintf("%d more %s", all-shown, what))
		}
	}
	more(min(limit, len(c.Regressions)), c.Regressed, "regressions")
	for i := range min(limit, len(c.Growths)) {
		r := &c.Growths[i]
		lines = append(lines, fmt.Sprintf("note: %s: %s, above %g %%", r.CaseRef.text(), escape.Text(r.Message),
			100*c.WarnThreshold))
	}
	more(min(limit, len(c.Growths)), c.Grown, "cases whose error grew, within the threshold")
	for i := range min(limit, len(c.LostCases)) {
		lines = append(lines, "passed then, not judged now: "+c.LostCases[i].text())
	}
	more(min(limit, len(c.LostCases)), c.Lost, "cases that are not judged any more")
	for _, op := range c.VanishedOps {
		lines = append(lines, fmt.Sprintf("vanished: %s has cases in the baseline and none in this run", escape.Text(op)))
	}
	if c.Vanished > 0 {
		lines = append(lines, fmt.Sprintf("%s of the baseline not in this run", plural(c.Vanished, "case")))
	}
	if verbose {
		for i := range c.VanishedCases {
			lines = append(lines, "vanished: "+c.VanishedCases[i].text())
		}
	}
	return lines
}

func (r CaseRef) text() string {
	if r.Case == "" {
		return escape.Text(r.Op) + " " + escape.Text(r.DType)
	}
	return escape.Text(r.Case)
}

// junitCases is the comparison as test cases: one for the whole, and one for every regression listed. Regressions are
// failures where they count, that is, where they fail the run; else they are skipped, with the same message.
func (c *Comparison) junitCases(count bool) []extraCase {
	if c == nil {
		return nil
	}
	whole := extraCase{suite: "baseline", name: "baseline " + c.Name, message: c.lines(false)[0], kind: "baseline"}
	switch {
	case c.Skipped != "":
		whole.fault = "skipped"
		return []extraCase{whole}
	case c.NothingInCommon():
		whole.fault, whole.body = "error", c.lines(false)
		return []extraCase{whole}
	}
	var cases []extraCase
	fault := "skipped"
	if count {
		fault = "failure"
	}
	if c.Regressed > len(c.Regressions) {
		whole.fault, whole.body = fault, c.lines(false)
	}
	cases = append(cases, whole)
	for _, op := range c.VanishedOps {
		cases = append(cases, extraCase{suite: "baseline", name: "vanished " + op, fault: "skipped",
			message: fmt.Sprintf("%s has cases in the baseline and none in this run", op)})
	}
	for i := range c.Regressions {
		r := &c.Regressions[i]
		cases = append(cases, extraCase{suite: "baseline", name: r.DType + " " + r.Case, fault: fault, kind: r.Kind,
			message: r.Message, body: []string{r.CaseRef.text(), fmt.Sprintf("seed: %d", r.Seed)}})
	}
	if c.Artifacts != nil {
		cases = append(cases, artifactCases(c.Artifacts, count)...)
	}
	for _, u := range c.Unread {
		cases = append(cases, extraCase{suite: "baseline", name: "kernel " + u, fault: "error", kind: "not_looked_at",
			message: u, body: []string{u}})
	}
	return cases
}
