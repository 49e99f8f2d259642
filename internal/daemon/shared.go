// This file implements the files that clients share with the daemon, so that tensors need not go through the socket.
// They are read and written, never mapped: whoever shortens a mapped file kills the process that has it mapped.

package daemon

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpuemu/internal/diag"
)

// remoteKey is the key of contexts of requests that came over TCP.
type remoteKey struct{}

// sharedFile is an open file of a client.
type sharedFile struct {
	*os.File
	size int64 // when it was opened
}

// sharedPrefix is how the names of shared files begin. No other file can be named: whoever may send requests can have
// none written over, and none read.
const sharedPrefix = "gpuemu-shared-"

const sharedHint = "make a regular file of your own, mode 0600, for this purpose alone: " + sharedPrefix +
	"* in /dev/shm or a directory for temporary files"

// sharedDirs are the directories of shared files: memory, and those for temporary files. Whoever else may write there
// can change no file of ours.
func sharedDirs() []string {
	return []string{"/dev/shm", filepath.Clean(os.TempDir()), "/tmp", "/var/tmp"}
}

// checkShared refuses a path that does not name a shared file. What is behind it, a link for example, is not looked at.
func checkShared(path string) error {
	dir, name := filepath.Split(path)
	if filepath.Clean(path) != path || !strings.HasPrefix(name, sharedPrefix) ||
		!slices.Contains(sharedDirs(), filepath.Clean(dir)) {
		return diag.Errorf(BadShared, sharedHint, "%q is no shared file", cut(path, 200))
	}
	return nil
}

// openShared opens a file that a client names. Only somebody who could open it as well may do so: peers on the socket
// have our user, others are refused.
func openShared(ctx context.Context, path string, write bool) (*sharedFile, error) {
	if ctx.Value(remoteKey{}) != nil {
		return nil, diag.Errorf(BadShared, "send the tensors in the request", "a file cannot be shared over TCP")
	}
	if !filepath.IsAbs(path) {
		return nil, diag.Errorf(BadShared, "send an absolute path", "shared %q is not an absolute path", cut(path, 200))
	}
	if err := checkShared(path); err != nil {
		return nil, err
	}
	mode := os.O_RDONLY
	if write {
		mode = os.O_RDWR
	}
	f, err := os.OpenFile(path, mode|noFollow, 0)
	if err != nil {
		return nil, diag.Errorf(BadShared, sharedHint, "%w", err)
	}
	info, err := f.Stat()
	if err == nil {
		err = usable(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &sharedFile{f, info.Size()}, nil
}

// usable refuses files that are not the user's alone.
func usable(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return diag.Errorf(BadShared, sharedHint, "%s is no regular file", path)
	}
	if uid, known := ownerOf(info); known && uid != os.Geteuid() {
		return diag.Errorf(BadShared, sharedHint, "%s belongs to another user (%d, you are %d)", path, uid, os.Geteuid())
	}
	if n := linksOf(info); n > 1 {
		return diag.Errorf(BadShared, sharedHint, "%s has %d names: it is another file as well", path, n)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return diag.Errorf(BadShared, "chmod 600 "+path, "others may write to %s (mode %o)", path, mode)
	}
	return nil
}

// read returns a range of the file. One that ends behind the file costs nothing.
func (f *sharedFile) read(at span) ([]byte, error) {
	if at.end > f.size { // it may have grown since it was opened
		info, err := f.Stat()
		if err != nil {
			return nil, f.fault("read", err)
		}
		f.size = info.Size()
	}
	short := func() error {
		return diag.Errorf(BadShared, "write the image before the request is sent",
			"%s has %d bytes, the image is to end at %d", f.Name(), f.size, at.end)
	}
	if at.end > f.size {
		return nil, short()
	}
	image := newImage(int(at.end - at.begin))
	if _, err := f.ReadAt(image, at.begin); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, short()
	} else if err != nil {
		return nil, f.fault("read", err)
	}
	return image, nil
}

// fault is an error of the file itself, such as a full disk.
func (f *sharedFile) fault(what string, err error) error {
	return diag.Errorf(BadShared, "look at the free space and the permissions of the file", "%s %s: %w", what, f.Name(),
		err)
}
