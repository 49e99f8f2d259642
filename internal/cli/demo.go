package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gpuemu/internal/command"
	"gpuemu/internal/demo"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/verdict"
)

// This file implements the command demo.

func demoCommand(t *terminal, env Env) *cobra.Command {
	format := newChoice("text", "json")
	var kernels []string
	var keep string
	var list bool
	cmd := &cobra.Command{
		Use:   "demo [--kernel NAME]... [--keep DIR] | demo --list",
		Short: "See what it finds: compiled kernels, right and wrong ones, judged on the CPU",
		Long: "Runs the kernels of the corpus that is part of this program: right ones, and re-creations of bugs that\n" +
			"public projects had. Each is judged twice: by the check that most kernels get, one shape of powers of two,\n" +
			"normal values and allclose with 1e-2, and by a campaign. Of a kernel that fails it shows the smallest case\n" +
			"that fails and what is wrong with it. No GPU, no Python, no network and no gpuemu.toml are needed, and\n" +
			"nothing is written outside a temporary directory.\n\n" +
			"With --keep the project stays in DIR, which must be empty or not there. In it, test, fuzz, reproduce and\n" +
			"minimize work as on any other; GPUEMU_HOME=DIR/home lets them know the cases of the demo.\n\n" +
			"Exit codes: 1 if a bug was missed or a right kernel accused; 3 if a kernel could not be judged; else 0.",
		Example: "  gpuemu demo\n  gpuemu demo --kernel softmax_row --keep /tmp/softmax\n  gpuemu demo --format json",
		Args:    codes.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &demonstration{term: t, env: env, asJSON: format.value == "json", keep: keep}
			switch changed := cmd.Flags().Changed; {
			case list && (changed("kernel") || changed("keep")):
				return diag.Errorf(Usage, "gpuemu demo --list has all kernels",
					"--list runs nothing: it takes no --kernel and no --keep")
			case list:
				return d.list()
			case changed("keep") && keep == "": // an unset variable of a script
				return diag.Errorf(Usage, "name a new directory", "--keep is empty")
			}
			return d.run(kernels)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&kernels, "kernel", nil, "kernel `NAME` of the corpus, with what is made of it; may be repeated")
	f.StringVar(&keep, "keep", "", "leave the project in directory `DIR`")
	f.BoolVar(&list, "list", false, "print what the corpus has, and run nothing")
	format.register(cmd, "format", "output format")
	completeWith(cmd, "kernel", func() []string {
		var names []string
		for _, e := range demo.All() {
			names = append(names, e.ID)
		}
		return names
	})
	return cmd
}

// demonstration is one run of the command.
type demonstration struct {
	term   *terminal
	env    Env
	asJSON bool
	keep   string

	cancel context.CancelCauseFunc // ends the run
	width  int                     // of the terminal; 0: none, lines have any length
	bar    *progress
	sound  bool // the heading of the correct kernels has been printed
	broken bool // that of the broken ones has
}

// list prints the corpus.
func (d *demonstration) list() error {
	entries := demo.All()
	if d.asJSON {
		return d.term.printJSON(map[string]any{"kernels": entries})
	}
	rows := [][]string{{"kernel", "op", "language", "", "what"}}
	for _, e := range entries {
		kind := "correct"
		if e.Broken {
			kind = "broken"
		}
		rows = append(rows, []string{e.ID, e.Op, e.Language, kind, titled(&e)})
	}
	d.term.printTable("", rows)
	return nil
}

// titled is what a kernel is, with the place where the bug was reported.
func titled(e *demo.Entry) string {
	if e.Ref == "" {
		return e.What
	}
	return e.What + " (" + e.Ref + ")"
}

func (d *demonstration) run(names []string) error {
	ids, err := demo.Choose(names)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // a reader that leaves must not keep the directory from being taken away
	defer signal.Reset(syscall.SIGPIPE)
	interruptible, stop := d.env.interruptible()
	defer stop()
	ctx, cancel := context.WithCancelCause(interruptible)
	defer cancel(nil)
	d.cancel = cancel
	dir, remove, err := d.directory()
	if err != nil {
		return err
	}
	defer remove()
	d.width = columns(d.term.stdout, d.env.Getenv)
	d.bar = d.term.progress("kernels")
	d.bar.delay = 0
	if !d.asJSON {
		d.head(len(ids))
	}
	doc, err := demo.Run(ctx, demo.Options{Dir: dir, IDs: ids, Now: time.Now, Progress: d.progress})
	d.bar.clear()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return command.NotRun(fileFault(err))
	}
	doc.Version = command.ReadVersion(d.env.Version).Version
	if d.asJSON {
		if err := d.term.printJSON(doc); err != nil {
			return err
		}
	} else {
		d.foot(doc)
	}
	return demoStatus(doc)
}

// demoStatus is the exit code. A bug that was missed is worse than a kernel that could not be judged.
func demoStatus(doc *demo.Document) error {
	missed := func(r demo.Row) bool { return r.Broken && r.Verdict == verdict.Pass }
	switch {
	case doc.Summary.AsExpected():
		return nil
	case doc.Summary.FalseAlarms > 0 || slices.ContainsFunc(doc.Kernels, missed):
		return &command.Status{Code: command.ExitFailed}
	}
	return &command.Status{Code: command.ExitNotRun}
}

// fileFault gives a fault of the file system, a full disk above all, a code and a way out.
func fileFault(err error) error {
	var fault *fs.PathError
	if diag.CodeOf(err) != "" || !errors.As(err, &fault) {
		return err
	}
	return diag.Errorf(WriteFailed, "make room for about 20 MB, or name another directory by TMPDIR or --keep", "%w", err)
}

// directory is where the project is written, and how it is taken away.
func (d *demonstration) directory() (string, func(), error) {
	if d.keep == "" {
		dir, err := os.MkdirTemp("", "gpuemu-demo-")
		if err != nil {
			return "", nil, command.NotRun(diag.Errorf(WriteFailed, "set TMPDIR to a directory that can be written to",
				"temporary directory: %w", err))
		}
		return dir, func() { _ = os.RemoveAll(dir) }, nil // what is left of it is in the system's hands
	}
	dir, err := filepath.Abs(d.keep)
	if err != nil {
		return "", nil, inFlag("keep", err)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", nil, diag.Errorf(Usage, "name a new directory", "--keep: %s is not empty", d.keep)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", nil, diag.Errorf(Usage, "name a directory that can be made", "--keep: %w", err)
	}
	return dir, func() {}, nil
}

// columns is the width of a terminal, 0 where there is none. COLUMNS decides where it is set.
func columns(w any, getenv func(string) string) int {
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// progress prints rows as they are finished.
func (d *demonstration) progress(p demo.Progress) {
	if p.Row != nil && !d.asJSON {
		d.bar.clear()
		d.row(p.Row)
		if err := d.term.out.Flush(); err != nil {
			d.cancel(stdoutError(err))
		}
	}
	d.bar.update(p.Done, p.Total, fmt.Sprintf("%d executed", p.Cases))
}

// Widths of columns. From wideLine on a row has all columns, below that those of a broken kernel take three lines.
const (
	wideLine     = 180
	nameColumn   = 26
	whatColumn   = 46
	closeColumn  = 10
	oursColumn   = 17
	smallColumn  = 38
	narrowIndent = "    "
)

func (d *demonstration) wide() bool { return d.width >= wideLine }

// head prints what will be done.
func (d *demonstration) head(n int) {
	d.term.print(plural(n, "compiled kernel") + " on the CPU, and what two ways of testing say of them:")
	d.term.print("  allclose  one shape of powers of two, normal values, atol = rtol = 0.01")
	d.term.print("  gpuemu    generated cases, bounds of honest errors, every memory access checked")
	_ = d.term.out.Flush() // a fault of standard output is reported in the end
}

func (d *demonstration) headings(kernel, what string) {
	line := pad(kernel, nameColumn)
	if d.wide() {
		line += pad(what, whatColumn)
	}
	line += pad("allclose", closeColumn) + pad("gpuemu", oursColumn)
	switch {
	case !d.wide() && !d.broken:
		line += what
	case d.wide() && d.broken:
		line += pad("smallest failing case", smallColumn) + "diagnosis"
	}
	d.term.print("")
	d.term.print(d.paint("1", strings.TrimRight(line, " ")))
}

// row prints one kernel.
func (d *demonstration) row(r *demo.Row) {
	switch {
	case r.Broken && !d.broken:
		d.broken = true
		d.headings("broken kernel", "what is wrong")
	case !r.Broken && !d.sound:
		d.sound = true
		d.headings("correct kernel", "what it does")
	}
	line := pad(r.ID, nameColumn) // whole where it can be: --kernel takes it
	if d.wide() {
		line = pad(shorten(r.ID, nameColumn-1), nameColumn) + pad(shorten(r.What, whatColumn-2), whatColumn)
	}
	line += d.allclose(r) + d.ours(r)
	if !r.Broken && r.Fail == nil && r.Message == "" {
		if !d.wide() {
			line += d.fitted(r.What, nameColumn+closeColumn+oursColumn)
		}
		d.term.print(strings.TrimRight(line, " "))
		return
	}
	if d.wide() {
		d.wideFailure(line, r)
		return
	}
	d.term.print(strings.TrimRight(line, " "))
	for _, text := range []string{titled(&r.Entry), failureText(r)} {
		if text == "" {
			continue
		}
		for _, line := range d.lines(escape.Text(text)) {
			d.term.print(narrowIndent + line)
		}
	}
}

// wideFailure ends a line with the smallest case and what is wrong.
func (d *demonstration) wideFailure(line string, r *demo.Row) {
	small, why := "", r.Message
	if f := r.Fail; f != nil {
		small, why = f.Short, f.Diagnosis
		if f.DiagnosisOfFirst {
			why = fmt.Sprintf("in case %d %s", r.Cases, why)
		}
	}
	left := d.width - nameColumn - whatColumn - closeColumn - oursColumn - smallColumn
	line += pad(shorten(small, smallColumn-2), smallColumn) + shorten(escape.Text(why), left)
	d.term.print(strings.TrimRight(line, " "))
}

// failureText is the smallest case and what is wrong in a sentence, or why there is no verdict. What is counted in the
// first case is not said of the smallest.
func failureText(r *demo.Row) string {
	f := r.Fail
	switch {
	case f == nil:
		return r.Message
	case f.DiagnosisOfFirst:
		return fmt.Sprintf("smallest case %s; in case %d %s", f.Short, r.Cases, f.Diagnosis)
	}
	return fmt.Sprintf("smallest case %s: %s", f.Short, f.Diagnosis)
}

// maxLines is how many lines of a terminal a sentence may take.
const maxLines = 2

// lines breaks a sentence between words, and shortens what is too much.
func (d *demonstration) lines(text string) []string {
	width := d.width - len(narrowIndent)
	if d.width == 0 || width < 1 {
		return []string{text}
	}
	var out []string
	for len([]rune(text)) > width && len(out) < maxLines-1 {
		r := []rune(text)
		end := width
		for i := width; i > width/2; i-- {
			if r[i] == ' ' {
				end = i
				break
			}
		}
		out = append(out, string(r[:end]))
		text = strings.TrimLeft(string(r[end:]), " ")
	}
	return append(out, shorten(text, width))
}

// fitted shortens a text to what a terminal has left behind a column.
func (d *demonstration) fitted(text string, column int) string {
	if d.width == 0 {
		return escape.Text(text)
	}
	return shorten(escape.Text(text), max(d.width-column, 1))
}

func (d *demonstration) allclose(r *demo.Row) string {
	text, color := "rejects", "32"
	if r.Allclose.Accepts {
		text = "accepts"
	}
	if r.Allclose.Accepts == r.Broken {
		color = "31"
	}
	return d.paint(color, pad(text, closeColumn))
}

func (d *demonstration) ours(r *demo.Row) string {
	text, color := "not run", "31"
	switch {
	case r.Verdict.Failed():
		text = fmt.Sprintf("FAIL at case %d", r.Cases)
	case r.Verdict == verdict.Pass:
		text = fmt.Sprintf("ok in %d cases", r.Cases)
	}
	if r.Broken == r.Verdict.Failed() && (r.Broken || r.Verdict == verdict.Pass) {
		color = "32"
	}
	return d.paint(color, pad(text, oursColumn))
}

// pad fills a column.
func pad(text string, n int) string {
	return text + strings.Repeat(" ", max(n-len([]rune(text)), 1))
}

func (d *demonstration) paint(code, text string) string {
	if !d.term.outColor {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// foot prints the summary and what to do next.
func (d *demonstration) foot(doc *demo.Document) {
	s := &doc.Summary
	d.term.print("")
	d.term.print(fmt.Sprintf("accepted by allclose though wrong: %d of %d", s.AllcloseAccepts, s.Broken))
	d.term.print(fmt.Sprintf("found by gpuemu:                   %d of %d", s.Found, s.Broken))
	d.term.print(fmt.Sprintf("false alarms:                      %d of %d (%s of all kernels in %.1f s)",
		s.FalseAlarms, s.Sound, plural(s.Cases, "case"), doc.Seconds))
	if s.NotRun > 0 {
		d.term.print(fmt.Sprintf("not judged:                        %d", s.NotRun))
	}
	d.term.print("")
	d.next(doc)
}

// next says what to try.
func (d *demonstration) next(doc *demo.Document) {
	if d.keep == "" {
		d.term.print("next: gpuemu demo --keep DIR   leaves the project, for reproduce and minimize")
		d.term.print("      gpuemu init              makes a project of your own kernels")
		return
	}
	for i := range doc.Kernels {
		if f := doc.Kernels[i].Fail; f != nil {
			d.term.print(fmt.Sprintf("next: cd %s; export GPUEMU_HOME=$PWD/%s", escape.Shell(d.keep),
				filepath.Base(demo.Home(""))))
			d.term.print(fmt.Sprintf("      gpuemu reproduce %d", f.Seed))
			d.term.print(fmt.Sprintf("      gpuemu minimize %d", f.Seed))
			return
		}
	}
}
