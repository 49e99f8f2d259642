package runner

// This file implements what Linux has for processes: waiting without reaping, the count of the OOM killer, memfd.

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes make a child the leader of a new group. One that does not notice our end gets a signal then. (The
// kernel means the end of the thread that started it; Go ends a thread only with a goroutine locked to it, and we have
// none.)
func processAttributes(dieWithUs bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if dieWithUs {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// awaitZombie waits until the process has ended and leaves it unreaped. False: it must be waited for otherwise.
func awaitZombie(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// oomKills is how many processes the kernel has ended for want of memory since it was started.
func oomKills() uint64 {
	b, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	const key = "\noom_kill "
	i := bytes.Index(b, []byte(key))
	if i < 0 {
		return 0
	}
	line, _, _ := bytes.Cut(b[i+len(key):], []byte("\n"))
	n, err := strconv.ParseUint(string(line), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// newImage returns an empty file in memory that has no name.
func newImage(string) (*os.File, error) {
	fd, err := unix.MemfdCreate("gpuemu", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "gpuemu image"), nil
}
