package main

import (
	"fmt"
	"slices"

	"gpuemu/bench/detection/record"
)

// This file implements docs/evidence/detection-device.md: the emulator's verdicts beside those of a GPU.

// merged is several outcomes of a subject as one; nil where there is none.
func merged(list ...*outcome) *outcome {
	var all *outcome
	for _, o := range list {
		if o == nil {
			continue
		}
		if all == nil {
			all = &outcome{first: never, firstValues: never}
		}
		for _, r := range o.parts {
			all.add(r)
		}
	}
	return all
}

// fails is the verdict on a subject: a correct kernel fails by any case, a mutant has its budget.
func (s *subject) fails(o *outcome) bool {
	if s.isBase() {
		return o.first != never
	}
	return o.found()
}

// isBase reports whether the subject is a base kernel.
func (s *subject) isBase() bool { return s.operator == "" }

// onEmulator is the verdict of the emulator on what the GPU was asked, too.
func (d *dataset) onEmulator(s *subject) *outcome {
	if !s.isBase() {
		return d.ours(d.seed(), s.id)
	}
	var list []*outcome
	for _, setting := range d.settings(record.FalseAlarms) {
		list = append(list, d.of(record.FalseAlarms, setting, s.id))
	}
	return merged(list...)
}

// onDevice is the verdict of the GPU.
func (d *dataset) onDevice(s *subject) *outcome {
	var list []*outcome
	for _, setting := range d.settings(record.Device) {
		list = append(list, d.of(record.Device, setting, s.id))
	}
	return merged(list...)
}

// compared are the subjects that both have judged.
func (d *dataset) compared() []*subject {
	var list []*subject
	for _, group := range [][]*subject{d.bases, d.mutants} {
		for _, s := range group {
			device := d.onDevice(s)
			if d.onEmulator(s) != nil && device != nil && device.cases > device.notRun {
				list = append(list, s)
			}
		}
	}
	return list
}

// agreement counts subjects by who found them.
type agreement struct{ both, neither, emulator, device int }

func (a *agreement) add(emulator, device bool) {
	switch {
	case emulator && device:
		a.both++
	case emulator:
		a.emulator++
	case device:
		a.device++
	default:
		a.neither++
	}
}

func (a agreement) share() share {
	return share{a.both + a.neither, a.both + a.neither + a.emulator + a.device}
}

// devicePage is docs/evidence/detection-device.md.
func (d *dataset) devicePage() []byte {
	p := &page{}
	p.WriteString("# The emulator beside a GPU\n\n")
	p.para("Made by `make evidence-detection` of the records named at the end. `bench/device/corpus.sh` launches the " +
		"same PTX on the GPU through the Python client, on the same cases: base kernels compiled for sm_90, mutants for " +
		"sm_80. There the guards of the client (poisoned outputs, red zones, inputs compared, repeated launches) stand in " +
		"for the emulator's checks.")
	p.heading(2, "Agreement")
	t := newTable("kernels", ">both find it", ">neither", ">emulator only", ">GPU only", ">agreement", ">95 %, Wilson")
	add := func(name string, keep func(*subject) bool) {
		var a agreement
		for _, s := range d.compared() {
			if keep(s) {
				a.add(s.fails(d.onEmulator(s)), s.fails(d.onDevice(s)))
			}
		}
		if s := a.share(); s.n > 0 {
			t.row(name, a.both, a.neither, a.emulator, a.device, percent(s.value()), s.interval())
		}
	}
	equal := func(s *subject) bool { return !s.isBase() && d.difference(s.id) == equivalent }
	add("correct kernels", func(s *subject) bool { return s.isBase() })
	add("mutants of known operators", func(s *subject) bool { return !s.isBase() && !equal(s) && tuned(s) })
	add("mutants of held-out operators", func(s *subject) bool { return !s.isBase() && !equal(s) && heldOut(s) })
	add("real bugs", func(s *subject) bool { return !equal(s) && realBug(s) })
	add("equivalent mutants", equal)
	for _, class := range d.values(func(s *subject) string { return s.class }) {
		add("class "+class, func(s *subject) bool { return s.class == class && !equal(s) })
	}
	p.table(t, "Nothing has been run yet.")
	d.firstsSection(p)
	p.heading(2, "Differences")
	t = newTable("kernel", "emulator", "GPU", "explanation")
	for _, s := range d.unlike() {
		_, text := d.find(d.explanations.Device, s)
		t.row(code(s.id), verdict(d.onEmulator(s)), verdict(d.onDevice(s)), text)
	}
	p.table(t, "There are none.")
	d.notComparedSection(p)
	d.sanitizerSection(p)
	p.sources(d, record.Device, record.Sanitizer, record.DeviceEquivalence)
	return p.file()
}

// verdict prints what came out.
func verdict(o *outcome) string {
	if o.hit != nil {
		return fmt.Sprintf("fails at case %d: %s", o.first, code(o.hit.Reason))
	}
	return fmt.Sprintf("passes %d cases", o.cases-o.notRun)
}

// firstsSection compares the first failing cases of what both find.
func (d *dataset) firstsSection(p *page) {
	var same, sooner, later int
	for _, s := range d.compared() {
		if e, g := d.onEmulator(s), d.onDevice(s); e.found() && g.found() && !s.isBase() {
			switch {
			case e.first == g.first:
				same++
			case e.first < g.first:
				sooner++
			default:
				later++
			}
		}
	}
	if n := same + sooner + later; n > 0 {
		p.para("Of %d that both find, the first failing case is the same for %d; %d fail sooner in the emulator, whose "+
			"checks see what leaves no trace in the outputs, %d sooner on the GPU.", n, same, sooner, later)
	}
	kernels, cases := d.alarms(d.deviceJudges()...)
	if cases.n > 0 {
		p.para("On the GPU %s correct kernels are accused: %d of %d cases fail, a rate below %s with 95 %% confidence.",
			kernels.ratio(), cases.k, cases.n, cases.limit())
	}
}

func (d *dataset) deviceJudges() []judge {
	var list []judge
	for _, setting := range d.settings(record.Device) {
		list = append(list, d.judgeSetting(record.Device, setting))
	}
	return list
}

// notComparedSection lists what the GPU was not asked, or could not run.
func (d *dataset) notComparedSection(p *page) {
	if len(d.settings(record.Device)) == 0 {
		return
	}
	p.heading(2, "Not compared")
	done := map[string]bool{}
	for _, s := range d.compared() {
		done[s.id] = true
	}
	t := newTable("kernel", "on the GPU")
	for _, group := range [][]*subject{d.bases, d.mutants} {
		for _, s := range group {
			if done[s.id] || d.onEmulator(s) == nil {
				continue
			}
			why := "no record"
			if o := d.onDevice(s); o != nil {
				why = fmt.Sprintf("%d of %d cases not run: %s", o.notRun, o.cases, o.parts[0].Message)
			}
			t.row(code(s.id), why)
		}
	}
	p.table(t, "Everything was.")
}

// sanitizerSection lists mutants whose outputs are those of their base, and what compute-sanitizer says of both.
func (d *dataset) sanitizerSection(p *page) {
	tools := d.settings(record.Sanitizer)
	if len(tools) == 0 {
		return
	}
	p.heading(2, "compute-sanitizer on mutants with equal outputs")
	p.para("A mutant whose outputs are those of its base may still touch memory that is not its own. What NVIDIA's " +
		"tool says of it decides whether it counts as wrong; a complaint of a tool that has one of the base, too, does not.")
	t := newTable(append([]string{"kernel", "what is wrong"}, tools...)...)
	for _, m := range slices.Concat(d.bases, d.mutants) {
		row, ran := []any{code(m.id), m.what}, false
		for _, tool := range tools {
			o := d.of(record.Sanitizer, tool, m.id)
			switch {
			case o == nil:
				row = append(row, "–")
				continue
			case o.failed > 0:
				row = append(row, fmt.Sprintf("**%d of %d**: %s", o.failed, o.cases, o.parts[0].Reason))
			case o.cases == o.notRun:
				row = append(row, "not run")
			default:
				row = append(row, fmt.Sprintf("0 of %d", o.cases-o.notRun))
			}
			ran = true
		}
		if ran {
			t.row(row...)
		}
	}
	p.table(t, "Nothing has been run yet.")
}
