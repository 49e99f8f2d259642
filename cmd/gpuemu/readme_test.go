package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/cli"
	"gpuemu/internal/testkit"
)

// TestReadme runs every "$ gpuemu" line of the console blocks of README.md, in order and in one directory, and compares
// what it prints with what the page shows. With -update the page shows what it prints.
func TestReadme(t *testing.T) {
	const open, shut = "```console\n", "```"
	page := filepath.Join(testkit.Root(t), "README.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	blocks := strings.Split(string(text), open)
	var fresh bytes.Buffer
	fresh.WriteString(blocks[0])
	commands := 0
	for _, block := range blocks[1:] {
		fresh.WriteString(open)
		block, rest, _ := strings.Cut(block, shut)
		for line := range strings.Lines(block) {
			command, ok := strings.CutPrefix(line, "$ gpuemu ")
			if !ok {
				continue // output of the command above
			}
			commands++
			fresh.WriteString(line)
			cli.Main(cli.Env{Args: strings.Fields(command), Stdout: &fresh, Stderr: &fresh,
				Getenv: func(string) string { return "" }})
		}
		fresh.WriteString(shut + rest)
	}
	if commands < 5 {
		t.Errorf("README.md has %d examples, want at least 5", commands)
	}
	testkit.Golden(t, page, fresh.Bytes())
}
