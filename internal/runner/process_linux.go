package runner

// This file implements what Linux has for processes: a stop before the first instruction, waiting without reaping, the
// count of the OOM killer, memfd.

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
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

// untraced says that this system refuses ptrace(2) to us, as some sandboxes, Yama's scopes 2 and 3 and a debugger that
// follows our children do. It is a fact about the machine, hence one for the process.
var untraced atomic.Bool

// errEnded is a process that ended before the first instruction of its program.
var errEnded = errors.New("ended before its first instruction")

// startAdopted starts a command and calls adopt before the first instruction of its program: one that forks before that
// would have children without limits, which nobody finds when they leave the group. The process asks to be traced, so
// that the kernel stops it at the end of execve, and is let go when it has been adopted. That costs less than 0.1 ms; a
// launcher would cost an execve more, and errors of the program's own execve would have to come back through it. Where
// tracing is refused, a process is adopted just after its start.
func startAdopted(command func() *exec.Cmd, adopt func(pid int)) (*exec.Cmd, error) {
	refused := untraced.Load()
	if !refused {
		cmd, err := startTraced(command(), adopt)
		refused = errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSYS)
		if !refused && !errors.Is(err, errEnded) { // such an end is to be seen by whoever waits for the process
			return cmd, err
		}
	}
	cmd := command()
	if err := cmd.Start(); err != nil {
		return nil, err // of the program, then, whatever the first error was about
	}
	untraced.Store(refused)
	adopt(cmd.Process.Pid)
	return cmd, nil
}

// startTraced starts a command that stops at the end of execve, adopts it and lets it go.
func startTraced(cmd *exec.Cmd, adopt func(pid int)) (*exec.Cmd, error) {
	cmd.SysProcAttr.Ptrace = true
	runtime.LockOSThread() // the thread that starts a process is the one that traces it
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, os.NewSyscallError("wait4", err)
		case !status.Stopped():
			_ = cmd.Process.Release() // it is reaped
			if status.Signal() == unix.SIGSYS {
				return nil, syscall.ENOSYS // how a filter of system calls may say so
			}
			return nil, errEnded
		case status.StopSignal() == unix.SIGTRAP:
			adopt(pid)
			_ = unix.PtraceDetach(pid) // fails where it has been killed meanwhile
			return cmd, nil
		default: // a signal that came first: it takes effect as it would have
			_ = unix.PtraceCont(pid, int(status.StopSignal())) // fails where it has been killed meanwhile
		}
	}
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
