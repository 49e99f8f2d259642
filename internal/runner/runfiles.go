//go:build unix

package runner

// This file implements the private files of a run: what an interpreter is given of ours.

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	pyclient "gpuemu/python"
)

// runFiles are the private files of a run.
type runFiles struct {
	dir  string
	own  bool // dir was made by us
	once sync.Once
	path string
	err  error

	unpack  sync.Once
	library string // directory of the Python client
	fault   error  // of unpacking it
}

func newRunFiles(dir string) (*runFiles, error) {
	if dir != "" {
		return &runFiles{dir: dir}, nil
	}
	dir, err := os.MkdirTemp("", "gpuemu-run-")
	return &runFiles{dir: dir, own: true}, err
}

// worker returns the path of the Python source.
func (f *runFiles) worker() (string, error) {
	f.once.Do(func() {
		var temp *os.File
		if temp, f.err = os.CreateTemp(f.dir, "worker-*.py"); f.err != nil {
			return
		}
		exceptions, err := pyclient.Sources.ReadFile("src/gpuemu/_exceptions.py")
		if err == nil {
			_, err = temp.Write(slices.Concat(workingSource, exceptions, workerSource))
		}
		f.err = errors.Join(err, temp.Close())
		if f.path, err = filepath.Abs(temp.Name()); err != nil {
			f.err = errors.Join(f.err, err)
		}
	})
	return f.path, f.err
}

// client returns the directory of the Python client, to be put on the path of an interpreter.
func (f *runFiles) client() (string, error) {
	f.unpack.Do(func() {
		var sources fs.FS
		if sources, f.fault = fs.Sub(pyclient.Sources, "src"); f.fault != nil {
			return
		}
		if f.library, f.fault = os.MkdirTemp(f.dir, "python-"); f.fault == nil {
			f.fault = os.CopyFS(f.library, sources)
		}
	})
	if f.fault != nil {
		return "", f.fault
	}
	return filepath.Abs(f.library)
}

func (f *runFiles) remove() error {
	if f.own {
		return os.RemoveAll(f.dir)
	}
	if f.library != "" {
		if err := os.RemoveAll(f.library); err != nil {
			return err
		}
	}
	if f.path == "" {
		return nil
	}
	if err := os.Remove(f.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // closed before
}
