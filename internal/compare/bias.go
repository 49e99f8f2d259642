// This file implements the test for a common sign: errors that are each within their bound and all point the same way.

package compare

import (
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// A Lean counts independent units of an output whose error points beyond what implementations may have in common: Above
// of them make the magnitude too large, Below too small.
//
// Why it is a test. An error is made of two parts. Rounding errors of sums of different values have no preferred sign:
// as often as not they make a unit too large. What all units of an implementation may have in common, such as the error
// of an approximate reciprocal, is at most the allowance that the reference gives. So for every conforming
// implementation, whatever it has in common, a unit exceeds the allowance on one given side with a probability of at
// most 1/2, and Above and Below are not larger than a binomial variable of Units trials. Hoeffding's inequality bounds
// its tail: P(Above >= k) <= exp(-2(k-Units/2)²/Units). A wrong constant shifts all units the same way.
//
// Counts of several cases may be added: their values are drawn independently.
type Lean struct {
	Units int `json:"units"`
	Above int `json:"above"`
	Below int `json:"below"`
}

// LeanChance is the largest probability with which the units of a conforming implementation lean to one side by luck. A
// campaign of 5,000 cases and 100 operators with types has one such test each, of two sides: 1e-6 in all.
const LeanChance = 1e-10

// leanTail is -ln(LeanChance), the exponent of Hoeffding's tail.
const leanTail = 23.025850929940457

// Add adds the counts of another case.
func (l *Lean) Add(o Lean) {
	l.Units += o.Units
	l.Above += o.Above
	l.Below += o.Below
}

// Biased reports whether so many units lean to one side that chance does not explain it.
func (l *Lean) Biased() bool {
	excess := float64(max(l.Above, l.Below)) - float64(float64(l.Units)/2)
	return excess > 0 && float64(2*float64(excess*excess)) >= float64(leanTail*float64(l.Units))
}

// maxUnits is how many units of an output are looked at: enough for any share that matters.
const maxUnits = 512

// maybeBiased is the share of units with the same sign from which the allowance is asked for. Units within the
// allowance do not count, so counting none where fewer agree only makes the test more careful.
const maybeBiased = 0.7

// LeanOf tests an accepted output whose units of Want.Unit elements are independent. Allowance gives, for each element,
// the error that implementations may have in common; it is called only where the signs agree.
func LeanOf(got *tensor.Tensor, w *Want, allowance func() ([]float64, error)) (Lean, error) {
	if w.Unit < 1 || w.Value == nil || len(w.Value) == 0 || got.DType.Size() < 4 {
		return Lean{}, nil // rounded to 16 bits, rows of nearly equal values all err the same way
	}
	units := directed(got, w)
	var plus, minus int
	for _, u := range units {
		if u.lean > 0 {
			plus++
		}
		if u.lean < 0 {
			minus++
		}
	}
	out := Lean{Units: len(units)}
	if float64(max(plus, minus)) < float64(maybeBiased*float64(len(units))) || len(units) == 0 {
		return out, nil
	}
	common, err := allowance()
	if err != nil {
		return Lean{}, err
	}
	for _, u := range units {
		most := 0.0
		for i := u.at; i < min(u.at+w.Unit, len(common)); i++ {
			most += common[i]
		}
		switch {
		case u.lean > most:
			out.Above++
		case u.lean < -most:
			out.Below++
		}
	}
	return out, nil
}

// unit is the sum of the errors of the elements from at on, each positive where it makes the magnitude larger.
type unit struct {
	at   int
	lean float64
}

// directed returns the units of an output, at most maxUnits evenly spaced ones. Units that are equal to one before
// (broadcast rows) are left out, since their errors are equal, too; so are units with an element that is not finite or
// not determined, and units of several elements that are few or nearly equal: their roundings may agree.
func directed(got *tensor.Tensor, w *Want) []unit {
	n := len(w.Value) / w.Unit
	step := max(1, (n+maxUnits-1)/maxUnits)
	raw, size := got.Bytes(), got.DType.Size()
	x := make([]float64, w.Unit)
	seen := map[[2]float64]bool{}
	var out []unit
	for r := 0; r < n; r += step {
		at := r * w.Unit
		dtype.Decode(x, got.DType, raw[at*size:(at+w.Unit)*size])
		u, key, ok := unit{at: at}, [2]float64{}, true
		for i, g := range x {
			want := w.Value[at+i]
			d := g - want
			if d-d != 0 || w.Undetermined != nil && w.Undetermined[at+i] {
				ok = false
				break
			}
			u.lean += float64(math.Copysign(1, want) * d)
			key[0] += math.Abs(want)
			key[1] += float64(want * float64(i+1))
		}
		if !ok || seen[key] || w.Unit > 1 && !varied(w.Value[at:at+w.Unit], got.DType.UnitRoundoff()) {
			continue
		}
		seen[key] = true
		out = append(out, u)
	}
	return out
}

// varied reports whether the values of a unit are many and differ by more than their spacing, so that their roundings
// do not agree. U is the unit roundoff of their type.
func varied(x []float64, u float64) bool {
	const least, sample = 64, 32
	if len(x) < least {
		return false
	}
	top, near, step := 0.0, 0, len(x)/sample
	for i := 0; i < len(x); i += step {
		top = math.Max(top, math.Abs(x[i]))
	}
	for i := step; i < len(x); i += step {
		if math.Abs(x[i]-x[i-step]) < float64(8*float64(u*top)) {
			near++
		}
	}
	return 4*near <= len(x)/step
}

// Halves counts elements whose wanted value lies exactly between two values of a 16-bit output and which are not
// rounded to even: Above away from zero, Below toward it. Where the value before that rounding is exact (Want.Once,
// Want.Several), rounding to nearest even leaves none; adding half a unit and cutting off leaves all of them above.
// Equal values count once.
func Halves(got *tensor.Tensor, w *Want) Lean {
	if !w.Once || w.Value == nil || got.DType != dtype.Float16 && got.DType != dtype.BFloat16 {
		return Lean{}
	}
	raw, size := got.Bytes(), got.DType.Size()
	var x [1]float64
	seen := map[float64]bool{}
	var out Lean
	for i, want := range w.Value {
		bits := uint16(raw[i*size]) | uint16(raw[i*size+1])<<8
		if bits&1 == 0 {
			continue // even, or it says nothing
		}
		dtype.Decode(x[:], got.DType, raw[i*size:(i+1)*size])
		d := x[0] - want
		if d == 0 || d-d != 0 || want-want != 0 || w.Several != nil && w.Several[i] {
			continue
		}
		// The neighbor on the other side of want must be as far away.
		other := bits + 1
		if math.Abs(x[0]) > math.Abs(want) {
			other = bits - 1
		}
		if got.DType.Float64(uint64(other))-want != -d || seen[want] {
			continue
		}
		seen[want] = true
		if out.Units++; math.Abs(x[0]) > math.Abs(want) {
			out.Above++
		} else {
			out.Below++
		}
		if out.Units == maxUnits {
			break
		}
	}
	return out
}
