// This file implements tolerances, the regimes they come from, and their defaults per dtype.

package compare

import (
	"fmt"
	"math"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

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

// Scale returns the tolerance with both parts multiplied by factor.
func (t Tolerance) Scale(factor float64) Tolerance {
	return Tolerance{Abs: t.Abs * factor, Rel: t.Rel * factor}
}

// Check returns an error that names the part which is NaN, infinite or negative; field names the tolerance in it.
func (t Tolerance) Check(field string) error {
	for _, part := range []struct {
		name  string
		value float64
	}{{"atol", t.Abs}, {"rtol", t.Rel}} {
		if !(part.value >= 0) || math.IsInf(part.value, 0) {
			return diag.Errorf(BadTolerance, "give a finite number that is not negative",
				"%s: %s is %v", field, part.name, part.value)
		}
	}
	return nil
}

// String returns "atol 1e-05, rtol 1e-05", or "exact" where both are zero.
func (t Tolerance) String() string {
	if t == (Tolerance{}) {
		return "exact"
	}
	return fmt.Sprintf("atol %.4g, rtol %.4g", t.Abs, t.Rel)
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
	// Spread: a fixed tolerance, and for each element what evaluations of the reference differ by (see Evaluations).
	Spread
)

// String returns the name used in configuration and reports.
func (r Regime) String() string {
	switch r {
	case RegimeUnset:
		return "unset"
	case Bound:
		return "bound"
	case Calibrated:
		return "calibrated"
	case Fixed:
		return "fixed"
	case Spread:
		return "spread"
	}
	return fmt.Sprintf("Regime(%d)", uint8(r))
}

// ParseRegime returns the regime called bound, calibrated, fixed or spread.
func ParseRegime(name string) (Regime, error) {
	for _, r := range []Regime{Bound, Calibrated, Fixed, Spread} {
		if name == r.String() {
			return r, nil
		}
	}
	return RegimeUnset, diag.Errorf(UnknownRegime, "use bound, calibrated, fixed or spread",
		"unknown tolerance regime %q", name)
}

// DefaultTolerance returns the tolerance used where nothing better is known. Integers and bool are exact.
//
// The values of float64, float32, float16 and bfloat16 are the documented ones. For the 8-bit floats both parts are one
// unit roundoff: 2^-4 for e4m3fn, 2^-3 for e5m2. The relative part alone covers the one rounding that no kernel can
// avoid (half an ulp is at most u*|want|); the absolute part, equal to it as for the other types, doubles that around
// 1, so that a value computed in float32 may land on the neighbour of the correctly rounded one. An output whose
// values stay below the absolute part is not tested by such a rule at all: the regime Bound is for that.
func DefaultTolerance(d dtype.DType) Tolerance {
	switch d {
	case dtype.Float64:
		return Tolerance{1e-10, 1e-10}
	case dtype.Float32:
		return Tolerance{1e-5, 1e-5}
	case dtype.Float16, dtype.BFloat16:
		return Tolerance{1e-2, 1e-2}
	case dtype.Float8E4M3FN, dtype.Float8E5M2:
		u := d.UnitRoundoff()
		return Tolerance{u, u}
	}
	return Tolerance{}
}

// Profile is a named set of tolerances, one per dtype.
type Profile struct {
	Name string
	Doc  string
	of   func(d dtype.DType) float64
}

// For returns the profile's tolerance for a dtype; integers and bool are exact in every profile.
func (p Profile) For(d dtype.DType) Tolerance {
	if p.of == nil || !d.IsFloat() {
		return Tolerance{}
	}
	t := p.of(d)
	return Tolerance{t, t}
}

// Profiles returns the named profiles. Within a dtype strict <= default <= cross-framework <= relaxed.
func Profiles() []Profile {
	return []Profile{
		{"default", "the documented default of each dtype", func(d dtype.DType) float64 { return DefaultTolerance(d).Abs }},
		{"strict", "float32 1e-7; elsewhere a hundredth of the default, but not below what one rounding needs", strict},
		{"relaxed", "float32 1e-3, float64 1e-8, 16-bit floats 5e-2, 8-bit floats two unit roundoffs", relaxed},
		{"testing", "the same as relaxed, for development", relaxed},
		{"production", "the same as strict, for production validation", strict},
		{"cross-framework", "float32 1e-4, float64 1e-9, 16-bit floats 2e-2, 8-bit floats two unit roundoffs: " +
			"two libraries with other approximations and other orders of summation", crossFramework},
	}
}

// LookupProfile returns the profile of a name; "_" may stand for "-".
func LookupProfile(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if strings.ReplaceAll(name, "_", "-") == p.Name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, diag.Errorf(UnknownProfile, "use one of "+strings.Join(names, ", "),
		"unknown tolerance profile %q", name)
}

// strictFloat32 and relaxedFloat32 are the documented values; they say nothing about other dtypes.
const (
	strictFloat32  = 1e-7
	relaxedFloat32 = 1e-3
)

// strict scales the documented float32 value in two ways and takes the larger: by the ratio of the defaults (1e-7 is
// a hundredth of 1e-5), and by the ratio of the unit roundoffs (1e-7 is 1.7 u), below which a correctly rounded result
// would fail. It never exceeds the default, which for 8-bit floats already is one unit roundoff.
func strict(d dtype.DType) float64 {
	if d == dtype.Float32 {
		return strictFloat32
	}
	def := DefaultTolerance(d).Abs
	rounding := strictFloat32 * (d.UnitRoundoff() / dtype.Float32.UnitRoundoff())
	return min(def, max(def/100, rounding))
}

// relaxed is a hundred times the default where that leaves digits to compare. For 16-bit floats it is 5e-2, the value
// the published tool used for fp16, and for 8-bit floats two unit roundoffs, one ulp of a value in [1, 2).
func relaxed(d dtype.DType) float64 {
	switch d {
	case dtype.Float32:
		return relaxedFloat32
	case dtype.Float64:
		return 1e-8
	case dtype.Float16, dtype.BFloat16:
		return 5e-2
	}
	return 2 * d.UnitRoundoff()
}

// crossFramework covers two implementations that are both right: 1e-4 in float32 is what public kernel benchmarks
// allow between a kernel and an eager reference of the same precision; two correctly rounded 8-bit results may differ
// by two unit roundoffs.
func crossFramework(d dtype.DType) float64 {
	switch d {
	case dtype.Float32:
		return 1e-4
	case dtype.Float64:
		return 1e-9
	case dtype.Float16, dtype.BFloat16:
		return 2e-2
	}
	return 2 * d.UnitRoundoff()
}
