// This file implements the table of value distributions and their choice.

package gen

import (
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
)

// mixed is the distribution that stands for a choice among the others; a case names the one chosen.
const mixed = "mixed"

// finiteSuffix after a distribution's name in a case leaves out its NaN and infinities.
const finiteSuffix = "/finite"

// Distributions of inputs whose role leaves no choice. They stand in cases, but cannot be asked for.
const (
	indexValues       = "index"
	maskValues        = "mask"
	probabilityValues = "probability"
	scaleValues       = "scale"
)

// fillFunc sets the values of one row (rowwise distributions; a row lies along the last axis) or of any number of
// successive elements.
type fillFunc func(dst []float64, row int)

// source is what a distribution draws from and looks at.
type source struct {
	limits
	r     *rng.RNG
	n     int // elements per row
	inner int // rows along the axis before the last
}

// distribution is one way to make values. start may draw choices for the whole tensor.
type distribution struct {
	Named
	weight     int // share in mixed, of 100
	weightRole int // the same for inputs of role weight
	rowwise    bool
	nonFinite  bool // makes NaN and infinities where allowed
	start      func(*source) fillFunc
}

var distributions = [...]distribution{
	{Named{"uniform", "U[-10,10) (8-bit integers: their whole range), as the published fuzzer draws, for whatever is " +
		"wrong on ordinary values"}, 10, 20, false, false, uniform},
	{Named{"normal", "standard normal, for wrong formulas and constants at the magnitudes real activations have"},
		22, 60, false, false, normal},
	{Named{"boundary", "0, -0, ±1, powers of two, the largest, smallest normal and subnormal values and one ulp beside " +
		"each, for flushed subnormals, saturating casts and comparisons that are off by one"}, 10, 6, false, false, boundary},
	{Named{"adversarial", "a fifth each of zeros, values near the smallest normal, a tenth of the largest value, " +
		"U[-1000,1000] and non-finite values (these in every other row), for overflow, underflow and NaN that is " +
		"swallowed or spread"}, 8, 3, true, true, adversarial},
	{Named{"nan_injected", "uniform values of which 5 % are NaN, ±Inf or 0 (10 % of every other row), for maxima and " +
		"comparisons that drop NaN and for inf-inf"}, 5, 0, true, true, nanInjected},
	{Named{"offset", "a large mean with a small spread in each row, for variances and log-sums that cancel and for " +
		"padded lanes that only a mean far from 0 shows"}, 10, 4, true, false, offset},
	{Named{"near_eps", "rows with a mean square from 1e-5 to 1e-12, for a wrong or misplaced eps and scales of tiny " +
		"groups"}, 8, 4, true, false, nearEps},
	{Named{"rising_max", "rows that rise along the last axis and from row to row, so that the running maximum rises " +
		"with every tile, for online softmax that does not rescale what it has summed"}, 10, 0, true, false, risingMax},
	{Named{"cancelling", "rows of large terms whose sum is small, for accumulation in a narrow type and lost terms"},
		6, 0, true, false, cancelling},
	{Named{"ties", "rows of a few different values with equal maxima, for argmax and top-k that return an index twice " +
		"or none"}, 5, 0, true, false, ties},
	{Named{"one_hot", "rows with one non-zero element, often the first or last, for wrong indices and skipped " +
		"elements"}, 3, 0, true, false, oneHot},
	{Named{"sparse", "one element in sixteen is non-zero, the others 0 or -0, for divisions by a sum that is 0"},
		3, 3, false, false, sparse},
}

// roleDistributions make the values of roles that leave no choice.
var roleDistributions = [...]distribution{
	{Named: Named{Name: maskValues}, rowwise: true, start: mask},
	{Named: Named{Name: probabilityValues}, start: probability},
	{Named: Named{Name: scaleValues}, start: scale},
}

// ValueDistributions lists the distributions one can ask for, the default first.
func ValueDistributions() []Named {
	out := []Named{{mixed, "one of the others for each input, drawn with weights; the case names it"}}
	for i := range distributions {
		out = append(out, distributions[i].Named)
	}
	return out
}

// findDistribution returns the distribution a case names and whether it is restricted to finite values.
func findDistribution(name string) (d *distribution, finite bool) {
	base, finite := strings.CutSuffix(name, finiteSuffix)
	for i := range distributions {
		if d := &distributions[i]; d.Name == base && (d.nonFinite || !finite) {
			return d, finite
		}
	}
	for i := range roleDistributions {
		if roleDistributions[i].Name == name {
			return &roleDistributions[i], false
		}
	}
	return nil, false
}

// roleDistribution returns the one distribution an input's role allows, or "" if it may be chosen.
func roleDistribution(in *opspec.Input, elem dtype.DType) string {
	switch {
	case in.Role == opspec.RoleIndex:
		return indexValues
	case in.Role == opspec.RoleMask || elem == dtype.Bool:
		return maskValues
	case in.Role == opspec.RoleProbability:
		return probabilityValues
	case in.Role == opspec.RoleScale:
		return scaleValues
	}
	return ""
}

// drawMixed draws a distribution with the weights of the table.
func drawMixed(r *rng.RNG, role opspec.Role) string {
	k := r.Intn(100)
	for i := range distributions {
		w := distributions[i].weight
		if role == opspec.RoleWeight {
			w = distributions[i].weightRole
		}
		if k -= w; k < 0 {
			return distributions[i].Name
		}
	}
	return distributions[0].Name
}

// checkValues refuses a distribution that the input's role does not allow.
func checkValues(in *opspec.Input, ci *opspec.CaseInput) error {
	if want := roleDistribution(in, ci.DType); want != "" {
		if ci.Values != want {
			return diag.Errorf(CaseMismatch, "", "input %q has values %q, want %q for role %s", in.Name, ci.Values, want,
				in.Role)
		}
		return nil
	}
	d, _ := findDistribution(ci.Values)
	if d == nil || d.Doc == "" {
		return diag.Errorf(UnknownDistribution, hintNames(ValueDistributions()[1:]),
			"input %q: unknown value distribution %q", in.Name, ci.Values)
	}
	return nil
}
