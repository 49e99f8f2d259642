// This file implements the table of value distributions and their choice.

package gen

import (
	"slices"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
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

// fillFunc sets the values of one row (rowwise distributions; a row lies along the last axis) or of any even number of
// successive elements.
type fillFunc func(dst []float64, row int)

// source is what a distribution draws from and looks at.
type source struct {
	limits
	r     *rng.RNG
	shape tensor.Shape
	n     int // elements per row
	inner int // rows along the axis before the last
	often []string
}

// distribution is one way to make values. start may draw choices for the whole tensor. What fillFunc leaves undone,
// finish does, without draws, so that several goroutines can do it for parts of a tensor.
type distribution struct {
	Named
	weight     int  // share in mixed, of 100
	weightRole int  // the same for inputs of role weight
	wild       bool // likely to make every output overflow or NaN
	rowwise    bool
	nonFinite  bool // makes NaN and infinities where allowed
	start      func(*source) fillFunc
	finish     func(s *source, vals []float64) // nil: nothing is left
}

var distributions = [...]distribution{
	{
		Named: Named{"uniform", "U[-10,10) (8-bit integers: their whole range), as the published fuzzer draws, for " +
			"whatever is wrong on ordinary values"},
		weight: 5, weightRole: 20, start: uniform, finish: stretch,
	},
	{
		Named: Named{"masked", "uniform values; a quarter of the rows begin or end with a run of -Inf, as scores behind a " +
			"mask do, for online reductions that subtract a maximum of -Inf from itself"},
		weight: 5, rowwise: true, nonFinite: true, start: masked,
	},
	{
		Named: Named{"normal", "standard normal, for wrong formulas and constants at the magnitudes real activations " +
			"have"},
		weight: 22, weightRole: 60, start: normal, finish: boxMuller,
	},
	{
		Named: Named{"boundary", "0, -0, ±1, powers of two, the smallest normal values, subnormal and the largest ones (in " +
			"some slices of one axis at most, as a rule) and one ulp beside each, for flushed subnormals, saturating " +
			"casts and comparisons that are off by one"},
		weight: 10, weightRole: 6, wild: true, rowwise: true, start: boundary,
	},
	{
		Named: Named{"adversarial", "a fifth each of zeros, values near the smallest normal, a tenth of the largest " +
			"value, U[-1000,1000] and non-finite values (these in every other row), for overflow, underflow and NaN " +
			"that is swallowed or spread"},
		weight: 8, weightRole: 3, wild: true, rowwise: true, nonFinite: true, start: adversarial,
	},
	{
		Named: Named{"nan_injected", "uniform values of which 5 % are NaN, ±Inf or 0 (10 % of every other row), for " +
			"maxima and comparisons that drop NaN and for inf-inf"},
		weight: 5, wild: true, rowwise: true, nonFinite: true, start: nanInjected,
	},
	{
		Named: Named{"offset", "a large mean, of each row or of the whole tensor, with a small spread, for variances and " +
			"log-sums that cancel and for padded lanes that only a mean far from 0 shows"},
		weight: 10, weightRole: 4, rowwise: true, start: offset,
	},
	{
		Named: Named{"near_eps", "rows with a root mean square from 3e-3 to 1e-14, in every other slice along the first " +
			"axis, for a wrong or misplaced eps and scales of tiny groups"},
		weight: 8, weightRole: 4, rowwise: true, start: nearEps,
	},
	{
		Named: Named{"rising_max", "rows that rise along the last axis and from row to row, about 0 or far from it, so " +
			"that the running maximum rises with every tile, for online softmax that does not rescale what it has summed"},
		weight: 10, rowwise: true, start: risingMax,
	},
	{
		Named: Named{"cancelling", "rows of large terms whose sum is small, for accumulation in a narrow type and " +
			"lost terms"},
		weight: 6, rowwise: true, start: cancelling,
	},
	{
		Named: Named{"ties", "rows of a few different values with equal maxima, for argmax and top-k that return an " +
			"index twice or none"},
		weight: 5, rowwise: true, start: ties,
	},
	{
		Named: Named{"one_hot", "rows with one non-zero element, often the first or last, for wrong indices and " +
			"skipped elements"},
		weight: 3, rowwise: true, start: oneHot,
	},
	{
		Named: Named{"sparse", "one element in sixteen is non-zero, the others 0 or -0, for divisions by a sum that " +
			"is 0"},
		weight: 3, weightRole: 3, start: sparse,
	},
	{
		Named: Named{factorValues, "values about 32, 48, 64 or 96, all of one sign; mixed draws them for " +
			"both factors of the scores of attention at once, in one case of ten: for masks and initial maxima of -1e4 " +
			"or -5e4 that real scores fall below"},
		start: oneSided,
	},
}

// factorValues is what both factors of scores are drawn from in some cases, so that all scores of a row are far below
// zero, or far above.
const factorValues = "one_sided"

// factorCases: one case in so many. In half of them the two factors have different signs.
const factorCases = 10

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

// wildCases is the share of cases, of 100, in which mixed may choose wild distributions. One wild input of several
// is enough to leave nothing but NaN to compare; drawn per input alone, more than half of the cases of an operator
// with three inputs would be of that kind. Each distribution keeps its share over all cases.
const wildCases = 40

// A distribution that is rare for an input has the weight 1/rareScale for it, one that it gets often has oftenScale
// times its weight.
const (
	rareScale  = 4
	oftenScale = 5
)

// drawMixed draws a distribution with the weights of the table, changed for those that the input gets rarely or often.
func drawMixed(root, r *rng.RNG, in *opspec.Input) string {
	scale := 1
	if len(in.Rare) > 0 {
		scale = rareScale
	}
	weight := func(d *distribution) int {
		w := d.weight
		if in.Role == opspec.RoleWeight {
			w = d.weightRole
		}
		if slices.Contains(in.Rare, d.Name) {
			return min(w, 1)
		}
		if slices.Contains(in.Often, d.Name) {
			w *= oftenScale
		}
		return scale * w
	}
	var total [2]int // tame, wild
	for i := range distributions {
		d := &distributions[i]
		if d.wild {
			total[1] += weight(d)
		} else {
			total[0] += weight(d)
		}
	}
	wildCase := root.Derive("v1/wild").Intn(100) < wildCases
	wild := r.Intn(scale*wildCases) < total[1] && wildCase
	k := r.Intn(total[0])
	if wild {
		k = r.Intn(total[1])
	}
	for i := range distributions {
		if d := &distributions[i]; d.wild == wild {
			if k -= weight(d); k < 0 {
				return d.Name
			}
		}
	}
	panic("gen: internal error: weights do not add up")
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
