package cli

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// TestColors: colours go to terminals alone, and to none where the user does not want them. /dev/null stands for a
// terminal: it is a character device, too.
func TestColors(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		name             string
		out              *os.File
		env, value       string
		noColor, jsonLog bool
		outColor, color  bool
		interactive      bool
	}{
		{name: "terminal", out: device, outColor: true, color: true, interactive: true},
		{name: "file", out: file, color: true, interactive: true},
		{name: "NO_COLOR", out: device, env: "NO_COLOR", value: "1", interactive: true},
		{name: "GPUEMU_NO_COLOR", out: device, env: "GPUEMU_NO_COLOR", value: "1", interactive: true},
		{name: "no control sequences", out: device, env: "TERM", value: "dumb"},
		{name: "control sequences", out: device, env: "TERM", value: "xterm", outColor: true, color: true, interactive: true},
		{name: "--no-color", out: device, noColor: true, interactive: true},
		{name: "--json-log", out: device, jsonLog: true},
	} {
		term := newTerminal(Env{Stdout: c.out, Stderr: device})
		term.noColor, term.jsonLog = c.noColor, c.jsonLog
		err := term.configure(func(name string) string {
			if name == c.env {
				return c.value
			}
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
		if term.outColor != c.outColor || term.color != c.color || term.interactive() != c.interactive {
			t.Errorf("%s: colours %v and %v, interactive %v, want %v, %v, %v", c.name, term.outColor, term.color,
				term.interactive(), c.outColor, c.color, c.interactive)
		}
	}
}

// TestMessagesAreHarmless: what stands in a message does not steer the terminal, and lines stay lines.
func TestMessagesAreHarmless(t *testing.T) {
	var said strings.Builder
	term := newTerminal(Env{Stdout: &strings.Builder{}, Stderr: &said})
	term.note("one\x1b[31m\ntwo %s", "\u009b1m")
	term.fail(errors.New("no \x1b]0;file\a"))
	const want = `one\x1b[31m` + "\n" + `two \u009b1m` + "\n" + `gpuemu: no \x1b]0;file\a` + "\n"
	if said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
}

// TestLogSink: the daemon logs what requests say.
func TestLogSink(t *testing.T) {
	const evil = "##[x]::\u202e\x1b[31m\u009b"
	for _, c := range []struct {
		json bool
		want string
	}{
		{false, `level=INFO msg=#\x23[x] key="#\x23[x]::\u202e\x1b[31m\u009b"` + "\n"},
		{true, `{"level":"INFO","msg":"#\u0023[x]","key":"#\u0023[x]::\u202e\u001b[31m\u009b"}` + "\n"},
	} {
		var out strings.Builder
		options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}
		var handler slog.Handler = slog.NewTextHandler(logSink{&out, false}, options)
		if c.json {
			handler = slog.NewJSONHandler(logSink{&out, true}, options)
		}
		slog.New(handler).Info("##[x]", "key", evil)
		if out.String() != c.want {
			t.Errorf("logged %q, want %q", out.String(), c.want)
		}
	}
}

// TestComment: what stands in the docstring of an exported case neither ends it nor hides in it.
func TestComment(t *testing.T) {
	const in, want = "a\"\"\"\\b\x1b\u202e\nc\u200b", "a'''/b/x1b/u202e\nc/u200b"
	if got := comment(in); got != want {
		t.Errorf("comment(%q) = %q, want %q", in, got, want)
	}
}
