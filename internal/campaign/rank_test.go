package campaign

import (
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// The published fuzzer makes vectors for operators of three axes: they are judged like rows of a larger input.
func TestInputsOfFewerAxes(t *testing.T) {
	tr := newTrial(t, head+"\n[[ops]]\nname = \"softmax\"\n")
	for _, shape := range [][]int{{4}, {2, 4}, {1, 2, 4}} {
		x := tensor.New(dtype.Float32, tensor.MustShape(shape...))
		quarter := make([]float64, x.Elems())
		for i := range quarter {
			quarter[i] = 0.25
		}
		right := tensor.FromFloat64s(dtype.Float32, x.Shape, quarter)
		for _, c := range []struct {
			got  *tensor.Tensor
			want verdict.Verdict
		}{{right, verdict.Pass}, {x, verdict.Fail}} {
			res, err := tr.Submit(t.Context(), tr.project, Submission{Op: "softmax", Seed: 9,
				Inputs:  []tensor.Named{{Name: "input", Tensor: x}},
				Outputs: []tensor.Named{{Name: "output", Tensor: c.got}}})
			if err != nil || res.Verdict != c.want {
				t.Errorf("shape %v: %v %+v, want %s", shape, err, res, c.want)
			}
		}
	}
}
