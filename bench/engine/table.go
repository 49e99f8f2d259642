// This file implements the table of results as text and markdown.

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"unicode/utf8"

	"gpuemu/bench/machine"
)

var heads = [7]string{"row", "ours", "theirs", "figure", "goal", "noise", ""}

func (r *result) cells() [7]string {
	return [7]string{r.row.name, r.ours, r.theirs, number(r.figure) + r.unit, r.row.goal.text(r.unit),
		fmt.Sprintf("%.0f %%", 100*r.noise), r.verdict()}
}

// widths returns the width of each column: the names are known, the others have a usual width.
func widths(todo []row) [7]int {
	w := [7]int{len(heads[0]), 32, 22, 10, 10, 6, 0}
	for _, r := range todo {
		w[0] = max(w[0], utf8.RuneCountInString(r.name))
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

func printHead(w io.Writer, todo []row) { printCells(w, heads, widths(todo)) }

func printLine(w io.Writer, r *result, todo []row) { printCells(w, r.cells(), widths(todo)) }

func (b *bench) facts() ([]machine.Fact, error) {
	const script = "import platform, numpy; print('numpy', numpy.__version__ + ', Python', platform.python_version())"
	peer, err := exec.Command(b.python, "-c", script).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w (bench/engine/run.sh sets numpy up)", b.python, err)
	}
	program, err := exec.Command(b.program, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w (bench/engine/run.sh builds it)", b.program, err)
	}
	return []machine.Fact{
		machine.Processor(),
		{Name: "program", Value: strings.TrimSpace(string(program))},
		{Name: "peer", Value: strings.TrimSpace(string(peer))},
		{Name: "method", Value: fmt.Sprintf("best of %d samples, both sides in turns; stores in %s", b.rounds, os.TempDir())},
		machine.Load(), machine.Date(),
	}, nil
}

// markdown returns the page: facts, table, what is short and why, and what the rows do.
func markdown(facts []machine.Fact, results []result) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# The engine\n\nWritten by `make bench BENCHFLAGS=\"engine -o docs/evidence/engine.md\"`: "+
		"the program on projects and over its socket. Both\nsides of a row are measured in turns, in one run on one "+
		"machine, and the best sample of each counts. Noise is how much\nslower than the best sample the median was, "+
		"on the noisier side. Rows without a goal are for information. CPU is that of\nthe program and all its "+
		"workers.\n\n")
	machine.Markdown(&out, facts)
	fmt.Fprintf(&out, "\n| %s |\n|%s\n", strings.Join(heads[:], " | "), strings.Repeat("---|", len(heads)))
	for i := range results {
		cells := results[i].cells()
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells[:], " | "))
	}
	writeShort(&out, results)
	writeNotes(&out, results)
	return out.Bytes()
}

// writeShort says which rows miss their goal, by how much and why.
func writeShort(out *bytes.Buffer, results []result) {
	goals, met := 0, 0
	var text bytes.Buffer
	for i := range results {
		r := &results[i]
		if r.row.goal == (goal{}) {
			continue
		}
		goals++
		if r.met() {
			met++
			continue
		}
		fmt.Fprintf(&text, "\n**%s** is at %s%s where the goal is %s. %s\n", r.row.name, number(r.figure), r.unit,
			r.row.goal.text(r.unit), r.row.why)
	}
	fmt.Fprintf(out, "\n## Goals\n\n%d of %d goals are met.\n%s", met, goals, text.String())
}

// writeNotes says what the rows do; rows next to each other may share a note.
func writeNotes(out *bytes.Buffer, results []result) {
	fmt.Fprintf(out, "\n## Rows\n\n")
	for i := 0; i < len(results); {
		note := results[i].row.note
		var names []string
		for ; i < len(results) && results[i].row.note == note; i++ {
			names = append(names, results[i].row.name)
		}
		fmt.Fprintf(out, "- %s: %s\n", strings.Join(names, "; "), note)
	}
}
