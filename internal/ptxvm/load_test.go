package ptxvm

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// loadable is how many kernels of testdata/ptx can be executed. It may grow, and then the number here does.
const loadable = 837

// TestLoadFixtures loads every kernel of the fixtures and lists what stops the others.
func TestLoadFixtures(t *testing.T) {
	files, err := filepath.Glob("../../testdata/ptx/*/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures", err)
	}
	loaded, kernels := 0, 0
	refused := map[string]int{}
	for _, name := range files {
		f, err := ptx.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range f.Kernels() {
			kernels++
			_, err := Load(f, k.Name)
			if err == nil {
				loaded++
				continue
			}
			var d *diag.Error
			if !errors.As(err, &d) {
				t.Fatalf("%s: %s: %v", name, k.Name, err)
			}
			refused[reason(err)]++
		}
	}
	var lines []string
	for what, n := range refused {
		lines = append(lines, fmt.Sprintf("%5d %s", n, what))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	t.Logf("%d of %d kernels can be executed; the others stop at\n%s", loaded, kernels, strings.Join(lines, "\n"))
	if loaded < loadable {
		t.Errorf("%d kernels can be executed, it were %d", loaded, loadable)
	}
}

// reason is the message without its place.
func reason(err error) string {
	text := err.Error()
	if i := strings.Index(text, ".ptx:"); i >= 0 {
		if _, rest, ok := strings.Cut(text[i:], ": "); ok {
			return rest
		}
	}
	return text
}
