package main

import (
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"gpuemu/bench/detection/record"
)

// This file implements explanations: why something came out otherwise than it should, written by hand.

// explanations are by id, by a pattern of ids as path.Match reads it ("*.barrier_drop.*"), or by what the emulator
// found: "reason oob_read".
type explanations struct {
	Missed  map[string]string `toml:"missed"`  // wrong, and not found within the budget
	Device  map[string]string `toml:"device"`  // found by one of emulator and GPU only
	Flagged map[string]string `toml:"flagged"` // found, though no sample shows a difference
	Alarms  map[string]string `toml:"alarms"`  // correct kernels with a failing case, or one that did not run
}

func readExplanations(name string) (*explanations, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := &explanations{}
	if err := toml.NewDecoder(f).DisallowUnknownFields().Decode(e); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

// find gives the explanation of a subject: its own, or else that of the first pattern it matches, or else that of what
// the emulator found.
func (d *dataset) find(table map[string]string, s *subject) (pattern, text string) {
	if text, ok := table[s.id]; ok {
		return s.id, text
	}
	patterns := make([]string, 0, len(table))
	for p := range table {
		patterns = append(patterns, p)
	}
	slices.Sort(patterns)
	for _, p := range patterns {
		if ok, err := path.Match(p, s.id); err == nil && ok {
			return p, table[p]
		}
	}
	if o := d.onEmulator(s); o != nil && o.hit != nil {
		p := "reason " + o.hit.Reason
		return p, table[p]
	}
	return "", ""
}

// missed are the wrong kernels that ours did not find.
func (d *dataset) missed() []*subject {
	return d.wrong(func(s *subject) bool { return !d.ours(d.seed(), s.id).found() })
}

// flagged are mutants that ours found, and that no sample tells from their base.
func (d *dataset) flagged() []*subject {
	var list []*subject
	for _, m := range d.mutants {
		if d.difference(m.id) == equivalent && d.ours(d.seed(), m.id).found() {
			list = append(list, m)
		}
	}
	return list
}

// alarmed are correct kernels with a case of run false-alarms that failed or did not run.
func (d *dataset) alarmed() []*subject {
	var list []*subject
	for _, b := range d.bases {
		for _, setting := range d.settings(record.FalseAlarms) {
			if o := d.of(record.FalseAlarms, setting, b.id); o != nil && (o.failed > 0 || o.notRun > 0) {
				list = append(list, b)
				break
			}
		}
	}
	return list
}

// unlike are subjects on which the emulator and the GPU differ.
func (d *dataset) unlike() []*subject {
	var list []*subject
	for _, s := range d.compared() {
		emulator, device := d.onEmulator(s), d.onDevice(s)
		if s.fails(emulator) != s.fails(device) {
			list = append(list, s)
		}
	}
	return list
}

// unexplained says what has no explanation, and which explanations explain nothing.
func (d *dataset) unexplained() []string {
	var faults []string
	check := func(kind string, table map[string]string, list []*subject) {
		used := map[string]bool{}
		for _, s := range list {
			pattern, text := d.find(table, s)
			used[pattern] = true
			if text == "" {
				faults = append(faults, fmt.Sprintf("[%s] has no entry for %s", kind, s.id))
			}
		}
		for p := range table {
			if !used[p] {
				faults = append(faults, fmt.Sprintf("[%s] %q explains nothing: remove it", kind, p))
			}
		}
	}
	check("missed", d.explanations.Missed, d.missed())
	check("device", d.explanations.Device, d.unlike())
	check("flagged", d.explanations.Flagged, d.flagged())
	check("alarms", d.explanations.Alarms, d.alarmed())
	slices.Sort(faults)
	return faults
}
