package corpus

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"gpuemu/internal/dtype"
)

// This file implements a project of kernels of the corpus.

// projectFile is gpuemu.toml, as far as it is written here.
type projectFile struct {
	Project projectTable `toml:"project"`
	Ops     []projectOp  `toml:"ops"`
}

type projectTable struct {
	Name string `toml:"name"`
}

type projectOp struct {
	Name       string         `toml:"name"`
	Schema     string         `toml:"schema"`
	DTypes     []dtype.DType  `toml:"dtypes"`
	Attributes map[string]any `toml:"attributes,omitempty"`
	MaxSizes   map[string]int `toml:"max_sizes,omitempty"`
	Kernel     projectKernel  `toml:"kernel"`
}

type projectKernel struct {
	PTX   string `toml:"ptx"`
	Entry string `toml:"entry"`
	Launch
}

// WriteProject writes a project into a directory, which is made if need be: gpuemu.toml with one op for each id, in
// that order and called as the id, the PTX of an architecture below ptx, and the sources below source. A kernel is
// compiled once per number format, which gpuemu.toml says as {dtype}.
func WriteProject(dir, arch string, ids ...string) error {
	for _, sub := range []string{"ptx", "source"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o777); err != nil {
			return err
		}
	}
	doc := projectFile{Project: projectTable{Name: "corpus"}}
	for _, id := range ids {
		k, m, err := find(id)
		if err != nil {
			return err
		}
		dtypes := k.DTypes
		if m != nil {
			dtypes = m.DTypes
		}
		source, err := Source(id)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "source", id+k.extension()), []byte(source), 0o666); err != nil {
			return err
		}
		for _, d := range dtypes {
			text, err := PTX(id, d, arch)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, "ptx", fmt.Sprintf("%s.%s.ptx", id, d)), text, 0o666); err != nil {
				return err
			}
		}
		doc.Ops = append(doc.Ops, projectOp{Name: id, Schema: k.Op, DTypes: dtypes, Attributes: k.Attributes,
			MaxSizes: k.MaxSizes,
			Kernel:   projectKernel{PTX: "ptx/" + id + ".{dtype}.ptx", Entry: k.Entry, Launch: k.Launch}})
	}
	text, err := toml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("gpuemu.toml: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "gpuemu.toml"), text, 0o666)
}
