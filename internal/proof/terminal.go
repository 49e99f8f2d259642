package proof

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
)

// This file implements all printing: results to standard output, everything else to standard error. Every line goes
// through package escape: what a receipt, a name or a path says must not steer a CI system or a terminal.

// terminal is where a command's words go.
type terminal struct {
	name string // of the program
	out  *bufio.Writer
	err  io.Writer

	verbose, noColor bool // flags

	stdout io.Writer // what out writes to
	color  bool      // whether out takes colours
	errTTY bool      // whether somebody watches standard error
}

func newTerminal(env Env) *terminal {
	return &terminal{name: env.Name, out: bufio.NewWriterSize(env.Stdout, 1<<16), stdout: env.Stdout, err: env.Stderr}
}

// configure takes flags and environment together; it runs after the flags are parsed.
func (t *terminal) configure(getenv func(string) string) {
	plain := t.noColor || getenv("NO_COLOR") != "" || getenv("GPUEMU_NO_COLOR") != ""
	t.color = !plain && isTerminal(t.stdout)
	t.errTTY = isTerminal(t.err)
}

// isTerminal reports whether w is a character device. /dev/null is one as well; colours do no harm there.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// print writes one line of a result.
func (t *terminal) print(format string, args ...any) {
	t.out.WriteString(escape.Line(fmt.Sprintf(format, args...)))
	t.out.WriteByte('\n')
}

// Colours of the word in front of a line.
const (
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
)

// mark writes a line with a word in front of it, coloured on a terminal.
func (t *terminal) mark(color, word, format string, args ...any) {
	if t.color {
		t.out.WriteString(color + word + "\x1b[0m")
	} else {
		t.out.WriteString(word)
	}
	t.print(" "+format, args...)
}

// note says something that is not the result.
func (t *terminal) note(format string, args ...any) {
	fmt.Fprintln(t.err, escape.Line(fmt.Sprintf(format, args...)))
}

// hint writes what to do about the line above it.
func (t *terminal) hint(text string) {
	if text != "" {
		t.print("  hint: %s", text)
	}
}

// detail says something only -v asks for.
func (t *terminal) detail(format string, args ...any) {
	if t.verbose {
		t.note(format, args...)
	}
}

// fail prints an error and its hint. What was printed to standard output before comes first on a terminal, too.
func (t *terminal) fail(err error) {
	_ = t.out.Flush() // a fault of standard output was reported already or is reported by Main
	fmt.Fprintf(t.err, "%s: %s\n", t.name, escape.Text(err.Error()))
	if hint := diag.HintOf(err); hint != "" {
		fmt.Fprintln(t.err, "hint:", escape.Text(hint))
	}
}

// printJSON writes a result as indented JSON.
func (t *terminal) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = t.out.Write(append(escape.JSON(b), '\n'))
	}
	if err != nil {
		return command.NotRun(diag.Errorf(WriteFailed, "", "standard output: %w", err))
	}
	return nil
}
