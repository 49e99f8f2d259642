package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/emulation"
	"gpuemu/internal/escape"
	"gpuemu/internal/tensor"
)

// This file implements what emulate says of a launch, and the files it writes.

// placeText is a line of PTX and the lines of the source it was made of.
func placeText(ptxFile string, ptxLine int, source []emulation.Place) string {
	text := fmt.Sprintf("%s:%d", ptxFile, ptxLine)
	for i, at := range source {
		text += []string{" (", ", inlined at "}[min(i, 1)] + fmt.Sprintf("%s:%d", at.Source, at.Line)
	}
	if len(source) > 0 {
		text += ")"
	}
	return text
}

// printEmulation prints the result for people in a hurry: the last line says it all.
func printEmulation(t *terminal, d *emulation.Document) {
	shared := ""
	if d.DynamicShared > 0 {
		shared = fmt.Sprintf(", %d bytes of dynamic shared memory", d.DynamicShared)
	}
	t.print(escape.Text(fmt.Sprintf("%s (%s, %s:%d): grid %s, block %s%s", d.Kernel, d.Target, d.PTX, d.Line,
		sizeText(d.Grid), sizeText(d.Block), shared)))
	orders, checks := "", "no checks"
	if d.Schedules > 1 {
		orders = fmt.Sprintf(" in %d orders", d.Schedules)
	}
	if len(d.Checks) > 0 {
		checks = "checks: " + strings.Join(d.Checks, ", ")
	}
	t.print(fmt.Sprintf("  %d instructions of warps%s in %s; %s", d.Instructions, orders, duration(d.Seconds), checks))
	if d.SFU != "" {
		t.print("  approximate instructions: the " + map[string]string{"worst+": "largest", "worst-": "smallest"}[d.SFU] +
			" results inside their bounds")
	}
	if d.Contract {
		t.print("  products are fused with additions")
	}
	if d.Counters != nil {
		printCounters(t, d.Counters)
	}
	for line := range strings.Lines(d.Printed) {
		t.print("  printf: " + escape.Text(strings.TrimSuffix(line, "\n")))
	}
	for i := range d.Findings {
		printFinding(t, &d.Findings[i], d.PTX)
	}
	if d.Dropped > 0 {
		t.print(fmt.Sprintf("  and %s elsewhere", plural(d.Dropped, "finding")))
	}
	for i := range d.Expected {
		t.print(escape.Text("  " + comparisonText(&d.Expected[i])))
	}
	for _, file := range d.Outputs {
		t.print(escape.Text("  wrote " + file))
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
		t.print(fmt.Sprintf("FAILED: %s, %s of %d not as expected", findings, plural(d.WrongOutputs(), "output"),
			len(d.Expected)))
	}
}

// printFinding prints a finding: what and where, then the instruction.
func printFinding(t *terminal, f *emulation.Finding, ptxFile string) {
	var source []emulation.Place
	if f.Line > 0 {
		source = append([]emulation.Place{{Source: f.Source, Line: f.Line}}, f.InlinedAt...)
	}
	place := placeText(ptxFile, f.PTXLine, source)
	if f.Instruction == "" { // nobody in particular did it
		t.print(escape.Text(fmt.Sprintf("  %s: %s: %s", f.Class, place, f.Message)))
		return
	}
	times := ""
	if f.Count > 1 {
		times = fmt.Sprintf(" (%d times)", f.Count)
	}
	t.print(escape.Text(fmt.Sprintf("  %s: %s: block %s, thread %s: %s%s", f.Class, place, sizeText(f.Block),
		sizeText(f.Thread), f.Message, times)))
	var operands []string
	for _, o := range f.Operands {
		operands = append(operands, o.Register+" = "+o.Value)
	}
	values := ""
	if len(operands) > 0 {
		values = " (" + strings.Join(operands, ", ") + ")"
	}
	t.print(escape.Text("    " + f.Instruction + values))
}

// plural is a number of things.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// comparisonText is an output in one line.
func comparisonText(c *emulation.Comparison) string {
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
func (e *emulator) checkOutputs() error {
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
		!strings.ContainsAny(name, `/\:`) && escape.Text(name) == name
}

// writeOutputs writes what the kernel left in its outputs, findings or not: they show what went wrong.
func (e *emulator) writeOutputs() error {
	var named []tensor.Named
	for i := range e.launch.Args {
		if a := &e.launch.Args[i]; a.Role.Written() {
			named = append(named, tensor.Named{Name: a.Name, Tensor: a.Tensor()})
		}
	}
	path := filepath.Join(e.flags.dir, "outputs.safetensors")
	err := tensor.SaveSafetensors(context.Background(), path, named, map[string]string{"kernel": e.doc.Kernel})
	if err != nil {
		return command.NotRun(err)
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
