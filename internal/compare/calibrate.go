// This file implements the calibration of a tolerance from the errors of correct kernels.

package compare

import (
	"math"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// Sample is the worst element of one run of a correct kernel.
type Sample struct {
	MaxAbs  float64 // largest absolute error of the case
	MaxWant float64 // largest magnitude of a finite wanted value of the case
	// Bins are the errors by magnitude; none: they are not known, and an absolute tolerance alone is fitted.
	Bins []ErrorBin
}

// Calibration is a fitted tolerance with the evidence for it.
type Calibration struct {
	Tol     Tolerance // Rel is 0 where the errors by magnitude are not known
	P95     float64   // percentile of the held-in half, the 95th unless another was asked for; beside Rel
	Floored bool      // the fitted value was below half an ulp, which is used instead
	HeldIn  int       // number of samples the tolerance was fitted to
	HeldOut int       // number of samples it was tried on
	Alarms  int       // held-out samples above the tolerance: false alarms, since the kernels are correct
	Rate    float64   // Alarms / HeldOut
	// RateLow and RateHigh are the 95 % Wilson score interval of the false-alarm rate (Wilson, JASA 22, 1927). Unlike
	// the textbook interval it does not collapse to a point at 0 alarms.
	RateLow, RateHigh float64
	// Planted are errors that were tried on the held-out half; none where the errors by magnitude are not known.
	Planted []Planted

	zeros float64 // part of the elements, or else of the runs, whose zeros would be accepted
}

const (
	// MinSamples is the least number of samples: with 20 in the held-in half the 95th percentile is the second
	// largest value (index round(0.95*19) = 18); with fewer it is the largest, and one outlier would set the tolerance.
	MinSamples = 40
	// calibrationPercentile and calibrationFactor are those of the published procedure (p95 x 1.5).
	calibrationPercentile = 95
	calibrationFactor     = 1.5
	// wilsonZ is the 97.5 % quantile of the normal distribution.
	wilsonZ = 1.959963984540054
)

// Fit says how a tolerance is made of errors: Factor times a percentile.
type Fit struct{ Percentile, Factor float64 }

// DefaultFit is 1.5 times the 95th percentile.
func DefaultFit() Fit { return Fit{calibrationPercentile, calibrationFactor} }

func (f Fit) check() error {
	switch {
	case !(f.Percentile > 0 && f.Percentile <= 100):
		return diag.Errorf(BadSamples, "use a number above 0 and up to 100, for example 95", "the percentile is %v",
			f.Percentile)
	case !(f.Factor >= 1) || math.IsInf(f.Factor, 0):
		return diag.Errorf(BadSamples, "use 1 or more, for example 1.5", "the factor is %v", f.Factor)
	}
	return nil
}

// Calibrate fits a tolerance in the default way.
func Calibrate(d dtype.DType, samples []Sample) (*Calibration, error) {
	return DefaultFit().Calibrate(d, samples)
}

// Calibrate fits a tolerance to the samples of even index and reports the false-alarm rate on those of odd index.
// The split by parity is deterministic, and it mixes shapes and value distributions that come in runs.
//
// Bit-exact kernels (relu) have errors of 0 and would get a tolerance of 0. The floor is half an ulp of dtype d at the
// largest wanted magnitude: the reference is not rounded to d, so that a correctly rounded result may be that far off.
func (f Fit) Calibrate(d dtype.DType, samples []Sample) (*Calibration, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if len(samples) < MinSamples {
		return nil, diag.Errorf(BadSamples, "run more cases of correct kernels, for example calibrate --iterations 100",
			"calibration needs at least %d samples, got %d", MinSamples, len(samples))
	}
	var in, out []float64
	var inBins, outBins [][]ErrorBin
	var scale float64
	both := d.IsFloat()
	for i := range samples {
		both = both && (len(samples[i].Bins) > 0 || samples[i].MaxWant == 0)
	}
	for i, s := range samples {
		if err := s.check(i); err != nil {
			return nil, err
		}
		if i%2 == 0 {
			in, inBins = append(in, s.MaxAbs), append(inBins, s.Bins)
			scale = max(scale, s.MaxWant)
		} else {
			out, outBins = append(out, s.MaxAbs), append(outBins, s.Bins)
		}
	}
	both = both && scale > 0
	slices.Sort(in)
	c := &Calibration{P95: in[rankIndex(f.Percentile/100, len(in))], HeldIn: len(in), HeldOut: len(out)}
	if both {
		c.Tol, c.P95, c.Floored = f.pair(d, inBins)
		c.Planted = c.Tol.misses(outBins)
		c.zeros = c.Planted[0].Share
	} else {
		c.Tol.Abs = f.Factor * c.P95
		if floor := d.HalfULP(scale); d.IsFloat() && c.Tol.Abs < floor {
			c.Tol.Abs, c.Floored = floor, true
		}
		c.zeros = float64(coveredBy(c.Tol.Abs, samples)) / float64(len(samples))
	}
	if math.IsInf(c.Tol.Abs, 0) {
		return nil, diag.Errorf(BadSamples, "leave out the controls that overflow",
			"%v x p%v of the samples, %v, is beyond float64", f.Factor, f.Percentile, c.P95)
	}
	for i, x := range out {
		if both && !c.Tol.within(outBins[i]) || !both && x > c.Tol.Abs {
			c.Alarms++
		}
	}
	c.Rate = float64(c.Alarms) / float64(c.HeldOut)
	c.RateLow, c.RateHigh = wilson(c.Alarms, c.HeldOut)
	return c, c.tooWide()
}

func (s Sample) check(i int) error {
	for _, v := range []struct {
		name  string
		value float64
	}{{"max_abs", s.MaxAbs}, {"max_want", s.MaxWant}} {
		if !(v.value >= 0) || math.IsInf(v.value, 0) {
			return diag.Errorf(BadSamples, "use only cases that a correct kernel passed, with finite statistics",
				"sample %d: %s is %v", i, v.name, v.value)
		}
	}
	for _, b := range s.Bins {
		if !(b.Want >= 0) || !(b.MaxAbs >= 0) || math.IsInf(b.Want, 0) || math.IsInf(b.MaxAbs, 0) || b.Count < 0 {
			return diag.Errorf(BadSamples, "send what /v1/compare answers", "sample %d: a bin is %+v", i, b)
		}
	}
	return nil
}

// rankIndex returns the index of the q-quantile in n sorted values: round(q*(n-1)), ties to even as in the published
// procedure, which is written in Python.
func rankIndex(q float64, n int) int {
	return int(math.RoundToEven(q * float64(n-1)))
}

// wilson returns the 95 % Wilson score interval of k successes in n trials.
func wilson(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	nf, z2 := float64(n), float64(wilsonZ*wilsonZ)
	p := float64(k) / nf
	center := p + z2/(2*nf)
	spread := float64(wilsonZ * math.Sqrt(float64(p*(1-p))/nf+z2/(4*nf*nf)))
	scale := 1 + z2/nf
	low, high = (center-spread)/scale, (center+spread)/scale
	if k == 0 {
		low = 0 // exactly, not a rounding error of it
	}
	if k == n {
		high = 1
	}
	return low, high
}
