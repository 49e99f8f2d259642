package corpus

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// This file implements the texts of kernels: sources, with the edits of mutants, and PTX.

// extension is that of a source.
func (k *Kernel) extension() string {
	if k.Language == CUDA {
		return ".cu"
	}
	return ".py"
}

// Source returns the source of a kernel or mutant.
func Source(id string) (string, error) {
	k, m, err := find(id)
	if err != nil {
		return "", err
	}
	text, err := fs.ReadFile(files, "kernels/"+k.Name+k.extension())
	if err != nil {
		return "", err
	}
	if m == nil {
		return string(text), nil
	}
	return m.edit(string(text))
}

// edit makes a mutant of the base's source.
func (m *Mutant) edit(text string) (string, error) {
	start := 0
	for range m.Line - 1 {
		next := strings.IndexByte(text[start:], '\n')
		if next < 0 {
			return "", fmt.Errorf("%s: the source of %s has no line %d", m.ID, m.Kernel, m.Line)
		}
		start += next + 1
	}
	line, _, _ := strings.Cut(text[start:], "\n")
	at := strings.Index(text[start:], m.Before)
	if m.Before == "" || at < 0 || at > len(line) {
		return "", fmt.Errorf("%s: line %d of %s has no %q", m.ID, m.Line, m.Kernel, m.Before)
	}
	at += start
	return text[:at] + m.After + text[at+len(m.Before):], nil
}

// PTX returns the compiled form of a kernel or mutant.
func PTX(id string, d dtype.DType, arch string) ([]byte, error) {
	k, _, err := find(id)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s.%s.%s.ptx", id, d, arch)
	missing := func() error {
		return diag.Errorf(NoPTX, "mutants are compiled for "+MutantArch+" and some of the formats of their kernel",
			"the corpus has no %s for %s and %s", id, d, arch)
	}
	packed, err := fs.ReadFile(files, "ptx/"+k.Name+".zip")
	if err != nil {
		return nil, missing()
	}
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, fmt.Errorf("ptx/%s.zip: %w", k.Name, err)
	}
	f, err := archive.Open(name)
	if err != nil {
		return nil, missing()
	}
	defer f.Close()
	return io.ReadAll(f)
}
