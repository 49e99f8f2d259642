package tensor

// This file implements tensor files on disk: opened through a memory map, written atomically.

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gpuemu/internal/atomicfile"
	"gpuemu/internal/diag"
)

// File is an open container. Its tensors may alias a memory map of the file: they are valid until Close, and
// writing to them changes neither the file nor what others see. The file must not be truncated meanwhile;
// SaveSafetensors and SaveNPY never do that, they replace a file as a whole.
type File struct {
	Tensors  []Named
	Metadata map[string]string
	unmap    func() error
}

// Lookup returns the tensor of that name.
func (f *File) Lookup(name string) (*Tensor, bool) {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t.Tensor, true
		}
	}
	return nil, false
}

// Close releases the memory behind the tensors, none of which may be used afterwards. A second Close does nothing.
func (f *File) Close() error {
	unmap := f.unmap
	f.Tensors, f.unmap = nil, nil
	if unmap == nil {
		return nil
	}
	return unmap()
}

// OpenSafetensors opens a safetensors file, in the sense of ParseSafetensors. Errors carry the path.
func OpenSafetensors(path string) (*File, error) {
	return open(path, func(f *File, b []byte) (err error) {
		f.Tensors, f.Metadata, err = ParseSafetensors(b)
		return err
	})
}

// OpenNPY opens an .npy file, in the sense of ParseNPY. The file has one tensor, which is named after the file
// without its directory and extension.
func OpenNPY(path string) (*File, error) {
	return open(path, func(f *File, b []byte) error {
		t, err := ParseNPY(b)
		name := strings.TrimSuffix(filepath.Base(path), ".npy")
		f.Tensors = []Named{{name, t}}
		return err
	})
}

// open maps the file and parses it.
func open(path string, parse func(*File, []byte) error) (*File, error) {
	b, unmap, err := mapFile(path)
	if err != nil {
		return nil, diag.Errorf(FileRead, "check the path and its permissions", "%w", err)
	}
	f := &File{unmap: unmap}
	if err := parse(f, b); err != nil {
		var e *diag.Error
		if errors.As(err, &e) {
			e.Pos.File = path
		}
		_ = f.Close() // the parse error is the one to tell
		return nil, err
	}
	return f, nil
}

// statRegular returns the size of an open file, which must be a regular one: a pipe has no length, and a device
// no end.
func statRegular(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, errNotRegular(f.Name())
	}
	return info.Size(), nil
}

func errNotRegular(path string) error {
	return &os.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
}

// SaveSafetensors writes a safetensors file, a new one with mode 0600. It appears under its name complete or not at
// all: not when ctx ends before, whose error is returned then.
func SaveSafetensors(ctx context.Context, path string, ts []Named, meta map[string]string) error {
	return replace(ctx, path, func(w io.Writer) error { return WriteSafetensors(w, ts, meta) })
}

// SaveNPY writes an .npy file as SaveSafetensors does its own.
func SaveNPY(ctx context.Context, path string, t *Tensor) error {
	return replace(ctx, path, func(w io.Writer) error { return WriteNPY(w, t) })
}

// replace lets write write a file, until ctx ends.
func replace(ctx context.Context, path string, write func(io.Writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := atomicfile.Replace(path, 0o600, func(w io.Writer) error {
		return cmp.Or(write(&contextWriter{ctx, w}), ctx.Err())
	})
	var fault *atomicfile.Fault
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &fault):
		return writeError(err)
	}
	return err
}

// contextWriter writes until its context ends: a large tensor comes as one Write of gigabytes.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c *contextWriter) Write(b []byte) (int, error) {
	const most = 1 << 22 // bytes between two looks at the context
	done := 0
	for {
		if err := c.ctx.Err(); err != nil {
			return done, err
		}
		n, err := c.w.Write(b[done:min(len(b), done+most)])
		done += n
		if err != nil || done == len(b) {
			return done, err
		}
	}
}
