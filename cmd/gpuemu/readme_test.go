package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/cli"
)

// TestReadme runs every "$ gpuemu" line of the console blocks of README.md, in order and in one directory, and compares
// what it prints with what the page shows. A line that is only "..." stands for any number of lines.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	commands := 0
	for _, block := range strings.Split(string(text), "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, example := range strings.Split("\n"+block, "\n$ ")[1:] {
			line, want, _ := strings.Cut(example, "\n")
			args := strings.Fields(line)
			if args[0] != "gpuemu" && args[0] != "./bin/gpuemu" {
				continue
			}
			commands++
			var out bytes.Buffer
			cli.Main(cli.Env{Args: args[1:], Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" }})
			if !shows(strings.TrimRight(want, "\n"), strings.TrimRight(out.String(), "\n")) {
				t.Errorf("README.md shows for %q:\n%s\nbut it prints:\n%s", line, want, out.String())
			}
		}
	}
	if commands < 5 {
		t.Errorf("README.md has %d examples, want at least 5", commands)
	}
}

// shows reports whether got is what the page shows.
func shows(want, got string) bool {
	parts := strings.Split("\n"+want+"\n", "\n...\n")
	got = "\n" + got + "\n"
	for i, part := range parts {
		if i > 0 {
			part = strings.TrimPrefix(part, "\n")
		}
		at := strings.Index(got, part)
		if at < 0 || i == 0 && at != 0 {
			return false
		}
		if i == len(parts)-1 && part != "" && !strings.HasSuffix(got, part) {
			return false
		}
		got = got[at+max(0, len(part)-1):]
	}
	return true
}

func TestShows(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		ok        bool
	}{
		{"a\nb", "a\nb", true},
		{"a\nb", "a\nb\nc", false},
		{"a\n...", "a\nb\nc", true},
		{"a\n...\nc", "a\nb\nc", true},
		{"a\n...\nd", "a\nb\nc", false},
		{"...\nc", "a\nb\nc", true},
		{"b\n...", "a\nb", false},
		{"", "", true},
		{"", "a", false},
	} {
		if got := shows(tt.want, tt.got); got != tt.ok {
			t.Errorf("shows(%q, %q) = %v, want %v", tt.want, tt.got, got, tt.ok)
		}
	}
}
