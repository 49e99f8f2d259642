package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
)

// This file implements all printing: results to standard output, everything else to standard error. Whatever a receipt,
// a name or a path says is printed with its control characters written out: a line that begins with "::" or an escape
// sequence must not steer a CI system or a terminal.

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

// clean writes out what a terminal or a log would obey: control characters, those that turn the direction of text,
// bytes that are no UTF-8, and the second of two "#". With those begin commands that a CI system finds anywhere in a
// line: "##[set-output name=x;]y" of GitHub's runner (its ActionCommand.TryParse), "##vso[…" of Azure's agent,
// "##teamcity[…".
func clean(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069,
			r == 0x200e || r == 0x200f || r == 0x061c || r == 0xfeff:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return strings.ReplaceAll(b.String(), "##", `#\x23`)
}

// line cleans text that is a line of its own. One that begins with "::" after blanks is a command to GitHub's runner.
func line(text string) string {
	text = clean(text)
	rest := strings.TrimLeftFunc(text, unicode.IsSpace)
	if strings.HasPrefix(rest, "::") {
		return text[:len(text)-len(rest)] + `\x3a` + rest[1:]
	}
	return text
}

// print writes one line of a result.
func (t *terminal) print(format string, args ...any) {
	t.out.WriteString(line(fmt.Sprintf(format, args...)))
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
	fmt.Fprintln(t.err, line(fmt.Sprintf(format, args...)))
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
	fmt.Fprintf(t.err, "%s: %s\n", t.name, clean(err.Error()))
	if hint := diag.HintOf(err); hint != "" {
		fmt.Fprintln(t.err, "hint:", clean(hint))
	}
}

// printJSON writes a result as indented JSON. Control characters are escaped by the encoding itself; two "#" stand in
// strings only, where the second is as good as an escape.
func (t *terminal) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = t.out.Write(append(bytes.ReplaceAll(b, []byte("##"), []byte(`#\u0023`)), '\n'))
	}
	if err != nil {
		return command.NotRun(diag.Errorf(WriteFailed, "", "standard output: %w", err))
	}
	return nil
}
