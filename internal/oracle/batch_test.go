package oracle_test

import (
	"math"
	"slices"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// notBatched are the operators whose rows depend on each other.
var notBatched = []string{"scatter_add", "quantize_tensor"}

// TestBatchDims: where the catalogue marks a batch dimension, the reference of some rows has the values of those rows
// in the whole batch, in any order, and every operator but those that mix rows has one.
func TestBatchDims(t *testing.T) {
	for _, op := range oracle.Ops() {
		if got := len(op.Schema.BatchDims()) == 0; got != slices.Contains(notBatched, op.Name) {
			t.Errorf("%s has the batch dimensions %v", op.Name, op.Schema.BatchDims())
		}
		if err := op.Schema.Validate(); err != nil {
			t.Errorf("%s: %v", op.Name, err)
		}
		for _, dim := range op.Schema.BatchDims() {
			t.Run(op.Name+"/"+dim, func(t *testing.T) { checkBatchDim(t, op, dim) })
		}
	}
}

func checkBatchDim(t *testing.T, op *oracle.Op, dim string) {
	d := op.Schema.AllowedDTypes()[0]
	stream, err := gen.Cases(op.Schema, gen.Strategy{Values: "normal", DTypes: []dtype.DType{d}, MaxElems: 600,
		Dims: map[string][]int{dim: {3}}, Layouts: []tensor.Layout{tensor.Contiguous}}, 5)
	if err != nil {
		t.Fatal(err)
	}
	c, err := stream.Case(0)
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := gen.Inputs(op.Schema, c)
	if err != nil {
		t.Fatal(err)
	}
	rows := []int{2, 0}
	some := map[string]*tensor.Tensor{}
	for i := range op.Schema.Inputs {
		in := &op.Schema.Inputs[i]
		some[in.Name] = inputs[in.Name]
		if axis := slices.Index(in.Dims, dim); axis >= 0 {
			if some[in.Name], err = inputs[in.Name].Rows(axis, rows); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole, part := evaluate(t, op, inputs, c), evaluate(t, op, some, c)
	for i := range op.Schema.Outputs {
		o := &op.Schema.Outputs[i]
		axis := slices.Index(o.Dims, dim)
		if axis < 0 {
			t.Fatalf("output %s has no axis %s", o.Name, dim)
		}
		w, p := whole[o.Name], part[o.Name]
		all := tensor.FromFloat64s(dtype.Float64, w.Shape, w.Value)
		want, err := all.Rows(axis, rows)
		if err != nil {
			t.Fatal(err)
		}
		for k, x := range want.Float64s() {
			if got := p.Value[k]; math.Abs(got-x) > 1e-12*math.Abs(x) {
				t.Fatalf("%s: output %s element %d is %v, and %v in the whole batch", c, o.Name, k, got, x)
			}
		}
	}
}

func evaluate(
	t *testing.T, op *oracle.Op, inputs map[string]*tensor.Tensor, c opspec.Case,
) map[string]*compare.Want {
	t.Helper()
	wants, err := oracle.Evaluate(op, inputs, c.AttrMap(), c.DType)
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	return wants
}
