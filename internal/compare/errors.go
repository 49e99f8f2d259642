// This file implements errors by magnitude, and the tolerance of two parts that is fitted to them.

package compare

import (
	"cmp"
	"math"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/libm"
)

// ErrorBin is the largest error of the elements whose wanted magnitude lies in one binade.
type ErrorBin struct {
	Want   float64 `json:"want"` // least magnitude of the binade, a power of two; 0 for wanted zeros
	MaxAbs float64 `json:"max_abs"`
	Count  int     `json:"count"`
}

// Planted is an error of a given relative size, and what of it a fitted tolerance would let pass.
type Planted struct {
	Name  string  // what such a kernel does
	Size  float64 // |error| / |want|
	Below float64 // missed where |want| is at most this; math.MaxFloat64: everywhere
	Share float64 // part of the held-out elements that are not zero where it is missed
}

// plantedErrors are the errors that a calibration is tried on: a kernel that writes nothing, and ever smaller mistakes.
var plantedErrors = []Planted{{Name: "zeros", Size: 1}, {Name: "10 % off", Size: 0.1}, {Name: "1 % off", Size: 0.01},
	{Name: "0.1 % off", Size: 0.001}}

const (
	// maxRel is the largest rtol that is fitted: one of 1 and more accepts zeros whatever the magnitude.
	maxRel = 0.25
	// mostZeros is the share of elements whose zeros a tolerance may accept. One that accepts more was fitted to
	// errors as large as the values, and would let most kernels pass.
	mostZeros = 0.5
)

// ErrorBins returns the largest errors by magnitude of the wanted value, the least magnitude first. Elements that are
// not finite have none.
func ErrorBins(got, want []float64) []ErrorBin {
	bins := map[int]*ErrorBin{}
	for i, w := range want {
		d := math.Abs(got[i] - w)
		if math.IsNaN(d) || math.IsInf(d, 0) || math.IsInf(w, 0) {
			continue
		}
		exp, low := math.MinInt, 0.0
		if w != 0 {
			_, exp = math.Frexp(w)
			low = math.Ldexp(0.5, exp)
		}
		b := bins[exp]
		if b == nil {
			b = &ErrorBin{Want: low}
			bins[exp] = b
		}
		b.MaxAbs, b.Count = max(b.MaxAbs, d), b.Count+1
	}
	out := make([]ErrorBin, 0, len(bins))
	for _, b := range bins {
		out = append(out, *b)
	}
	slices.SortFunc(out, func(x, y ErrorBin) int { return cmp.Compare(x.Want, y.Want) })
	return out
}

// within reports whether a tolerance accepts all elements of the bins. Each counts as the least of its binade.
func (t Tolerance) within(bins []ErrorBin) bool {
	for _, b := range bins {
		if b.MaxAbs > t.Abs+float64(t.Rel*b.Want) {
			return false
		}
	}
	return true
}

// pair fits both parts. For each rtol of a grid the atol is what the percentile of the runs needs beside it; of these
// pairs the one with the least geometric mean of the tolerance over the magnitudes that occurred is taken. A kernel
// that rounds correctly so gets an rtol, and small values keep a small tolerance; one whose errors do not follow the
// values (a sum that cancels) gets an atol.
//
// rtol is at least half an ulp of 1: the reference is not rounded to the type.
func (f Fit) pair(d dtype.DType, runs [][]ErrorBin) (best Tolerance, percentile float64, floored bool) {
	unit, least := d.HalfULP(1), d.HalfULP(0)
	magnitudes := map[float64]bool{}
	for _, bins := range runs {
		for _, b := range bins {
			if b.Want > 0 {
				magnitudes[b.Want] = true
			}
		}
	}
	wants := make([]float64, 0, len(magnitudes))
	for w := range magnitudes {
		wants = append(wants, w)
	}
	slices.Sort(wants) // a sum of floats is that of its order
	needs := make([]float64, len(runs))
	cost := math.Inf(1)
	for k := -1; ; k++ {
		rel := 0.0 // the first
		if k >= 0 {
			rel = math.Ldexp(unit/4, k/2)
			if k%2 == 1 {
				rel *= 1.5
			}
		}
		if float64(f.Factor*rel) > maxRel {
			break
		}
		for i, bins := range runs {
			needs[i] = 0
			for _, b := range bins {
				needs[i] = max(needs[i], b.MaxAbs-float64(rel*b.Want))
			}
		}
		slices.Sort(needs)
		need := needs[rankIndex(f.Percentile/100, len(needs))]
		t := Tolerance{Abs: max(float64(f.Factor*need), least), Rel: max(float64(f.Factor*rel), unit)}
		sum := 0.0
		for _, w := range wants {
			sum += libm.Log2(t.Abs + float64(t.Rel*w))
		}
		if sum < cost || k < 0 {
			best, percentile, cost = t, need, sum
			floored = float64(f.Factor*need) < least && float64(f.Factor*rel) < unit
		}
	}
	return best, percentile, floored
}

// misses says what a tolerance lets pass of the planted errors.
func (t Tolerance) misses(runs [][]ErrorBin) []Planted {
	out := slices.Clone(plantedErrors)
	for i := range out {
		p := &out[i]
		p.Below = math.MaxFloat64
		if p.Size > t.Rel {
			p.Below = t.Abs / (p.Size - t.Rel)
		}
		total, missed := 0, 0
		for _, bins := range runs {
			for _, b := range bins {
				if b.Want == 0 {
					continue
				}
				total += b.Count
				if 1.5*b.Want <= p.Below { // the middle of the binade
					missed += b.Count
				}
			}
		}
		if total > 0 {
			p.Share = float64(missed) / float64(total)
		}
	}
	return out
}

// coveredBy counts the runs whose values are all within an absolute tolerance of 0.
func coveredBy(abs float64, samples []Sample) int {
	n := 0
	for _, s := range samples {
		if s.MaxWant > 0 && s.MaxWant <= abs {
			n++
		}
	}
	return n
}

// tooWide refuses a tolerance that accepts zeros for most values.
func (c *Calibration) tooWide() error {
	if c.zeros <= mostZeros {
		return nil
	}
	return diag.Errorf(BadSamples, "one of the two sides is wrong: compare them on one case first",
		"the errors are as large as the values: atol %.3g and rtol %.3g would accept zeros for %.0f %% of them",
		c.Tol.Abs, c.Tol.Rel, 100*c.zeros)
}
