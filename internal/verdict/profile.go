package verdict

import (
	"hash/fnv"
	"slices"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/opspec"
)

// This file implements what counts and coverage need of a result, which is a small part of it.

// Profile is a result as counts and coverage see it. The store keeps profiles apart from results, many together: to
// count a million results takes a second then, and not a minute.
type Profile struct {
	Op, DType, Candidate, Reference string
	Verdict                         Verdict
	Vacuous                         bool
	Shrunk                          bool // made of another case by minimize
	Time                            time.Time
	Key                             uint64 // hash of Result.Key
	MaxAbs, MaxRatio                float64
	Lean, Halves                    compare.Lean // of all outputs

	// What the case exercised; Readable is false where its text does not say.
	Readable bool
	Layouts  []string // of its inputs, each once
	Values   []string // distributions of its inputs, each once
	Sizes    []int    // of dimensions of its inputs, each once
	Dims     []opspec.DimValue
}

// CaseHash is the FNV-1a hash of Key.
func (r *Result) CaseHash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(r.Key()))
	return h.Sum64()
}

// ByClient is that of the result.
func (p *Profile) ByClient() bool { return p.Candidate == ClientSide }

// Profile returns the profile of a result.
func (r *Result) Profile() Profile {
	p := Profile{Op: r.Op, DType: r.DType, Candidate: r.Candidate, Reference: r.Reference, Verdict: r.Verdict,
		Vacuous: r.Reason == Vacuous, Shrunk: r.ShrunkFrom != nil, Time: r.Time, Key: r.CaseHash(), MaxAbs: r.MaxAbs()}
	for i := range r.Outputs {
		o := &r.Outputs[i]
		p.MaxRatio = max(p.MaxRatio, o.MaxRatio)
		if o.Lean != nil {
			p.Lean.Add(*o.Lean)
		}
		if o.Halves != nil {
			p.Halves.Add(*o.Halves)
		}
	}
	c, err := opspec.ParseCase(r.Case)
	if err != nil {
		return p
	}
	p.Readable, p.Dims = true, c.Dims
	for i := range c.Inputs {
		p.Layouts = once(p.Layouts, c.Inputs[i].Layout.String())
		p.Values = once(p.Values, c.Inputs[i].Values)
		for _, n := range c.Inputs[i].Shape {
			p.Sizes = once(p.Sizes, n)
		}
	}
	return p
}

func once[T comparable](list []T, x T) []T {
	if slices.Contains(list, x) {
		return list
	}
	return append(list, x)
}

// Count adds the result of a profile to a tally, which then has the same counts and ops as with the result itself.
func (p *Profile) Count(t *Tally) {
	r := Result{Op: p.Op, DType: p.DType, Candidate: p.Candidate, Reference: p.Reference, Verdict: p.Verdict}
	if p.Vacuous {
		r.Reason = Vacuous
	}
	out := [1]Output{{MaxAbs: p.MaxAbs, MaxRatio: p.MaxRatio}}
	if p.Lean != (compare.Lean{}) {
		out[0].Lean = &p.Lean
	}
	if p.Halves != (compare.Lean{}) {
		out[0].Halves = &p.Halves
	}
	r.Outputs = out[:]
	t.Add(&r)
}
