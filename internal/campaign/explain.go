package campaign

import (
	"fmt"
	"math"

	"gpuemu/internal/compare"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// This file implements the diagnosis by other contracts: outputs that fail the contract asked for are held against
// those that the kernel may have been written to.

// FindContract is the kind of the finding.
const FindContract = "other-contract"

// maxExplained is how many elements the inputs and outputs of a case may have in all for alternatives to be evaluated.
// Together with their number, about five, it bounds what a failing case costs. It depends on the case alone: a limit on
// the number of cases would make the diagnosis depend on the order in which workers finish.
const maxExplained = 1 << 18

// clearlyBetter is how many times smaller the largest error/bound must be under an alternative. Where the contract is
// missed by little, an alternative that happens to lie on the right side says nothing.
const clearlyBetter = 2

// What a case has to show by itself where no other case could be run: so many elements, bounds so narrow (mean of
// bound/|want|), and an error/bound so many times smaller than under the contract. Of planted faults that one case does
// not tell from narrow intermediates, a twentieth shows that much, and of kernels with narrow intermediates a third.
const (
	aloneElems = 64
	aloneWidth = 0.1
	aloneGain  = 8
)

// explain returns the one sentence on the narrowest alternative that all outputs keep; nil: there is none. ratio is the
// largest error/bound under the contract.
func (s *subject) explain(
	c opspec.Case, run *observed, got []*tensor.Tensor, wants []expected, ratio float64,
) *compare.Finding {
	if s.entry == nil || len(run.inputs) == 0 || !explainable(run.inputs, got, wants) {
		return nil
	}
	alternatives := oracle.Alternatives(s.entry, s.entryAttrs(c), c.DType)
	var best *oracle.Alternative
	var least fit
	for i := range alternatives {
		fit, ok := s.fits(&alternatives[i], c, run.inputs, got)
		if ok && (best == nil || fit.width < least.width) && (ratio <= 1 || ratio >= clearlyBetter*fit.ratio) {
			best, least = &alternatives[i], fit
		}
	}
	if best == nil {
		return nil
	}
	seen := noEvidence
	if run.confirm != nil {
		seen = run.confirm(best.Name)
	}
	if seen == refuted || seen == noEvidence && (best.Repeated || !least.aloneEnough(ratio)) {
		return nil
	}
	return &compare.Finding{Kind: FindContract, Sentence: fmt.Sprintf(
		"the output matches %s (max error/bound %.2g): %s", best.Matches, least.ratio, best.Advice)}
}

// aloneEnough reports whether one case shows enough.
func (f fit) aloneEnough(ratio float64) bool {
	return f.judged >= aloneElems && f.width <= aloneWidth && (ratio <= 1 || ratio >= aloneGain*f.ratio)
}

// explainable reports whether the case is small enough, and the outputs are what the catalogue computes.
func explainable(inputs map[string]*tensor.Tensor, got []*tensor.Tensor, wants []expected) bool {
	n := 0
	for _, t := range inputs {
		n += t.Elems()
	}
	for i, t := range got {
		if t.DType != wants[i].want.DType || !t.Shape.Equal(wants[i].want.Shape) {
			return false
		}
		n += t.Elems()
	}
	return n <= maxExplained
}

// fit is how outputs keep an alternative.
type fit struct {
	ratio  float64 // largest error/bound
	width  float64 // mean of bound/|want|, at most 1 each
	judged int     // elements that are determined and not zero
}

// fits holds the outputs against one alternative. What cannot be evaluated explains nothing.
func (s *subject) fits(
	alt *oracle.Alternative, c opspec.Case, inputs map[string]*tensor.Tensor, got []*tensor.Tensor,
) (fit, bool) {
	wants, err := s.evaluateWith(c, inputs, alt.Evaluate)
	if err != nil || len(wants) != len(got) {
		return fit{}, false
	}
	defer func() {
		for i := range wants {
			oracle.Release(wants[i].want)
		}
	}()
	ratio, ok := keeps(wants, got)
	if !ok {
		return fit{}, false
	}
	var all decisions
	for i := range wants {
		all.add(wants[i].want)
	}
	return fit{ratio: ratio, width: all.width / float64(max(1, all.judged)), judged: all.judged}, all.meaningful()
}

// decisions counts what expected values decide: an element whose bound would accept zero as well decides nothing.
type decisions struct {
	judged  int // determined elements that are not zero
	decided int // those that zero would fail
	width   float64
}

func (d *decisions) add(w *compare.Want) {
	for i, v := range w.Value {
		if v == 0 || w.Undetermined != nil && w.Undetermined[i] {
			continue
		}
		d.judged++
		if v-v != 0 { // a NaN or an infinity is matched or not
			d.decided++
			continue
		}
		if w.Ties != nil || w.Bound == nil {
			d.decided++
			continue
		}
		if math.Abs(v) > w.Bound[i] {
			d.decided++
		}
		d.width += math.Min(1, w.Bound[i]/math.Abs(v))
	}
}

// meaningful reports whether outputs of zeros would fail in most elements.
func (d *decisions) meaningful() bool { return d.decided > 0 && 2*d.decided > d.judged }
