// This file implements tolerances, their regimes, defaults per dtype, and named profiles.

package compare

import "math"

// Tolerance is the fixed pass rule |got - want| <= Abs + Rel*|want|.
type Tolerance struct{ Abs, Rel float64 }

// Accepts reports whether got is close enough to want. The bound scales with want alone, so a wild got cannot widen
// it. NaN matches only NaN, an infinity only itself; the sign of zero is left to invariants.
func (t Tolerance) Accepts(got, want float64) bool {
	switch {
	case math.IsNaN(want):
		return math.IsNaN(got)
	case math.IsInf(want, 0):
		return got == want
	case math.IsNaN(got) || math.IsInf(got, 0):
		return false
	}
	return math.Abs(got-want) <= t.At(want)
}

// At returns the bound at a wanted value. The conversion keeps the compiler from fusing the product into the sum:
// with a fused one verdicts would depend on the CPU.
func (t Tolerance) At(want float64) float64 {
	return t.Abs + float64(t.Rel*math.Abs(want))
}

// Regime says where the bound of an element comes from.
type Regime uint8

const (
	// RegimeUnset: Bound where the reference gives bounds, otherwise Fixed with the default of the dtype.
	RegimeUnset Regime = iota
	// Bound: the per-element bound that came with the expected value.
	Bound
	// Calibrated: a tolerance fitted to correct kernels (see Calibrate).
	Calibrated
	// Fixed: a tolerance that somebody chose.
	Fixed
)
