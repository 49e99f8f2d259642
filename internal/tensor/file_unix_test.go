//go:build unix

package tensor

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpuemu/internal/diag"
)

// TestOpenPipe: a named pipe without a writer is an error at once, not a wait.
func TestOpenPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := OpenSafetensors(path)
	if diag.CodeOf(err) != FileRead || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("OpenSafetensors(pipe) = %v, want code %s", err, FileRead)
	}
}
