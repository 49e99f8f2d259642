package bigref

import (
	"math"
	"strings"
	"testing"

	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

func vector(xs ...float64) Array { return Array{Shape: tensor.Shape{1, 1, len(xs)}, X: xs} }

// TestKnownAnswers has results that follow from the formulas without a computer.
func TestKnownAnswers(t *testing.T) {
	row, one := tensor.Shape{1, 1, 4}, tensor.Shape{1, 1}
	for _, tt := range []struct {
		op    string
		in    map[string]Array
		attrs opspec.Attrs
		shape tensor.Shape
		want  []float64
	}{
		{"softmax", map[string]Array{"input": vector(7, 7, 7, 7)}, nil, row, []float64{0.25, 0.25, 0.25, 0.25}},
		{"log_softmax", map[string]Array{"input": vector(1e30, 0, 0, 0)}, nil, row, []float64{0, -1e30, -1e30, -1e30}},
		{"var", map[string]Array{"input": vector(1, 2, 3, 4)}, opspec.Attrs{"correction": int64(0)}, one, []float64{1.25}},
		{"var", map[string]Array{"input": vector(1)}, opspec.Attrs{"correction": int64(1)}, one, []float64{math.NaN()}},
		{"logsumexp", map[string]Array{"input": vector(-1e300, 5)}, nil, one, []float64{5}},
		{"sum", map[string]Array{"input": vector(1e60, 1, -1e60, 0x1p-60)}, nil, one, []float64{1 + 0x1p-60}},
		{"gelu", map[string]Array{"input": vector(0, 100, -100, 1e-300)}, nil, row, []float64{0, 100, 0, 5e-301}},
		{"log", map[string]Array{"input": vector(1, 0, -1, math.E)}, nil, row,
			[]float64{0, math.Inf(-1), math.NaN(), 1}},
		{"l2norm", map[string]Array{"input": vector(3, 0, -4, 0)}, opspec.Attrs{"eps": 1e-12}, row,
			[]float64{0.6, 0, -0.8, 0}},
		{"max", map[string]Array{"input": vector(3, math.NaN(), 9, 0)}, nil, one, []float64{math.NaN()}},
	} {
		out, err := Run(tt.op, tt.in, tt.attrs, map[string]tensor.Shape{"output": tt.shape})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range tt.want {
			got := out["output"].F[i]
			if b := out["output"].Big; b != nil && b[i] != nil {
				got, _ = b[i].Float64()
			}
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) && math.Abs(got-want) > 1e-15*math.Abs(want) {
				t.Errorf("%s(%v)[%d] = %v, want %v", tt.op, tt.in["input"].X, i, got, want)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	shapes := map[string]tensor.Shape{"output": {1, 1, 1}}
	for _, tt := range []struct {
		op   string
		x    Array
		want string
	}{
		{"nonsense", vector(1), `no operator "nonsense"`},
		{"exp", vector(math.Inf(1)), "want a finite value"},
		{"exp", Array{Shape: tensor.Shape{1, 1, 2}, X: []float64{1}}, "has 1 elements, want 2"},
	} {
		_, err := Run(tt.op, map[string]Array{"input": tt.x}, nil, shapes)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Run(%s) = %v, want an error with %q", tt.op, err, tt.want)
		}
	}
}
