package store

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// withoutRoot runs f with the file rights of nobody where the tests run as root. They are those of one thread.
func withoutRoot(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ok(t, syscall.Setfsuid(65534))
	defer func() { ok(t, syscall.Setfsuid(0)) }()
	f()
}
