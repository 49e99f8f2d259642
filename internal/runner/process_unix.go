//go:build unix && !linux

package runner

// This file implements for other Unix systems what process_linux.go does.

import (
	"os"
	"syscall"
)

// processAttributes make a child the leader of a new group.
func processAttributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitZombie says that a process must be waited for in the ordinary way.
func awaitZombie(int) bool { return false }

// limitMemory does nothing: no other process can be limited, and macOS does not enforce RLIMIT_AS.
func limitMemory(int, int64) {}

// oomKills is not known.
func oomKills() uint64 { return 0 }

// newImage returns an empty file in dir that has no name any more.
func newImage(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "image-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
