package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gpuemu/internal/diag"
)

// This file implements reading and writing of files named on the command line.

// readFile reads a whole file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, readError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, readError(err)
	}
	if int64(len(b)) > limit {
		return nil, diag.Errorf(ReadFailed, "", "%s: file is larger than %d bytes", path, limit)
	}
	return b, nil
}

// readError gives a file system error its code and next step; its text already names the operation and the path.
func readError(err error) error {
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "check the path"
	case errors.Is(err, fs.ErrPermission):
		hint = "check the permissions of the file"
	}
	return diag.Errorf(ReadFailed, hint, "%w", err)
}

// checkOutput refuses an output path that cannot work before any time is spent on what goes there.
func checkOutput(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return diag.Errorf(WriteFailed, "create the directory first", "output %q: %w", path, err)
	case !info.IsDir():
		return diag.Errorf(WriteFailed, "", "output %q: %s is not a directory", path, dir)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return diag.Errorf(WriteFailed, "name a file in it", "output %q is a directory", path)
	}
	return nil
}

// writeFile writes a file so that nobody ever sees half of it: a temporary file beside it, then a rename. A target that
// is no regular file (a pipe, /dev/stdout) is written in place: renaming would replace it.
func writeFile(path string, fill func(io.Writer) error) error {
	if err := writeAside(path, fill); err != nil {
		return notRun(diag.Errorf(WriteFailed, "", "output %q: %w", path, err))
	}
	return nil
}

func writeAside(path string, fill func(io.Writer) error) (err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return fillAndClose(f, fill)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // keep a link a link
	}
	f, err := createAside(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name()) // the first error is the one to report
		}
	}()
	if err := fillAndClose(f, fill); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// createAside creates a new file in the directory of path. os.CreateTemp would ignore the user's umask.
func createAside(path string) (*os.File, error) {
	for i := range 1000 {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.%d.tmp", filepath.Base(path), os.Getpid(), i))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, errors.New("too many temporary files beside it")
}

func fillAndClose(f *os.File, fill func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<20)
	err := fill(w)
	if err == nil {
		err = w.Flush()
	}
	return errors.Join(err, f.Close())
}
