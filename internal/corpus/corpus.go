// Package corpus holds kernels that are right, and the same kernels made wrong, with sources and compiled PTX: what
// gpuemu demo shows and what the study of bench/detection measures. docs/corpus.md describes its files.
//
// It executes and judges nothing. The main types are Kernel and Mutant; WriteProject makes a project of some of them,
// which campaigns run as any other. Everything is embedded and read when it is first asked for. The files are made by
// tools/corpus, and the tests of this package hold them to what they say of themselves: a fault found later is one of
// the program, and panics.
package corpus

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// This file implements reading what the corpus says of itself.

//go:embed kernels bugs ptx mutants.json
var files embed.FS

// The languages of sources.
const (
	Triton = "triton"
	CUDA   = "cuda"
)

// Kernel is a base kernel: one that is right.
type Kernel struct {
	Name       string         `toml:"-"` // of the file, and its id
	Title      string         `toml:"title"`
	Op         string         `toml:"op"` // of the catalogue
	Family     string         `toml:"family"`
	Language   string         `toml:"language"` // Triton or CUDA
	Entry      string         `toml:"entry"`
	DTypes     []dtype.DType  `toml:"dtypes"`
	Provenance string         `toml:"provenance"`
	Attributes map[string]any `toml:"attributes"` // of the op that are not drawn
	MaxSizes   map[string]int `toml:"max_sizes"`  // that the kernel is made for, by dimension of the op
	Build      map[string]any `toml:"build"`      // for tools/corpus/build.py alone
	Launch     Launch         `toml:"launch"`
}

// Launch is how a kernel is launched, as [ops.kernel] of gpuemu.toml has it.
type Launch struct {
	Grid   []any `toml:"grid"`
	Block  []any `toml:"block"`
	Shared any   `toml:"shared,omitempty"`
	Args   []any `toml:"args"`
}

// Mutant is a kernel made wrong by one edit, or by the edits of a bug that a public project had.
type Mutant struct {
	ID       string        `json:"id"`
	Kernel   string        `json:"kernel"` // the base kernel
	Operator string        `json:"operator"`
	Class    string        `json:"class"`
	HeldOut  bool          `json:"held_out"` // its operator was not looked at while anything was tuned
	Line     int           `json:"line"`     // of the base's source, from 1
	Before   string        `json:"before"`
	After    string        `json:"after"`
	What     string        `json:"what"`          // what is wrong with it, in a few words
	Ref      string        `json:"ref,omitempty"` // where the bug was reported: owner/repository#number
	DTypes   []dtype.DType `json:"dtypes"`
	// SHA256 are the digests of the PTX by dtype, for MutantArch.
	SHA256 map[string]string `json:"sha256"`
}

// Real is the operator of a bug that a public project had. The id of such a mutant is real.NAME.
const Real = "real"

// Bug is a bug of a public tracker, re-created as edits of a base kernel's source.
type Bug struct {
	Name   string        `toml:"-"` // of the file
	Ref    string        `toml:"ref"`
	Title  string        `toml:"title"` // in a few words
	Class  string        `toml:"class"`
	What   string        `toml:"what"`   // what happens, in a sentence
	Axis   string        `toml:"axis"`   // the cases that show it
	Silent string        `toml:"silent"` // the cases that do not
	Kernel string        `toml:"kernel"`
	DTypes []dtype.DType `toml:"dtypes"`
	Edits  []Edit        `toml:"edits"`
}

// Edit replaces a text that occurs once.
type Edit struct {
	Before string `toml:"before"`
	After  string `toml:"after"`
}

// The architectures that base kernels are compiled for; mutants are compiled for the first alone.
const (
	MutantArch = "sm_80"
	HopperArch = "sm_90"
)

// Arches are the architectures of base kernels.
func Arches() []string { return []string{MutantArch, HopperArch} }

// content is what is embedded, read.
type content struct {
	kernels  []Kernel
	mutants  []Mutant
	bugs     []Bug
	byKernel map[string]*Kernel
	byMutant map[string]*Mutant
}

var load = sync.OnceValue(func() *content {
	c, err := read(files)
	if err != nil {
		panic("corpus: internal error: " + err.Error())
	}
	return c
})

// Kernels returns the base kernels in the order of their names.
func Kernels() []Kernel { return slices.Clone(load().kernels) }

// Mutants returns the mutants in the order of the file.
func Mutants() []Mutant { return slices.Clone(load().mutants) }

// Bugs returns the bugs of public trackers in the order of their names.
func Bugs() []Bug { return slices.Clone(load().bugs) }

// read reads a corpus.
func read(fsys fs.FS) (*content, error) {
	c := &content{byKernel: map[string]*Kernel{}, byMutant: map[string]*Mutant{}}
	names, err := fs.Glob(fsys, "kernels/*.toml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		k := Kernel{Name: strings.TrimSuffix(path.Base(name), ".toml")}
		if err := readTOML(fsys, name, &k); err != nil {
			return nil, err
		}
		if k.Language != Triton && k.Language != CUDA {
			return nil, fmt.Errorf("%s: language is %q, want %s or %s", name, k.Language, Triton, CUDA)
		}
		c.kernels = append(c.kernels, k)
	}
	if names, err = fs.Glob(fsys, "bugs/*.toml"); err != nil {
		return nil, err
	}
	for _, name := range names {
		b := Bug{Name: strings.TrimSuffix(path.Base(name), ".toml")}
		if err := readTOML(fsys, name, &b); err != nil {
			return nil, err
		}
		c.bugs = append(c.bugs, b)
	}
	for i := range c.kernels {
		c.byKernel[c.kernels[i].Name] = &c.kernels[i]
	}
	if c.mutants, err = readMutants(fsys); err != nil {
		return nil, fmt.Errorf("mutants.json: %w", err)
	}
	for i := range c.mutants {
		m := &c.mutants[i]
		switch {
		case c.byMutant[m.ID] != nil || c.byKernel[m.ID] != nil:
			return nil, fmt.Errorf("mutants.json: id %q is there twice", m.ID)
		case c.byKernel[m.Kernel] == nil:
			return nil, fmt.Errorf("mutants.json: %s is of kernel %q, which is not there", m.ID, m.Kernel)
		case m.Operator == Real && c.bug(m.ID) == nil:
			return nil, fmt.Errorf("mutants.json: %s has no file in bugs", m.ID)
		}
		c.byMutant[m.ID] = m
	}
	return c, nil
}

// readMutants reads the list of mutants. What else the file has is about edits that gave none.
func readMutants(fsys fs.FS) ([]Mutant, error) {
	text, err := fs.ReadFile(fsys, "mutants.json")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Mutants []Mutant `json:"mutants"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	return doc.Mutants, nil
}

// readTOML reads one description; a key that it should not have is a fault.
func readTOML(fsys fs.FS, name string, into any) error {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// bug is the one that a mutant re-creates.
func (c *content) bug(id string) *Bug {
	for i := range c.bugs {
		if Real+"."+c.bugs[i].Name == id {
			return &c.bugs[i]
		}
	}
	return nil
}

// find returns the kernel of an id and, where the id is a mutant's, the mutant.
func find(id string) (*Kernel, *Mutant, error) {
	c := load()
	if k := c.byKernel[id]; k != nil {
		return k, nil, nil
	}
	if m := c.byMutant[id]; m != nil {
		return c.byKernel[m.Kernel], m, nil
	}
	var ids []string
	for i := range c.kernels {
		ids = append(ids, c.kernels[i].Name)
	}
	for i := range c.mutants {
		ids = append(ids, c.mutants[i].ID)
	}
	return nil, nil, diag.Errorf(UnknownID, diag.Suggest(id, ids, "gpuemu demo --list has them all"),
		"the corpus has no kernel %.200q", id)
}
