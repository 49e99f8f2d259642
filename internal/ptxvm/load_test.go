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
const loadable = 906

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
			if d.Code != Unsupported {
				t.Errorf("%s: %s: %v", name, k.Name, err)
			}
			if !stops(k, refused) {
				refused[reason(err)]++
			}
		}
	}
	var lines []string
	for what, n := range refused {
		lines = append(lines, fmt.Sprintf("%5d %s", n, what))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	t.Logf("%d of %d kernels can be executed; the others have, in so many kernels,\n%s", loaded, kernels,
		strings.Join(lines, "\n"))
	if loaded < loadable {
		t.Errorf("%d kernels can be executed, it were %d", loaded, loadable)
	}
}

// stops counts the instructions of a kernel that are not executed here, each once, and reports whether there are any.
func stops(k *ptx.Function, refused map[string]int) bool {
	seen := map[string]bool{}
	for _, in := range k.Code {
		if r, _ := find(in); r == nil && !seen[in.Mnemonic()] {
			seen[in.Mnemonic()] = true
			refused[in.Mnemonic()]++
		}
	}
	return len(seen) > 0
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
