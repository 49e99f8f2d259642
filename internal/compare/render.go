// This file implements the text of a report.

package compare

import (
	"fmt"
	"strings"
)

// Text returns the report for people: verdict; how many of how many elements, percent; the worst absolute, relative and
// ULP error, each with index, got, want and bound; then classes, statistics and diagnosis. Seed and replay command are
// the caller's: a comparison does not know them. verbose adds the other worst elements and the map.
func (r *Report) Text(verbose bool) string {
	var b strings.Builder
	c := &r.Counts
	fmt.Fprintf(&b, "%s: %s\n", r.Verdict, r.headline())
	if r.Verdict == Error {
		return b.String()
	}
	fmt.Fprintf(&b, "%d of %d elements wrong (%s %%), %s %s\n", c.Mismatched, c.Total, percent(c.Mismatched, c.Total),
		r.DType, r.Shape)
	for _, l := range []struct {
		name string
		list []Element
	}{
		{"absolute", r.Worst.Abs}, {"relative", r.Worst.Rel}, {"ULP", r.Worst.ULP}, {"error/bound", r.Worst.Ratio},
		{"first by class", r.Worst.Class},
	} {
		for i, e := range l.list {
			if i > 0 && !verbose {
				break
			}
			fmt.Fprintf(&b, "%-16s %s\n", lead(l.name, i), e.text(l.name))
		}
	}
	if s := c.classes(); s != "" {
		fmt.Fprintf(&b, "classes: %s\n", s)
	}
	if r.Full && r.Stats.Count > 0 {
		s := &r.Stats
		fmt.Fprintf(&b, "absolute error: max %.4g, mean %.4g, p50 %.4g, p90 %.4g, p99 %.4g\n", s.MaxAbs, s.MeanAbs,
			s.P50Abs, s.P90Abs, s.P99Abs)
		fmt.Fprintf(&b, "relative error: max %.4g, mean %.4g; ULP: max %d, mean %.4g; error/bound: max %.4g\n", s.MaxRel,
			s.MeanRel, s.MaxULP, s.MeanULP, s.MaxRatio)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "diagnosis: %s\n", f.Sentence)
	}
	if verbose && r.Map != nil {
		b.WriteString(r.Map.Text())
	}
	return b.String()
}

// headline says under which rule the verdict stands.
func (r *Report) headline() string {
	switch {
	case r.Verdict == Error:
		return r.Reason
	case r.Regime == Bound:
		return "per-element bounds"
	case r.Regime == Spread:
		return fmt.Sprintf("judged by the reference's own spread, at least %s", r.Tol)
	}
	return fmt.Sprintf("%s tolerance, %s", r.Regime, r.Tol)
}

func lead(name string, i int) string {
	switch {
	case name == "first by class":
		return "class"
	case i == 0:
		return "worst " + name
	}
	return ""
}

// text prints one element, the measure it is listed for first.
func (e *Element) text(measure string) string {
	var b strings.Builder
	switch measure {
	case "absolute":
		fmt.Fprintf(&b, "%.6g", e.Abs)
	case "relative":
		fmt.Fprintf(&b, "%.6g", e.Rel)
	case "ULP":
		fmt.Fprintf(&b, "%d", e.ULP)
	case "error/bound":
		fmt.Fprintf(&b, "%.6g", e.Ratio)
	default:
		b.WriteString(e.Kind.String())
	}
	fmt.Fprintf(&b, " at %s: got %s, want %s, bound %.4g", tuple(e.Index), e.GotText, e.WantText, e.Bound)
	if !e.Wrong {
		b.WriteString(" (accepted)")
	}
	return b.String()
}

// percent prints a share with enough digits not to round something to nothing.
func percent(part, whole int) string {
	if whole == 0 || part == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3g", 100*float64(part)/float64(whole))
}

// classes lists the counts that are neither plain acceptance nor plain numeric error.
func (c *Counts) classes() string {
	var parts []string
	for k := BeyondBound + 1; k < kinds; k++ {
		if c.Of[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.Of[k], k))
		}
	}
	if c.Ignored > 0 {
		parts = append(parts, fmt.Sprintf("%d of them not checked", c.Ignored))
	}
	return strings.Join(parts, ", ")
}
