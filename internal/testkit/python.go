// This file implements the search for a Python interpreter.

package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// Python returns a Python interpreter with numpy and ml_dtypes: GPUEMU_TEST_PYTHON, or the one that make setup
// installs. A test that needs one and finds none fails: a skipped check would look like a pass.
func Python(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("GPUEMU_TEST_PYTHON"); path != "" {
		return path
	}
	path := filepath.Join(Root(t), ".cache", "venv", "bin", "python")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no Python for tests at %s: run make setup, or set GPUEMU_TEST_PYTHON", path)
	}
	return path
}
