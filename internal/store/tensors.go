package store

// This file implements tensor files: safetensors under the hash of their content, with the real layout of each tensor.

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"

	"gpuemu/internal/diag"
	"gpuemu/internal/tensor"
)

// viewsKey is the metadata entry that says how tensors lie in their storage. safetensors has no strides: a tensor that
// is not dense is saved as its whole storage, flat, and described there.
const viewsKey = "gpuemu.views"

// view is how a tensor lies in its storage; strides and offset are in elements.
type view struct {
	Shape   []int `json:"shape"`
	Strides []int `json:"strides"`
	Offset  int   `json:"offset"`
}

// SaveTensors stores tensors under the hash of what is written and returns that key. Layouts are kept: each tensor
// comes back with its strides, its offset and what lies in its gaps. The file is on disk, complete, when it returns.
// It stays as long as a result names the key in Inputs, and the budget allows; without one, Prune may take it.
func (s *Store) SaveTensors(ctx context.Context, ts []tensor.Named, metadata map[string]string) (string, error) {
	if s.opt.ReadOnly {
		return "", s.readOnly("save tensors")
	}
	flat, meta, err := flatten(ts, metadata)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(s.dir, blobDir)
	f, err := os.CreateTemp(dir, tempPrefix+"*") // mode 0600
	if err != nil {
		return "", fileFault(IOFailed, dir, "save tensors", err)
	}
	key, err := s.writeBlob(ctx, f, flat, meta)
	if err != nil {
		_ = os.Remove(f.Name()) // the error in hand is the cause; Prune removes what stays
		return "", fileFault(IOFailed, dir, "save tensors", err)
	}
	return key, nil
}

// tempPrefix begins the name of a tensor file that is being written.
const tempPrefix = ".saving-"

// writeBlob writes and closes f and gives it the name of its content.
func (s *Store) writeBlob(ctx context.Context, f *os.File, ts []tensor.Named, meta map[string]string) (string, error) {
	hash := sha256.New()
	w := bufio.NewWriterSize(&contextWriter{ctx, io.MultiWriter(f, hash)}, 1<<16)
	err := tensor.WriteSafetensors(w, ts, meta)
	for _, step := range []func() error{w.Flush, f.Sync} {
		if err == nil {
			err = step()
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	key := hex.EncodeToString(hash.Sum(nil))
	path := s.blob(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// The time of the file is that of its last use: Prune goes by it. A file of that name has the same content.
	if err := os.Rename(f.Name(), path); err != nil {
		return "", err
	}
	for _, dir := range []string{filepath.Dir(path), filepath.Join(s.dir, blobDir)} {
		if err := syncDir(dir); err != nil {
			return "", err
		}
	}
	return key, nil
}

// blob is the path of a tensor file.
func (s *Store) blob(key string) string {
	return filepath.Join(s.dir, blobDir, key[:2], key+".safetensors")
}

// flatten returns what safetensors can express of ts, and the metadata with the rest.
func flatten(ts []tensor.Named, metadata map[string]string) ([]tensor.Named, map[string]string, error) {
	meta := maps.Clone(metadata)
	if _, taken := meta[viewsKey]; taken {
		return nil, nil, diag.Errorf(BadRecord, "", "metadata of tensors has the reserved key %q", viewsKey)
	}
	views := map[string]view{}
	flat := make([]tensor.Named, len(ts))
	for i, t := range ts {
		flat[i] = t
		size := t.Tensor.DType.Size()
		if t.Tensor.IsContiguous() && len(t.Tensor.Data) == t.Tensor.Elems()*size {
			continue
		}
		shape, err := tensor.ParseShape([]int{len(t.Tensor.Data) / size})
		if err != nil {
			return nil, nil, diag.Errorf(BadRecord, "", "storage of tensor %q: %w", t.Name, err)
		}
		storage, err := tensor.FromBytes(t.Tensor.DType, shape, t.Tensor.Data[:shape[0]*size])
		if err != nil {
			return nil, nil, diag.Errorf(BadRecord, "", "storage of tensor %q: %w", t.Name, err)
		}
		flat[i].Tensor = storage
		views[t.Name] = view{Shape: append([]int{}, t.Tensor.Shape...), Strides: append([]int{}, t.Tensor.Strides...),
			Offset: t.Tensor.Offset}
	}
	if len(views) == 0 {
		return flat, meta, nil
	}
	text, err := marshal(views)
	if err != nil {
		return nil, nil, err
	}
	if meta == nil {
		meta = map[string]string{}
	}
	meta[viewsKey] = text
	return flat, meta, nil
}

var keyForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// LoadTensors opens the tensors of a key, after checking that the file still has the content it was saved with. They
// are valid until Close.
func (s *Store) LoadTensors(ctx context.Context, key string) (*tensor.File, error) {
	if !keyForm.MatchString(key) {
		return nil, diag.Errorf(TensorsMissing, "", "%q is not a key of tensors", key)
	}
	path := s.blob(key)
	hint := "they were pruned to keep within the size budget, or the store was moved; run the campaign again"
	got, err := hashFile(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, diag.Errorf(TensorsMissing, hint, "%s: no tensors under this key", path)
	case err != nil:
		return nil, fileFault(IOFailed, path, "load tensors", err)
	case got != key:
		return nil, s.damagedBlob(path, "its content has the hash "+got)
	}
	f, err := tensor.OpenSafetensors(path)
	if err != nil {
		return nil, s.damagedBlob(path, err.Error())
	}
	if err := restore(f); err != nil {
		_ = f.Close() // the first error is the one to tell
		return nil, s.damagedBlob(path, err.Error())
	}
	return f, nil
}

func (s *Store) damagedBlob(path, why string) error {
	return diag.Errorf(TensorsDamaged, "delete this file and run the campaign again", "%s: damaged: %s", path, why)
}

// restore gives the tensors the layouts that flatten took away.
func restore(f *tensor.File) error {
	text, ok := f.Metadata[viewsKey]
	if !ok {
		return nil
	}
	delete(f.Metadata, viewsKey)
	var views map[string]view
	if err := json.Unmarshal([]byte(text), &views); err != nil {
		return err
	}
	for i, t := range f.Tensors {
		v, ok := views[t.Name]
		if !ok {
			continue
		}
		shape, err := tensor.ParseShape(v.Shape)
		if err != nil {
			return err
		}
		whole, err := tensor.FromStorage(t.Tensor.DType, shape, v.Strides, v.Offset, t.Tensor.Data)
		if err != nil {
			return err
		}
		f.Tensors[i].Tensor = whole
	}
	return nil
}

func hashFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(&contextWriter{ctx, hash}, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
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

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
