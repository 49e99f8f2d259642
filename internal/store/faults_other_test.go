//go:build unix && !linux

package store

import (
	"os"
	"testing"
)

// withoutRoot runs f where nothing has to be given up for it.
func withoutRoot(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere, and one thread cannot give that up here")
	}
	f()
}
