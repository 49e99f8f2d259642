// This file implements parts of reports that commands print by themselves: one case, one comparison, one tensor.

package report

import (
	"fmt"
	"io"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// Formats lists the formats that Write knows, the default first.
func Formats() []string { return []string{"text", "json", "junit"} }

// Write writes a report in the format of that name.
func Write(w io.Writer, format string, s Source, opt TextOptions) error {
	switch format {
	case "text":
		return Text(w, s, opt)
	case "json":
		return JSON(w, s)
	case "junit":
		return JUnit(w, s)
	}
	return diag.Errorf(UnknownFormat, diag.Suggest(format, Formats(), "use "+strings.Join(Formats(), ", ")),
		"unknown report format %q", format)
}

// CaseText describes one result in full: verdict, message, worst elements, diagnosis, error map.
func CaseText(r *verdict.Result, opt TextOptions) string {
	head := "verdict: " + r.Verdict.String()
	if r.Reason != "" {
		head += " (" + string(r.Reason) + ")"
	}
	lines := append([]string{head}, failureLines(r, true, opt.Verbose)...)
	return strings.Join(lines, "\n") + "\n"
}

// ComparisonText describes a comparison with a baseline; verbose lists everything that is known.
func ComparisonText(c *Comparison, verbose bool) string {
	return strings.Join(c.lines(verbose), "\n") + "\n"
}

// maxShown is how many elements of a tensor TensorText prints: a screenful.
const maxShown = 256

// TensorText prints the elements of a tensor, one line per row of the last axis.
func TensorText(t *tensor.Tensor) string {
	vals := t.Float64s()
	if len(vals) == 0 {
		return "(no elements)"
	}
	row := 1
	if n := len(t.Shape); n > 0 {
		row = t.Shape[n-1]
	}
	var b strings.Builder
	for i, v := range vals {
		if i == maxShown {
			fmt.Fprintf(&b, "\n… %d more; give a slice, such as [0,:8]", len(vals)-i)
			break
		}
		switch {
		case i == 0:
		case i%row == 0:
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%.9g", v)
	}
	return b.String()
}
