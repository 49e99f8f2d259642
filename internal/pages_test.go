// This file implements the comparison of generated pages of docs/ with what would be generated now.

package internal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkPage compares a generated page with want, or writes it when the test runs with -update.
func checkPage(t *testing.T, page, want string) {
	t.Helper()
	path := filepath.Join("..", filepath.FromSlash(page))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) == want {
		return
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		g, w := line(gotLines, i), line(wantLines, i)
		if g != w {
			t.Fatalf("%s:%d is out of date (run make generate):\n got: %s\nwant: %s", page, i+1, g, w)
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(no such line)"
}
