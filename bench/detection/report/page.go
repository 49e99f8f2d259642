package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// This file implements the writing of pages: headings, paragraphs and tables of Markdown.

// page is a Markdown file that grows.
type page struct{ bytes.Buffer }

func (p *page) heading(level int, title string) {
	fmt.Fprintf(p, "%s %s\n\n", strings.Repeat("#", level), title)
}

// file is the page as it is written: one line break at its end.
func (p *page) file() []byte { return append(bytes.TrimRight(p.Bytes(), "\n"), '\n') }

// lineWidth is how long the lines of a paragraph are.
const lineWidth = 118

// para writes a paragraph, broken into lines.
func (p *page) para(format string, args ...any) {
	line := 0
	for i, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case line+1+n > lineWidth:
			p.WriteByte('\n')
			line = 0
		default:
			p.WriteByte(' ')
			line++
		}
		p.WriteString(word)
		line += n
	}
	p.WriteString("\n\n")
}

// table is a table of Markdown. A column whose title starts with ">" is set flush right.
type table struct {
	columns []string
	rows    [][]string
}

func newTable(columns ...string) *table { return &table{columns: columns} }

// row adds a row; cells are printed as they are.
func (t *table) row(cells ...any) {
	row := make([]string, len(t.columns))
	for i, c := range cells {
		row[i] = cell(fmt.Sprint(c))
	}
	t.rows = append(t.rows, row)
}

// cell makes text fit for a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(s), "\n", " "), "|", "\\|")
}

func (t *table) String() string {
	var b strings.Builder
	b.WriteString("|")
	for _, c := range t.columns {
		b.WriteString(" " + strings.TrimPrefix(c, ">") + " |")
	}
	b.WriteString("\n|")
	for _, c := range t.columns {
		if strings.HasPrefix(c, ">") {
			b.WriteString("---:|")
		} else {
			b.WriteString("---|")
		}
	}
	b.WriteString("\n")
	for _, r := range t.rows {
		b.WriteString("| " + strings.Join(r, " | ") + " |\n")
	}
	return b.String()
}

// table writes a table, or one sentence where it has no rows.
func (p *page) table(t *table, empty string) {
	if len(t.rows) == 0 {
		p.para("%s", empty)
		return
	}
	p.WriteString(t.String() + "\n")
}

// code sets text as code in a cell: where it has backquotes itself, between two.
func code(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return ""
	}
	if strings.Contains(s, "`") {
		return "`` " + s + " ``"
	}
	return "`" + s + "`"
}

// count prints a number of cases; never is a dash.
func count(n int) string {
	if n == never {
		return "–"
	}
	return fmt.Sprint(n)
}

// duration prints seconds; infinity is a dash.
func duration(s float64) string {
	switch {
	case math.IsInf(s, 1):
		return "–"
	case s < 0.01:
		return "< 0.01 s"
	case s < 1:
		return fmt.Sprintf("%.2f s", s)
	case s < 100:
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%.0f s", s)
}

// sources writes which records a page was made of.
func (p *page) sources(d *dataset, runs ...string) {
	p.heading(2, "Records")
	t := newTable("file", "command", "commit", "machine", "date", "note")
	for _, s := range d.sources {
		if !s.holds(runs) {
			continue
		}
		h := s.header
		t.row(code("bench/detection/records/"+s.name), code(h.Command), code(h.Commit), h.Machine, h.Date, h.Note)
	}
	p.table(t, "There are no records yet.")
}
