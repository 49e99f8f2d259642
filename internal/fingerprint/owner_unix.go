//go:build unix

package fingerprint

import (
	"io/fs"
	"syscall"
)

// This file implements the question who may change a program, on Unix.

// ownedBySystem reports whether a file belongs to root and nobody else may write it.
func ownedBySystem(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && info.Mode().Perm()&0o022 == 0
}
