package oracle_test

import (
	"slices"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/oracle"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/honest"
)

// used returns how much of its bound the worst of all styles uses in a typical case: the largest error/bound over all
// styles, and of that the median over cases. The largest over many cases would say little, because in some of them, of
// one row or one term, every bound is tight.
func used(t *testing.T, op *oracle.Op, d dtype.DType) float64 {
	ts := newTrials(op, d, "normal")
	ts.shapes = []string{"default", "tile_aware"}
	var ratios []float64
	for i := 9; i < 220; i += 20 { // cases of up to 768 elements
		tr, err := ts.next(i)
		if err != nil {
			t.Fatal(err)
		}
		most := 0.0
		for _, style := range honest.Styles() {
			out, err := tr.run(style, tr.c.Seed)
			if err != nil {
				t.Fatalf("%s: %v", tr.c, err)
			}
			j, err := tr.judge(out)
			if err != nil {
				t.Fatalf("%s: %v", tr.c, err)
			}
			most = max(most, j.ratio)
		}
		ratios = append(ratios, most)
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// leastUsed is how much of its bound some honest style must use in a typical case. Sums of n terms are bounded for
// errors that all go the same way, real ones use about 1/sqrt(n) of that: 0.06 to 0.3 at these sizes. Where a value is
// rounded to 16 bits at the end it is nearly 1. For float64 half is asked: the oracle has errors of that size too.
const leastUsed = 0.04

// looser lists the bounds that are used less, by op or by op and dtype, and what is asked of them instead.
var looser = map[string]struct {
	least float64
	why   string
}{
	"attention":        {0.02, attentionUsed},
	"causal_attention": {0.02, attentionUsed},
	"window_attention": {0.02, attentionUsed},
	"gqa_attention":    {0.02, attentionUsed},
	"decode_attention": {0.02, attentionUsed},
	"fp8_matmul":       {0.015, "every term of a block may be cut at 13 bits, real cuts go both ways"},

	"relu":       {0, exactUsed},
	"max":        {0, exactUsed},
	"max_pool2d": {0, exactUsed},
	"argmax":     {0, exactUsed},
	"topk":       {0, exactUsed},
	"embedding":  {0, exactUsed},
	"gather":     {0, exactUsed},

	"add/float64":               {0, alikeUsed},
	"mul/float64":               {0, alikeUsed},
	"leaky_relu/float64":        {0, alikeUsed},
	"rsqrt/float64":             {0, alikeUsed},
	"dequantize_tensor/float64": {0, alikeUsed},
	"dequantize_row/float64":    {0, alikeUsed},
	"dequantize_group/float64":  {0, alikeUsed},

	"dequantize_affine_tensor/float64": {0, alikeUsed},
	"dequantize_affine_row/float64":    {0, alikeUsed},
	"quantize_static_tensor":           {-1, "a difference of one, or none: some samples have a value next to a tie"},
	"quantize_static_row":              {-1, "a difference of one, or none: some samples have a value next to a tie"},
}

const (
	attentionUsed = "errors of scores, exponentials and sums are bounded one after the other, each by its worst case"
	exactUsed     = "exact: no honest implementation has an error"
	alikeUsed     = "one rounding in float64, which the oracle's own value has too"
)

// TestBoundsAreUsed: a bound that no honest implementation comes near to lets wrong ones pass. The soak test alone
// would be content with bounds of any size.
func TestBoundsAreUsed(t *testing.T) {
	testkit.ValuesOnly(t)
	if testing.Short() {
		t.Skip("runs every style on every op")
	}
	for _, op := range oracle.Ops() {
		for _, d := range op.Schema.AllowedDTypes() {
			t.Run(op.Name+"/"+d.String(), func(t *testing.T) {
				t.Parallel()
				e, exempt := looser[op.Name+"/"+d.String()]
				if !exempt {
					e, exempt = looser[op.Name]
				}
				least := leastUsed
				if exempt {
					least = e.least
				}
				if d == dtype.Float64 {
					least /= 2
				}
				got := used(t, op, d)
				switch {
				case got < least:
					t.Errorf("honest implementations use %.4f of the bound, want at least %.4f", got, least)
				case exempt && e.least == 0 && got > 0:
					t.Errorf("honest implementations use %.4f of the bound: it is listed as unused (%s)", got, e.why)
				}
			})
		}
	}
}
