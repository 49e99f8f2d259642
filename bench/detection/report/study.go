package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpuemu/bench/detection/record"
)

// This file implements docs/evidence/detection-study.md: what our own judgement finds, and what it costs.

// inShort is the table of README and study: all judges side by side.
func (d *dataset) inShort() *table {
	t := newTable("who judges", ">mutants found", ">held-out operators", ">real bugs", ">correct kernels accused")
	add := func(name string, j judge, kernels share) {
		t.row(name, d.found(j, tuned), d.found(j, heldOut), d.found(j, realBug), kernels.ratio())
	}
	kernels, _ := d.ourAlarms()
	add(fmt.Sprintf("**gpuemu**, up to %d cases", budget), d.judgeOurs(), kernels)
	for _, setting := range d.baselineSettings() {
		j := d.judgeSetting(record.Baselines, setting)
		kernels, _ := d.alarms(j)
		add(harnessName(setting), j, kernels)
	}
	return t
}

// found prints what a judge finds of a group.
func (d *dataset) found(j judge, group func(*subject) bool) string {
	return recall(j, d.wrong(group)).both()
}

// foundByValues prints the same by the values alone.
func (d *dataset) foundByValues(j judge, group func(*subject) bool) string {
	return recallByValues(j, d.wrong(group)).both()
}

// recallTable has rows of groups, each with its intervals and how soon they are found.
func (d *dataset) recallTable(first string) (*table, func(name string, group func(*subject) bool)) {
	t := newTable(first, ">found", ">recall", ">95 %, Wilson", ">95 %, by kernel", ">median case", ">p90",
		">median time", ">p90")
	return t, func(name string, group func(*subject) bool) {
		list := d.wrong(group)
		if len(list) == 0 {
			return
		}
		j := d.judgeOurs()
		s := recall(j, list)
		lo, hi := bootstrap(byKernel(j, list))
		cases, seconds := firsts(j, list)
		t.row(name, s.ratio(), percent(s.value()), s.interval(), fmt.Sprintf("%.1f–%.1f %%", 100*lo, 100*hi),
			count(quantile(cases, 0.5, never)), count(quantile(cases, 0.9, never)),
			duration(quantile(seconds, 0.5, math.Inf(1))), duration(quantile(seconds, 0.9, math.Inf(1))))
	}
}

// studyPage is docs/evidence/detection-study.md.
func (d *dataset) studyPage() []byte {
	p := &page{}
	p.WriteString("# What gpuemu finds\n\n")
	p.para("Made by `make evidence-detection` of the records named at the end. %s Every kernel is compiled PTX and is "+
		"run by the emulator on a CPU; [corpus.md](corpus.md) says what was run, "+
		"[detection-baselines.md](detection-baselines.md) what other harnesses make of the same kernels, "+
		"[detection-device.md](detection-device.md) what a GPU says.", d.counted())
	p.WriteString(d.inShort().String() + "\n")
	p.para("*Mutants* are those of operators that were known while generator and bounds were made, *held-out " +
		"operators* those that nobody looked at until the last run. Equivalent mutants do not count. A row of another " +
		"harness is its acceptance rule, executed here.")
	d.goalSection(p)
	d.recallSections(p)
	d.timeSection(p)
	d.alarmSection(p)
	d.strategySection(p)
	d.regimeSection(p)
	d.missedSection(p)
	p.sources(d, record.Ours, record.FalseAlarms, record.Strategies, record.Regimes, record.Equivalence, record.Baselines)
	return p.file()
}

// counted says how many mutants there are and how many of them count.
func (d *dataset) counted() string {
	wrong, equal, unknown, not := 0, 0, 0, 0
	for _, m := range d.mutants {
		switch diff := d.difference(m.id); {
		case !d.studied(m):
			not++
		case diff == equivalent:
			equal++
		default:
			wrong++
			if diff == unsampled {
				unknown++
			}
		}
	}
	s := fmt.Sprintf("%d base kernels, %d mutants and real bugs: %d compute something wrong, %d are equivalent to "+
		"their base.",
		len(d.bases), len(d.mutants), wrong, equal)
	if unknown > 0 {
		s += fmt.Sprintf(" %d of the wrong ones are only taken for wrong: no sample says so yet.", unknown)
	}
	if not > 0 {
		s += fmt.Sprintf(" %d have not been run.", not)
	}
	return s
}

func (d *dataset) recallSections(p *page) {
	p.heading(2, fmt.Sprintf("Recall at %d cases", budget))
	t, add := d.recallTable("mutants")
	add("operators known while tuning", tuned)
	add("held-out operators", heldOut)
	add("all operators", mutant)
	add("real bugs", realBug)
	add("everything", nil)
	p.table(t, "Nothing has been run yet.")
	p.para("Wilson's interval takes mutants for independent; mutants of one kernel are not, so the second interval "+
		"draws whole kernels (cluster bootstrap, %d draws, seeded). Case numbers and seconds are those of the first "+
		"failing case; a dash means that fewer than that share were found.", bootstrapDraws)
	if seeds := d.seeds[record.Ours]; len(seeds) > 1 {
		t := newTable("seed", ">all operators", ">real bugs")
		for _, seed := range seeds {
			j := func(id string) *outcome { return d.ours(seed, id) }
			t.row(seed, d.found(j, mutant), d.found(j, realBug))
		}
		p.para("With other seeds, same budget:")
		p.table(t, "")
	}
	p.heading(3, "By class of fault")
	t, add = d.recallTable("class")
	for _, class := range d.values(func(s *subject) string { return s.class }) {
		add(class, func(s *subject) bool { return s.class == class })
	}
	p.table(t, "Nothing has been run yet.")
	p.heading(3, "By operator")
	t, add = d.recallTable("operator")
	for _, op := range d.values(func(s *subject) string { return s.operator }) {
		name := code(op)
		if slices.ContainsFunc(d.mutants, func(s *subject) bool { return s.operator == op && s.heldOut }) {
			name += ", held out"
		}
		add(name, func(s *subject) bool { return s.operator == op })
	}
	p.table(t, "Nothing has been run yet.")
	p.heading(3, "By language and by kernel")
	t, add = d.recallTable("of")
	for _, lang := range d.values(func(s *subject) string { return s.language }) {
		add(lang, func(s *subject) bool { return s.language == lang })
	}
	for _, k := range d.values(func(s *subject) string { return s.kernel }) {
		add(code(k), func(s *subject) bool { return s.kernel == k })
	}
	p.table(t, "Nothing has been run yet.")
}

// values are the different values that mutants have, sorted.
func (d *dataset) values(of func(*subject) string) []string {
	var list []string
	for _, m := range d.mutants {
		list = append(list, of(m))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (d *dataset) timeSection(p *page) {
	p.heading(2, "Cases until a fault is found")
	p.WriteString("![share of wrong kernels not yet found, by number of cases](plots/survival.svg)\n\n")
	p.WriteString("![the same by strategy](plots/survival-strategies.svg)\n\n")
	p.heading(3, "What tells")
	counts := map[string]int{}
	for _, m := range d.wrong(nil) {
		if o := d.ours(d.seed(), m.id); o.found() {
			counts[o.hit.Reason]++
		}
	}
	t := newTable("reason of the first failing case", ">kernels")
	for _, reason := range byCount(counts) {
		t.row(code(reason), counts[reason])
	}
	p.table(t, "Nothing has been found yet.")
}

// byCount gives the keys of counts, the largest first.
func byCount(counts map[string]int) []string {
	keys := make([]string, 0, len(counts))
	for k := range counts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), strings.Compare(x, y))
	})
	return keys
}

func (d *dataset) alarmSection(p *page) {
	p.heading(2, "False alarms")
	t := newTable("values", "dtype", ">kernels", ">cases", ">failed", ">not run", ">undecided", ">elements not decided",
		">rate below, 95 %")
	var all share
	for _, setting := range d.settings(record.FalseAlarms) {
		for _, dt := range d.formats(setting) {
			var kernels, notRun, undecided int
			var cases, open share // open: elements on which the contract of the op does not decide
			for _, b := range d.bases {
				o := d.of(record.FalseAlarms, setting, b.id)
				if o == nil {
					continue
				}
				for _, r := range o.parts {
					if r.DType == dt {
						kernels++
						cases.k, cases.n = cases.k+r.Failed, cases.n+r.Cases-r.NotRun
						notRun, undecided = notRun+r.NotRun, undecided+r.Undecided
						open.k, open.n = open.k+r.Undetermined, open.n+r.Elements
					}
				}
			}
			all.k, all.n = all.k+cases.k, all.n+cases.n
			t.row(setting, dt, kernels, cases.n, cases.k, notRun, undecided, percent(open.value()), cases.limit())
		}
	}
	p.table(t, "Nothing has been run yet.")
	if all.n > 0 {
		p.para("Together: %d of %d cases of correct kernels fail; with 95 %% confidence fewer than %s of such cases do "+
			"(Clopper–Pearson, one-sided).", all.k, all.n, all.limit())
	}
	d.explained(p, d.alarmed(), d.explanations.Alarms, "")
}

// formats of the base kernels under a value strategy.
func (d *dataset) formats(setting string) []string {
	var list []string
	for _, b := range d.bases {
		if o := d.of(record.FalseAlarms, setting, b.id); o != nil {
			for _, r := range o.parts {
				list = append(list, r.DType)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// settingRow prints recall and false alarms of a setting.
func (d *dataset) settingRow(t *table, name string, j judge) {
	kernels, _ := d.alarms(j)
	s := recall(j, d.wrong(mutant))
	numbers, _ := firsts(j, d.wrong(nil))
	t.row(name, s.ratio(), percent(s.value()), s.interval(), d.foundByValues(j, mutant), d.found(j, realBug),
		d.foundByValues(j, realBug), count(quantile(numbers, 0.5, never)), kernels.ratio(), kernels.interval())
}

func (d *dataset) strategySection(p *page) {
	p.heading(2, "Strategies")
	p.para("The same budget, bounds and checks, other cases: the seven strategies of the published study and ours. " +
		"Correct kernels run under the same strategy.")
	t := newTable("strategy", ">mutants found", ">recall", ">95 %, Wilson", ">by values alone", ">real bugs",
		">by values alone", ">median case", ">correct kernels accused", ">95 %, Wilson")
	for _, setting := range d.settings(record.Strategies) {
		d.settingRow(t, code(setting), d.judgeSetting(record.Strategies, setting))
	}
	p.table(t, "Nothing has been run yet.")
}

// regimes are how the settings of run regimes are printed, in order.
var regimes = [][2]string{
	{"fixed", "fixed: the published gpuemu's, by op and dtype"}, {"fixed-default", "fixed: one for all ops, by dtype"},
	{"calibrated", "calibrated: p95 × 1.5 of the base kernel on normal values, other seeds"},
	{"bound", "bound: per element, from the oracle"},
}

// usual is the regime of the product.
const usual = "bound"

// budgetOf is how many cases a run gave each subject at most, by the headers of its records.
func (d *dataset) budgetOf(run string) int {
	most := 0
	for i := range d.sources {
		if d.sources[i].runs[run] {
			most = max(most, d.sources[i].header.Budget)
		}
	}
	return cmp.Or(most, budget)
}

func (d *dataset) regimeSection(p *page) {
	p.heading(2, "Tolerance regimes, values and checks")
	p.para("Up to %d cases under several rules of what is near enough, by the values of the outputs alone and together "+
		"with what the emulator's checks see (out-of-range accesses, uninitialised reads, races, unwritten outputs). A "+
		"fixed tolerance knows no magnitude: beside the default values, which have many, stand normal ones, which it is "+
		"made for.", d.budgetOf(record.Regimes))
	t := newTable("regime", "values", ">mutants found by values", ">with checks", ">real bugs by values", ">with checks",
		">correct kernels accused", ">95 %, Wilson")
	for _, suffix := range []string{"", "/normal"} {
		for _, r := range regimes {
			if !slices.Contains(d.settings(record.Regimes), r[0]+suffix) {
				continue
			}
			j := d.judgeSetting(record.Regimes, r[0]+suffix)
			kernels, _ := d.alarms(j)
			t.row(r[1], cmp.Or(strings.TrimPrefix(suffix, "/"), "default"), d.foundByValues(j, mutant), d.found(j, mutant),
				d.foundByValues(j, realBug), d.found(j, realBug), kernels.ratio(), kernels.interval())
		}
	}
	p.table(t, "Nothing has been run yet.")
	p.WriteString("![recall and false alarms of strategies, regimes and harnesses](plots/recall-alarms.svg)\n\n")
	if slices.Contains(d.settings(record.Regimes), usual) {
		p.heading(3, "What the checks add, by class")
		j := d.judgeSetting(record.Regimes, usual)
		t := newTable("class", ">by values", ">with checks")
		for _, class := range d.values(func(s *subject) string { return s.class }) {
			list := d.wrong(func(s *subject) bool { return s.class == class })
			if len(list) > 0 {
				t.row(class, recallByValues(j, list).ratio(), recall(j, list).ratio())
			}
		}
		p.table(t, "")
	}
}

func (d *dataset) missedSection(p *page) {
	p.heading(2, "Missed")
	t := newTable("kernel", "what is wrong", "differs from its base", "explanation")
	for _, s := range d.missed() {
		_, text := d.find(d.explanations.Missed, s)
		t.row(code(s.id), s.edit(), d.witness(s.id), text)
	}
	p.table(t, "Nothing was missed.")
	p.heading(2, "Found, though no sample shows a difference")
	d.explained(p, d.flagged(), d.explanations.Flagged, "There is no such mutant.")
}

// witness is the first sample in which a mutant differs from its base.
func (d *dataset) witness(id string) string {
	for _, run := range []string{record.Equivalence, record.DeviceEquivalence} {
		for _, setting := range d.settings(run) {
			if o := d.of(run, setting, id); o != nil && o.hit != nil {
				return fmt.Sprintf("at sample %d: %s", o.first, code(o.hit.Case))
			}
		}
	}
	return "no sample says so"
}

// explained lists subjects with their explanations.
func (d *dataset) explained(p *page, list []*subject, why map[string]string, empty string) {
	t := newTable("kernel", "what is wrong", "explanation")
	for _, s := range list {
		_, text := d.find(why, s)
		t.row(code(s.id), s.edit(), text)
	}
	if len(list) > 0 || empty != "" {
		p.table(t, empty)
	}
}
