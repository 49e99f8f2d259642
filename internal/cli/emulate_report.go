package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
)

// This file implements what emulate says of a launch, and the files it writes.

// emulationDoc is the result of emulate, and its JSON form.
type emulationDoc struct {
	Status        string          `json:"status"` // passed, failed, or not_run with an error
	Kernel        string          `json:"kernel"`
	PTX           string          `json:"ptx"`
	Line          int             `json:"ptx_line"`
	Target        string          `json:"target"`
	Grid          [3]int          `json:"grid"`
	Block         [3]int          `json:"block"`
	DynamicShared int             `json:"dynamic_shared"`
	Checks        []string        `json:"checks"`
	Schedules     int             `json:"schedules"`
	Instructions  uint64          `json:"instructions"` // of warps
	Seconds       float64         `json:"seconds"`
	Printed       string          `json:"printed"` // by printf of the kernel
	Findings      []findingDoc    `json:"findings"`
	Dropped       int             `json:"findings_dropped"` // beyond the length of the list
	Expected      []comparisonDoc `json:"expected"`
	Outputs       []string        `json:"outputs"` // files
	Counters      *countersDoc    `json:"counters,omitempty"`
	Error         *refusalDoc     `json:"error,omitempty"`
}

// refusalDoc is why a kernel was not executed, or not to its end.
type refusalDoc struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// findingDoc is one finding. Source and Line are those of the source file, "" and 0 where the PTX does not say.
type findingDoc struct {
	Class       string     `json:"class"`
	Message     string     `json:"message"`
	Source      string     `json:"source"`
	Line        int        `json:"line"`
	InlinedAt   []placeDoc `json:"inlined_at"` // the innermost first
	PTXLine     int        `json:"ptx_line"`
	Block       [3]int     `json:"block"` // the first, and
	Thread      [3]int     `json:"thread"`
	Count       int        `json:"count"` // how often threads did it
	Instruction string     `json:"instruction"`
}

// placeDoc is a line of a source file.
type placeDoc struct {
	Source string `json:"source"`
	Line   int    `json:"line"`
}

// comparisonDoc is an output beside what was expected.
type comparisonDoc struct {
	Name     string    `json:"name"`
	Tensor   string    `json:"tensor"` // dtype and shape
	Rule     string    `json:"rule"`
	Elements int       `json:"elements"`
	Wrong    int       `json:"wrong"`
	Worst    *worstDoc `json:"worst,omitempty"`
}

// worstDoc is the element that is furthest off. Numbers are texts: JSON has no NaN, and a double no 64-bit integer.
type worstDoc struct {
	Index []int  `json:"index"`
	Got   string `json:"got"`
	Want  string `json:"want"`
	ULP   string `json:"ulp"` // "" from a NaN to a number
	Abs   string `json:"abs"`
}

// add takes a finding of the emulator.
func (d *emulationDoc) add(f *ptxvm.Finding) {
	doc := findingDoc{Class: string(f.Class), Message: f.Message, Count: f.Count, PTXLine: f.PTX.Line,
		Block: [3]int{f.Block.X, f.Block.Y, f.Block.Z}, Thread: [3]int{f.Thread.X, f.Thread.Y, f.Thread.Z},
		InlinedAt: []placeDoc{}}
	if list := places(f.Source); len(list) > 0 {
		doc.Source, doc.Line = list[0].Source, list[0].Line
		doc.InlinedAt = append(doc.InlinedAt, list[1:]...)
	}
	if f.Instr != nil {
		doc.Instruction = f.Instr.String()
	}
	d.Findings = append(d.Findings, doc)
}

// places are the lines of source files, without those for which the compiler names none.
func places(source []diag.Pos) (list []placeDoc) {
	for _, at := range source {
		if at.Line > 0 {
			list = append(list, placeDoc{path.Clean(at.File), at.Line})
		}
	}
	return list
}

// placeText is a line of PTX and the lines of the source it was made of.
func placeText(ptxFile string, ptxLine int, source []placeDoc) string {
	text := fmt.Sprintf("%s:%d", ptxFile, ptxLine)
	for i, at := range source {
		text += []string{" (", ", inlined at "}[min(i, 1)] + fmt.Sprintf("%s:%d", at.Source, at.Line)
	}
	if len(source) > 0 {
		text += ")"
	}
	return text
}

// compare takes an output that something is expected of.
func (d *emulationDoc) compare(x *launchfile.Expected, a *launchfile.Arg) {
	c := x.Compare(a)
	doc := comparisonDoc{Name: x.Name, Tensor: a.DType.String() + a.Shape.String(), Rule: x.Rule(), Elements: c.Elems,
		Wrong: c.Wrong}
	if c.Wrong > 0 {
		doc.Worst = &worstDoc{Index: c.Index, Got: c.Got, Want: c.Want,
			Abs: strconv.FormatFloat(c.Abs, 'g', 6, 64)}
		if c.ULP != 1<<64-1 {
			doc.Worst.ULP = strconv.FormatUint(c.ULP, 10)
		}
	}
	d.Expected = append(d.Expected, doc)
}

// conclude sets the status, and makes lists of what is absent: JSON has them empty, not null.
func (d *emulationDoc) conclude() {
	switch {
	case d.Error != nil:
		d.Status = "not_run"
	case len(d.Findings) > 0 || d.wrong() > 0:
		d.Status = "failed"
	default:
		d.Status = "passed"
	}
	d.Checks = append([]string{}, d.Checks...)
	d.Findings = append([]findingDoc{}, d.Findings...)
	d.Expected = append([]comparisonDoc{}, d.Expected...)
	d.Outputs = append([]string{}, d.Outputs...)
}

// wrong is how many outputs are not as expected.
func (d *emulationDoc) wrong() (n int) {
	for i := range d.Expected {
		if d.Expected[i].Wrong > 0 {
			n++
		}
	}
	return n
}

// text prints the result for people in a hurry: the last line says it all.
func (d *emulationDoc) text(t *terminal) {
	shared := ""
	if d.DynamicShared > 0 {
		shared = fmt.Sprintf(", %d bytes of dynamic shared memory", d.DynamicShared)
	}
	t.print(printable(fmt.Sprintf("%s (%s, %s:%d): grid %s, block %s%s", d.Kernel, d.Target, d.PTX, d.Line,
		sizeText(d.Grid), sizeText(d.Block), shared)))
	orders, checks := "", "no checks"
	if d.Schedules > 1 {
		orders = fmt.Sprintf(" in %d orders", d.Schedules)
	}
	if len(d.Checks) > 0 {
		checks = "checks: " + strings.Join(d.Checks, ", ")
	}
	t.print(fmt.Sprintf("  %d instructions of warps%s in %s; %s", d.Instructions, orders, duration(d.Seconds), checks))
	if d.Counters != nil {
		d.Counters.text(t)
	}
	for line := range strings.Lines(d.Printed) {
		t.print("  printf: " + printable(strings.TrimSuffix(line, "\n")))
	}
	for i := range d.Findings {
		d.Findings[i].text(t, d.PTX)
	}
	if d.Dropped > 0 {
		t.print(fmt.Sprintf("  and %s elsewhere", plural(d.Dropped, "finding")))
	}
	for i := range d.Expected {
		t.print(printable("  " + d.Expected[i].text()))
	}
	for _, file := range d.Outputs {
		t.print(printable("  wrote " + file))
	}
	findings := plural(len(d.Findings)+d.Dropped, "finding")
	switch {
	case d.Status == "passed" && len(d.Expected) == 0:
		t.print("passed: no findings; nothing was expected of the outputs")
	case d.Status == "passed":
		t.print(fmt.Sprintf("passed: no findings, %s as expected", plural(len(d.Expected), "output")))
	case len(d.Expected) == 0:
		t.print("FAILED: " + findings)
	default:
		t.print(fmt.Sprintf("FAILED: %s, %s of %d not as expected", findings, plural(d.wrong(), "output"), len(d.Expected)))
	}
}

// text prints a finding: what and where, then the instruction.
func (f *findingDoc) text(t *terminal, ptxFile string) {
	var source []placeDoc
	if f.Line > 0 {
		source = append([]placeDoc{{f.Source, f.Line}}, f.InlinedAt...)
	}
	place := placeText(ptxFile, f.PTXLine, source)
	if f.Instruction == "" { // nobody in particular did it
		t.print(printable(fmt.Sprintf("  %s: %s: %s", f.Class, place, f.Message)))
		return
	}
	times := ""
	if f.Count > 1 {
		times = fmt.Sprintf(" (%d times)", f.Count)
	}
	t.print(printable(fmt.Sprintf("  %s: %s: block %s, thread %s: %s%s", f.Class, place, sizeText(f.Block),
		sizeText(f.Thread), f.Message, times)))
	t.print(printable("    " + f.Instruction))
}

// plural is a number of things.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// text is an output in one line.
func (c *comparisonDoc) text() string {
	head := fmt.Sprintf("%s %s", c.Name, c.Tensor)
	if c.Wrong == 0 {
		return fmt.Sprintf("%s: as expected (%s)", head, c.Rule)
	}
	w := c.Worst
	off := "a NaN and a number"
	if w.ULP != "" {
		off = w.ULP + " ulp, " + w.Abs
	}
	return fmt.Sprintf("%s: WRONG: %d of %s (%s); worst at %v: got %s, want %s (%s)", head, c.Wrong,
		plural(c.Elements, "element"), c.Rule, tensor.Shape(w.Index), w.Got, w.Want, off)
}

// duration is a time in seconds that says no more than matters.
func duration(seconds float64) string {
	if seconds < 1 {
		return "less than 1 s"
	}
	return fmt.Sprintf("%.1f s", seconds)
}

// checkOutputs refuses, before time is spent, what cannot be written.
func (e *emulation) checkOutputs() error {
	if e.flags.launch != "" {
		for i := range e.launch.Args {
			if a := &e.launch.Args[i]; a.Role.Written() && !isFileName(a.Name) {
				return diag.Errorf(Usage, "rename it in the launch file", "-o: %q cannot be the name of a file", a.Name)
			}
		}
	}
	// 0700: as the inputs that gpuemu cases writes.
	if err := os.MkdirAll(e.flags.dir, 0o700); err != nil {
		return diag.Errorf(WriteFailed, "", "output %q: %w", e.flags.dir, err)
	}
	return nil
}

// isFileName reports whether a name from a file that may come from anywhere is safe as the name of a new file.
func isFileName(name string) bool {
	return name != "" && name[0] != '.' && len(name) <= 200 && filepath.IsLocal(name+".bin") &&
		!strings.ContainsAny(name, `/\:`) && printable(name) == name
}

// writeOutputs writes what the kernel left in its outputs, findings or not: they show what went wrong.
func (e *emulation) writeOutputs() error {
	var named []tensor.Named
	for i := range e.launch.Args {
		if a := &e.launch.Args[i]; a.Role.Written() {
			named = append(named, tensor.Named{Name: a.Name, Tensor: a.Tensor()})
		}
	}
	path := filepath.Join(e.flags.dir, "outputs.safetensors")
	err := tensor.SaveSafetensors(context.Background(), path, named, map[string]string{"kernel": e.doc.Kernel})
	if err != nil {
		return notRun(err)
	}
	e.doc.Outputs = append(e.doc.Outputs, path)
	if e.flags.launch == "" {
		return nil
	}
	for _, n := range named {
		path := filepath.Join(e.flags.dir, n.Name+".bin")
		err := replaceFile(path, func(w io.Writer) error {
			_, err := w.Write(n.Tensor.Data)
			return err
		})
		if err != nil {
			return err
		}
		e.doc.Outputs = append(e.doc.Outputs, path)
	}
	return nil
}
