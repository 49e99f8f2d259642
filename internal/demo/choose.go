package demo

import (
	"slices"

	"gpuemu/internal/corpus"
	"gpuemu/internal/diag"
)

// This file implements the choice of kernels.

// Kernels returns what the demo shows: all right kernels, then all bugs of public projects, each by name. Mutants are
// for the study: there are hundreds of them, and a bug that somebody had says more.
func Kernels() []string {
	var ids []string
	for _, k := range corpus.Kernels() {
		ids = append(ids, k.Name)
	}
	for _, b := range corpus.Bugs() {
		ids = append(ids, corpus.Real+"."+b.Name)
	}
	return ids
}

// Choose returns the kernels of names, right ones first: any of the corpus, and with a right kernel those made of it
// that are shown. Without names it is Kernels.
func Choose(names []string) ([]string, error) {
	if len(names) == 0 {
		return Kernels(), nil
	}
	entries := All()
	var known, sound, broken []string
	for i := range entries {
		known = append(known, entries[i].ID)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, diag.Errorf(corpus.UnknownID, diag.Suggest(name, known, "gpuemu demo --list has them all"),
				"the corpus has no kernel %.200q", name)
		}
	}
	for i := range entries {
		e := &entries[i]
		asked := slices.Contains(names, e.ID)
		switch {
		case !e.Broken && asked:
			sound = append(sound, e.ID)
		case e.Broken && (asked || e.Shown && slices.Contains(names, e.Kernel)):
			broken = append(broken, e.ID)
		}
	}
	return append(sound, broken...), nil
}

// Entry is a kernel or mutant in a list.
type Entry struct {
	ID       string `json:"id"`
	Kernel   string `json:"kernel"`
	Op       string `json:"op"`
	Language string `json:"language"`
	Broken   bool   `json:"broken"`
	What     string `json:"what"`
	Ref      string `json:"ref,omitempty"`
	Shown    bool   `json:"shown"` // it is part of a demo that names no kernel
}

// All lists the whole corpus.
func All() []Entry {
	var out []Entry
	kernels := map[string]corpus.Kernel{}
	for _, k := range corpus.Kernels() {
		kernels[k.Name] = k
		out = append(out, Entry{ID: k.Name, Kernel: k.Name, Op: k.Op, Language: k.Language, What: k.Title})
	}
	titles := map[string]string{}
	for _, b := range corpus.Bugs() {
		titles[corpus.Real+"."+b.Name] = b.Title
	}
	for _, m := range corpus.Mutants() {
		k := kernels[m.Kernel]
		if title := titles[m.ID]; title != "" {
			m.What = title
		}
		out = append(out, Entry{ID: m.ID, Kernel: m.Kernel, Op: k.Op, Language: k.Language, Broken: true, What: m.What,
			Ref: m.Ref})
	}
	chosen := map[string]bool{}
	for _, id := range Kernels() {
		chosen[id] = true
	}
	for i := range out {
		out[i].Shown = chosen[out[i].ID]
	}
	return out
}
