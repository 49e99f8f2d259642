package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpuemu/bench/detection/record"
)

// This file implements docs/evidence/detection-baselines.md: what the acceptance rules of other harnesses make of the
// same kernels.

// harness is a rule as the pages describe it: what bench/detection executes under that setting.
type harness struct{ setting, name, rule string }

// harnesses are in the order of the pages. The commits are those whose rules were read.
var harnesses = []harness{
	{"allclose-1e-2", "one-shape allclose, 1e-2", "one regular shape, torch.randn, one seed, atol = rtol = 1e-2: what " +
		"most repositories do"},
	{"assert-close", "one-shape assert_close", "the same with the defaults of torch.testing.assert_close by number " +
		"format"},
	{"kernelbench", "KernelBench", "423217d: the shapes of its problems, torch.rand (never negative), 5 seeds, " +
		"allclose with atol = rtol = 1e-4 for float32, 1e-2 for float16 and bfloat16"},
	{"robust-kbench", "robust-kbench", "078f5ba: 2 × 2 regular configurations, 5 seeds, the kernel runs twice, float32 " +
		"alone, allclose 1e-5"},
	{"geak", "GEAK-eval", "453b021: four regular shapes, one seed, allclose with atol 1e-3 and rtol 1e-1"},
	{"flashinfer-bench", "flashinfer-bench", "40e6ca7: shapes as of servers, 3 trials; an element is bad where its " +
		"absolute and its relative error exceed 1e-2; values that are not finite are refused; 95 % must be good for MoE " +
		"and few bits, else all"},
	{"gpu-mode", "GPU MODE", "f83cb92: a list of shapes, three seeds each, atol + rtol·|ref| of 1e-3 for float32 and " +
		"2e-2 for 16 bits, the same positions of NaN and infinities"},
	{"backendbench", "BackendBench", "66e0dbc: small shapes as of OpInfo, odd ones among them, values in [-9, 9], " +
		"assert_close 1e-2 with equal NaN"},
	{"gpuemu-published", "gpuemu as published", "30 cases, sizes drawn from the operator's lists, number format drawn, " +
		"values in [-10, 10], an absolute tolerance by operator and format, any NaN or infinity fails"},
}

// harnessName is how a setting of run baselines is printed.
func harnessName(setting string) string {
	for _, h := range harnesses {
		if h.setting == setting {
			return h.name
		}
	}
	return setting
}

// baselineSettings are those of the records, in the order of the pages.
func (d *dataset) baselineSettings() []string {
	at := func(setting string) int {
		i := slices.IndexFunc(harnesses, func(h harness) bool { return h.setting == setting })
		if i < 0 {
			return len(harnesses)
		}
		return i
	}
	list := slices.Clone(d.settings(record.Baselines))
	slices.SortStableFunc(list, func(x, y string) int { return cmp.Compare(at(x), at(y)) })
	return list
}

// baselinesPage is docs/evidence/detection-baselines.md.
func (d *dataset) baselinesPage() []byte {
	p := &page{}
	p.WriteString("# What other harnesses find\n\n")
	p.para("Made by `make evidence-detection` of the records named at the end. Each row is the acceptance rule of a " +
		"public harness, its shapes, values, seeds, tolerance and comparison, executed on the same compiled kernels in " +
		"the same emulator, without the emulator's checks and with outputs that are zero before the launch, as fresh " +
		"device memory usually is. The reference is the fp64 oracle, rounded to the number format: better than what the " +
		"harnesses have.")
	p.WriteString(d.inShort().String() + "\n")
	p.heading(2, "The rules")
	t := newTable("harness", "as executed here")
	for _, h := range harnesses {
		if slices.Contains(d.settings(record.Baselines), h.setting) {
			t.row(h.name, h.rule)
		}
	}
	p.table(t, "Nothing has been run yet.")
	p.heading(2, "Intervals")
	t = newTable("who judges", ">found", ">recall", ">95 %, Wilson", ">95 %, by kernel", ">correct kernels accused",
		">95 %, Wilson")
	add := func(name string, j judge, kernels share) {
		list := d.wrong(nil)
		s := recall(j, list)
		lo, hi := bootstrap(byKernel(j, list))
		t.row(name, s.ratio(), percent(s.value()), s.interval(), fmt.Sprintf("%.1f–%.1f %%", 100*lo, 100*hi),
			kernels.ratio(), kernels.interval())
	}
	kernels, _ := d.ourAlarms()
	add("gpuemu", d.judgeOurs(), kernels)
	for _, setting := range d.baselineSettings() {
		j := d.judgeSetting(record.Baselines, setting)
		kernels, _ := d.alarms(j)
		add(harnessName(setting), j, kernels)
	}
	p.table(t, "Nothing has been run yet.")
	p.para("Mutants and real bugs together. A harness stops at the first comparison that it refuses.")
	d.classSection(p)
	d.accusedSection(p)
	d.onlySection(p)
	p.sources(d, record.Ours, record.Baselines, record.Equivalence)
	return p.file()
}

// judges are ours and those of the baselines, with their names.
func (d *dataset) judges() (names []string, judges []judge) {
	names, judges = []string{"gpuemu"}, []judge{d.judgeOurs()}
	for _, setting := range d.baselineSettings() {
		names = append(names, harnessName(setting))
		judges = append(judges, d.judgeSetting(record.Baselines, setting))
	}
	return names, judges
}

func (d *dataset) classSection(p *page) {
	p.heading(2, "By class of fault")
	p.WriteString("![share of wrong kernels that each rule finds, by class](plots/baselines.svg)\n\n")
	names, judges := d.judges()
	columns := []string{"class", ">wrong kernels"}
	for _, n := range names {
		columns = append(columns, ">"+n)
	}
	t := newTable(columns...)
	for _, class := range d.values(func(s *subject) string { return s.class }) {
		list := d.wrong(func(s *subject) bool { return s.class == class })
		if len(list) == 0 {
			continue
		}
		row := []any{class, len(list)}
		for _, j := range judges {
			row = append(row, percent(recall(j, list).value()))
		}
		t.row(row...)
	}
	p.table(t, "Nothing has been run yet.")
}

// accusedSection lists correct kernels that some rule rejects.
func (d *dataset) accusedSection(p *page) {
	p.heading(2, "Correct kernels that a rule rejects")
	t := newTable("harness", "kernel", ">at comparison", "reason", "inputs")
	for _, setting := range d.baselineSettings() {
		for _, b := range d.bases {
			if o := d.of(record.Baselines, setting, b.id); o != nil && o.hit != nil {
				t.row(harnessName(setting), code(b.id), o.first, code(o.hit.Reason), code(o.hit.Case))
			}
		}
	}
	p.table(t, "There is none.")
}

// onlySection lists what ours misses and some rule finds.
func (d *dataset) onlySection(p *page) {
	p.heading(2, "Found by a harness, and not by gpuemu")
	t := newTable("kernel", "found by")
	for _, m := range d.missed() {
		var by []string
		for _, setting := range d.baselineSettings() {
			if d.of(record.Baselines, setting, m.id).found() {
				by = append(by, harnessName(setting))
			}
		}
		if len(by) > 0 {
			t.row(code(m.id), strings.Join(by, ", "))
		}
	}
	p.table(t, "There is none.")
	var none share
	for _, m := range d.wrong(nil) {
		none.add(!slices.ContainsFunc(d.settings(record.Baselines), func(setting string) bool {
			return d.of(record.Baselines, setting, m.id).found()
		}))
	}
	if len(d.settings(record.Baselines)) > 0 && none.n > 0 {
		p.para("%s wrong kernels are accepted by every one of the harnesses.", none.ratio())
	}
}
