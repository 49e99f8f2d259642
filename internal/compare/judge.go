// This file implements the acceptance rule: what one element is, and whether it is wrong.

package compare

import "math"

// judge says what an element is. The fast kernels decide only the easy case, finite and within the bound; everything
// else comes here, so that there is one rule.
//
//	want NaN:    got must be NaN
//	want ±Inf:   got must be the same infinity (in a format without infinities: NaN)
//	want finite: |got-want| <= bound, or got is an infinity (in a format without infinities: NaN) and the interval
//	             want±bound reaches the overflow threshold of the output dtype on its side
//
// ok is false when a finite want has a bound that is NaN or negative: then the question is wrong, not the output.
func (p *plan) judge(got, want, bound float64, undetermined bool) (k Kind, ok bool) {
	finite := math.Abs(got) <= math.MaxFloat64
	switch {
	case undetermined:
		k = NotDetermined
	case want != want:
		k = MissingNaN
		if got != got {
			k = MatchedNaN
		}
	case math.IsInf(want, 0):
		k = p.judgeInf(got, want)
	default:
		if !(bound >= 0) {
			return KindUnset, false
		}
		k = p.judgeFinite(got, want, bound)
	}
	if p.forbid && !finite && (k == NotDetermined || k == MatchedNaN || k == MatchedInf || k == Overflowed) {
		k = Forbidden
	}
	return k, true
}

func (p *plan) judgeInf(got, want float64) Kind {
	switch {
	case got == want, got != got && p.noInf:
		return MatchedInf
	case got != got:
		return UnexpectedNaN
	case math.IsInf(got, 0):
		return OppositeInf
	}
	return MissingInf
}

func (p *plan) judgeFinite(got, want, bound float64) Kind {
	switch {
	case got != got:
		if p.noInf && p.overflows(math.Abs(want), bound) {
			return Overflowed
		}
		return UnexpectedNaN
	case math.IsInf(got, 0):
		if p.overflows(float64(math.Copysign(1, got)*want), bound) {
			return Overflowed
		}
		return UnexpectedInf
	case math.Abs(got-want) <= bound:
		return Accepted
	}
	return BeyondBound
}

// overflows reports whether a value of up to want+bound is infinite in the output dtype.
func (p *plan) overflows(want, bound float64) bool {
	return !p.want.Saturating && want+bound >= p.threshold
}

// wrong reports whether an element of kind k makes the comparison fail, and ignored whether it would if the options
// checked NaN and Inf. Forbidding non-finite values beats not checking them.
func (p *plan) wrong(k Kind) (wrong, ignored bool) {
	switch k {
	case BeyondBound, MissingNaN, MissingInf, OppositeInf, Forbidden, OutOfRange, Duplicate:
		return true, false
	case UnexpectedNaN:
		wrong = p.opt.CheckNaN || p.forbid
		return wrong, !wrong
	case UnexpectedInf:
		wrong = p.opt.CheckInf || p.forbid
		return wrong, !wrong
	}
	return false, false
}

// count adds one element of kind k and reports whether it is wrong.
func (p *plan) count(c *Counts, k Kind) bool {
	wrong, ignored := p.wrong(k)
	c.Of[k]++
	if wrong {
		c.Mismatched++
	}
	if ignored {
		c.Ignored++
	}
	if k == NotDetermined {
		c.Undetermined++
	}
	return wrong
}

// add joins the counts of two disjoint sets of elements.
func (c *Counts) add(o *Counts) {
	c.Total += o.Total
	c.Mismatched += o.Mismatched
	c.Undetermined += o.Undetermined
	c.Ignored += o.Ignored
	for k := range c.Of {
		c.Of[k] += o.Of[k]
	}
}
