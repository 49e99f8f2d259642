package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"gpuemu/bench/detection/record"
	"gpuemu/internal/corpus"
)

// This file implements reading corpus, records and explanations.

// Places below the root of the repository.
const (
	recordsDir       = "bench/detection/records"
	explanationsFile = "bench/detection/explanations.toml"
	evidenceDir      = "docs/evidence"
	mutantsFile      = "internal/corpus/mutants.json"
)

// load reads everything that the pages are made of.
func load(root string) (*dataset, error) {
	names, err := filepath.Glob(filepath.Join(root, recordsDir, "*.jsonl*"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no records: run the study first (bench/detection/run.sh)", recordsDir)
	}
	files := map[string]*record.File{}
	for _, name := range names {
		f, err := record.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[filepath.Base(name)] = f
	}
	bases, mutants := subjects()
	d, err := newDataset(bases, mutants, files)
	if err != nil {
		return nil, err
	}
	if d.explanations, err = readExplanations(filepath.Join(root, explanationsFile)); err != nil {
		return nil, err
	}
	d.discarded, err = readDiscarded(filepath.Join(root, mutantsFile))
	return d, err
}

// subjects are the kernels of the corpus.
func subjects() (bases, mutants []*subject) {
	languages := map[string]string{}
	for _, k := range corpus.Kernels() {
		s := &subject{id: k.Name, kernel: k.Name, language: k.Language, title: k.Title, op: k.Op, family: k.Family,
			provenance: k.Provenance}
		for _, d := range k.DTypes {
			s.dtypes = append(s.dtypes, d.String())
		}
		languages[k.Name] = k.Language
		bases = append(bases, s)
	}
	for _, m := range corpus.Mutants() {
		mutants = append(mutants, &subject{id: m.ID, kernel: m.Kernel, language: languages[m.Kernel], operator: m.Operator,
			class: m.Class, heldOut: m.HeldOut, ref: m.Ref, line: m.Line, before: m.Before, after: m.After, what: m.What})
	}
	return bases, mutants
}

// discarded are edits that are no mutants, as mutants.json lists them.
type discarded struct {
	Stillborn  []json.RawMessage `json:"stillborn"`  // they do not compile
	Equal      []json.RawMessage `json:"equal"`      // they compile to the PTX of their base
	Duplicates []json.RawMessage `json:"duplicates"` // they compile to the PTX of another mutant
}

func readDiscarded(name string) (d discarded, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}
