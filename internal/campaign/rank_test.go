package campaign

import (
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// The published fuzzer makes vectors for operators of three axes, and models have tensors of four and five.
func TestInputsOfOtherRanks(t *testing.T) {
	tr := newTrial(t, head+"\n[[ops]]\nname = \"softmax\"\n")
	for _, shape := range [][]int{{4}, {2, 4}, {1, 2, 4}, {2, 3, 2, 4}, {2, 1, 3, 2, 4}} {
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

// submitted is the verdict on an output of given inputs.
func submitted(
	t *testing.T, op string, attrs map[string]string, got *tensor.Tensor, inputs ...tensor.Named,
) *verdict.Result {
	t.Helper()
	tr := newTrial(t, head)
	res, err := tr.Submit(t.Context(), tr.project, Submission{Op: op, Attrs: attrs, Inputs: inputs,
		Outputs: []tensor.Named{{Name: "output", Tensor: got}}})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// ramp is a tensor of 1, 2, 3 … so that no two elements are alike.
func ramp(shape ...int) *tensor.Tensor {
	t := tensor.New(dtype.Float32, tensor.MustShape(shape...))
	x := make([]float64, t.Elems())
	for i := range x {
		x[i] = float64(i + 1)
	}
	return tensor.FromFloat64s(dtype.Float32, t.Shape, x)
}

// A wrong element is reported where the caller has it, not where the schema sees it.
func TestWrongElementOfFiveAxes(t *testing.T) {
	x := ramp(2, 3, 2, 2, 5)
	at := []int{1, 2, 0, 1, 3}
	flat := 0
	for i, k := range at {
		flat = flat*x.Shape[i] + k
	}
	values := x.Float64s()
	values[flat] = 7000
	wrong := tensor.FromFloat64s(dtype.Float32, x.Shape, values)
	res := submitted(t, "relu", nil, wrong, tensor.Named{Name: "input", Tensor: x})
	if res.Verdict != verdict.Fail || !strings.Contains(res.Message, "worst at [1,2,0,1,3]") {
		t.Errorf("relu: %s: %s", res.Verdict, res.Message)
	}
	if out := res.Outputs[0]; !slices.Equal(out.Shape, x.Shape) || !slices.Equal(out.Worst[0].Index, at) {
		t.Errorf("relu: output of shape %v, worst at %v, want %v at %v", out.Shape, out.Worst[0].Index, x.Shape, at)
	}
	// The sum over axis 1 of ramp(2,3,4) at [1,2] is 15+19+23; keepdims leaves the axis there.
	for _, c := range []struct {
		keep  string
		shape []int
		at    string
	}{{"false", []int{2, 4}, "worst at [1,2]: got 58, want 57"}, {"true", []int{2, 1, 4}, "worst at [1,0,2]: got 58"}} {
		sums := []float64{15, 18, 21, 24, 51, 54, 58, 60}
		got := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(c.shape...), sums)
		res := submitted(t, "sum", map[string]string{"axis": "1", "keepdims": c.keep}, got,
			tensor.Named{Name: "input", Tensor: ramp(2, 3, 4)})
		if res.Verdict != verdict.Fail || !strings.Contains(res.Message, c.at) {
			t.Errorf("sum with keepdims=%s: %s: %s, want %s", c.keep, res.Verdict, res.Message, c.at)
		}
		sums[6] = 57
		got = tensor.FromFloat64s(dtype.Float32, got.Shape, sums)
		res = submitted(t, "sum", map[string]string{"axis": "-2", "keepdims": c.keep}, got,
			tensor.Named{Name: "input", Tensor: ramp(2, 3, 4)})
		if res.Verdict != verdict.Pass {
			t.Errorf("sum with keepdims=%s: %s: %s, want pass", c.keep, res.Verdict, res.Message)
		}
	}
	// The running sum along axis 0 moves its axis there and back.
	run := []float64{1, 2, 3, 5, 7, 9}
	res = submitted(t, "cumsum", map[string]string{"axis": "0"},
		tensor.FromFloat64s(dtype.Float32, tensor.MustShape(2, 3), run), tensor.Named{Name: "input", Tensor: ramp(2, 3)})
	if res.Verdict != verdict.Pass {
		t.Errorf("cumsum: %s: %s, want pass", res.Verdict, res.Message)
	}
}

// Products of stacks of matrices, with batch axes that broadcast.
func TestMatmulOfStacks(t *testing.T) {
	for _, c := range []struct {
		op         string
		a, b, want []int
	}{
		{"matmul", []int{2, 3}, []int{3, 4}, []int{2, 4}},
		{"matmul", []int{3}, []int{3, 4}, []int{4}},
		{"matmul", []int{2, 3}, []int{3}, []int{2}},
		{"matmul", []int{5, 2, 3}, []int{3}, []int{5, 2}},
		{"matmul", []int{3}, []int{3}, []int{}},
		{"matmul", []int{5, 2, 3}, []int{3, 4}, []int{5, 2, 4}},
		{"matmul", []int{5, 2, 3}, []int{5, 3, 4}, []int{5, 2, 4}},
		{"matmul", []int{2, 1, 2, 3}, []int{5, 3, 4}, []int{2, 5, 2, 4}},
		{"matmul", []int{2, 3}, []int{2, 2, 5, 3, 4}, []int{2, 2, 5, 2, 4}},
		{"batched_matmul", []int{2, 5, 2, 3}, []int{2, 5, 3, 4}, []int{2, 5, 2, 4}},
	} {
		a, b := tensor.MustShape(c.a...), tensor.MustShape(c.b...)
		one := func(s tensor.Shape) *tensor.Tensor {
			return tensor.FromFloat64s(dtype.Float32, s, slices.Repeat([]float64{1}, s.Elems()))
		}
		want := tensor.MustShape(c.want...)
		three := slices.Repeat([]float64{3}, want.Elems())
		for _, v := range []verdict.Verdict{verdict.Pass, verdict.Fail} {
			if v == verdict.Fail {
				three[len(three)-1] = 4
			}
			res := submitted(t, c.op, nil, tensor.FromFloat64s(dtype.Float32, want, three),
				tensor.Named{Name: "a", Tensor: one(a)}, tensor.Named{Name: "b", Tensor: one(b)})
			if res.Verdict != v {
				t.Errorf("%s of %v and %v: %s: %s, want %s", c.op, a, b, res.Verdict, res.Message, v)
			}
		}
	}
}

// The invariant on sums of rows follows the axis.
func TestInvariantAlongAnAxis(t *testing.T) {
	tr := newTrial(t, head+"\n[[ops]]\nname = \"softmax\"\ninvariants = [\"normalized\"]\n")
	x := tensor.New(dtype.Float32, tensor.MustShape(2, 4, 3, 5))
	for _, c := range []struct {
		axis string
		each float64
	}{{"0", 1. / 2}, {"-2", 1. / 3}, {"-1", 1. / 5}} {
		each := slices.Repeat([]float64{c.each}, x.Elems())
		res, err := tr.Submit(t.Context(), tr.project, Submission{Op: "softmax", Attrs: map[string]string{"axis": c.axis},
			Inputs:  []tensor.Named{{Name: "input", Tensor: x}},
			Outputs: []tensor.Named{{Name: "output", Tensor: tensor.FromFloat64s(dtype.Float32, x.Shape, each)}}})
		if err != nil || res.Verdict != verdict.Pass || len(res.Invariants) != 1 || res.Invariants[0].Outcome != "holds" {
			t.Errorf("axis %s: %v %+v, want pass and normalized to hold", c.axis, err, res)
		}
	}
}
