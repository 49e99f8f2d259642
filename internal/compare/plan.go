// This file implements the checks before a comparison and what all its passes share.

package compare

import (
	"fmt"
	"math"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// plan is a comparison whose question has been checked. It is read-only once made, and shared by the workers.
type plan struct {
	n         int
	d         dtype.DType
	got       []byte // row-major
	want      *Want
	opt       Options
	regime    Regime
	tol       Tolerance
	spread    []float64 // added to the tolerance of each element; nil: nothing is
	stored    []byte    // row-major bytes of want.Stored or want.Exact
	threshold float64
	maxFinite float64
	noInf     bool // the output dtype has no infinities: overflow gives NaN
	forbid    bool
	integer   bool // compare as 64-bit integers, not as float64
	wantULP   bool // add half an ulp of opt.WantDType to every bound
}

// newPlan checks the arguments. A nil plan with a report means that the output has the wrong shape or dtype.
func newPlan(got *tensor.Tensor, want *Want, opt Options) (*plan, *Report, error) {
	p, err := wantPlan(want, got, opt)
	if err != nil {
		return nil, nil, err
	}
	if got == nil {
		return nil, nil, diag.Errorf(BadGot, "", "there is no output to compare")
	}
	if _, err := tensor.FromStorage(got.DType, got.Shape, got.Strides, got.Offset, got.Data); err != nil {
		return nil, nil, diag.Errorf(BadGot, "", "output: %w", err)
	}
	if reason := misfit(got, want); reason != "" {
		return nil, &Report{Verdict: Error, Reason: reason, DType: want.DType, Shape: slices.Clone(want.Shape),
			Regime: p.regime, Tol: p.tol}, nil
	}
	p.got = got.Bytes()
	return p, nil, nil
}

// wantPlan checks everything but the output, which may be nil.
func wantPlan(want *Want, got *tensor.Tensor, opt Options) (*plan, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	if err := want.check(); err != nil {
		return nil, err
	}
	if opt.Worst == 0 {
		opt.Worst = DefaultWorst
	}
	d := want.DType
	if got != nil {
		d = want.TypeOf(got.DType)
	}
	p := &plan{n: want.Shape.Elems(), d: d, want: want, opt: opt, forbid: opt.NonFinite == Forbid}
	if err := p.chooseRegime(); err != nil {
		return nil, err
	}
	switch {
	case want.Exact != nil:
		p.stored = want.Exact.Bytes()
	case want.Stored != nil:
		p.stored = want.Stored.Bytes()
	}
	p.threshold, p.maxFinite = p.d.OverflowThreshold(), p.d.MaxFinite()
	p.noInf = p.d == dtype.Float8E4M3FN
	// Up to 32 bits every integer is a float64, and subtraction of unequal float64s is never zero. With 64 bits, or an
	// integer reference, float64 would take neighbours for equal.
	p.integer = !p.d.IsFloat() && (want.Exact != nil || p.d.Size() == 8)
	p.wantULP = opt.WantDType.IsFloat() && opt.WantDType != dtype.Float64
	return p, nil
}

// misfit says in one sentence how the output's dtype or shape differs, or "".
func misfit(got *tensor.Tensor, want *Want) string {
	other, fits := got.DType != want.TypeOf(got.DType), sameShape(got.Shape, want.Shape)
	switch {
	case other && !fits:
		return fmt.Sprintf("output is %s %s, want %s %s", got.DType, got.Shape, want.types(), want.Shape)
	case other:
		return fmt.Sprintf("output has dtype %s, want %s", got.DType, want.types())
	case !fits:
		return fmt.Sprintf("output has shape %s, want %s", got.Shape, want.Shape)
	}
	return ""
}

// sameShape reports whether an output has the wanted shape. One number may have the shape [] or [1]: frameworks return
// the first, and a kernel that writes through a pointer is mostly given the second.
func sameShape(got, want tensor.Shape) bool {
	return got.Equal(want) || len(want) == 0 && got.Equal(tensor.Shape{1})
}

// chooseRegime fills in regime and tolerance.
func (p *plan) chooseRegime() error {
	p.regime, p.tol = p.opt.Regime, p.opt.Tol
	switch p.regime {
	case RegimeUnset:
		if p.want.Bound != nil {
			p.regime, p.tol = Bound, Tolerance{}
		} else {
			p.regime, p.tol = Fixed, DefaultTolerance(p.d)
		}
	case Bound:
		p.tol = Tolerance{}
		// Exact integers and indexes need no bound: theirs is 0, or the slack of the scores.
		if p.want.Bound == nil && p.d.IsFloat() {
			return diag.Errorf(NoBound, "use the regime fixed or calibrated, or a reference that gives bounds",
				"the regime is bound, but the reference gives no bounds")
		}
	case Spread:
		p.spread = p.want.Bound
	}
	return nil
}

// tolerance is the bound of element i in the regimes that have a tolerance.
func (p *plan) tolerance(i int, want float64) float64 {
	t := p.tol.At(want)
	if p.spread != nil {
		t += p.spread[i]
	}
	return t
}

func (o *Options) check() error {
	if o.Regime > Spread {
		return diag.Errorf(BadOptions, "", "regime %s does not exist", o.Regime)
	}
	if o.NonFinite > Forbid {
		return diag.Errorf(BadOptions, "", "nonfinite %d does not exist", o.NonFinite)
	}
	if o.Worst < 0 || o.Worst > MaxWorst {
		return diag.Errorf(BadOptions, "", "worst is %d, allowed are 0 to %d", o.Worst, MaxWorst)
	}
	if o.Workers < 0 {
		return diag.Errorf(BadOptions, "", "workers is %d", o.Workers)
	}
	for i, t := range o.Tiles {
		if t < 2 {
			return diag.Errorf(BadOptions, "", "tiles[%d] is %d, a tile has at least 2 elements", i, t)
		}
	}
	if o.WantDType != dtype.Invalid && o.WantDType.Size() == 0 {
		return diag.Errorf(BadOptions, "", "want dtype %s does not exist", o.WantDType)
	}
	return o.Tol.Check("tolerance")
}

func (w *Want) check() error {
	bad := func(format string, args ...any) error {
		return diag.Errorf(BadWant, "", "want: "+format, args...)
	}
	if w == nil {
		return diag.Errorf(BadWant, "", "there is nothing to compare with")
	}
	if w.DType.Size() == 0 {
		return bad("dtype %s does not exist", w.DType)
	}
	if _, err := tensor.ParseShape(w.Shape); err != nil {
		return bad("%w", err)
	}
	for _, d := range w.Also {
		if d.Size() == 0 || d.IsFloat() || w.DType.IsFloat() {
			return bad("%s instead of %s: only integers may have other types", d, w.DType)
		}
	}
	n := w.Shape.Elems()
	sources := 0
	if w.Value != nil || n == 0 && w.Exact == nil && w.Stored == nil {
		sources++
		if len(w.Value) != n {
			return bad("shape %s has %d elements, got %d values", w.Shape, n, len(w.Value))
		}
	}
	for _, t := range []struct {
		name string
		t    *tensor.Tensor
		kind bool
	}{{"exact", w.Exact, false}, {"stored", w.Stored, true}} {
		if t.t == nil {
			continue
		}
		sources++
		if _, err := tensor.FromStorage(t.t.DType, t.t.Shape, t.t.Strides, t.t.Offset, t.t.Data); err != nil {
			return bad("%s: %w", t.name, err)
		}
		if !t.t.Shape.Equal(w.Shape) {
			return bad("%s has shape %s, want %s", t.name, t.t.Shape, w.Shape)
		}
		if t.t.DType.IsFloat() != t.kind {
			return bad("%s is %s: exact holds integers or bool, stored holds floats", t.name, t.t.DType)
		}
	}
	if w.Exact != nil && w.DType.IsFloat() {
		return bad("exact integers for an output of %s", w.DType)
	}
	if sources != 1 {
		return bad("%d of value, exact and stored are set, exactly one is needed", sources)
	}
	if w.Bound != nil && len(w.Bound) != n {
		return bad("shape %s has %d elements, got %d bounds", w.Shape, n, len(w.Bound))
	}
	if w.Undetermined != nil && len(w.Undetermined) != n {
		return bad("shape %s has %d elements, got %d undetermined marks", w.Shape, n, len(w.Undetermined))
	}
	if w.Ties != nil {
		return w.Ties.check(w, n)
	}
	return nil
}

// badBound is the error for element i, whose bound is no bound.
func (p *plan) badBound(i int, bound float64) error {
	return diag.Errorf(BadWant, "", "want: the bound of element %v is %v", p.want.Shape.Unravel(i), bound)
}

// maxFloat saturates a measure: statistics hold no infinities, because they could not be written as JSON numbers.
func maxFloat(x float64) float64 { return min(x, math.MaxFloat64) }
