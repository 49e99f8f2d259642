//go:build unix

package fingerprint

import (
	"io/fs"
	"os"
	"syscall"
)

// This file implements the question who may change a program, on Unix.

// overflowUser is the owner that Linux shows for one whom a user namespace does not have: root of the host, in
// containers without root (user_namespaces(7)).
const overflowUser = 65534

// ownedBySystem reports whether a file belongs to root and nobody else may write it.
func ownedBySystem(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	return stat.Uid == 0 || stat.Uid == overflowUser && os.Geteuid() != overflowUser
}
