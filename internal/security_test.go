package internal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReceiptsSecurity: docs/receipts-security.md has every row of the security review once, in order, and each names
// tests that exist.
func TestReceiptsSecurity(t *testing.T) {
	const page = "receipts-security.md"
	src, err := os.ReadFile(filepath.Join("..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for i := range 17 {
		want = append(want, fmt.Sprint("A", i+1))
	}
	for i := range 21 {
		want = append(want, fmt.Sprint("B", i+1))
	}
	for i, line := range strings.Split(string(src), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == "row" {
			continue
		}
		got = append(got, cells[0])
		if len(cells) != 4 {
			t.Errorf("docs/%s:%d: %d cells, want 4", page, i+1, len(cells))
			continue
		}
		tests := holder.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 || strings.TrimSpace(holder.ReplaceAllString(cells[3], "")) != "" {
			t.Errorf("docs/%s:%d: %q: want tests between backquotes", page, i+1, cells[3])
		}
		for _, m := range tests {
			if !receiptTestExists(t, m[1]) {
				t.Errorf("docs/%s:%d: there is no test %s", page, i+1, m[1])
			}
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("docs/%s has the rows %v, want %v", page, got, want)
	}
	for _, name := range []string{"policy.TestRowA99", "gpu-proof script/nowhere", "test_check.py::test_nowhere",
		"policy.Check"} {
		if receiptTestExists(t, name) {
			t.Errorf("receiptTestExists(%q) = true", name)
		}
	}
}

// receiptTestExists is testExists with the scripts of gpu-proof and the tests of the pytest plugin.
func receiptTestExists(t *testing.T, name string) bool {
	t.Helper()
	if script, ok := strings.CutPrefix(name, "gpu-proof script/"); ok {
		_, err := os.Stat(filepath.Join("..", "cmd", "gpu-proof", "testdata", "script", script+".txt"))
		return err == nil
	}
	if file, test, ok := strings.Cut(name, "::"); ok {
		src, err := os.ReadFile(filepath.Join("..", "python", "pytest-gpu-proof", "tests", file))
		return err == nil && strings.HasPrefix(test, "test_") && strings.Contains(string(src), "\ndef "+test+"(")
	}
	return testExists(t, name)
}
