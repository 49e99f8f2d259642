//go:build unix

package ptx

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPipe: a pipe that nobody writes to is refused; reading it would never end.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.ptx")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := ReadFile(path)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("ReadFile = %v, want that it is no regular file", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("ReadFile waits for somebody to write")
	}
}
