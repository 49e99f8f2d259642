// This file implements what is said of compiled kernels: the text of gpuemu lint and the table of gpuemu artifacts.

package report

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/artifact"
	"gpuemu/internal/escape"
	"gpuemu/internal/inspect"
)

// LintText writes what gpuemu lint found for people: per kernel its figures and what is wrong with it.
func LintText(w io.Writer, d *inspect.Document, opt TextOptions) error {
	t := &texter{out: bufio.NewWriterSize(w, 1<<16), opt: opt}
	for i := range d.Kernels {
		if i > 0 {
			t.line("")
		}
		t.kernel(&d.Kernels[i])
	}
	if len(d.Kernels) > 0 && len(d.Unread) > 0 {
		t.line("")
	}
	t.unread(d)
	t.line("")
	t.line(t.paint(lintColor(d), LintConclusion(d)))
	return t.out.Flush()
}

func lintColor(d *inspect.Document) string {
	switch d.ExitCode() {
	case 1:
		return red
	case 3:
		return yellow
	}
	return green
}

// LintConclusion says how lint ended, in one line.
func LintConclusion(d *inspect.Document) string {
	line := fmt.Sprintf("passed: %s", plural(d.Total, "kernel"))
	switch {
	case d.Errors > 0:
		line = fmt.Sprintf("FAILED: %s in %d of %s", plural(d.Errors, "error"), d.Total-d.Passed, plural(d.Total, "kernel"))
	case d.Total == 0:
		line = "not green: no kernel was looked at"
	case len(d.Unread) > 0:
		line = fmt.Sprintf("not green: %d of %d passed", d.Passed, d.Total+len(d.Unread))
	}
	return line + nonZero(", %d noted", d.Notes) + nonZero(", %d not looked at", len(d.Unread))
}

// unread prints what could not be looked at.
func (t *texter) unread(d *inspect.Document) {
	for i := range d.Unread {
		u := &d.Unread[i]
		lines := escape.Lines(u.Message) // compilers say more than one
		t.sentence(t.paint(yellow, "not looked at")+": ", escape.Text(u.Label())+": "+
			strings.Join(lines[:min(1, len(lines))], ""))
		for _, line := range lines[min(1, len(lines)):] {
			t.line("  " + line)
		}
		if u.Hint != "" {
			t.sentence("  hint: ", escape.Text(u.Hint))
		}
	}
}

// kernel prints one kernel.
func (t *texter) kernel(k *inspect.Kernel) {
	title := t.paint(bold, escape.Text(k.Label()))
	var about []string
	if k.Name != "" && k.Kernel != k.Name {
		about = append(about, "entry "+escape.Text(k.Kernel))
	}
	if k.Arch != "" {
		about = append(about, escape.Text(k.Arch))
	}
	if k.Metrics != nil {
		for _, s := range k.Metrics.Sources {
			about = append(about, place(s.File, artifact.Place{Line: s.Line}))
		}
	}
	if len(about) > 0 {
		title += " (" + strings.Join(about, ", ") + ")"
	}
	t.line(title)
	if k.Metrics != nil {
		t.sentence("  ", figureText(k.Metrics))
		for _, note := range k.Metrics.Notes {
			t.sentence("  remark: ", escape.Text(note))
		}
	}
	t.violations(k)
	if t.opt.Verbose && k.Metrics != nil {
		for _, line := range codeLines(k.Metrics) {
			t.line("  " + line)
		}
	}
}

// violations prints what is wrong with a kernel.
func (t *texter) violations(k *inspect.Kernel) {
	for i := range k.Violations {
		v := &k.Violations[i]
		lead, color := "error", red
		if v.Severity == artifact.Note {
			lead, color = "note", yellow
		}
		where := ""
		if at := place(v.File, v.Place); at != "" {
			where = at + ": "
		}
		t.sentence("  "+t.paint(color, lead)+": ", where+escape.Text(strings.TrimPrefix(v.Message, k.Kernel+": ")))
		if v.Hint != "" {
			t.sentence("    fix: ", escape.Text(v.Hint))
		}
	}
}

// place is file:line, and the line of the source where the text says which.
func place(file string, p artifact.Place) string {
	text := escape.Text(file)
	if p.Line > 0 {
		text += ":" + strconv.Itoa(p.Line)
	}
	if p.SourceFile != "" && p.SourceLine > 0 {
		text += fmt.Sprintf(" (%s:%d)", escape.Text(path.Clean(p.SourceFile)), p.SourceLine)
	}
	return text
}

// origins are the words for where a figure comes from.
var origins = map[artifact.Origin]string{artifact.Declared: "PTX", artifact.Estimated: "estimated from PTX",
	artifact.FromCubin: "cubin", artifact.FromPtxas: "ptxas", artifact.FromSASS: "SASS"}

// figureText are the figures of a kernel by their origins, the surest first.
func figureText(m *artifact.Metrics) string {
	const unknown = "not known"
	groups := map[string][]string{}
	for _, f := range []struct {
		what, unit string
		*artifact.Figure
	}{{"registers", "", m.Registers}, {"spills", " B", m.Spills()}, {"stack", " B", m.Stack}, {"local", " B", m.Local},
		{"shared", " B", m.SharedStatic}, {"instructions", "", m.Instructions()}} {
		if f.Figure == nil {
			groups[unknown] = append(groups[unknown], f.what)
			continue
		}
		text := fmt.Sprintf("%s %d%s", f.what, f.Value, f.unit)
		if f.what == "shared" && m.SharedDynamic != nil && *m.SharedDynamic {
			text += " and dynamic"
		}
		origin := origins[f.Origin]
		groups[origin] = append(groups[origin], text)
	}
	var parts []string
	for _, origin := range []string{origins[artifact.FromCubin], origins[artifact.FromPtxas], origins[artifact.FromSASS],
		origins[artifact.Declared], origins[artifact.Estimated], unknown} {
		if len(groups[origin]) > 0 {
			parts = append(parts, origin+": "+strings.Join(groups[origin], ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// codeLines say what instructions a kernel has, for those who ask with -v.
func codeLines(m *artifact.Metrics) []string {
	var lines []string
	for _, code := range []struct {
		what string
		*artifact.Code
	}{{"PTX", m.PTXCode}, {"SASS", m.SASSCode}} {
		if code.Code == nil {
			continue
		}
		classes := sortedCounts(code.Classes, func(c artifact.Class) string { return string(c) })
		line := fmt.Sprintf("%s: %d instructions (%s)", code.what, code.Total, strings.Join(classes, ", "))
		if code.Loops != nil && code.Blocks != nil {
			line += fmt.Sprintf(", %s, %s", plural(*code.Blocks, "block"), plural(*code.Loops, "loop"))
		}
		lines = append(lines, line)
		if len(code.Patterns) > 0 {
			lines = append(lines, code.what+" patterns: "+escape.Text(strings.Join(code.Patterns, ", ")))
		}
		for _, a := range code.Memory {
			bits := ""
			if a.Bits > 0 {
				bits = fmt.Sprintf(" of %d bits", a.Bits)
			}
			lines = append(lines, fmt.Sprintf("%s %s %s%s: %d", code.what, escape.Text(a.Space), escape.Text(a.Kind), bits,
				a.Count))
		}
	}
	for _, e := range []struct {
		what string
		*artifact.Extent
	}{{"at most", m.MaxThreads}, {"exactly", m.ReqThreads}} {
		if e.Extent != nil {
			lines = append(lines, fmt.Sprintf("threads per block: %s %d (%d x %d x %d, %s)", e.what, e.Threads(), e.X, e.Y, e.Z,
				origins[e.Origin]))
		}
	}
	return lines
}

// sortedCounts are "name n", the largest first.
func sortedCounts[K comparable](counts map[K]int, name func(K) string) []string {
	keys := make([]K, 0, len(counts))
	for k := range counts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y K) int {
		if d := counts[y] - counts[x]; d != 0 {
			return d
		}
		return strings.Compare(name(x), name(y))
	})
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = fmt.Sprintf("%s %d", escape.Text(name(k)), counts[k])
	}
	return out
}

// ArtifactsText writes the figures of kernels as a table: one line per kernel and architecture.
func ArtifactsText(w io.Writer, d *inspect.Document, opt TextOptions) error {
	t := &texter{out: bufio.NewWriterSize(w, 1<<16), opt: opt}
	if len(d.Kernels) > 0 {
		t.artifacts(d.Kernels)
	}
	if len(d.Kernels) > 0 && len(d.Unread) > 0 {
		t.line("")
	}
	t.unread(d)
	return t.out.Flush()
}

// snapshotKernels are the kernels of a snapshot as they are found in a document.
func snapshotKernels(s *inspect.Snapshot) []inspect.Kernel {
	out := make([]inspect.Kernel, len(s.Kernels))
	for i := range s.Kernels {
		r := &s.Kernels[i]
		out[i] = inspect.Kernel{Name: r.Name, Kernel: r.Metrics.Kernel, Arch: r.Metrics.Arch, Metrics: &r.Metrics}
	}
	return out
}

// artifacts prints the table.
func (t *texter) artifacts(kernels []inspect.Kernel) {
	rows := [][]string{{"kernel", "arch", "from", "registers", "spills", "stack", "local", "shared", "instructions"}}
	var unknown, estimated, dynamic bool
	for i := range kernels {
		m := kernels[i].Metrics
		name := kernels[i].Label()
		if name != m.Kernel {
			name += ":" + m.Kernel
		}
		var kinds []string
		for _, s := range m.Sources {
			kinds = append(kinds, string(s.Kind))
		}
		row := []string{escape.Text(name), escape.Text(m.Arch), strings.Join(kinds, "+")}
		for _, f := range []*artifact.Figure{m.Registers, m.Spills(), m.Stack, m.Local, m.SharedStatic, m.Instructions()} {
			cell := "-"
			if f != nil {
				cell = strconv.Itoa(f.Value)
			}
			if f.Estimated() {
				cell = "~" + cell
			}
			unknown, estimated = unknown || f == nil, estimated || f.Estimated()
			row = append(row, cell)
		}
		if m.SharedDynamic != nil && *m.SharedDynamic {
			row[len(row)-2] += "+"
			dynamic = true
		}
		rows = append(rows, row)
	}
	for _, line := range columns(rows, 3) {
		t.line(line)
	}
	var legend []string
	for _, l := range []struct {
		when bool
		text string
	}{{estimated, "~ estimated from PTX"}, {unknown, "- not known from these files"},
		{dynamic, "+ and what the launch adds"}} {
		if l.when {
			legend = append(legend, l.text)
		}
	}
	if len(legend) > 0 {
		t.line(strings.Join(legend, "; "))
	}
	if t.opt.Verbose {
		for i := range kernels {
			t.line("")
			t.line(t.paint(bold, escape.Text(kernels[i].Label())))
			for _, line := range codeLines(kernels[i].Metrics) {
				t.line("  " + line)
			}
		}
	}
}
