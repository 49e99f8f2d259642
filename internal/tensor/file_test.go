package tensor

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

func TestSaveAndOpen(t *testing.T) {
	dir := t.TempDir()
	x := FromFloat64s(dtype.Float32, MustShape(2, 2), []float64{1, 2, 3, 4})
	st, npy := filepath.Join(dir, "x.safetensors"), filepath.Join(dir, "x.npy")
	if err := os.WriteFile(st, []byte("old and longer than nothing"), 0o640); err != nil {
		t.Fatal(err)
	}
	modes := map[string]os.FileMode{st: 0o640, npy: 0o600} // that of the file before, that of a new one
	if err := SaveSafetensors(t.Context(), st, []Named{{"x", x}}, map[string]string{"k": "v"}); err != nil {
		t.Fatal(err)
	}
	if err := SaveNPY(t.Context(), npy, x); err != nil {
		t.Fatal(err)
	}
	for path, open := range map[string]func(string) (*File, error){st: OpenSafetensors, npy: OpenNPY} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := f.Lookup("x")
		if !ok || !bytes.Equal(got.Bytes(), x.Bytes()) || len(f.Tensors) != 1 {
			t.Errorf("%s: Lookup(x) = %v, %v", path, got, ok)
		}
		if path == st && f.Metadata["k"] != "v" {
			t.Errorf("%s: metadata = %v", path, f.Metadata)
		}
		if _, ok := f.Lookup("y"); ok {
			t.Errorf("%s: Lookup(y) finds a tensor", path)
		}
		got.SetFloat64s([]float64{9, 9, 9, 9}) // private to this File
		if got.At(1, 1) != 9 {
			t.Errorf("%s: a write to an open tensor is lost", path)
		}
		for range 2 {
			if err := f.Close(); err != nil {
				t.Errorf("%s: Close() = %v", path, err)
			}
		}
		if f.Tensors != nil {
			t.Errorf("%s: tensors are still there after Close", path)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s: a write to an open tensor reached the file (%v)", path, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != modes[path] {
			t.Errorf("%s has mode %v, want %v", path, got, modes[path])
		}
	}
	checkNoRest(t, dir, 2)
}

// checkNoRest fails when temporary files are left.
func checkNoRest(t *testing.T, dir string, want int) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != want {
		t.Errorf("%s has %d files (%v), want %d", dir, len(files), err, want)
	}
}

func TestSaveErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.npy")
	if err := SaveNPY(t.Context(), path, New(dtype.BFloat16, MustShape(1))); diag.CodeOf(err) != NPYDType {
		t.Errorf("SaveNPY of bfloat16 = %v, want code %s", err, NPYDType)
	}
	checkNoRest(t, dir, 0)
	err := SaveNPY(t.Context(), filepath.Join(dir, "missing", "x.npy"), New(dtype.Int8, MustShape(1)))
	if diag.CodeOf(err) != FileWrite || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SaveNPY into a missing directory = %v, want code %s", err, FileWrite)
	}
	if !strings.HasPrefix(err.Error(), "write "+filepath.Join(dir, "missing", "x.npy")+": ") {
		t.Errorf("SaveNPY into a missing directory = %v, want the path that was asked for", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := SaveNPY(t.Context(), path, New(dtype.Int8, MustShape(1))); diag.CodeOf(err) != FileWrite {
		t.Errorf("SaveNPY onto a directory = %v, want code %s", err, FileWrite)
	}
	checkNoRest(t, dir, 1)
}

// endingContext ends when it has been looked at some times.
type endingContext struct {
	context.Context
	looks int
}

func (c *endingContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestSaveInterrupted: whenever the context ends, the file is there as a whole or nothing is.
func TestSaveInterrupted(t *testing.T) {
	x := New(dtype.Float64, MustShape(1<<20, 2)) // 16 MiB: some looks fall into the write of its data
	for looks := range 20 {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.safetensors")
		err := SaveSafetensors(&endingContext{t.Context(), looks}, path, []Named{{"x", x}}, nil)
		if err == nil {
			f, err := OpenSafetensors(path)
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
			if looks < 5 {
				t.Errorf("saved after %d looks at the context, want more", looks)
			}
			return
		}
		if !errors.Is(err, context.Canceled) || diag.CodeOf(err) != "" {
			t.Errorf("SaveSafetensors, ended after %d looks = %v, want the context's error", looks, err)
		}
		checkNoRest(t, dir, 0)
	}
	t.Error("a context that lasts for 20 looks saves nothing")
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	empty, bad := filepath.Join(dir, "empty"), filepath.Join(dir, "bad")
	for path, text := range map[string]string{empty: "", bad: "no such format"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, open := range []func(string) (*File, error){OpenSafetensors, OpenNPY} {
		for _, path := range []string{empty, bad} {
			_, err := open(path)
			var e *diag.Error
			if !errors.As(err, &e) || e.Pos.File != path || !strings.HasPrefix(err.Error(), path+": ") {
				t.Errorf("open %s = %v, want an error at that file", path, err)
			}
		}
		_, err := open(filepath.Join(dir, "missing"))
		if diag.CodeOf(err) != FileRead || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of a missing file = %v, want code %s", err, FileRead)
		}
		if diag.HintOf(err) != "check the path and its permissions" {
			t.Errorf("hint = %q", diag.HintOf(err))
		}
		if _, err := open(dir); diag.CodeOf(err) != FileRead {
			t.Errorf("open of a directory = %v, want code %s", err, FileRead)
		}
	}
}
