package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
)

// This file implements all printing: results to standard output, everything else to standard error.

// terminal is where a command's words go. Results in machine formats go to out and nothing else does; prose, progress
// and errors go to err. With --json-log every message on err is one JSON object.
type terminal struct {
	out    *bufio.Writer
	stdout io.Writer // what out writes to
	err    io.Writer

	verbose, noColor, jsonLog bool   // flags
	noDaemon                  bool   // --no-daemon
	config                    string // --config

	level    slog.Level
	color    bool // whether err takes colours
	outColor bool // whether out does
	tty      bool // whether err is a terminal that people look at
}

func newTerminal(env Env) *terminal {
	return &terminal{out: bufio.NewWriterSize(env.Stdout, 1<<16), stdout: env.Stdout, err: env.Stderr}
}

// configure takes flags and environment together; it runs after the flags are parsed.
func (t *terminal) configure(getenv func(string) string) error {
	if name := getenv("GPUEMU_LOG_LEVEL"); name != "" {
		if err := t.level.UnmarshalText([]byte(name)); err != nil {
			return diag.Errorf(Usage, "use debug, info, warn or error", "GPUEMU_LOG_LEVEL is %q", name)
		}
	}
	if t.verbose {
		t.level = slog.LevelDebug
	}
	dumb := getenv("TERM") == "dumb" // a terminal that shows control sequences as text
	plain := dumb || t.noColor || t.jsonLog || getenv("NO_COLOR") != "" || getenv("GPUEMU_NO_COLOR") != ""
	t.tty = !t.jsonLog && !dumb && isTerminal(t.err)
	t.color = !plain && isTerminal(t.err)
	t.outColor = !plain && isTerminal(t.stdout)
	return nil
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

// interactive reports whether somebody watches standard error, so that a progress bar makes sense.
func (t *terminal) interactive() bool { return t.tty }

func (t *terminal) flush() error { return t.out.Flush() }

// note says something that is not the result.
func (t *terminal) note(format string, args ...any) { t.say(slog.LevelInfo, format, args...) }

// detail says something only -v asks for.
func (t *terminal) detail(format string, args ...any) { t.say(slog.LevelDebug, format, args...) }

func (t *terminal) say(level slog.Level, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	switch {
	case level < t.level:
	case t.jsonLog:
		t.logJSON(level, msg)
	default:
		fmt.Fprintln(t.err, escape.Block(msg))
	}
}

// fail prints an error and its hint. What was printed to standard output before comes first on a terminal, too.
func (t *terminal) fail(err error) {
	_ = t.out.Flush() // a fault of standard output was reported already or is reported by flush
	hint := diag.HintOf(err)
	if t.jsonLog {
		attrs := []any{"code", string(diag.CodeOf(err))}
		if hint != "" {
			attrs = append(attrs, "hint", hint)
		}
		t.logJSON(slog.LevelError, err.Error(), attrs...)
		return
	}
	prefix := "gpuemu:"
	if t.color {
		prefix = "\x1b[31mgpuemu:\x1b[0m"
	}
	fmt.Fprintln(t.err, prefix, escape.Block(err.Error()))
	if hint != "" {
		fmt.Fprintln(t.err, "hint:", escape.Block(hint))
	}
}

// logSink makes the records of a log safe; a handler writes each in one call.
type logSink struct {
	out  io.Writer
	json bool
}

func (s logSink) Write(record []byte) (int, error) {
	safe := escape.JSON
	if !s.json {
		safe = func(b []byte) []byte { return []byte(escape.Block(string(b))) }
	}
	if _, err := s.out.Write(safe(record)); err != nil {
		return 0, err
	}
	return len(record), nil
}

// logJSON prints one log record without the time: same run, same bytes.
func (t *terminal) logJSON(level slog.Level, msg string, attrs ...any) {
	handler := slog.NewJSONHandler(logSink{t.err, true}, &slog.HandlerOptions{Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		}})
	slog.New(handler).Log(context.Background(), level, msg, attrs...)
}

// wrapped joins words with commas, in lines that fit a terminal beside what stands in front of them.
func wrapped(words []string) string {
	const width = 80
	var b strings.Builder
	line := 0
	for i, w := range words {
		switch {
		case i > 0 && line+len(w) > width:
			b.WriteString(",\n  ")
			line = 2
		case i > 0:
			b.WriteString(", ")
			line += 2
		}
		b.WriteString(w)
		line += len(w)
	}
	return b.String()
}

// print writes one line of a result. bufio keeps an error until flush.
func (t *terminal) print(line string) {
	safe := escape.Block
	if t.outColor {
		safe = escape.Painted
	}
	t.out.WriteString(safe(line))
	t.out.WriteByte('\n')
}

// printChecked is print for long results: it says when standard output takes no more, so that the work can stop.
func (t *terminal) printChecked(line string) error {
	t.print(line)
	return t.broken()
}

// broken returns the error that standard output had before, if any: bufio answers every later write with it.
func (t *terminal) broken() error {
	if _, err := t.out.Write(nil); err != nil {
		return stdoutError(err)
	}
	return nil
}

func stdoutError(err error) error {
	return command.NotRun(diag.Errorf(WriteFailed, "", "standard output: %w", err))
}

// printJSON writes a result as indented JSON.
func (t *terminal) printJSON(v any) error {
	if err := encodeJSON(t.out, "", v); err != nil {
		return stdoutError(err)
	}
	return nil
}

// encodeJSON writes v and a line break; prefix stands in front of all lines but the first.
func encodeJSON(w io.Writer, prefix string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escape.JSON(b.Bytes()))
	return err
}

// jsonList prints {"name": [items]} as printJSON would, but item by item: a list may be longer than memory. Where it
// is cut short the JSON is incomplete, so that nobody takes it for the whole.
type jsonList struct {
	t    *terminal
	name string
	n    int
}

func (t *terminal) jsonList(name string) *jsonList { return &jsonList{t: t, name: name} }

// add prints one item. The error is that of standard output.
func (l *jsonList) add(item any) error {
	if l.n == 0 {
		fmt.Fprintf(l.t.out, "{\n  %q: [\n    ", l.name)
	} else {
		l.t.out.WriteString(",\n    ")
	}
	l.n++
	var b bytes.Buffer
	if err := encodeJSON(&b, "    ", item); err != nil {
		return command.NotRun(diag.Errorf(Internal, "", "%s[%d]: %w", l.name, l.n-1, err))
	}
	l.t.out.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return l.t.broken()
}

// end closes a list that has at least one item.
func (l *jsonList) end() { l.t.out.WriteString("\n  ]\n}\n") }

// printTable writes rows in aligned columns, indented.
func (t *terminal) printTable(indent string, rows [][]string) {
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for len(row) > 1 && row[len(row)-1] == "" {
			row = row[:len(row)-1]
		}
		cells := make([]string, len(row))
		for i := range row {
			cells[i] = escape.Line(row[i])
		}
		fmt.Fprintln(w, indent+strings.Join(cells, "\t"))
	}
	w.Flush()
}
