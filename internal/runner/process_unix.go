//go:build unix && !linux

package runner

// This file implements for other Unix systems what process_linux.go does.

import (
	"os"
	"os/exec"
	"syscall"
)

// processAttributes make a child the leader of a new group.
func processAttributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// startAdopted starts a command. There is nothing to be done before its first instruction.
func startAdopted(command func() *exec.Cmd, _ func(pid int)) (*exec.Cmd, error) {
	cmd := command()
	return cmd, cmd.Start()
}

// awaitZombie says that a process must be waited for in the ordinary way.
func awaitZombie(int) bool { return false }

// cgroups is nothing: only Linux has them.
type cgroups struct{}

func delegatedCgroups() *cgroups { return nil }
func (*cgroups) absent() bool    { return false } // in favor of limits of processes, that is

// family limits and finds nothing: no other process can be limited, macOS does not enforce RLIMIT_DATA, and orphans are
// children of launchd. The process group is all that is ended.
type family struct{}

func newFamily(*cgroups, int64) *family { return &family{} }

func (f *family) adopt(int, int64)       {}
func (f *family) reap(wait func() error) { _ = wait() }
func (f *family) watch(int64, func())    {}
func (f *family) overMemory() bool       { return false }
func (f *family) overWatch() bool        { return false }
func (f *family) machineOOM() bool       { return false }
func (f *family) sweep()                 {}
func (f *family) close()                 {}

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
