package cli

import (
	"errors"
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
	const want = "one [31m\ntwo  1m\ngpuemu: no  ]0;file \n"
	if said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{"/tmp/a-b_1.x": "/tmp/a-b_1.x", "a b": "'a b'", "it's": `'it'\''s'`,
		"$HOME": "'$HOME'", "": "''", "a;b": "'a;b'", "é": "'é'"} {
		if got := shellWord(text); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", text, got, want)
		}
	}
}
