// This file implements the text of one failed case. Text prints it, JUnit puts it into the body of a failure.

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/escape"
	"gpuemu/internal/verdict"
)

// maxStderr is how many lines of what a kernel printed are shown.
const maxStderr = 20

// failureLines describes a failed case in the order: message; n of total elements, percent; worst absolute, relative
// and ULP error, each with index, got, want, bound; diagnosis; map; invariants; what was printed; hint. Findings on the
// execution come first, being the cause of what follows. The verdict stands in front of it and the replay command after
// it, both by the caller. Every line is clean.
func failureLines(r *verdict.Result, withMap, verbose bool) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if r.Message != "" && !toldBelow(r) {
		lines = append(lines, escape.Lines(r.Message)...)
	}
	for _, f := range r.Findings {
		add("finding %s%s: %s", escape.Text(f.Kind), of(f.Name), escape.Text(f.Sentence))
	}
	if r.FindingsDropped > 0 {
		add("further findings: %d", r.FindingsDropped)
	}
	if r.Numeric != nil && *r.Numeric == verdict.Pass {
		add("the values are right all the same")
	}
	for i := range r.Outputs {
		o := &r.Outputs[i]
		if o.Mismatched == 0 && !verbose {
			continue
		}
		add("output %s %s%s, %s: %d of %d elements wrong (%s %%)%s", escape.Text(o.Name), escape.Text(o.DType),
			shape(o.Shape), rule(o), o.Mismatched, o.Elements, percent(o.Mismatched, o.Elements), kinds(o))
		lines = append(lines, worstLines(o, verbose)...)
		add("  all elements: absolute max %s, mean %s, p99 %s; relative max %s; ULP max %d; error/bound max %s",
			digits(o.MaxAbs, 4), digits(o.MeanAbs, 4), digits(o.P99Abs, 4), digits(o.MaxRel, 4), o.MaxULP,
			digits(o.MaxRatio, 4))
		for _, f := range o.Diagnosis {
			add("  diagnosis: %s", escape.Text(f.Sentence))
		}
		if withMap {
			for _, line := range escape.Lines(o.Map) {
				add("  %s", line)
			}
		}
	}
	for _, inv := range r.Invariants {
		if inv.Outcome == "violated" && !found(r, inv.Sentence) {
			add("invariant %s of output %s is violated: %s", escape.Text(inv.Name), escape.Text(inv.Output),
				escape.Text(inv.Sentence))
		}
	}
	if shown, before := tail(r.Stderr, maxStderr); len(shown) > 0 {
		add("printed to standard error%s:", nonZero(" (%d lines before these)", before))
		for _, line := range shown {
			add("  | %s", line)
		}
	}
	if r.ShrunkFrom != nil && *r.ShrunkFrom != r.Seed { // a case that keeps its seed says so by it
		add("shrunk from the case with seed %d", *r.ShrunkFrom)
	}
	if r.Hint != "" {
		add("hint: %s", escape.Text(r.Hint))
	}
	return lines
}

// toldBelow reports whether the message says in one sentence what the lines on findings, outputs and invariants say as
// well.
func toldBelow(r *verdict.Result) bool {
	switch r.Reason {
	case verdict.Mismatch, verdict.NonFinite:
		return len(r.Outputs) > 0
	case verdict.Invariant:
		return slices.ContainsFunc(r.Invariants, func(inv verdict.Invariance) bool {
			return inv.Outcome == "violated" && inv.Sentence != "" && strings.HasSuffix(r.Message, inv.Sentence)
		})
	}
	return len(r.Findings) > 0 && r.Verdict == verdict.Fail
}

// found reports whether a finding says the same.
func found(r *verdict.Result, sentence string) bool {
	return slices.ContainsFunc(r.Findings, func(f verdict.Finding) bool { return strings.HasSuffix(f.Sentence, sentence) })
}

// of names what a finding is about, if anything.
func of(name string) string {
	if name == "" {
		return ""
	}
	return " of " + escape.Text(name)
}

// digits prints a figure with so many digits. JSON has no infinity: the largest number stands for it.
func digits(x float64, n int) string {
	if math.Abs(x) == math.MaxFloat64 {
		x = math.Inf(int(math.Copysign(1, x)))
	}
	return strings.TrimPrefix(strconv.FormatFloat(x, 'g', n, 64), "+")
}

// worstLines shows the worst wrong elements: for each measure the one where it is largest, measures of one element on
// one line (where 0 is wanted there is no relative error); then elements that have no numeric error, such as a NaN, the
// first of each kind.
func worstLines(o *verdict.Output, verbose bool) []string {
	var lines []string
	shown := map[int]bool{}
	show := func(i int, what string) {
		e := &o.Worst[i]
		shown[i] = true
		lines = append(lines, fmt.Sprintf("  %s at %s: got %s, want %s, bound %s", what, shape(e.Index), escape.Text(e.Got),
			escape.Text(e.Want), digits(e.Bound, 4)))
	}
	measures := []struct {
		name string
		less func(a, b *verdict.Element) bool
		text func(e *verdict.Element) string
	}{
		{"absolute", func(a, b *verdict.Element) bool { return a.Abs < b.Abs }, func(e *verdict.Element) string {
			return "absolute " + digits(e.Abs, 6)
		}},
		{"relative", func(a, b *verdict.Element) bool { return a.Rel < b.Rel }, func(e *verdict.Element) string {
			return "relative " + digits(e.Rel, 6)
		}},
		{"ULP", func(a, b *verdict.Element) bool { return a.ULP < b.ULP }, func(e *verdict.Element) string {
			return fmt.Sprintf("ULP %d", e.ULP)
		}},
	}
	texts := map[int][]string{}
	var order []int
	for _, m := range measures {
		best := -1
		for i := range o.Worst {
			if numeric(&o.Worst[i]) && (best < 0 || m.less(&o.Worst[best], &o.Worst[i])) {
				best = i
			}
		}
		if best < 0 || !m.less(&verdict.Element{}, &o.Worst[best]) {
			continue
		}
		if texts[best] == nil {
			order = append(order, best)
		}
		texts[best] = append(texts[best], m.text(&o.Worst[best]))
	}
	for _, i := range order {
		show(i, "worst error "+strings.Join(texts[i], ", "))
	}
	seen := map[string]bool{}
	for i := range o.Worst {
		e := &o.Worst[i]
		switch {
		case shown[i]:
		case verbose, !numeric(e) && !seen[e.Kind]:
			seen[e.Kind] = true
			show(i, escape.Text(e.Kind))
		}
	}
	return lines
}

// numeric reports whether an element is wrong by a distance.
func numeric(e *verdict.Element) bool { return e.Abs != 0 || e.Rel != 0 || e.ULP != 0 }

func shape(dims []int) string { return strings.ReplaceAll(fmt.Sprint(dims), " ", ",") }

// rule says what the output was judged by.
func rule(o *verdict.Output) string {
	switch o.Regime {
	case "bound":
		return "per-element bounds"
	case "":
		return "no comparison"
	case "spread":
		return fmt.Sprintf("judged by the reference's own spread, at least atol %g rtol %g", o.ATol, o.RTol)
	}
	return fmt.Sprintf("%s tolerance atol %g rtol %g", escape.Text(o.Regime), o.ATol, o.RTol)
}

// kinds lists what was seen at the elements, such as NaN where a number is wanted.
func kinds(o *verdict.Output) string {
	if len(o.Kinds) == 0 {
		return ""
	}
	var names []string
	for name := range o.Kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", o.Kinds[name], escape.Text(name))
	}
	return ": " + strings.Join(names, ", ")
}

// percent prints a share with enough digits not to round something to nothing.
func percent(part, whole int) string {
	if whole == 0 || part == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3g", 100*float64(part)/float64(whole))
}
