package gradient_test

import (
	"slices"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gradient"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// rankProblem is the gradient of an operator's output, all ones, with attributes.
func rankProblem(
	t *testing.T, name string, attrs opspec.Attrs, out tensor.Shape, in map[string]tensor.Shape,
) gradient.Problem {
	t.Helper()
	op, ok := oracle.Lookup(name)
	if !ok {
		t.Fatalf("there is no op %s", name)
	}
	p := gradient.Problem{Op: op, Inputs: map[string]*tensor.Tensor{}, Attrs: op.Schema.DefaultAttrs(),
		DType: dtype.Float64, Work: dtype.Float64, Outputs: map[string]*tensor.Tensor{
			"output": tensor.FromFloat64s(dtype.Float64, out, slices.Repeat([]float64{1}, out.Elems()))}}
	for name, v := range attrs {
		p.Attrs[name] = v
	}
	for name, s := range in {
		x := make([]float64, s.Elems())
		for i := range x {
			x[i] = float64(i + 1)
		}
		p.Inputs[name] = tensor.FromFloat64s(dtype.Float64, s, x)
	}
	return p
}

// Gradients have the shape and the order of the caller's tensors.
func TestRanks(t *testing.T) {
	ones := slices.Repeat([]float64{1}, 48)
	for _, c := range []struct {
		op    string
		attrs opspec.Attrs
		out   tensor.Shape
		in    map[string]tensor.Shape
		name  string
		want  []float64
	}{
		{"sum", opspec.Attrs{"axis": int64(1)}, tensor.Shape{2, 2, 2, 2}, map[string]tensor.Shape{"input": {2, 3, 2, 2, 2}},
			"input", ones},
		{"cumsum", opspec.Attrs{"axis": int64(0)}, tensor.Shape{3, 2}, map[string]tensor.Shape{"input": {3, 2}}, "input",
			[]float64{3, 3, 2, 2, 1, 1}},
		{"matmul", nil, tensor.Shape{2, 1, 1, 1}, map[string]tensor.Shape{"a": {2, 1, 1, 2}, "b": {2, 1, 2, 1}}, "a",
			[]float64{1, 2, 3, 4}},
	} {
		all, _, err := gradient.Of(t.Context(), rankProblem(t, c.op, c.attrs, c.out, c.in))
		if err != nil {
			t.Errorf("%s: %v", c.op, err)
			continue
		}
		g := all[c.name]
		if !g.Shape.Equal(c.in[c.name]) || !slices.Equal(g.Value, c.want) {
			t.Errorf("%s: gradient of %s is %s %v, want %s %v", c.op, c.name, g.Shape, g.Value, c.in[c.name], c.want)
		}
	}
	p := rankProblem(t, "mul", nil, tensor.Shape{2, 3}, map[string]tensor.Shape{"a": {2, 3}, "b": {3}})
	if _, _, err := gradient.Of(t.Context(), p); diag.CodeOf(err) != gradient.NoGradient {
		t.Errorf("mul of inputs that broadcast: %v, want %s", err, gradient.NoGradient)
	}
}
