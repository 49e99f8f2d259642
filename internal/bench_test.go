package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	venvUsed   = regexp.MustCompile(`\.cache/[a-z]+-venv\b|\.cache/venv\b`)
	scriptRuns = regexp.MustCompile(`\bsh ((?:bench|tools)/[a-z-]+\.sh)`)
)

// TestBenchSetsUp: in a fresh clone each table of make bench makes the virtual environments that it uses.
func TestBenchSetsUp(t *testing.T) {
	scripts, err := filepath.Glob("../bench/*/run.sh")
	if err != nil || len(scripts) < 6 {
		t.Fatalf("%d tables, %v", len(scripts), err)
	}
	all := readText(t, "../bench/run.sh")
	for _, script := range append(scripts, "../bench/run.sh") {
		text, made := readText(t, script), ""
		for _, m := range scriptRuns.FindAllStringSubmatch(text, -1) {
			made += readText(t, filepath.Join("..", m[1]))
		}
		for _, venv := range venvUsed.FindAllString(text, -1) {
			if !strings.Contains(made, venv) {
				t.Errorf("%s uses %s, and no script that it runs makes it", script, venv)
			}
		}
	}
	for _, table := range []string{"speed", "engine", "artifacts", "emulator", "receipts", "python"} {
		if !strings.Contains(all, table) {
			t.Errorf("bench/run.sh does not know the table %s", table)
		}
		if _, err := os.Stat(filepath.Join("../bench", table, "run.sh")); err != nil {
			t.Error(err)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
