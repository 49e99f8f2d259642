package main

// This file implements the acceptance rules of other harnesses: whether an output is close enough to its reference.
//
// The reference is the catalogue's in float64, rounded once to the type of the output. Harnesses compare with PyTorch
// in the same precision, whose own error is far below their tolerances.

import (
	"math"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// rule says which elements of an output a harness accepts.
type rule struct {
	// accept decides on one element; d is the number format of the trial.
	accept func(d dtype.DType, got, want float64) bool
	// share of the elements that must be accepted, by family of the operator; 1 where it is not named.
	share map[string]float64
}

// tolerances are absolute and relative parts by number format of the trial.
type tolerances map[dtype.DType]compare.Tolerance

// same is one tolerance, absolute and relative, for all number formats.
func same(abs, rel float64) tolerances {
	t := tolerances{}
	for _, d := range dtype.Floats() {
		t[d] = compare.Tolerance{Abs: abs, Rel: rel}
	}
	return t
}

// byWidth has one for float32 and one for the formats of 16 bits, which those of 8 bits share.
func byWidth(single, half float64) tolerances {
	t := same(half, half)
	t[dtype.Float64], t[dtype.Float32] = compare.Tolerance{Abs: single, Rel: single},
		compare.Tolerance{Abs: single, Rel: single}
	return t
}

// allclose is torch.allclose: |got - want| <= atol + rtol |want|, an infinity equals itself, NaN nothing.
func allclose(t tolerances) rule {
	return rule{accept: func(d dtype.DType, got, want float64) bool {
		return !math.IsNaN(want) && t[d].Accepts(got, want)
	}}
}

// allcloseNaN is torch.allclose with equal_nan: NaN equals NaN. It is also what a rule comes to that compares the
// positions of NaN and infinities first.
func allcloseNaN(t tolerances) rule {
	return rule{accept: func(d dtype.DType, got, want float64) bool { return t[d].Accepts(got, want) }}
}

// both refuses an element if its absolute and its relative error are above the limit, and every value that is not
// finite. eps is what is added to the divisor.
func both(limit, eps float64, share map[string]float64) rule {
	return rule{share: share, accept: func(_ dtype.DType, got, want float64) bool {
		if math.IsNaN(got) || math.IsInf(got, 0) {
			return false
		}
		off := math.Abs(got - want)
		return off <= limit || off/(math.Abs(want)+eps) <= limit
	}}
}

// absolute accepts finite values that are at most the tolerance off; no other value, whatever the reference has.
func absolute(t tolerances) rule {
	return rule{accept: func(d dtype.DType, got, want float64) bool {
		return !math.IsNaN(got) && !math.IsInf(got, 0) && math.Abs(got-want) <= t[d].Abs
	}}
}

// accepts decides on one output. Indices are judged by what they point to, as harnesses do that compare the gathered
// values: any of equal ones is right. Quantised values, which have 8 bits, may be one step off, because a quotient next
// to a tie rounds either way.
func (r *rule) accepts(family string, d dtype.DType, got *tensor.Tensor, want *compare.Want) (bool, error) {
	if want.Ties != nil {
		rep, err := compare.Quick(got, want, compare.DefaultOptions())
		return err == nil && rep.Verdict == compare.Pass, err
	}
	values, wanted := got.Float64s(), rounded(want)
	wrong := 0
	for i, v := range values {
		ok := false
		switch {
		case want.Undetermined != nil && want.Undetermined[i]:
			ok = true
		case want.DType.Size() == 1:
			ok = want.DType.ULPDistance(want.DType.Bits(v), want.DType.Bits(wanted[i])) <= 1
		default:
			ok = r.accept(d, v, wanted[i])
		}
		if !ok {
			wrong++
		}
	}
	share, named := r.share[family]
	if !named {
		share = 1
	}
	return float64(len(values)-wrong) >= share*float64(len(values)), nil
}

// rounded is the reference in the type of the output.
func rounded(w *compare.Want) []float64 {
	switch {
	case w.Exact != nil:
		return w.Exact.Float64s()
	case w.Stored != nil:
		return w.Stored.Float64s()
	}
	out := make([]float64, len(w.Value))
	for i, v := range w.Value {
		bits := w.DType.Bits(v)
		if w.Saturating {
			bits = w.DType.BitsSaturating(v)
		}
		out[i] = w.DType.Float64(bits)
	}
	return out
}
