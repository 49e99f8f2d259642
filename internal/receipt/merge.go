package receipt

// This file implements the merging of receipts: one statement of the runs of several machines over the same code.

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gpuemu/internal/diag"
)

// Merge joins receipts of our format into one statement, which the caller completes (Predicate.Signer, SignedAt, Tool)
// and seals. Verifying the parts' signatures is the caller's business, and comes first. The parts must speak of the
// same code, outputs, mode and nonce; a test may stand in several parts if they agree on its outcome. The merged run
// lasts from the first start to the last end, and is as bad as its worst part; each part's digest, signer and times
// are kept, so that an old part does not become young.
func Merge(parts []*Receipt) (*Statement, error) {
	if len(parts) < 2 {
		return nil, diag.Errorf(MergeConflict, "", "%d receipts, at least two can be merged", len(parts))
	}
	m := merger{of: map[string]int{}}
	for i, r := range parts {
		if r.Legacy != nil {
			return nil, diag.Errorf(MergeConflict, "sign the parts in the format statement",
				"%s has schema %s, only receipts of our format are merged", r.File, r.Format)
		}
		if i == 0 {
			m.first, m.p = r, clonePredicate(&r.Predicate)
		} else if err := m.same(r); err != nil {
			return nil, err
		}
		if err := m.add(r); err != nil {
			return nil, err
		}
	}
	ran := map[string]bool{}
	for _, t := range m.p.Tests {
		ran[t.ID] = true
	}
	m.p.Deselected = slices.DeleteFunc(unique(m.p.Deselected), func(id string) bool { return ran[id] })
	m.p.Collected = unique(m.p.Collected)
	return wrap(m.p), nil
}

// merger is a merge on its way.
type merger struct {
	first *Receipt
	p     Predicate
	of    map[string]int // test id: its index in p.Tests
}

// clonePredicate returns what a merged statement takes from its first part as it is.
func clonePredicate(p *Predicate) Predicate {
	c := *p
	c.Signer, c.SignedAt, c.Tool = nil, "", ""
	c.Tests, c.Collected, c.Deselected, c.Devices, c.Challenges, c.Parts = nil, nil, nil, nil, nil, nil
	c.Outside, c.Environment.GPUs, c.Run.Arguments = Outside{}, nil, nil
	c.Run.Finished = true
	c.Run.ExitStatus = 0
	return c
}

// same reports what r and the first part must have in common and do not.
func (m *merger) same(r *Receipt) error {
	then, now := &m.first.Predicate, &r.Predicate
	for _, f := range []struct {
		name      string
		then, now any
	}{
		{"the digest of the code", then.Code.Digest, now.Code.Digest},
		{"the scope", then.Code.Scope, now.Code.Scope},
		{"the paths left out", then.Code.Exclude, now.Code.Exclude},
		{"the outputs", then.Outputs, now.Outputs},
		{"the mode", then.Mode, now.Mode},
		{"the nonce", then.Nonce, now.Nonce},
		{"the repository", then.Repo.Remote, now.Repo.Remote},
		{"the root of the ids", then.Run.Root, now.Run.Root},
		{"the runner", then.Run.Runner, now.Run.Runner},
	} {
		if !reflect.DeepEqual(f.then, f.now) {
			return diag.Errorf(MergeConflict, "run the parts over the same commit with the same settings",
				"%s and %s differ in %s: %q and %q", m.first.File, r.File, f.name, fmt.Sprint(f.then), fmt.Sprint(f.now))
		}
	}
	return nil
}

// add takes in what one part says.
func (m *merger) add(r *Receipt) error {
	p, q := &m.p, &r.Predicate
	if q.Code.Start != "" && (q.Code.Start != q.Code.Digest || q.Code.End != q.Code.Digest) {
		return diag.Errorf(MergeConflict, "run that part again", "the code of %s changed during its run", r.File)
	}
	for _, t := range q.Tests {
		i, twice := m.of[t.ID]
		if !twice {
			m.of[t.ID] = len(p.Tests)
			p.Tests = append(p.Tests, t)
			continue
		}
		if p.Tests[i].Outcome != t.Outcome {
			return diag.Errorf(MergeConflict, "run that test again, or leave one part out",
				"%s says that %q %s, another part says %s", r.File, shorten(t.ID), t.Outcome, p.Tests[i].Outcome)
		}
		p.Tests[i].Reruns = max(p.Tests[i].Reruns, t.Reruns)
		p.Tests[i].Checks = slices.Concat(p.Tests[i].Checks, t.Checks)
	}
	p.Collected = append(p.Collected, q.Collected...)
	p.Deselected = append(p.Deselected, q.Deselected...)
	p.Outside.Passed += q.Outside.Passed
	p.Outside.Failed += q.Outside.Failed
	p.Outside.Errors += q.Outside.Errors
	p.Outside.Skipped += q.Outside.Skipped
	p.Run.StartedAt = min(p.Run.StartedAt, q.Run.StartedAt) // the one spelling of times sorts as text
	p.Run.EndedAt = max(p.Run.EndedAt, q.Run.EndedAt)
	p.Run.Finished = p.Run.Finished && q.Run.Finished
	if p.Run.ExitStatus == 0 {
		p.Run.ExitStatus = q.Run.ExitStatus
	}
	p.Run.Arguments = append(p.Run.Arguments, q.Run.Arguments...)
	p.Repo.Dirty = p.Repo.Dirty || q.Repo.Dirty
	if p.Code.Start != q.Code.Start || p.Code.End != q.Code.End {
		p.Code.Start, p.Code.End = "", "" // one of the parts was not watched
	}
	p.Devices = unique(append(p.Devices, q.Devices...))
	p.Environment.GPUs = unique(append(p.Environment.GPUs, q.Environment.GPUs...))
	p.Challenges = append(p.Challenges, q.Challenges...)
	p.Parts = append(p.Parts, Part{SHA256: r.Digest(), Format: r.Format, Signer: q.Signer, StartedAt: q.Run.StartedAt,
		EndedAt: q.Run.EndedAt, Tests: len(q.Tests)})
	p.Parts = append(p.Parts, q.Parts...)
	return nil
}

// unique keeps the first of equal values.
func unique[T comparable](list []T) []T {
	seen := map[T]bool{}
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool {
		twice := seen[v]
		seen[v] = true
		return twice
	})
}

// Summary counts outcomes for a line of text: "3 passed, 1 skipped".
func Summary(tests []Test) string {
	count := map[string]int{}
	for _, t := range tests {
		count[t.Outcome]++
	}
	var parts []string
	for _, o := range outcomes {
		if count[o] > 0 {
			parts = append(parts, fmt.Sprint(count[o], " ", o))
			delete(count, o)
		}
	}
	for _, o := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d %q", count[o], o))
	}
	if len(parts) == 0 {
		return "no tests"
	}
	return strings.Join(parts, ", ")
}
