// This file implements what a report says of compiled kernels: what lint found, and what became of them since a
// baseline.

package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gpuemu/internal/artifact"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/inspect"
	"gpuemu/internal/verdict"
)

// maxEdits is how many changes of a kernel's code a text that is not verbose lists.
const maxEdits = 3

// lintDetails are the details of a summary's lint, nil where the report leaves them out.
func lintDetails(sum *verdict.Summary) (*inspect.Document, error) {
	if sum.Lint == nil || len(sum.Lint.Report) == 0 {
		return nil, nil
	}
	doc := &inspect.Document{}
	if err := json.Unmarshal(sum.Lint.Report, doc); err != nil {
		return nil, diag.Errorf(Inconsistent, "run gpuemu test again", "the results of lint cannot be read: %w", err)
	}
	return doc, nil
}

// lint prints what was found in compiled kernels: those with something to say, and how it ended.
func (t *texter) lint() error {
	doc, err := lintDetails(&t.source.Summary)
	if err != nil || t.source.Summary.Lint == nil {
		return err
	}
	t.line("")
	if doc == nil {
		l := t.source.Summary.Lint
		doc = &inspect.Document{Counts: inspect.Counts{Total: l.Kernels, Errors: l.Errors, Notes: l.Notes}}
		t.line(t.paint(bold, "compiled kernels") + ": " + fmt.Sprintf("%d looked at, %s, %d noted, %d not looked at; "+
			"gpuemu report --include-lint shows them", l.Kernels, plural(l.Errors, "error"), l.Notes, l.Unread))
		return nil
	}
	t.line(t.paint(bold, "compiled kernels") + ": " + t.paint(lintColor(doc), LintConclusion(doc)))
	for i := range doc.Kernels {
		if k := &doc.Kernels[i]; !k.Passed || t.opt.Verbose && len(k.Violations) > 0 {
			t.kernel(k)
		}
	}
	t.unread(doc)
	return nil
}

// kernelLabel tells the kernels of one entry of gpuemu.toml apart: its name, and the one in the file where that is
// another.
func kernelLabel(name, kernel string) string {
	switch name {
	case "", kernel:
		return kernel
	}
	return name + " (" + kernel + ")"
}

// lintCases are compiled kernels as test cases of JUnit: one per kernel.
func lintCases(doc *inspect.Document) []extraCase {
	var cases []extraCase
	for i := range doc.Kernels {
		k := &doc.Kernels[i]
		c := extraCase{suite: "lint", name: strings.TrimSpace(kernelLabel(k.Name, k.Kernel) + " " + k.Arch)}
		for j := range k.Violations {
			v := &k.Violations[j]
			if v.Severity != artifact.Fault {
				continue
			}
			if c.fault == "" {
				c.fault, c.kind, c.message = "failure", string(v.Kind), v.Message
			}
			c.body = append(c.body, place(v.File, v.Place)+": "+escape.Text(v.Message))
		}
		cases = append(cases, c)
	}
	for i := range doc.Unread {
		u := &doc.Unread[i]
		cases = append(cases, extraCase{suite: "lint", name: u.Label(), fault: "error", kind: u.Code, message: u.Message,
			body: append(escape.Lines(u.Message), escape.Text(u.Hint))})
	}
	return cases
}

// artifactLines is the comparison of kernels in words, clean.
func artifactLines(c *inspect.Comparison, verbose bool) []string {
	lines := []string{fmt.Sprintf("kernels: %s, %d of %d in common changed, %d new, %d vanished (threshold %g %%)",
		plural(c.Regressed, "regression"), c.Changed, c.Common, c.New, c.Vanished, 100*c.Threshold)}
	for i := range c.Kernels {
		k := &c.Kernels[i]
		label := escape.Text(kernelLabel(k.Name, k.Kernel))
		switch k.Status {
		case artifact.New:
			lines = append(lines, "new: "+label+" is not in the baseline")
		case artifact.Vanished:
			lines = append(lines, "vanished: "+label+" is in the baseline and not here")
		case artifact.Changed:
			lead := "changed: "
			if k.Regression {
				lead = "regression: "
			}
			lines = append(lines, lead+label+": "+changeText(k))
			lines = append(lines, codeChangeLines(k.Code, verbose)...)
		default:
			lines = append(lines, failedLine(label, k.Code)...)
		}
	}
	return lines
}

// failedLine says that the code of a kernel could not be compared.
func failedLine(label string, c *inspect.CodeChange) []string {
	if c == nil || c.Failed == "" {
		return nil
	}
	return []string{"note: the code of " + label + " was not compared: " + escape.Text(c.Failed)}
}

// changeText is what changed in the figures of a kernel, and how deep its code changed.
func changeText(k *inspect.Change) string {
	var parts []string
	for _, f := range k.Figures {
		if f.Delta == 0 {
			continue
		}
		text := fmt.Sprintf("%s %d -> %d (%+d, %s)", strings.ReplaceAll(f.Name, "_", " "), f.Old, f.New, f.Delta,
			origins[f.Origin])
		if f.Regression {
			text += " is worse"
		}
		parts = append(parts, text)
	}
	for _, name := range k.Unmatched {
		parts = append(parts, strings.ReplaceAll(escape.Text(name), "_", " ")+" cannot be compared")
	}
	switch {
	case k.Code != nil && k.Code.Failed == "":
		parts = append(parts, "code: "+rankText(k.Code.Rank))
	case k.CodeChanged != nil && *k.CodeChanged:
		parts = append(parts, "the code differs")
	}
	if len(parts) == 0 {
		return "it differs"
	}
	return strings.Join(parts, ", ")
}

// rankText is the depth of a difference in words.
func rankText(rank string) string {
	switch rank {
	case "order":
		return "the same in another order"
	case "constants":
		return "other constants"
	case "structure":
		return "another structure"
	}
	return escape.Text(rank)
}

// codeChangeLines are the most important changes of the code.
func codeChangeLines(c *inspect.CodeChange, verbose bool) []string {
	if c == nil {
		return nil
	}
	if c.Failed != "" {
		return []string{"  the code was not compared: " + escape.Text(c.Failed)}
	}
	most := maxEdits
	if verbose {
		most = len(c.Changes)
	}
	var lines []string
	for i := range min(most, len(c.Changes)) {
		e := &c.Changes[i]
		at := e.New
		if at == nil {
			at = e.Old
		}
		where := ""
		if at != nil {
			where = place(at.File, artifact.Place{Line: at.Line, SourceFile: at.SourceFile, SourceLine: at.SourceLine}) + ": "
		}
		lines = append(lines, "  "+where+escape.Text(e.Message))
	}
	if rest := len(c.Changes) - len(lines) + c.Omitted; rest > 0 {
		lines = append(lines, fmt.Sprintf("  and %s", plural(rest, "other change")))
	}
	return lines
}

// artifactCases are the changes of kernels as test cases of JUnit. Regressions are failures where they count; other
// changes pass, and say what changed.
func artifactCases(c *inspect.Comparison, count bool) []extraCase {
	var cases []extraCase
	for i := range c.Kernels {
		k := &c.Kernels[i]
		label := kernelLabel(k.Name, k.Kernel)
		one := extraCase{suite: "baseline", name: strings.TrimSpace("kernel " + label + " " + k.Arch)}
		switch k.Status {
		case artifact.Vanished:
			one.fault, one.message = "skipped", label+" is in the baseline and not here"
		case artifact.New:
			one.body = []string{escape.Text(label) + " is not in the baseline"}
		case artifact.Changed:
			one.body = append([]string{changeText(k)}, codeChangeLines(k.Code, true)...)
		default:
			one.body = failedLine(escape.Text(label), k.Code)
		}
		if k.Regression {
			one.fault, one.kind, one.message = "skipped", "kernel_regression", changeText(k)
			if count {
				one.fault = "failure"
			}
		}
		cases = append(cases, one)
	}
	return cases
}

// ComparisonJUnit writes a comparison as JUnit XML. fail: regressions are failures, else they are skipped.
func ComparisonJUnit(w io.Writer, c *Comparison, fail bool) error {
	j := &junit{out: bufio.NewWriter(w), source: &Source{Baseline: c, Summary: verdict.Summary{Kind: "diff"}}}
	cases := c.junitCases(fail)
	var n verdict.Counts
	for i := range cases {
		one := cases[i].counts()
		n.Failed, n.Errors = n.Failed+one.Failed, n.Errors+one.Errors
	}
	j.printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
	j.printf("<testsuites name=\"gpuemu diff\" tests=\"%d\" failures=\"%d\" errors=\"%d\" time=\"0.000\">\n", len(cases),
		n.Failed-n.Errors, n.Errors)
	j.extraSuite(cases)
	j.printf("</testsuites>\n")
	return j.out.Flush()
}
