package compare

// This file implements a second comparison, written from the specification alone: one element at a time, in big
// numbers where the first one uses tricks, sorting where it counts.

import (
	"math"
	"math/big"
	"slices"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// naiveElement is what the specification says about one element.
type naiveElement struct {
	kind    Kind
	wrong   bool
	ignored bool
	finite  bool // has a numeric error
	abs     float64
	rel     float64
	hasRel  bool
	ulp     uint64
	ratio   float64
	want    float64
}

type naiveReport struct {
	verdict  Verdict
	counts   Counts
	elements []naiveElement
}

func indexes(s tensor.Shape) [][]int {
	all := [][]int{{}}
	for _, d := range s {
		var next [][]int
		for _, head := range all {
			for i := range d {
				next = append(next, append(slices.Clone(head), i))
			}
		}
		all = next
	}
	return all
}

func naive(got *tensor.Tensor, want *Want, opt Options) naiveReport {
	var rep naiveReport
	for i, idx := range indexes(want.Shape) {
		var e naiveElement
		if got.DType.IsFloat() {
			e = naiveFloat(got.At(idx...), got.Bits(idx...), i, idx, want, opt)
		} else {
			e = naiveInteger(got.Bits(idx...), i, idx, want, opt)
		}
		switch e.kind {
		case BeyondBound, MissingNaN, MissingInf, OppositeInf, Forbidden:
			e.wrong = true
		case UnexpectedNaN:
			e.wrong = opt.CheckNaN || opt.NonFinite == Forbid
			e.ignored = !e.wrong
		case UnexpectedInf:
			e.wrong = opt.CheckInf || opt.NonFinite == Forbid
			e.ignored = !e.wrong
		}
		rep.counts.Total++
		rep.counts.Of[e.kind]++
		if e.wrong {
			rep.counts.Mismatched++
		}
		if e.ignored {
			rep.counts.Ignored++
		}
		if e.kind == NotDetermined {
			rep.counts.Undetermined++
		}
		rep.elements = append(rep.elements, e)
	}
	switch {
	case rep.counts.Mismatched > 0:
		rep.verdict = Fail
	case rep.counts.Total > 0 && rep.counts.Undetermined == rep.counts.Total:
		rep.verdict = Undecided
	default:
		rep.verdict = Pass
	}
	return rep
}

// naiveWant returns the expected value and its bound; the value is clamped where the conversion saturates.
func naiveWant(i int, idx []int, want *Want, opt Options) (w, b float64) {
	switch {
	case want.Value != nil:
		w = want.Value[i]
	case want.Stored != nil:
		w = want.Stored.At(idx...)
	default:
		w = want.Exact.At(idx...)
	}
	inf := math.IsInf(w, 0)
	if want.Saturating {
		lo, hi := naiveRange(want.DType)
		if w < lo {
			w = lo
		}
		if w > hi {
			w = hi
		}
	}
	useBound := opt.Regime == Bound || opt.Regime == RegimeUnset && want.Bound != nil
	switch {
	case useBound && want.Bound != nil:
		b = want.Bound[i]
	case useBound:
		b = 0
	default:
		tol := opt.Tol
		if opt.Regime == RegimeUnset {
			tol = DefaultTolerance(want.DType)
		}
		product := tol.Rel * math.Abs(w)
		b = tol.Abs + float64(product)
	}
	if opt.WantDType.IsFloat() && opt.WantDType != dtype.Float64 {
		b += opt.WantDType.HalfULP(w)
	}
	if inf && want.Saturating {
		b = 0
	}
	return w, b
}

func naiveRange(d dtype.DType) (lo, hi float64) {
	switch {
	case d.IsFloat():
		return -d.MaxFinite(), d.MaxFinite()
	case d == dtype.Bool:
		return 0, 1
	}
	return d.Float64(d.Bits(math.Inf(-1))), d.Float64(d.Bits(math.Inf(1)))
}

func naiveFloat(got float64, bits uint64, i int, idx []int, want *Want, opt Options) naiveElement {
	w, b := naiveWant(i, idx, want, opt)
	e := naiveElement{want: w}
	nonFinite := math.IsNaN(got) || math.IsInf(got, 0)
	noInf := want.DType == dtype.Float8E4M3FN
	threshold := want.DType.OverflowThreshold()
	over := !want.Saturating && math.Abs(w)+b >= threshold
	switch {
	case want.Undetermined != nil && want.Undetermined[i]:
		e.kind = NotDetermined
	case math.IsNaN(w) && math.IsNaN(got):
		e.kind = MatchedNaN
	case math.IsNaN(w):
		e.kind = MissingNaN
	case math.IsInf(w, 0) && (got == w || noInf && math.IsNaN(got)):
		e.kind = MatchedInf
	case math.IsInf(w, 0) && math.IsInf(got, 0):
		e.kind = OppositeInf
	case math.IsInf(w, 0) && math.IsNaN(got):
		e.kind = UnexpectedNaN
	case math.IsInf(w, 0):
		e.kind = MissingInf
	case math.IsNaN(got) && noInf && over:
		e.kind = Overflowed
	case math.IsNaN(got):
		e.kind = UnexpectedNaN
	case math.IsInf(got, 1) && !want.Saturating && w+b >= threshold,
		math.IsInf(got, -1) && !want.Saturating && w-b <= -threshold:
		e.kind = Overflowed
	case math.IsInf(got, 0):
		e.kind = UnexpectedInf
	default:
		e.finite = true
		e.abs = math.Min(math.Abs(got-w), math.MaxFloat64)
		e.kind = BeyondBound
		if math.Abs(got-w) <= b {
			e.kind = Accepted
		}
		e.ulp = want.DType.ULPDistance(bits, want.DType.BitsSaturating(w))
		e.setRatios(b)
	}
	if opt.NonFinite == Forbid && nonFinite {
		switch e.kind {
		case NotDetermined, MatchedInf, MatchedNaN, Overflowed:
			e.kind = Forbidden
		}
	}
	return e
}

func (e *naiveElement) setRatios(b float64) {
	if e.want != 0 {
		e.hasRel = true
		e.rel = math.Min(e.abs/math.Abs(e.want), math.MaxFloat64)
	}
	if e.abs != 0 {
		e.ratio = math.Min(e.abs/b, math.MaxFloat64)
	}
}

// naiveBig returns the integer value of a bit pattern.
func naiveBig(d dtype.DType, bits uint64) *big.Int {
	size := uint(d.Size())
	v := new(big.Int).SetUint64(bits)
	switch {
	case d == dtype.Bool:
		if bits != 0 {
			v.SetInt64(1)
		}
	case d.IsSigned() && bits>>(8*size-1)&1 != 0:
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), 8*size))
	}
	return v
}

func naiveInteger(bits uint64, i int, idx []int, want *Want, opt Options) naiveElement {
	w, b := naiveWant(i, idx, want, opt)
	e := naiveElement{want: w}
	switch {
	case want.Undetermined != nil && want.Undetermined[i]:
		e.kind = NotDetermined
		return e
	case math.IsNaN(w):
		e.kind = MissingNaN
		return e
	case math.IsInf(w, 0):
		e.kind = MissingInf
		return e
	}
	exact := new(big.Rat).SetFloat64(w)
	if want.Exact != nil {
		exact = new(big.Rat).SetInt(naiveBig(want.Exact.DType, want.Exact.Bits(idx...)))
	}
	if want.Saturating {
		low, high := naiveBig(want.DType, 0), naiveBig(want.DType, want.DType.Bits(math.Inf(1)))
		if want.DType.IsSigned() {
			low = naiveBig(want.DType, want.DType.Bits(math.Inf(-1)))
		}
		if r := new(big.Rat).SetInt(low); exact.Cmp(r) < 0 {
			exact = r
		}
		if r := new(big.Rat).SetInt(high); exact.Cmp(r) > 0 {
			exact = r
		}
	}
	diff := new(big.Rat).SetInt(naiveBig(want.DType, bits))
	diff.Sub(diff, exact).Abs(diff)
	e.finite, e.kind = true, BeyondBound
	if math.IsInf(b, 1) || diff.Cmp(new(big.Rat).SetFloat64(b)) <= 0 {
		e.kind = Accepted
	}
	e.abs, _ = diff.Float64()
	if want.Exact == nil && want.DType.Size() < 8 {
		// The rule is one of float64 arithmetic: the difference is rounded before it is compared with the bound.
		e.abs = math.Abs(want.DType.Float64(bits) - w)
		e.kind = map[bool]Kind{true: Accepted, false: BeyondBound}[e.abs <= b]
	}
	low, high := naiveBig(want.DType, 0), naiveBig(want.DType, want.DType.Bits(math.Inf(1)))
	if want.DType.IsSigned() {
		low = naiveBig(want.DType, want.DType.Bits(math.Inf(-1)))
	}
	nearest := roundEven(exact)
	if want.DType == dtype.Bool && exact.Sign() != 0 {
		nearest = high
	}
	if nearest.Cmp(low) < 0 {
		nearest = low
	}
	if nearest.Cmp(high) > 0 {
		nearest = high
	}
	steps := new(big.Int).Sub(naiveBig(want.DType, bits), nearest)
	e.ulp = steps.Abs(steps).Uint64()
	e.setRatios(b)
	return e
}

// roundEven rounds to the nearest integer, ties to even.
func roundEven(x *big.Rat) *big.Int {
	twice := new(big.Rat).Mul(x, big.NewRat(2, 1))
	floor := new(big.Int).Div(x.Num(), x.Denom()) // Euclidean: rounds down, since the denominator is positive
	half := new(big.Rat).SetInt(new(big.Int).Add(new(big.Int).Lsh(floor, 1), big.NewInt(1)))
	if c := twice.Cmp(half); c > 0 || c == 0 && floor.Bit(0) == 1 {
		floor.Add(floor, big.NewInt(1))
	}
	return floor
}
