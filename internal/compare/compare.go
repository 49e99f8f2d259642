// Package compare decides whether a candidate's output is right, and says how far off it is.
//
// It compares a tensor with a Want: reference values in float64, bounds, marks and ties. It does not compute references
// (package oracle does), run candidates, or check properties that need no reference (package invariant does).
// The main entry points are Compare, with statistics and a diagnosis, and Quick, with verdict, counts and maxima at
// the speed of memory. Both apply one acceptance rule, and a Report is a pure function of its arguments: it depends
// neither on the CPU nor on the number of workers.
package compare

// This file implements Compare: the full comparison and the joining of what its workers found.

import (
	"slices"
	"strconv"

	"gpuemu/internal/tensor"
)

// Compare compares got with want: verdict, counts, statistics, worst elements, error map and diagnosis. An output of
// another shape or dtype is a Report with the verdict Error. An error means that the question itself is wrong.
func Compare(got *tensor.Tensor, want *Want, opt Options) (*Report, error) {
	p, rep, err := newPlan(got, want, opt)
	if err != nil || rep != nil {
		return rep, err
	}
	out := &shared{sums: make([]sums, len(newBitmap(p.n))), wrong: newBitmap(p.n)}
	var all *fullPass
	if want.Ties != nil {
		all = newFullPass(p, out)
		err = all.compareTies()
	} else {
		all, err = p.full(out)
	}
	if err != nil {
		return nil, err
	}
	rep = p.report(all.counts)
	rep.Full = true
	p.fillStats(rep, all, out)
	p.fillWorst(rep, all)
	if opt.Errors && want.Ties == nil && !p.integer {
		rep.Errors = p.errorBins()
	}
	all.release()
	if rep.Counts.Mismatched > 0 {
		rep.Map = all.errors
		rep.Map.cells() // whatever was counted
		rep.Findings = diagnose(p, out.wrong, rep)
	}
	return rep, nil
}

// full runs the full passes and joins them.
func (p *plan) full(out *shared) (*fullPass, error) {
	passes, err := run(p.n, p.opt.Workers, func() pass { return newFullPass(p, out) })
	if err != nil {
		return nil, err
	}
	all := passes[0].(*fullPass)
	for _, other := range passes[1:] {
		all.merge(other.(*fullPass))
		other.(*fullPass).release()
	}
	return all, nil
}

// merge joins what two workers found. Each of the steps gives the same whatever the order.
func (f *fullPass) merge(o *fullPass) {
	f.counts.add(&o.counts)
	f.stats.merge(&o.stats)
	f.hist.merge(&o.hist)
	for i := range f.tops {
		f.tops[i].merge(&o.tops[i])
	}
	f.class = append(f.class, o.class...)
	slices.Sort(f.class)
	f.class = f.class[:min(len(f.class), f.p.opt.Worst)]
	f.errors.merge(o.errors)
}

// merge joins maxima and counts.
func (s *Stats) merge(o *Stats) {
	s.Count += o.Count
	s.RelCount += o.RelCount
	s.MaxAbs = max(s.MaxAbs, o.MaxAbs)
	s.MaxRel = max(s.MaxRel, o.MaxRel)
	s.MaxULP = max(s.MaxULP, o.MaxULP)
	s.MaxRatio = max(s.MaxRatio, o.MaxRatio)
	s.MaxWant = max(s.MaxWant, o.MaxWant)
}

// report returns a report with verdict and counts.
func (p *plan) report(c Counts) *Report {
	r := &Report{DType: p.d, Shape: slices.Clone(p.want.Shape), Regime: p.regime, Tol: p.tol, Counts: c}
	r.finish()
	return r
}

func (p *plan) fillStats(rep *Report, f *fullPass, out *shared) {
	s := f.stats
	s.Count = f.hist.total
	var abs, rel, ulp sum
	for i := range out.sums {
		seg := &out.sums[i]
		abs.add(seg.abs.value())
		rel.add(seg.rel.value())
		ulp.add(seg.ulp.value())
	}
	s.MeanAbs, s.MeanRel, s.MeanULP = abs.mean(s.Count), rel.mean(s.RelCount), ulp.mean(s.Count)
	q := f.hist.quantiles(0.5, 0.9, 0.99)
	s.P50Abs, s.P90Abs, s.P99Abs = q[0], q[1], q[2]
	rep.Stats = s
}

// errorBins are the errors by magnitude of the determined elements.
func (p *plan) errorBins() []ErrorBin {
	b := newBuffers(p.n)
	got, want := make([]float64, 0, p.n), make([]float64, 0, p.n)
	for at := 0; at < p.n; at += chunkElems {
		c := b.load(p, at, min(chunkElems, p.n-at))
		for i := range c.got {
			if c.undetermined == nil || !c.undetermined[i] {
				got, want = append(got, c.got[i]), append(want, c.want[i])
			}
		}
	}
	return ErrorBins(got, want)
}

func (p *plan) fillWorst(rep *Report, f *fullPass) {
	for m, dst := range []*[]Element{&rep.Worst.Abs, &rep.Worst.Rel, &rep.Worst.ULP, &rep.Worst.Ratio} {
		for _, e := range f.tops[m].list {
			*dst = append(*dst, p.element(e.at))
		}
	}
	for _, at := range f.class {
		rep.Worst.Class = append(rep.Worst.Class, p.element(at))
	}
}

// element returns one element with everything known about it.
func (p *plan) element(at int) Element {
	switch {
	case p.want.Ties != nil:
		return p.tieElement(at)
	case p.integer:
		return p.wholeElement(at)
	}
	c := newBuffers(1).load(p, at, 1)
	e := Element{Index: p.want.Shape.Unravel(at), Got: c.got[0], Want: c.want[0], Bound: c.bound[0]}
	e.GotText, e.WantText = formatFloat(e.Got), formatFloat(e.Want)
	e.Kind, _ = p.judge(e.Got, e.Want, e.Bound, c.undetermined != nil)
	e.Wrong, _ = p.wrong(e.Kind)
	if e.Kind != Accepted && e.Kind != BeyondBound {
		return e
	}
	e.Abs, e.Rel, e.Ratio = errorsOf(e.Got-e.Want, e.Want, e.Bound)
	var u [1]uint64
	size := p.d.Size()
	p.ulps(u[:], p.got[at*size:(at+1)*size], c.want, make([]byte, 8))
	e.ULP = u[0]
	return e
}

func (p *plan) wholeElement(at int) Element {
	x := p.integerElement(at)
	e := Element{Index: p.want.Shape.Unravel(at), Got: x.got.float(), Want: x.want, Bound: x.bound}
	e.GotText, e.WantText = x.got.String(), formatFloat(x.want)
	if x.isInt {
		e.WantText = x.exact.String()
	}
	e.Kind, _ = x.judge()
	e.Wrong, _ = p.wrong(e.Kind)
	if e.Kind == Accepted || e.Kind == BeyondBound {
		e.Abs, e.Rel, e.Ratio = errorsOf(x.diff, x.want, x.bound)
		e.ULP = x.ulp
	}
	return e
}

// tieElement judges the row of an index again: at most a handful of elements are shown.
func (p *plan) tieElement(at int) Element {
	t := p.want.Ties
	r := at / t.K
	row := &tieRow{t: t, number: r, score: t.Score[r*t.N : (r+1)*t.N], got: make([]int, t.K), want: make([]int, t.K),
		kinds: make([]Kind, t.K), errs: make([]tieError, t.K), taken: make([]int, t.N)}
	if t.Slack != nil {
		row.slack = t.Slack[r*t.N : (r+1)*t.N]
	}
	if err := row.judgeAll(p); err != nil {
		panic("compare: internal error: " + err.Error())
	}
	e := p.wholeElement(at)
	e.Kind, e.Abs, e.Rel, e.ULP = row.kinds[at%t.K], row.errs[at%t.K].abs, 0, 0
	e.Bound = row.errs[at%t.K].bound
	e.Ratio = ratio(e.Abs, e.Bound)
	e.Wrong, _ = p.wrong(e.Kind)
	return e
}

// errorsOf returns absolute, relative and bound-related error, saturated as in the statistics.
func errorsOf(d, want, bound float64) (abs, rel, q float64) {
	if d < 0 {
		d = -d
	}
	abs = maxFloat(d)
	if want < 0 {
		want = -want
	}
	if want != 0 {
		rel = maxFloat(abs / want)
	}
	return abs, rel, ratio(abs, bound)
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
