//go:build unix

// This file implements the owner of a file.

package sshsig

import (
	"os"
	"syscall"
)

// ownerOf returns the user a file belongs to.
func ownerOf(info os.FileInfo) (uid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
