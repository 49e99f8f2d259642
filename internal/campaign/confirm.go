package campaign

import (
	"context"
	"slices"
	"sync"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// This file implements the second look at a diagnosis by another contract. One case is weak evidence: a sum that lacks
// one of a thousand terms may lie within the rounding of a 16-bit type. So the candidate runs a few more cases, the
// same for every case that fails, and the alternative has to hold for all of them.

const (
	// probeCases is how many cases are run, and probeElems how large their inputs may be, in turn. Long sums have wide
	// bounds, under which a missing term is not seen; short ones show it.
	probeCases = 12
	// probeSeed makes the cases the same for every run: the diagnosis does not depend on what failed first.
	probeSeed = 0x70726f6265
)

var probeElems = [...]int{4096, 256}

// probes are the cases that confirm or refute alternatives for one op and dtype, run on first use.
type probes struct {
	once    sync.Once
	failing []probe // those whose outputs fail the contract
	broken  bool    // the candidate could not run one of them
}

// probe is one case with the candidate's outputs.
type probe struct {
	c      opspec.Case
	inputs map[string]*tensor.Tensor
	got    []*tensor.Tensor
}

// evidence is what probes say about an alternative.
type evidence uint8

const (
	noEvidence evidence = iota // no probe fails the contract, or none could be run
	confirmed
	refuted
)

// confirm runs the probes of a subject, once for each dtype, and holds an alternative against them.
func (x *executor) confirm(ctx context.Context, s *subject, d dtype.DType, name string) evidence {
	key := s.name + "/" + d.String()
	x.mu.Lock()
	if x.probes == nil {
		x.probes = map[string]*probes{}
	}
	p := x.probes[key]
	if p == nil {
		p = &probes{}
		x.probes[key] = p
	}
	x.mu.Unlock()
	p.once.Do(func() { p.run(ctx, x, s, d) })
	if p.broken {
		return noEvidence
	}
	return p.evidence(s, name)
}

// run executes the probes.
func (p *probes) run(ctx context.Context, x *executor, s *subject, d dtype.DType) {
	p.broken = true
	st := s.strategy(&Options{})
	st.Values, st.DTypes = "normal", []dtype.DType{d}
	for i := range probeCases {
		st.MaxElems = probeElems[i%len(probeElems)]
		stream, err := gen.Cases(s.schema, st, probeSeed)
		if err != nil {
			return
		}
		c, err := stream.Case(i)
		if err != nil {
			return
		}
		inputs, err := gen.Inputs(s.schema, c)
		if err != nil {
			return
		}
		reply, err := invoke(ctx, x.candidate(s), s.call(c, inputs, false))
		if err != nil {
			return
		}
		wants, err := s.evaluate(c, inputs)
		if err != nil {
			return
		}
		got, msg := matchOutputs(reply.Outputs, wants)
		if msg != "" {
			return
		}
		if _, ok := keeps(wants, got); !ok {
			p.failing = append(p.failing, probe{c, inputs, got})
		}
	}
	p.broken = false
}

// evidence holds the alternative of that name against the outputs that fail the contract.
func (p *probes) evidence(s *subject, name string) evidence {
	if len(p.failing) == 0 {
		return noEvidence
	}
	for i := range p.failing {
		if p.failing[i].violates(s, name) {
			return refuted
		}
	}
	return confirmed
}

// violates reports whether the outputs keep the alternative no more than the contract.
func (p *probe) violates(s *subject, name string) bool {
	all := oracle.Alternatives(s.entry, s.entryAttrs(p.c), p.c.DType)
	i := slices.IndexFunc(all, func(a oracle.Alternative) bool { return a.Name == name })
	if i < 0 {
		return true
	}
	wants, err := s.evaluateWith(p.c, p.inputs, all[i].Evaluate)
	if err != nil || len(wants) != len(p.got) {
		return true
	}
	_, ok := keeps(wants, p.got)
	return !ok
}

// keeps reports whether outputs keep a contract, and their largest error/bound.
func keeps(wants []expected, got []*tensor.Tensor) (ratio float64, ok bool) {
	opt := compare.DefaultOptions()
	opt.Regime, opt.Workers = compare.Bound, 1
	for i := range wants {
		rep, err := compare.Quick(got[i], wants[i].want, opt)
		if err != nil || rep.Verdict == compare.Fail || rep.Verdict == compare.Error {
			return 0, false
		}
		ratio = max(ratio, rep.Stats.MaxRatio)
	}
	return ratio, true
}
