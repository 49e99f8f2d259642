package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gpuemu/bench/detection/record"
)

// This file implements what the pages ask of the records: which mutants are equivalent, and who found which.

// budget is how many cases a mutant may take until it is found: the default of `gpuemu fuzz`.
const budget = 100

// subject is a base kernel or a mutant of the corpus.
type subject struct {
	id, kernel, language string
	title, op, family    string   // of a base kernel
	provenance           string   // of a base kernel
	dtypes               []string // that it is compiled for
	operator, class      string   // of a mutant
	heldOut              bool
	ref                  string // of a real bug
	line                 int
	before, after, what  string
}

// real reports whether the mutant is a bug that a project had.
func (s *subject) real() bool { return s.operator == "real" }

// edit says what was changed.
func (s *subject) edit() string {
	if s.before == "" {
		return s.what
	}
	return fmt.Sprintf("%s: line %d, %s → %s", s.what, s.line, code(s.before), code(s.after))
}

// source is a file of records as the pages name it.
type source struct {
	name   string
	header record.Header
	runs   map[string]bool // that have records in it
}

// holds reports whether the file has records of one of the runs.
func (s *source) holds(runs []string) bool {
	return slices.ContainsFunc(runs, func(run string) bool { return s.runs[run] })
}

// dataset is the corpus and all records.
type dataset struct {
	bases, mutants []*subject
	discarded      discarded
	sources        []source
	explanations   *explanations

	byID    map[string]*subject
	results map[key]*outcome
	seeds   map[string][]string // of a run, in order; the first is the one the tables are of
	known   map[string][]string // settings of a run
}

// key names one outcome.
type key struct{ run, setting, seed, id string }

// outcome is what a run found of a subject under a setting, all number formats together.
type outcome struct {
	cases, failed, notRun, undecided int
	first, firstValues               int // never: not found
	seconds                          float64
	parts                            []*record.Record // one per number format, or one
	hit                              *record.Record   // that has the first failing case; nil: none
}

// found reports whether some case within the budget failed.
func (o *outcome) found() bool { return o != nil && o.first <= budget }

// foundByValues is the same by the values alone.
func (o *outcome) foundByValues() bool { return o != nil && o.firstValues <= budget }

// add takes in a record.
func (o *outcome) add(r *record.Record) {
	o.cases += r.Cases
	o.failed += r.Failed
	o.notRun += r.NotRun
	o.undecided += r.Undecided
	o.parts = append(o.parts, r)
	if r.FirstValues > 0 {
		o.firstValues = min(o.firstValues, r.FirstValues)
	}
	if r.First > 0 && r.First < o.first {
		o.first, o.hit, o.seconds = r.First, r, r.Seconds
	}
	if o.first == never {
		o.seconds += r.Seconds
	}
}

// newDataset sorts records by what they are of. A record of an unknown subject is a fault: the corpus has changed
// since.
func newDataset(bases, mutants []*subject, files map[string]*record.File) (*dataset, error) {
	d := &dataset{bases: bases, mutants: mutants, byID: map[string]*subject{}, results: map[key]*outcome{},
		seeds: map[string][]string{}, known: map[string][]string{}, explanations: &explanations{}}
	for _, s := range slices.Concat(bases, mutants) {
		d.byID[s.id] = s
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		src := source{name, files[name].Header, map[string]bool{}}
		d.sources = append(d.sources, src)
		for i := range files[name].Records {
			src.runs[files[name].Records[i].Run] = true
			if err := d.add(&files[name].Records[i]); err != nil {
				return nil, fmt.Errorf("%s: record %d: %w", name, i+1, err)
			}
		}
	}
	for _, seeds := range d.seeds {
		slices.SortFunc(seeds, func(x, y string) int {
			nx, _ := strconv.ParseUint(x, 10, 64)
			ny, _ := strconv.ParseUint(y, 10, 64)
			return cmp.Compare(nx, ny)
		})
	}
	return d, nil
}

// seeded reports whether records of a run are apart by seed. Other runs have one seed, or draw more samples by another.
func seeded(run string) bool {
	return run == record.Ours || run == record.Strategies || run == record.Regimes
}

func (d *dataset) add(r *record.Record) error {
	if d.byID[r.ID] == nil {
		return fmt.Errorf("the corpus has no %q: run the study again", r.ID)
	}
	k := key{run: r.Run, setting: r.Setting, id: r.ID}
	if seeded(r.Run) {
		k.seed = r.Seed
		if !slices.Contains(d.seeds[r.Run], r.Seed) {
			d.seeds[r.Run] = append(d.seeds[r.Run], r.Seed)
		}
	}
	if !slices.Contains(d.known[r.Run], r.Setting) {
		d.known[r.Run] = append(d.known[r.Run], r.Setting)
	}
	o := d.results[k]
	if o == nil {
		o = &outcome{first: never, firstValues: never}
		d.results[k] = o
	}
	for _, p := range o.parts {
		if p.DType == r.DType && p.Seed == r.Seed {
			return fmt.Errorf("%s %s %s %s stands there twice", r.Run, r.Setting, r.ID, r.DType)
		}
	}
	o.add(r)
	return nil
}

// settings of a run, as the records have them, in their order.
func (d *dataset) settings(run string) []string { return d.known[run] }

// of gives what a run found of a subject, with its first seed; nil where it did not run.
func (d *dataset) of(run, setting, id string) *outcome {
	return d.results[key{run: run, setting: setting, seed: d.firstSeed(run), id: id}]
}

// ours gives what the default strategy found with a seed.
func (d *dataset) ours(seed, id string) *outcome {
	return d.results[key{run: record.Ours, seed: seed, id: id}]
}

// firstSeed is the one of a run that the tables are of.
func (d *dataset) firstSeed(run string) string {
	if len(d.seeds[run]) == 0 {
		return ""
	}
	return d.seeds[run][0]
}

// seed is that of run ours.
func (d *dataset) seed() string { return d.firstSeed(record.Ours) }

// difference says how a mutant differs from its base, by means that know nothing of our judgement.
type difference uint8

const (
	unsampled  difference = iota // nobody has compared them
	equivalent                   // no sample showed any difference
	inBits                       // some output differs
	inMemory                     // equal bits, but compute-sanitizer complains of the mutant
	unended                      // equal bits, but a launch of the mutant did not come to its end
)

// difference of a mutant from its base. A tool that complains of the base itself says nothing of the mutant.
func (d *dataset) difference(id string) difference {
	sampled, lost := unsampled, false
	for _, run := range []string{record.Equivalence, record.DeviceEquivalence} {
		for _, setting := range d.settings(run) {
			o := d.of(run, setting, id)
			switch {
			case o == nil:
			case o.first != never:
				return inBits
			case o.compared() > 0:
				sampled = equivalent
			}
			lost = lost || o != nil && run == record.Equivalence && o.notRun > 0
		}
	}
	for _, setting := range d.settings(record.Sanitizer) {
		o := d.of(record.Sanitizer, setting, id)
		if o == nil || o.failed == 0 {
			continue
		}
		if base := d.of(record.Sanitizer, setting, d.byID[id].kernel); base == nil || base.failed == 0 {
			return inMemory
		}
	}
	if lost {
		return unended
	}
	return sampled
}

// compared is how many cases say something: they ran, and were decided.
func (o *outcome) compared() int { return o.cases - o.notRun - o.undecided }

// samples says how many samples of which run showed no difference.
func (d *dataset) samples(run, id string) int {
	n := 0
	for _, setting := range d.settings(run) {
		if o := d.of(run, setting, id); o != nil {
			n += o.compared()
		}
	}
	return n
}

// wrong are the mutants that compute something else than their base: those that ought to be found. A mutant that nobody
// compared is taken for wrong: a study that is not complete may look worse than it is, and never better.
func (d *dataset) wrong(keep func(*subject) bool) []*subject {
	var list []*subject
	for _, m := range d.mutants {
		if d.difference(m.id) != equivalent && (keep == nil || keep(m)) && d.studied(m) {
			list = append(list, m)
		}
	}
	return list
}

// studied reports whether the run of our own judgement has the mutant at all: held-out operators are run at the end.
func (d *dataset) studied(m *subject) bool { return d.ours(d.seed(), m.id) != nil }

// The groups that tables keep apart.
func tuned(s *subject) bool   { return !s.heldOut && !s.real() }
func heldOut(s *subject) bool { return s.heldOut && !s.real() }
func mutant(s *subject) bool  { return !s.real() }
func realBug(s *subject) bool { return s.real() }

// judge gives what somebody found of a subject; nil where it did not run.
type judge func(id string) *outcome

// judgeOurs is our default strategy with the first seed.
func (d *dataset) judgeOurs() judge {
	return func(id string) *outcome { return d.ours(d.seed(), id) }
}

// judgeSetting is a setting of a run.
func (d *dataset) judgeSetting(run, setting string) judge {
	return func(id string) *outcome {
		o := d.of(run, setting, id)
		if o == nil || o.cases == o.notRun { // no number format that the setting has, or nothing came to its end
			return nil
		}
		return o
	}
}

// recall counts what a judge finds of wrong kernels. What it did not run is not counted.
func recall(j judge, list []*subject) share { return recallBy((*outcome).found, j, list) }

// recallByValues is the same by the values alone.
func recallByValues(j judge, list []*subject) share {
	return recallBy((*outcome).foundByValues, j, list)
}

func recallBy(found func(*outcome) bool, j judge, list []*subject) share {
	var s share
	for _, m := range list {
		if o := j(m.id); o != nil {
			s.add(found(o))
		}
	}
	return s
}

// byKernel counts the same for each base kernel: the clusters of the bootstrap.
func byKernel(j judge, list []*subject) []share {
	at := map[string]*share{}
	var names []string
	for _, m := range list {
		o := j(m.id)
		if o == nil {
			continue
		}
		if at[m.kernel] == nil {
			at[m.kernel] = &share{}
			names = append(names, m.kernel)
		}
		at[m.kernel].add(o.found())
	}
	var clusters []share
	for _, name := range names {
		clusters = append(clusters, *at[name])
	}
	return clusters
}

// firsts are the numbers of the cases that found each, never where none did, and the seconds until then.
func firsts(j judge, list []*subject) (cases []int, seconds []float64) {
	for _, m := range list {
		o := j(m.id)
		switch {
		case o == nil:
		case o.found():
			cases, seconds = append(cases, o.first), append(seconds, o.seconds)
		default:
			cases, seconds = append(cases, never), append(seconds, math.Inf(1))
		}
	}
	return cases, seconds
}

// alarms counts correct kernels that a judge accuses, and cases of them that fail.
func (d *dataset) alarms(judges ...judge) (kernels, cases share) {
	for _, b := range d.bases {
		ran, accused := false, false
		for _, j := range judges {
			if o := j(b.id); o != nil && o.cases > o.notRun {
				ran, accused = true, accused || o.failed > 0 || o.first != never
				cases.k += o.failed
				cases.n += o.cases - o.notRun
			}
		}
		if ran {
			kernels.add(accused)
		}
	}
	return kernels, cases
}

// ourAlarms are those of run false-alarms, all value strategies and number formats together.
func (d *dataset) ourAlarms() (kernels, cases share) {
	var judges []judge
	for _, setting := range d.settings(record.FalseAlarms) {
		judges = append(judges, d.judgeSetting(record.FalseAlarms, setting))
	}
	return d.alarms(judges...)
}
