//go:build unix

package cudatool

// This file implements the process group of a program.

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the program the leader of a process group, which is ended as a whole: nvcc and clang start others.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return endGroup(cmd) }
}

// endGroup ends the program and its children.
func endGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
