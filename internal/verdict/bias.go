package verdict

import (
	"fmt"
	"sort"

	"gpuemu/internal/compare"
)

// This file implements the test of a whole campaign for errors with a common sign.

// Bias is the finding that the errors of an op in one dtype, each within its bound, have a common sign over all cases.
type Bias struct {
	DType string `json:"dtype"`
	// Kind is lean (sums of rows) or halves (rounding to the output type).
	Kind string `json:"kind"`
	compare.Lean
}

// Kinds of Bias.
const (
	BiasLean   = "lean"
	BiasHalves = "halves"
)

// Sentence says what was counted and what it means.
func (b Bias) Sentence() string {
	if b.Kind == BiasHalves {
		return fmt.Sprintf("%d of %d values halfway between two numbers of the output type are rounded away from zero, %d "+
			"toward it, and none of them to even: the kernel rounds half up instead of half to even",
			b.Above, b.Units, b.Below)
	}
	side, n := "too large", b.Above
	if b.Below > n {
		side, n = "too small", b.Below
	}
	return fmt.Sprintf("%d of %d independent rows are %s in magnitude by more than implementations may have in common, "+
		"although each element is within its bound: rounding has no preferred sign, a wrong constant (eps, a scale, a "+
		"divisor) has", n, b.Units, side)
}

// leans adds up what the outputs of an op say, by dtype.
type leans map[string]*[2]compare.Lean

func (l leans) add(r *Result) {
	for i := range r.Outputs {
		o := &r.Outputs[i]
		if o.Lean == nil && o.Halves == nil {
			continue
		}
		sum := l[r.DType]
		if sum == nil {
			sum = &[2]compare.Lean{}
			l[r.DType] = sum
		}
		if o.Lean != nil {
			sum[0].Add(*o.Lean)
		}
		if o.Halves != nil {
			sum[1].Add(*o.Halves)
		}
	}
}

// biases returns the findings, by dtype.
func (l leans) biases() []Bias {
	var out []Bias
	for d, sum := range l {
		for i, kind := range []string{BiasLean, BiasHalves} {
			if sum[i].Biased() {
				out = append(out, Bias{DType: d, Kind: kind, Lean: sum[i]})
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].DType+out[i].Kind < out[j].DType+out[j].Kind })
	return out
}
