package oracle

import (
	"math"
	"reflect"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// Memory that was released leaves no trace in what is computed next, and is not released twice.
func TestReleaseLeavesNoTrace(t *testing.T) {
	op, ok := Lookup("softmax")
	if !ok {
		t.Fatal("the catalogue has no softmax")
	}
	in := map[string]*tensor.Tensor{"input": tensor.FromFloat64s(dtype.Float32, tensor.MustShape(1, 2, 3),
		[]float64{1, 2, 3, math.Inf(-1), math.Inf(-1), math.Inf(-1)})} // the second row is undetermined
	evaluate := func() *compare.Want {
		wants, err := Evaluate(op, in, op.Schema.DefaultAttrs(), dtype.Float32)
		if err != nil {
			t.Fatal(err)
		}
		return wants["output"]
	}
	first := evaluate()
	for range 20 { // a pool may lose what it was given
		spoiled := evaluate()
		for i := range spoiled.Value {
			spoiled.Value[i], spoiled.Bound[i] = math.NaN(), math.NaN()
		}
		Release(spoiled)
		Release(spoiled)
		a, b := evaluate(), evaluate()
		for _, got := range []*compare.Want{a, b} {
			for i := range first.Value {
				if math.Float64bits(got.Value[i]) != math.Float64bits(first.Value[i]) || got.Bound[i] != first.Bound[i] {
					t.Fatalf("element %d is %v ± %v, was %v ± %v", i, got.Value[i], got.Bound[i], first.Value[i], first.Bound[i])
				}
			}
			if !reflect.DeepEqual(got.Undetermined, first.Undetermined) {
				t.Fatalf("undetermined %v, was %v", got.Undetermined, first.Undetermined)
			}
		}
		if &a.Value[0] == &b.Value[0] || &a.Value[0] == &b.Bound[0] || &a.Value[0] == &a.Bound[0] {
			t.Fatal("two results have the same memory")
		}
		Release(a)
	}
}
