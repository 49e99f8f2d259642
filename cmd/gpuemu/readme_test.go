package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpuemu/internal/cli"
	"gpuemu/internal/testkit"
)

// TestReadme runs every "$ gpuemu" line of the console blocks of README.md, in order and in one directory, and compares
// what it prints with what the page shows. With -update the page shows what it prints.
func TestReadme(t *testing.T) {
	page := filepath.Join(testkit.Root(t), "README.md")
	t.Chdir(t.TempDir())
	runPage(t, page, 3)
}

// TestGuidePage does the same for docs/guide.md.
func TestGuidePage(t *testing.T) {
	page := filepath.Join(testkit.Root(t), "docs", "guide.md")
	t.Chdir(t.TempDir())
	runPage(t, page, 5)
}

// TestLintPage does the same for docs/lint.md, in a copy of examples/lint.
func TestLintPage(t *testing.T) {
	root, dir := testkit.Root(t), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", "lint"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	page := filepath.Join(root, "docs", "lint.md")
	runPage(t, page, 7)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\b(bins|changed)\.[a-z]+\b`).FindAllString(string(text), -1) {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("the page names a file of the example: %v", err)
		}
	}
}

// TestEmulatePage does the same for docs/emulate.md, in a copy of examples/emulate. The launch file that the page shows
// is the one of the example.
func TestEmulatePage(t *testing.T) {
	root, dir := testkit.Root(t), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", "emulate"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	page := filepath.Join(root, "docs", "emulate.md")
	runPage(t, page, 8)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	launch, err := os.ReadFile("case.json")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(launch), "\n  \"ptx\"") // without its note
	if !strings.Contains(string(text), "```json\n{\n  \"ptx\""+shown) {
		t.Error("docs/emulate.md does not show examples/emulate/case.json as it is")
	}
}

// runPage runs the commands of a page, which must have some.
func runPage(t *testing.T, page string, want int) {
	t.Helper()
	const open, shut = "```console\n", "```"
	home := t.TempDir()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
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
				Getenv: func(name string) string {
					if name == "GPUEMU_HOME" {
						return home
					}
					return ""
				}})
		}
		fresh.WriteString(shut + rest)
	}
	if commands < want {
		t.Errorf("%s has %d examples, want at least %d", page, commands, want)
	}
	testkit.Golden(t, page, fresh.Bytes())
}
