package fingerprint

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"slices"

	"gpuemu/internal/diag"
)

// This file implements build outputs: the compiled files that Git ignores and that are the real thing under test.

const (
	maxOutputs    = 1000
	maxOutputSize = 8 << 30 // bytes; a shared library with code for every architecture is below 4 GiB
)

// Outputs hashes build outputs, named one by one from the top of the repository. Each must be a regular file inside
// the working tree: a link may lead to one, but not out of the tree.
func (r *Repo) Outputs(paths []string) ([]Output, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	if r.bare {
		return nil, diag.Errorf(NoRepo, "name a clone with files", "a bare repository has no build outputs")
	}
	if len(paths) > maxOutputs {
		return nil, diag.Errorf(BadOutput, "", "%d build outputs, limit %d", len(paths), maxOutputs)
	}
	clean := make([]string, 0, len(paths))
	for _, p := range paths {
		c, err := cleanPath("output", p)
		if err != nil {
			return nil, err
		}
		clean = append(clean, c)
	}
	slices.Sort(clean)
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, diag.Errorf(BadOutput, "", "%w", err)
	}
	defer root.Close()
	var outputs []Output
	for _, p := range slices.Compact(clean) {
		o, err := hashOutput(root, p)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, o)
	}
	return outputs, nil
}

// hashOutput hashes one file below root, which follows links but never out of it.
func hashOutput(root *os.Root, path string) (Output, error) {
	refuse := func(format string, args ...any) (Output, error) {
		return Output{}, diag.Errorf(BadOutput, "build it first, and name a file inside the repository",
			"build output "+Escape(path)+": "+format, args...)
	}
	name := filepath.FromSlash(path)
	info, err := root.Stat(name) // before it is opened: opening a pipe would wait
	if err != nil {
		return refuse("%w", err)
	}
	if !info.Mode().IsRegular() {
		return refuse("is no regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return refuse("%w", err)
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return refuse("was exchanged while it was read")
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxOutputSize+1))
	switch {
	case err != nil:
		return refuse("%w", err)
	case n > maxOutputSize:
		return refuse("has more than %d GiB", maxOutputSize>>30)
	}
	return Output{Path: path, SHA256: [32]byte(h.Sum(nil)), Size: n}, nil
}
