// This file implements golden files.

package testkit

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files with what the tests got")

// Golden compares got with the file, a path relative to the test's package such as "testdata/report.golden". With
// -update it writes the file instead; the diff is for the review.
func Golden(t testing.TB, file string, got []byte) {
	t.Helper()
	if err := golden(file, got, *update); err != nil {
		t.Error(err)
	}
}

func golden(file string, got []byte, update bool) error {
	if update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, got, 0o644)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("golden file: %w (go test -update writes it)", err)
	}
	if bytes.Equal(got, want) {
		return nil
	}
	return fmt.Errorf("%s: %s (go test -update accepts it)", file, firstDifference(string(got), string(want)))
}

// firstDifference says in which line got and want part.
func firstDifference(got, want string) string {
	g, w := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d is %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("got %d lines, want %d", len(g), len(w)) // cannot be: unequal texts differ in a line of both
}
