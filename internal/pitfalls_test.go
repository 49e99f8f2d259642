package internal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// holder finds the names of tests in a line of docs/pitfalls.md.
var holder = regexp.MustCompile("`([^`]+)`")

// laterParts are the parts of the product that a promise may wait for.
var laterParts = []string{"action", "VS Code", "signing"}

// TestPitfalls: every promise of docs/pitfalls.md names tests that exist, or the part of the product it waits for.
func TestPitfalls(t *testing.T) {
	src, err := os.ReadFile(filepath.Join("..", "docs", "pitfalls.md"))
	if err != nil {
		t.Fatal(err)
	}
	promises := 0
	for i, line := range strings.Split(string(src), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == "promise" {
			continue
		}
		promises++
		if len(cells) != 2 {
			t.Errorf("docs/pitfalls.md:%d: %d cells, want 2", i+1, len(cells))
			continue
		}
		if part, ok := strings.CutPrefix(cells[1], "later: "); ok {
			if !slices.Contains(laterParts, part) {
				t.Errorf("docs/pitfalls.md:%d: %q is not one of %q", i+1, part, laterParts)
			}
			continue
		}
		tests := holder.FindAllStringSubmatch(cells[1], -1)
		if len(tests) == 0 || strings.TrimSpace(holder.ReplaceAllString(cells[1], "")) != "" {
			t.Errorf("docs/pitfalls.md:%d: %q: want tests between backquotes, or later: PART", i+1, cells[1])
		}
		for _, m := range tests {
			if !testExists(t, m[1]) {
				t.Errorf("docs/pitfalls.md:%d: there is no test %s", i+1, m[1])
			}
		}
	}
	if promises < 50 {
		t.Errorf("docs/pitfalls.md has %d promises: some were lost", promises)
	}
	for _, name := range []string{"script/nowhere", "compare.TestNowhere", "make nowhere", "compare.Compare",
		"test_client.py::test_nowhere", "test_nowhere.py::test_ping", "test_client.py::client"} {
		if testExists(t, name) {
			t.Errorf("testExists(%q) = true", name)
		}
	}
}

// testExists looks for script/NAME, make TARGET, test_FILE.py::test_NAME or package.TestName.
func testExists(t *testing.T, name string) bool {
	t.Helper()
	if script, ok := strings.CutPrefix(name, "script/"); ok {
		_, err := os.Stat(filepath.Join("..", "cmd", "gpuemu", "testdata", "script", script+".txt"))
		return err == nil
	}
	if target, ok := strings.CutPrefix(name, "make "); ok {
		src, err := os.ReadFile(filepath.Join("..", "Makefile"))
		return err == nil && bytes.Contains(src, []byte("\n"+target+":"))
	}
	if file, test, ok := strings.Cut(name, "::"); ok {
		src, err := os.ReadFile(filepath.Join("..", "python", "tests", file))
		return err == nil && strings.HasPrefix(test, "test_") && bytes.Contains(src, []byte("\ndef "+test+"("))
	}
	dir, test, _ := strings.Cut(name, ".")
	if !strings.HasPrefix(test, "Test") {
		return false
	}
	if !strings.Contains(dir, "/") {
		dir = "internal/" + dir
	}
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(src, []byte("\nfunc "+test+"(t *testing.T)")) {
			return true
		}
	}
	return false
}
