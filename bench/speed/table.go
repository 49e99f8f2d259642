// This file implements the table of results as text and markdown.

package main

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gpuemu/bench/machine"
)

// cells returns a result as the columns of the table.
func (r Result) cells() [7]string {
	ratio, ok := r.Row.Goal.ratio(r.Ours, r.Theirs)
	verdict := fmt.Sprintf("short by %.1f %%", r.Row.Goal.shortfall(ratio))
	switch {
	case r.Row.Goal == Goal{}:
		verdict = ""
	case ok:
		verdict = "ok"
	}
	return [7]string{
		r.Row.Name, r.Row.amount(r.Ours), r.Row.amount(r.Theirs), fmt.Sprintf("%.2f×", ratio), r.Row.Goal.String(),
		fmt.Sprintf("%.0f %%", 100*(r.Spread-1)), verdict,
	}
}

// amount returns a time and, where the row has a measure of work, the rate.
func (r *Row) amount(d time.Duration) string {
	s := d.Round(max(time.Nanosecond, d/1000)).String()
	if r.Work > 0 {
		s += fmt.Sprintf(" (%.3g G%s/s)", r.Work/d.Seconds(), r.Unit)
	}
	return s
}

var heads = [7]string{"row", "ours", "theirs", "ratio", "goal", "noise", ""}

// widths returns the width of each column: the names are known, the others have a usual width.
func widths(todo []Row) [7]int {
	w := [7]int{len(heads[0]), 24, 24, 7, 15, 6, 0}
	for _, r := range todo {
		w[0] = max(w[0], utf8.RuneCountInString(r.Name))
	}
	return w
}

func printCells(w io.Writer, cells [7]string, width [7]int) {
	var line strings.Builder
	for i, c := range cells {
		fmt.Fprintf(&line, "%-*s  ", width[i], c)
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}

func printHead(w io.Writer, todo []Row) { printCells(w, heads, widths(todo)) }

func printLine(w io.Writer, r Result, todo []Row) { printCells(w, r.cells(), widths(todo)) }

// shortOf yields the names of the rows that miss their goal.
func shortOf(results []Result) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, r := range results {
			if _, ok := r.Row.Goal.ratio(r.Ours, r.Theirs); !ok && !yield(r.Row.Name) {
				return
			}
		}
	}
}

func machineFacts(b *Bench) ([]machine.Fact, error) {
	p, err := b.peer(1)
	if err != nil {
		return nil, err
	}
	a, err := p.ask(request{Op: "facts"})
	if err != nil {
		return nil, err
	}
	return []machine.Fact{
		machine.Processor(),
		{Name: "Go", Value: fmt.Sprintf("%s, GOGC=%d", runtime.Version(), gcPercent)},
		{Name: "peer", Value: fmt.Sprintf("numpy %s with %s, Python %s",
			a.Facts["numpy"], a.Facts["blas"], a.Facts["python"])},
		{Name: "method", Value: fmt.Sprintf("best of %d samples of at least %v, both sides in turns", b.rounds, b.sample)},
		machine.Load(), machine.Date(),
	}, nil
}

// markdown returns the page: facts, table, what the rows do, and what is short and why.
func markdown(facts []machine.Fact, results []Result) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Speed\n\nWritten by `make bench BENCHFLAGS=\"-o docs/evidence/speed.md\"`. Both sides "+
		"of a row are timed in turns, in one run on one\nmachine, and the best sample of each counts. "+
		"A ratio is our speed over theirs, "+
		"or, where the goal is a time, our time over\ntheirs. Noise is how much slower than the best sample the median was, "+
		"on the noisier side. Rows without a goal are for\ninformation.\n\n")
	machine.Markdown(&out, facts)
	fmt.Fprintf(&out, "\n| %s |\n|%s\n", strings.Join(heads[:], " | "), strings.Repeat("---|", len(heads)))
	for _, r := range results {
		cells := r.cells()
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells[:], " | "))
	}
	writeShort(&out, results)
	writeNotes(&out, results)
	return out.Bytes()
}

// writeShort says which rows miss their goal, by how much and why.
func writeShort(out *bytes.Buffer, results []Result) {
	short := slices.Collect(shortOf(results))
	goals := 0
	for _, r := range results {
		if r.Row.Goal != (Goal{}) {
			goals++
		}
	}
	fmt.Fprintf(out, "\n## Goals\n\n%d of %d goals are met.\n", goals-len(short), goals)
	for _, r := range results {
		if !slices.Contains(short, r.Row.Name) {
			continue
		}
		ratio, _ := r.Row.Goal.ratio(r.Ours, r.Theirs)
		fmt.Fprintf(out, "\n**%s** is at %.2f× where the goal is %v: short by %.1f %%.", r.Row.Name, ratio, r.Row.Goal,
			r.Row.Goal.shortfall(ratio))
		if r.Row.Why != "" {
			fmt.Fprintf(out, " %s", r.Row.Why)
		}
		fmt.Fprintln(out)
	}
}

// writeNotes says what the rows do; rows next to each other may share a note.
func writeNotes(out *bytes.Buffer, results []Result) {
	fmt.Fprintf(out, "\n## Rows\n\n")
	for i := 0; i < len(results); {
		note := results[i].Row.Note
		var names []string
		for ; i < len(results) && results[i].Row.Note == note; i++ {
			names = append(names, results[i].Row.Name)
		}
		if note != "" {
			fmt.Fprintf(out, "- %s: %s\n", strings.Join(names, "; "), note)
		}
	}
}
