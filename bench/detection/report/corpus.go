package main

import (
	"fmt"
	"slices"
	"strings"

	"gpuemu/bench/detection/record"
)

// This file implements docs/evidence/corpus.md: what the study was run on.

// corpusPage is docs/evidence/corpus.md.
func (d *dataset) corpusPage() []byte {
	p := &page{}
	p.WriteString("# What the study was run on\n\n")
	p.para("Made by `make evidence-detection`. [The corpus](../corpus.md) says how kernels and mutants are made and "+
		"how a mutant is found to be equivalent. %s", d.counted())
	p.heading(2, "Base kernels")
	t := newTable("kernel", "family", "op", "language", "dtypes", ">mutants", ">real bugs", "what it is", "provenance")
	for _, b := range d.bases {
		var mutants, bugs int
		for _, m := range d.mutants {
			switch {
			case m.kernel != b.id:
			case m.real():
				bugs++
			default:
				mutants++
			}
		}
		t.row(code(b.id), b.family, b.op, b.language, strings.Join(b.dtypes, ", "), mutants, bugs, b.title,
			b.provenance)
	}
	p.table(t, "There are none yet.")
	d.operatorSection(p)
	d.bugSection(p)
	d.equivalentSection(p)
	p.sources(d, record.Equivalence, record.DeviceEquivalence, record.Sanitizer)
	return p.file()
}

func (d *dataset) operatorSection(p *page) {
	p.heading(2, "Mutation operators")
	t := newTable("operator", "class", "held out", ">mutants", ">wrong in bits", ">in memory only", ">does not end",
		">equivalent",
		">not compared")
	var total [6]int
	for _, op := range d.values(func(s *subject) string { return s.operator }) {
		var n [6]int
		var one *subject
		for _, m := range d.mutants {
			if m.operator != op || m.real() {
				continue
			}
			one = m
			n[0]++
			n[column(d.difference(m.id))]++
		}
		if one == nil {
			continue
		}
		held := ""
		if one.heldOut {
			held = "held out"
		}
		t.row(code(op), one.class, held, n[0], n[1], n[2], n[3], n[4], n[5])
		for i := range total {
			total[i] += n[i]
		}
	}
	if len(t.rows) > 0 {
		t.row("**all**", "", "", total[0], total[1], total[2], total[3], total[4], total[5])
	}
	p.table(t, "There are none yet.")
	p.para("Further edits are no mutants and appear in no figure: %d do not compile, %d compile to the PTX of their "+
		"base, %d to that of another mutant (`internal/corpus/mutants.json` lists them).", len(d.discarded.Stillborn),
		len(d.discarded.Equal),
		len(d.discarded.Duplicates))
}

// column of the table of operators.
func column(diff difference) int {
	return map[difference]int{inBits: 1, inMemory: 2, unended: 3, equivalent: 4, unsampled: 5}[diff]
}

func (d *dataset) bugSection(p *page) {
	p.heading(2, "Bugs that projects had")
	t := newTable("bug", "tracker", "class", "what goes wrong", "kernel", "found at case", "accepted by")
	for _, m := range d.mutants {
		if !m.real() {
			continue
		}
		found := "not run"
		if o := d.ours(d.seed(), m.id); o.found() {
			found = fmt.Sprintf("%d: %s", o.first, code(o.hit.Reason))
		} else if o != nil {
			found = "**missed**"
		}
		settings := d.baselineSettings()
		accepted := 0
		for _, setting := range settings {
			if o := d.of(record.Baselines, setting, m.id); o != nil && !o.found() {
				accepted++
			}
		}
		t.row(code(m.id), m.ref, m.class, m.what, code(m.kernel), found, fmt.Sprintf("%d of %d harnesses", accepted,
			len(settings)))
	}
	p.table(t, "There are none yet.")
}

// equivalentSection lists equivalent mutants with the samples that say so.
func (d *dataset) equivalentSection(p *page) {
	p.heading(2, "Equivalent mutants")
	p.para("No sample of an independent generator tells them from their base by a single bit of the outputs, and " +
		"compute-sanitizer, where it was run, has nothing to say of them. They count neither as found nor as missed.")
	t := newTable("mutant", "edit", ">samples, emulator", ">samples, GPU", "compute-sanitizer")
	for _, m := range d.mutants {
		if d.difference(m.id) != equivalent {
			continue
		}
		var tools []string
		for _, tool := range d.settings(record.Sanitizer) {
			if o := d.of(record.Sanitizer, tool, m.id); o != nil && o.cases > o.notRun {
				tools = append(tools, tool)
			}
		}
		clean := "not run"
		if len(tools) > 0 {
			slices.Sort(tools)
			clean = "clean: " + strings.Join(tools, ", ")
		}
		t.row(code(m.id), m.edit(), d.samples(record.Equivalence, m.id),
			d.samples(record.DeviceEquivalence, m.id), clean)
	}
	p.table(t, "There are none.")
}
