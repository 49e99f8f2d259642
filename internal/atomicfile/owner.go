package atomicfile

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner and the group of another one, as far as the user may do that: root can, and what
// root writes in the project of a user stays the user's.
func keepOwner(f *os.File, before fs.FileInfo) {
	if its, ok := before.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(its.Uid), int(its.Gid)) // nobody but root may give files away
	}
}
