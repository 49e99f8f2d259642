//go:build unix

package cli

import "syscall"

// This file implements what makes a background process independent of the terminal.

func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
