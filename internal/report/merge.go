// This file implements the join of the parts of a sharded run.

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/verdict"
)

// maxShards is more parts than anybody has machines; it keeps a hostile "1/2000000000" from costing memory.
const maxShards = 1 << 16

// Merge joins reports of the parts of one campaign into one, sorted by the index of the cases. A part may be there
// twice (a job that was repeated): equal results count once, of two that differ in their numbers only the one with the
// larger error stays, and different verdicts on one case are refused. Parts that are missing leave the report
// incomplete, with a note for each; its exit code is then 3, or 1 if something failed. The order of the documents does
// not matter.
func Merge(docs []*Document) (*Document, error) {
	if len(docs) == 0 {
		return nil, diag.Errorf(NotMergeable, "name the files of all shards", "there is nothing to merge")
	}
	m := &merger{first: docs[0], owner: map[int]*Document{}, at: map[int]int{}}
	for _, d := range docs {
		if err := m.add(d); err != nil {
			return nil, err
		}
	}
	return m.finish(), nil
}

// merger is the state of one Merge.
type merger struct {
	first   *Document
	n       int // shards
	shards  map[int][]*Document
	results []verdict.Result
	at      map[int]int       // index of a case to its place in results
	owner   map[int]*Document // index of a case to the document it came from
}

// add takes one document in.
func (m *merger) add(d *Document) error {
	i, n, err := parseShard(d)
	if err != nil {
		return err
	}
	if m.shards == nil {
		m.n, m.shards = n, map[int][]*Document{}
	}
	if err := m.fits(d, n); err != nil {
		return err
	}
	m.shards[i] = append(m.shards[i], d)
	total := plannedTotal(d)
	for k := range d.Results {
		r := &d.Results[k]
		if r.Index >= total || r.Index%n != i-1 {
			return diag.Errorf(NotMergeable, "", "result %d does not belong to shard %d/%d of %d cases", r.Index, i, n, total).
				At(diag.Pos{File: d.Name})
		}
		if err := m.result(d, r); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) result(d *Document, r *verdict.Result) error {
	place, twice := m.at[r.Index]
	if !twice {
		m.at[r.Index], m.owner[r.Index] = len(m.results), d
		m.results = append(m.results, *r)
		return nil
	}
	old := &m.results[place]
	if old.Key() != r.Key() || old.Seed != r.Seed {
		return diag.Errorf(NotMergeable, "the runs had different configurations: run them again with the same one",
			"case %d is %q here and %q in %s", r.Index, r.Case, old.Case, m.owner[r.Index].Name).At(diag.Pos{File: d.Name})
	}
	if old.Verdict != r.Verdict || old.Reason != r.Reason {
		return diag.Errorf(Contradiction, "leave out the report that is not to count; a candidate may be nondeterministic",
			"case %d (%s) is %s here and %s in %s", r.Index, r.Case, verdictText(r), verdictText(old), m.owner[r.Index].Name).
			At(diag.Pos{File: d.Name})
	}
	if worse(r, old) {
		*old, m.owner[r.Index] = *r, d
	}
	return nil
}

// worse decides which of two results of one case stays, whatever the order in which they come.
func worse(x, y *verdict.Result) bool {
	if c := cmp.Compare(x.MaxAbs(), y.MaxAbs()); c != 0 {
		return c > 0
	}
	if c := x.Time.Compare(y.Time); c != 0 {
		return c < 0
	}
	if c := cmp.Compare(x.Message, y.Message); c != 0 {
		return c < 0
	}
	return x.Duration < y.Duration
}

func verdictText(r *verdict.Result) string {
	if r.Reason == "" {
		return r.Verdict.String()
	}
	return fmt.Sprintf("%s (%s)", r.Verdict, r.Reason)
}

// fits checks that a document is of the same campaign as the first one.
func (m *merger) fits(d *Document, n int) error {
	first, sum := &m.first.Summary, &d.Summary
	for _, f := range []struct{ what, got, want string }{
		{"version of gpuemu", d.Version, m.first.Version},
		{"project", sum.Project, first.Project},
		{"kind", sum.Kind, first.Kind},
		{"seed", strconv.FormatUint(uint64(sum.Seed), 10), strconv.FormatUint(uint64(first.Seed), 10)},
		{"number of cases", strconv.Itoa(plannedTotal(d)), strconv.Itoa(plannedTotal(m.first))},
		{"number of shards", strconv.Itoa(n), strconv.Itoa(m.n)},
	} {
		if f.got != f.want {
			return diag.Errorf(NotMergeable, "merge joins the shards of one run: same configuration, options and --seed",
				"%s %q, want %q as in %s", f.what, f.got, f.want, m.first.Name).At(diag.Pos{File: d.Name})
		}
	}
	return nil
}

// plannedTotal is the number of cases of all parts.
func plannedTotal(d *Document) int {
	if d.Summary.Shard == "" && d.Summary.PlannedTotal == 0 {
		return max(d.Summary.Planned, d.Summary.Total)
	}
	return d.Summary.PlannedTotal
}

// parseShard reads "2/4"; a run without shards is 1/1.
func parseShard(d *Document) (i, n int, err error) {
	if d.Summary.Shard == "" {
		return 1, 1, nil
	}
	left, right, ok := strings.Cut(d.Summary.Shard, "/")
	i, errI := strconv.Atoi(left)
	n, errN := strconv.Atoi(right)
	if !ok || errI != nil || errN != nil || i < 1 || i > n || n > maxShards {
		return 0, 0, diag.Errorf(NotMergeable, "", "shard %q is not I/N with 1 <= I <= N", d.Summary.Shard).
			At(diag.Pos{File: d.Name})
	}
	return i, n, nil
}

// finish makes the document.
func (m *merger) finish() *Document {
	slices.SortFunc(m.results, func(x, y verdict.Result) int { return cmp.Compare(x.Index, y.Index) })
	out := &Document{Format: Format, Version: m.first.Version, Results: m.results}
	if out.Results == nil {
		out.Results = []verdict.Result{}
	}
	first, sum := &m.first.Summary, &out.Summary
	*sum = verdict.Summary{Kind: first.Kind, Project: first.Project, Seed: first.Seed, Complete: true,
		PlannedTotal: plannedTotal(m.first)}
	var tally verdict.Tally
	for i := range m.results {
		tally.Add(&m.results[i])
	}
	sum.Counts, sum.Ops = tally.Counts(), tally.Ops()
	var campaigns, stopped []string
	var end time.Time
	for i := 1; i <= m.n; i++ {
		docs := m.shards[i]
		if len(docs) == 0 {
			sum.Complete = false
			out.Notes = append(out.Notes, fmt.Sprintf("shard %d/%d is missing", i, m.n))
			continue
		}
		best := slices.MaxFunc(docs, betterPart)
		if sum.Lint == nil { // every shard looks at all kernels
			sum.Lint, out.Artifacts = best.Summary.Lint, best.Artifacts
		}
		sum.Planned += best.Summary.Planned
		if !best.Summary.Complete {
			sum.Complete = false
			stopped = append(stopped, best.Summary.Stopped)
		}
		sum.Regressions += best.Summary.Regressions
		for _, h := range best.Summary.Health {
			if m.n > 1 {
				h.Message = fmt.Sprintf("shard %d/%d: %s", i, m.n, h.Message)
			}
			sum.Health = append(sum.Health, h)
		}
		for _, d := range docs {
			campaigns = append(campaigns, d.Summary.Campaign)
			out.Notes = append(out.Notes, d.Notes...)
			started := d.Summary.Started
			if sum.Started.IsZero() || started.Before(sum.Started) {
				sum.Started = started
			}
			if last := started.Add(d.Summary.Duration); last.After(end) {
				end = last
			}
		}
	}
	if len(m.shards) < m.n {
		sum.Planned = sum.PlannedTotal
	}
	sum.Campaign, sum.Stopped = joined(campaigns), joined(stopped)
	sum.Duration = max(0, end.Sub(sum.Started))
	slices.Sort(out.Notes)
	out.Notes = slices.Compact(out.Notes)
	out.Baseline = m.baselines()
	m.group(out)
	return out
}

// betterPart orders documents of one shard: complete ones and those with more cases are better, then the later ones.
func betterPart(x, y *Document) int {
	complete := func(d *Document) int {
		if d.Summary.Complete {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(complete(x), complete(y)), cmp.Compare(x.Summary.Total, y.Summary.Total),
		x.Summary.Started.Compare(y.Summary.Started), cmp.Compare(x.Summary.Campaign, y.Summary.Campaign))
}

// joined returns the different words that are not empty, in order.
func joined(words []string) string {
	words = slices.Clone(words)
	slices.Sort(words)
	words = slices.DeleteFunc(slices.Compact(words), func(w string) bool { return w == "" })
	return strings.Join(words, ",")
}

// baselines joins the comparisons of the parts. Parts have no case in common, so what they share with the baseline adds
// up, and what has vanished is what no part has.
func (m *merger) baselines() *Comparison {
	var parts []*Comparison
	for i := 1; i <= m.n; i++ {
		if docs := m.shards[i]; len(docs) > 0 {
			if c := slices.MaxFunc(docs, betterPart).Baseline; c != nil {
				parts = append(parts, c)
			}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	out := *parts[0]
	out.Regressions, out.LostCases = slices.Clone(out.Regressions), slices.Clone(out.LostCases)
	gone := parts[0].VanishedCases
	for _, c := range parts[1:] {
		out.Common += c.Common
		out.New += c.New
		out.Fixed += c.Fixed
		out.StillFailing += c.StillFailing
		out.Regressed += c.Regressed
		out.Lost += c.Lost
		out.Cases = max(out.Cases, c.Cases)
		out.Regressions = append(out.Regressions, c.Regressions...)
		out.LostCases = append(out.LostCases, c.LostCases...)
		out.VanishedOps = both(out.VanishedOps, c.VanishedOps)
		gone = both(gone, c.VanishedCases)
		if out.Skipped == "" {
			out.Skipped = c.Skipped
		}
		if out.Artifacts == nil {
			out.Artifacts = c.Artifacts
		}
	}
	out.Regressions = out.Regressions[:min(MaxListed, len(out.Regressions))]
	out.LostCases = out.LostCases[:min(MaxListed, len(out.LostCases))]
	// The lists of the parts are cut at MaxListed, so their intersection may hold cases that another part has beyond its
	// cut, or lack some. The count is exact; a list that does not agree with it is left out.
	out.Vanished = max(0, out.Cases-out.Common)
	if out.VanishedCases = gone; len(gone) != out.Vanished {
		out.VanishedCases = nil
	}
	return &out
}

// both returns what is in both lists, in the order of the first.
func both[T comparable](x, y []T) []T {
	in := make(map[T]bool, len(y))
	for _, v := range y {
		in[v] = true
	}
	var out []T
	for _, v := range x {
		if in[v] {
			out = append(out, v)
		}
	}
	return out
}

// group groups the failures of all parts anew, where the parts did. The smallest cases are those of the parts.
func (m *merger) group(out *Document) {
	var parts []verdict.Group
	for i := 1; i <= m.n; i++ {
		for _, d := range m.shards[i] {
			parts = append(parts, d.Summary.Groups...)
		}
	}
	if len(parts) == 0 {
		return
	}
	// Results in memory are visited without an error.
	out.Summary.Groups, _ = Groups(Slice(out.Results))
	for i := range out.Summary.Groups {
		g := &out.Summary.Groups[i]
		for k := range parts {
			if p := &parts[k]; p.Minimal != nil && g.Minimal == nil && g.Has(p.Minimal) {
				g.Minimal = p.Minimal
			}
		}
		if g.Minimal == nil {
			g.Unminimized = "no part of the run did; gpuemu minimize " + escape.Shell(g.First) + " does"
		}
	}
}
