// Package atomicfile replaces files as a whole: readers see the old content or the new one, and after a fault the old
// one is still there.
//
// A file keeps its permissions and, where the system permits, its owner; a link stays a link, and the file that it
// leads to is replaced. What is there and is no regular file is left alone. It decides nothing about names and knows no
// formats. The main functions are Replace, for one file, and Stage, for several that are to change together.
package atomicfile

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotRegular is wrapped by the error of a path that leads to a directory, a device or a pipe.
var ErrNotRegular = errors.New("not a regular file")

// maxLinks is how many links a path may have, as on Linux.
const maxLinks = 40

// Prefix is how the names of files begin that are not complete or not renamed yet. A killed process leaves them.
const Prefix = ".gpuemu-"

// Fault is what kept a file from being written, as opposed to an error of the function that fills it.
type Fault struct {
	Path string
	Err  error
}

func (f *Fault) Error() string { return "write " + f.Path + ": " + f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

// fault makes err one of a path, without the operation and the name that it carries itself.
func fault(path string, err error) error {
	var own *fs.PathError
	var link *os.LinkError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		err = own.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return &Fault{path, err}
}

// Replace lets fill write a file. A new one gets the mode, less the umask. The content is on disk when the file appears
// under its name. An error of fill comes back as it is, unless it could not write: errors of the file are Faults.
func Replace(path string, mode fs.FileMode, fill func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return &Fault{path, ErrNotRegular}
	}
	dir, name, err := place(path)
	if err != nil {
		return fault(path, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault(path, err)
	}
	defer root.Close()
	s, err := Stage(root, name, mode, fill)
	if err == nil {
		defer s.Discard()
		err = s.Commit()
	}
	var f *Fault
	if errors.As(err, &f) {
		f.Path = path // as it was given
	}
	return err
}

// place is the directory and the name of the file that a path leads to, which need not be there.
func place(path string) (dir, name string, err error) {
	for range maxLinks {
		path = filepath.Clean(path)
		if dir, err = filepath.EvalSymlinks(filepath.Dir(path)); err != nil {
			return "", "", err
		}
		name = filepath.Base(path)
		target, err := os.Readlink(filepath.Join(dir, name))
		if err != nil {
			return dir, name, nil // it is no link, or not there
		}
		if path = target; !filepath.IsAbs(target) {
			path = filepath.Join(dir, target)
		}
	}
	return "", "", errors.New("too many links")
}

// Staged is a file that is complete under another name beside its own.
type Staged struct {
	root         *os.Root
	name, hidden string
}

// Stage writes a file below root under another name. Links are followed no further than root allows, and the last one,
// name itself, not at all. Commit or Discard must follow.
func Stage(root *os.Root, name string, mode fs.FileMode, fill func(io.Writer) error) (*Staged, error) {
	before, err := root.Lstat(name)
	switch {
	case err == nil && !before.Mode().IsRegular():
		return nil, &Fault{name, ErrNotRegular}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fault(name, err)
	}
	s := &Staged{root: root, name: name, hidden: filepath.Join(filepath.Dir(name), Prefix+rand.Text())}
	f, err := root.OpenFile(s.hidden, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, fault(name, err)
	}
	err = s.fill(f, before, fill)
	if closing := fault(name, f.Close()); err == nil {
		err = closing
	}
	if err != nil {
		s.Discard()
		return nil, err
	}
	return s, nil
}

// fill gives f its content, and the owner and the permissions of the file that was there before.
func (s *Staged) fill(f *os.File, before fs.FileInfo, fill func(io.Writer) error) error {
	w := &writer{file: f}
	buffered := bufio.NewWriterSize(w, 1<<16)
	err := fill(buffered)
	if w.err != nil {
		return fault(s.name, w.err)
	}
	if err != nil {
		return err
	}
	if before != nil {
		keepOwner(f, before)
		err = f.Chmod(before.Mode().Perm()) // after the owner, a change of whom takes permissions away
	}
	for _, step := range []func() error{buffered.Flush, f.Sync} {
		if err == nil {
			err = step()
		}
	}
	return fault(s.name, err)
}

// Commit gives the file its name.
func (s *Staged) Commit() error {
	err := s.root.Rename(s.hidden, s.name)
	if err == nil {
		s.hidden = ""
	}
	return fault(s.name, err)
}

// Discard removes a file that was not committed.
func (s *Staged) Discard() {
	if s.hidden != "" {
		_ = s.root.Remove(s.hidden) // the error that brought us here is the one to tell
	}
}

// writer remembers that the file could not be written: what fill makes of that is not known.
type writer struct {
	file *os.File
	err  error
}

func (w *writer) Write(b []byte) (int, error) {
	n, err := w.file.Write(b)
	if err != nil {
		w.err = err
	}
	return n, err
}
