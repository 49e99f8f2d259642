package ptxvm

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/litmus"
)

// This file implements the comparison of the check for races with the axioms of the PTX memory model: every program of
// litmus.Set, as a kernel, with all checks. What to expect comes from the axioms, and from nothing here.

// litmusResult is what the axioms and the emulator say of a program.
type litmusResult struct {
	program  *litmus.Program
	axioms   litmus.Decision
	findings []Finding
}

// litmusResults runs all programs.
func litmusResults(t *testing.T) []litmusResult {
	t.Helper()
	programs, err := litmus.Set()
	if err != nil {
		t.Fatal(err)
	}
	var out []litmusResult
	for _, p := range programs {
		d, err := p.Decide()
		if err != nil {
			t.Fatal(err)
		}
		findings, err := litmusRun(p)
		if err != nil {
			t.Fatalf("%s/%s: %v", p.Family, p.Name, err)
		}
		out = append(out, litmusResult{p, d, findings})
	}
	return out
}

// litmusRun executes a program twice, with one worker and with one for each block, which has to be the same.
func litmusRun(p *litmus.Program) ([]Finding, error) {
	k := p.PTX()
	f, err := ptx.Parse(p.Name+".ptx", k.PTX)
	if err != nil {
		return nil, err
	}
	prog, err := Load(f, k.Entry)
	if err != nil {
		return nil, err
	}
	run := func(workers int) (*Result, error) {
		l := &Launch{Grid: Dim{k.Blocks, 1, 1}, Block: Dim{k.Threads, 1, 1}, MaxSteps: 1 << 20, Workers: workers, dealt: true}
		for _, b := range k.Buffers {
			l.Args = append(l.Args, Arg{Name: b.Name, Buffer: slices.Clone(b.Data), Role: InOut})
		}
		return prog.Run(l)
	}
	alone, err := run(1)
	if err != nil {
		return nil, err
	}
	each, err := run(k.Blocks)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(each.Findings, alone.Findings) {
		return nil, fmt.Errorf("%d findings with a worker for each block, %d or others with one for all",
			len(each.Findings), len(alone.Findings))
	}
	return alone.Findings, nil
}

// classes are those of the findings, each once.
func (r *litmusResult) classes() []Class {
	var out []Class
	for i := range r.findings {
		out = append(out, r.findings[i].Class)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// found reports whether the emulator has seen a race. What an asynchronous copy races with may have its own class.
func (r *litmusResult) found() bool {
	classes := r.classes()
	return slices.Contains(classes, Race) || r.axioms.Async && slices.Contains(classes, AsyncHazard)
}

// fault says what the emulator has wrong, "" for nothing. A race that only some executions have need not be in the one
// that it runs, unless that is the one in which threads run in turn; one of equal values may be left out. A note is no
// race; sound programs have no findings at all.
func (r *litmusResult) fault() string {
	switch {
	case r.axioms.Verdict == litmus.Race && (r.axioms.Always || r.axioms.InTurn) && !r.found():
		return fmt.Sprintf("no race, want one: %q and %q", r.axioms.First, r.axioms.Second)
	case r.axioms.Verdict == litmus.Note && slices.Contains(r.classes(), Race):
		return "a race, want none: lanes store one value in one instruction"
	case r.axioms.Verdict == litmus.Silent && len(r.findings) > 0:
		return fmt.Sprintf("%v, want nothing", &r.findings[0])
	}
	return ""
}

// litmusMissed are the programs whose race is not found, and why. Once one is found, its line has to go.
var litmusMissed = map[string]string{}

// TestLitmus compares the emulator with the axioms.
func TestLitmus(t *testing.T) {
	results := litmusResults(t)
	right, races, silent := 0, 0, 0
	for i := range results {
		r := &results[i]
		_, missed := litmusMissed[r.program.Family+"/"+r.program.Name]
		if why := r.fault(); why != "" && missed && r.axioms.Verdict == litmus.Race {
			continue
		} else if why == "" && missed {
			t.Errorf("%s/%s is judged as the axioms do: take it out of litmusMissed", r.program.Family, r.program.Name)
		} else if why != "" {
			t.Errorf("%s/%s (%s): %s", r.program.Family, r.program.Name, r.program.Title, why)
		} else {
			right++
		}
		switch r.axioms.Verdict {
		case litmus.Race:
			races++
		case litmus.Silent:
			silent++
		}
	}
	if races < 60 || silent < 60 {
		t.Errorf("%d programs with a race and %d without, want at least 60 of each", races, silent)
	}
	t.Logf("%d of %d programs are judged as the axioms do", right, len(results))
}

// TestLitmusEvidence makes docs/evidence/litmus.md.
func TestLitmusEvidence(t *testing.T) {
	results := litmusResults(t)
	var page bytes.Buffer
	fmt.Fprintf(&page, `# Litmus programs: the axioms and the emulator

Made by %[1]sgo test ./internal/ptxvm -run TestLitmusEvidence -update%[1]s; a test keeps it current.

Small programs of a few threads, judged twice. %[1]sinternal/testkit/litmus%[1]s enumerates their executions under the
axioms of the PTX memory model ("Memory Consistency Model", PTX ISA) and decides whether one of them has a data race.
It shares no code with the emulator. The same program, written as a kernel, then runs in the emulator with all checks.

"race" of the axioms: every execution has one, or the one in which threads run in turn; the emulator has to find it.
"race, other orders": it takes an order of threads that one launch may not run. "race, reordering": no order of threads
shows it, only hardware that reorders instructions. "race of equal values": two stores of one value to one place, which
race by the letter; the emulator may report them or not. "note": the same by lanes of a warp in one instruction, which
is no finding. Programs with an entry under "fixes" are the smallest fix of the program named there.

`, "`")
	litmusSummary(&page, results)
	litmusMatrix(&page, results)
	litmusFamilies(&page, results)
	testkit.Golden(t, "../../docs/evidence/litmus.md", page.Bytes())
}

// says is the axioms' verdict in words.
func says(d *litmus.Decision) string {
	switch {
	case d.Reordered:
		return "race, reordering"
	case d.Verdict == litmus.Race && !d.Always && !d.InTurn:
		return "race, other orders"
	}
	return d.Verdict.String()
}

// emulatorSays is the emulator's verdict, marked where it is wrong.
func (r *litmusResult) emulatorSays() string {
	var words []string
	for _, c := range r.classes() {
		words = append(words, string(c))
	}
	text := strings.Join(words, ", ")
	if text == "" {
		text = "silent"
	}
	if r.fault() != "" {
		text = "**" + text + "**"
	}
	return text
}

func litmusSummary(page *bytes.Buffer, results []litmusResult) {
	total, found, wrong := map[string]int{}, map[string]int{}, 0
	kinds := []string{"race", "race, other orders", "race, reordering", "race of equal values", "note", "silent"}
	for i := range results {
		r := &results[i]
		total[says(&r.axioms)]++
		if r.found() {
			found[says(&r.axioms)]++
		}
		if r.fault() != "" {
			wrong++
		}
	}
	page.WriteString("| axioms | programs | the emulator reports a race |\n|---|---:|---:|\n")
	for _, kind := range kinds {
		fmt.Fprintf(page, "| %s | %d | %d |\n", kind, total[kind], found[kind])
	}
	if wrong == 0 {
		fmt.Fprintf(page, "\nThe emulator agrees on all %d programs.\n\n", len(results))
		return
	}
	fmt.Fprintf(page, "\nThe emulator disagrees on %d of %d programs; they are in bold below:\n\n", wrong, len(results))
	for _, name := range slices.Sorted(maps.Keys(litmusMissed)) {
		fmt.Fprintf(page, "- `%s` is missed: %s.\n", name, litmusMissed[name])
	}
	page.WriteString("\n")
}

// litmusMatrix writes message passing as a table: rows are the writer, columns the reader.
func litmusMatrix(page *bytes.Buffer, results []litmusResult) {
	page.WriteString(`## Message passing between blocks

The writer stores x = 1, executes a fence and stores the flag; the reader spins on the flag, executes a fence and loads
x. The fences are none, fence.acq_rel.cta, fence.acq_rel.gpu and fence.sc.gpu; flags have device scope. Bold: the
emulator disagrees.

| store of the flag | fence before it | load of the flag | none | cta | gpu | sc |
|---|---|---|---|---|---|---|
`)
	var row []string
	for i := range results {
		r := &results[i]
		if r.program.Family != "messages" {
			continue
		}
		cell := r.axioms.Verdict.String()
		if r.fault() != "" {
			cell = "**" + cell + "**"
		}
		row = append(row, cell)
		if len(row) == 4 {
			part := strings.Split(r.program.Name, "-")
			fmt.Fprintf(page, "| %s | %s | %s | %s |\n", part[0], part[1], part[2], strings.Join(row, " | "))
			row = nil
		}
	}
}

// litmusFamilies writes all other programs.
func litmusFamilies(page *bytes.Buffer, results []litmusResult) {
	family := ""
	for i := range results {
		r := &results[i]
		if r.program.Family == "messages" {
			continue
		}
		if r.program.Family != family {
			family = r.program.Family
			fmt.Fprintf(page, "\n## %s\n\n| program | | fixes | axioms | emulator |\n|---|---|---|---|---|\n", family)
		}
		fixes := ""
		if r.program.Fixes != "" {
			fixes = "`" + r.program.Fixes + "`"
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s |\n", r.program.Name, r.program.Title, fixes, says(&r.axioms),
			r.emulatorSays())
	}
}
