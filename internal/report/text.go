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
		t.sentence("note: ", clean(note))
	}
	t.line("")
	conclusion, paint := clean(s.Conclusion()), green
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
	out     *bufio.Writer
	opt     TextOptions
	source  *Source
	replays replays
	groups  []*group
	byKey   map[group]*group
	shown   map[string]int // failures by op
	mapped  bool           // an error map was drawn
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
		parts = append(parts, "project "+clean(sum.Project))
	}
	parts = append(parts, "seed "+strconv.FormatUint(uint64(sum.Seed), 10))
	if sum.Campaign != "" {
		parts = append(parts, "campaign "+clean(sum.Campaign))
	}
	if sum.Shard != "" {
		parts = append(parts, fmt.Sprintf("shard %s of %d cases", clean(sum.Shard), sum.PlannedTotal))
	}
	kind := "gpuemu"
	if sum.Kind != "" {
		kind += " " + clean(sum.Kind)
	}
	t.line(t.paint(bold, kind) + ": " + strings.Join(parts, ", "))
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
		row := []string{clean(op.Op), clean(strings.Join(op.DTypes, ","))}
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
			t.sentence("FAIL ", clean(ops[i].Op)+" "+clean(b.DType)+", all cases: "+b.Sentence())
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

// survey is the first look at a result: seeds of failures, reasons of what was not run.
func (t *texter) survey(r *verdict.Result) error {
	t.replays.add(r)
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

// failure prints one failed case. The last one that is shown of an op says how many there are besides.
func (t *texter) failure(r *verdict.Result) error {
	if !r.Verdict.Failed() {
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
	withMap := t.opt.Verbose || !t.mapped
	t.line("")
	t.line(t.paint(red, strings.ToUpper(r.Verdict.String())) + " " + t.paint(bold, clean(r.Op)) + " " + clean(r.DType) +
		" (" + clean(string(r.Reason)) + ")")
	if r.Case != "" {
		t.line("  case: " + clean(r.Case))
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
	if command := t.replays.command(r); command != "" {
		t.line("  replay: " + command)
	}
	if t.shown[r.Op] == maxFailures && !t.opt.Verbose && t.failed(r.Op) > maxFailures {
		t.line("")
		t.line(fmt.Sprintf("%d more of %s failed; -v shows them all", t.failed(r.Op)-maxFailures, clean(r.Op)))
	}
	return nil
}

// briefly prints the n-th failure of an op in one line: its command, so that every failure has one. Of thousands the
// last ones are left to gpuemu failures.
func (t *texter) briefly(r *verdict.Result, n int) {
	command := t.replays.command(r)
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
		text := clean(string(g.reason))
		if g.message != "" {
			text += ": " + clean(g.message)
		}
		t.sentence(fmt.Sprintf("  %6d × ", g.count), text)
		if g.hint != "" && !hints[g.hint] {
			hints[g.hint] = true
			t.sentence("           hint: ", clean(g.hint))
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
			where = " of " + clean(h.Op)
		}
		t.sentence("health: ", clean(h.Check)+where+": "+clean(h.Message))
		if h.Hint != "" {
			t.sentence("        hint: ", clean(h.Hint))
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
