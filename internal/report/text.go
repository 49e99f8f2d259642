// This file implements the report for people.

package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gpuemu/internal/escape"
	"gpuemu/internal/verdict"
)

// TextOptions say how the text looks.
type TextOptions struct {
	Color   bool
	Verbose bool // every failure, with all worst elements and error maps
	Width   int  // columns to wrap sentences at; 0: no limit
}

// Limits of a text that is not verbose.
const (
	maxFailures = 3  // per op, in full
	maxBrief    = 50 // per op, as a replay command at least
	maxMessages = 5  // per reason of not_run
	maxGroups   = 64 // of reasons and messages that are told apart at all
	maxCompared = 10 // of each list of a comparison
)

// Text writes the report for people. It goes through the results twice.
func Text(w io.Writer, s Source, opt TextOptions) error {
	t := &texter{out: bufio.NewWriterSize(w, 1<<16), opt: opt, source: &s}
	t.header()
	t.table()
	if err := s.tallied(t.survey); err != nil {
		t.out.Flush()
		return err
	}
	if s.Summary.Failed > 0 {
		if err := s.Each(t.failure); err != nil {
			t.out.Flush()
			return err
		}
	}
	t.notRun()
	if err := t.lint(); err != nil {
		t.out.Flush()
		return err
	}
	if s.Artifacts != nil {
		t.line("")
		t.artifacts(snapshotKernels(s.Artifacts))
	}
	t.health()
	t.baseline()
	for _, note := range s.Notes {
		t.sentence("note: ", escape.Text(note))
	}
	t.line("")
	conclusion, paint := escape.Text(s.Conclusion()), green
	switch s.ExitCode() {
	case 1:
		paint = red
	case 3:
		paint = yellow
	}
	t.line(t.paint(paint, conclusion))
	return t.out.Flush()
}

// texter is the state of one Text.
type texter struct {
	out    *bufio.Writer
	opt    TextOptions
	source *Source
	groups []*group
	byKey  map[group]*group
	shown  map[string]int          // failures by op
	bugs   map[*verdict.Group]bool // groups of which a case was printed
	mapped bool                    // an error map was drawn
}

// group is a reason of not_run with its message, and how many cases have it.
type group struct {
	reason        verdict.Reason
	message, hint string
	count         int
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	bold   = "1"
)

func (t *texter) paint(code, text string) string {
	if !t.opt.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (t *texter) line(text string) {
	if t.opt.Color {
		text = escape.Painted(text)
	} else {
		text = escape.Block(text)
	}
	t.out.WriteString(text)
	t.out.WriteByte('\n')
}

// sentence prints clean text after a lead, wrapped.
func (t *texter) sentence(lead, text string) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(lead))
	t.line(lead + wrap(text, indent, t.opt.Width))
}

func (t *texter) header() {
	sum := &t.source.Summary
	var parts []string
	if sum.Project != "" {
		parts = append(parts, "project "+escape.Text(sum.Project))
	}
	if sum.Campaign != "" { // all that is stored has no master seed
		parts = append(parts, "seed "+strconv.FormatUint(uint64(sum.Seed), 10), "campaign "+escape.Text(sum.Campaign))
	}
	if sum.Shard != "" {
		parts = append(parts, fmt.Sprintf("shard %s of %d cases", escape.Text(sum.Shard), sum.PlannedTotal))
	}
	kind := "gpuemu"
	if sum.Kind != "" {
		kind += " " + escape.Text(sum.Kind)
	}
	head := t.paint(bold, kind)
	if len(parts) > 0 {
		head += ": " + strings.Join(parts, ", ")
	}
	t.line(head)
	t.line(fmt.Sprintf("%d of %d cases in %s", sum.Total, max(sum.Planned, sum.Total), duration(sum.Duration)))
}

// duration rounds to what people read.
func duration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// table prints the ops. The columns pass to undecided add up to cases.
func (t *texter) table() {
	ops := t.source.Summary.Ops
	if len(ops) == 0 {
		return
	}
	rows := [][]string{{"op", "dtypes", "cases", "pass", "fail", "error", "not run", "undecided", "worst error/bound"}}
	for i := range ops {
		op := &ops[i]
		row := []string{escape.Text(op.Op), escape.Text(strings.Join(op.DTypes, ","))}
		for _, n := range []int{op.Total, op.Passed, op.Failed - op.Errors, op.Errors, op.NotRun, op.Undecided} {
			row = append(row, strconv.Itoa(n))
		}
		worst := "-"
		if op.Total > op.NotRun {
			worst = digits(op.MaxRatio, 3)
		}
		rows = append(rows, append(row, worst))
	}
	t.line("")
	for i, line := range columns(rows, 2) {
		if i > 0 && (ops[i-1].Failed > 0 || len(ops[i-1].Bias) > 0) {
			line = t.paint(red, line)
		}
		t.line(line)
	}
	for i := range ops {
		for _, b := range ops[i].Bias {
			t.sentence("FAIL ", escape.Text(ops[i].Op)+" "+escape.Text(b.DType)+", all cases: "+b.Sentence())
		}
	}
}

// columns aligns a table: the first columns to the left, the others to the right, two spaces between.
func columns(rows [][]string, left int) []string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for c, cell := range row {
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
		}
	}
	var lines []string
	for _, row := range rows {
		var b strings.Builder
		for c, cell := range row {
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell))
			if c > 0 {
				b.WriteString("  ")
			}
			if c < left {
				b.WriteString(cell + pad)
			} else {
				b.WriteString(pad + cell)
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// survey is the first look at a result: reasons of what was not run.
func (t *texter) survey(r *verdict.Result) error {
	if r.Verdict != verdict.NotRun {
		return nil
	}
	key := group{reason: r.Reason, message: r.Message, hint: r.Hint}
	if t.byKey == nil {
		t.byKey = map[group]*group{}
	}
	g := t.byKey[key]
	if g == nil && len(t.byKey) >= maxGroups {
		key = group{reason: r.Reason, message: "other messages"}
		g = t.byKey[key]
	}
	if g == nil {
		c := key
		g = &c
		t.byKey[key] = g
		t.groups = append(t.groups, g)
	}
	g.count++
	return nil
}

// failure prints one failed case. Of a group it prints the smallest case, once, and how many there are; of an op whose
// failures are not grouped, the first ones in full. The last one that is shown says how many there are besides.
func (t *texter) failure(r *verdict.Result) error {
	if !r.Verdict.Failed() {
		return nil
	}
	if g := t.source.Summary.Group(r); g != nil {
		t.grouped(g, r)
		return nil
	}
	if t.shown == nil {
		t.shown = map[string]int{}
	}
	t.shown[r.Op]++
	if n := t.shown[r.Op]; n > maxFailures && !t.opt.Verbose {
		t.briefly(r, n)
		return nil
	}
	t.full(r, nil)
	if t.shown[r.Op] == maxFailures && !t.opt.Verbose && t.failed(r.Op) > maxFailures {
		t.line("")
		t.line(fmt.Sprintf("%d more of %s failed; -v shows them all", t.failed(r.Op)-maxFailures, escape.Text(r.Op)))
	}
	return nil
}

// grouped prints a case of a group: the smallest one with the first that comes, and the others on demand.
func (t *texter) grouped(g *verdict.Group, r *verdict.Result) {
	if t.bugs[g] {
		if t.opt.Verbose {
			t.full(r, nil)
		}
		return
	}
	if t.bugs == nil {
		t.bugs = map[*verdict.Group]bool{}
	}
	t.bugs[g] = true
	if g.Minimal == nil {
		t.full(r, groupLines(g, "the first"))
	} else {
		t.full(g.Minimal, groupLines(g, "the smallest"))
		if t.opt.Verbose {
			t.full(r, nil)
		} else if g.Minimal.Case != r.Case {
			t.line("  first of them: " + Replay(r))
		}
	}
	if g.Cases > 1 && !t.opt.Verbose {
		t.line(fmt.Sprintf("  and %d more; -v shows them all", g.Cases-1))
	}
}

// full prints a failed case; about are lines on the group that it stands for.
func (t *texter) full(r *verdict.Result, about []string) {
	withMap := t.opt.Verbose || !t.mapped
	t.line("")
	t.line(t.paint(red, strings.ToUpper(r.Verdict.String())) + " " + t.paint(bold, escape.Text(r.Op)) + " " +
		escape.Text(r.DType) + " (" + escape.Text(string(r.Reason)) + ")")
	for _, line := range about {
		t.line("  " + wrap(line, "    ", t.opt.Width))
	}
	if r.Case != "" {
		t.line("  case: " + escape.Text(r.Case))
	}
	for _, line := range failureLines(r, withMap, t.opt.Verbose) {
		if strings.HasPrefix(line, " ") { // elements, maps and what was printed stay as they are
			t.line("  " + line)
		} else {
			t.line("  " + wrap(line, "    ", t.opt.Width))
		}
	}
	for i := range r.Outputs {
		t.mapped = t.mapped || r.Outputs[i].Mismatched > 0 && r.Outputs[i].Map != ""
	}
	if command := Replay(r); command != "" {
		t.line("  replay: " + command)
	}
	if note := StoreNote(r); note != "" {
		t.line("  " + wrap(note, "    ", t.opt.Width))
	}
}

// briefly prints the n-th failure of an op in one line: its command, so that every failure has one. Of thousands the
// last ones are left to gpuemu failures.
func (t *texter) briefly(r *verdict.Result, n int) {
	command := Replay(r)
	switch {
	case n > maxBrief+1 || command == "":
	case n == maxBrief+1:
		t.line("  … (gpuemu failures lists the rest)")
	default:
		t.line("  replay: " + command)
	}
}

// failed is how many cases of an op failed.
func (t *texter) failed(op string) int {
	for i := range t.source.Summary.Ops {
		if t.source.Summary.Ops[i].Op == op {
			return t.source.Summary.Ops[i].Failed
		}
	}
	return 0
}

// notRun prints why cases were not run, the most frequent reason first.
func (t *texter) notRun() {
	if len(t.groups) == 0 {
		return
	}
	slices.SortStableFunc(t.groups, func(x, y *group) int { return y.count - x.count })
	t.line("")
	t.line(t.paint(yellow, plural(t.source.Summary.NotRun, "case")+" not run"))
	perReason, hidden := map[verdict.Reason]int{}, 0
	hints := map[string]bool{}
	for _, g := range t.groups {
		if perReason[g.reason]++; perReason[g.reason] > maxMessages && !t.opt.Verbose {
			hidden += g.count
			continue
		}
		text := escape.Text(string(g.reason))
		if g.message != "" {
			text += ": " + escape.Text(g.message)
		}
		t.sentence(fmt.Sprintf("  %6d × ", g.count), text)
		if g.hint != "" && !hints[g.hint] {
			hints[g.hint] = true
			t.sentence("           hint: ", escape.Text(g.hint))
		}
	}
	if hidden > 0 {
		t.line(fmt.Sprintf("  %6d × other messages; -v shows them", hidden))
	}
}

func (t *texter) health() {
	for i, h := range t.source.Summary.Health {
		if i == 0 {
			t.line("")
		}
		where := ""
		if h.Op != "" {
			where = " of " + escape.Text(h.Op)
		}
		t.sentence("health: ", escape.Text(h.Check)+where+": "+escape.Text(h.Message))
		if h.Hint != "" {
			t.sentence("        hint: ", escape.Text(h.Hint))
		}
	}
}

// baseline prints the comparison.
func (t *texter) baseline() {
	c := t.source.Baseline
	if c == nil {
		return
	}
	t.line("")
	for i, line := range c.lines(t.opt.Verbose) {
		switch {
		case i == 0 && (c.Regressed > 0 || c.Skipped != "" || c.NothingInCommon()):
			line = t.paint(yellow, line)
		case i > 0:
			line = "  " + wrap(line, "    ", t.opt.Width)
		}
		t.line(line)
	}
}
