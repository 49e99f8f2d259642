package oracle_test

import (
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// TestStaticQuantization: away from a tie one integer is correct, next to it two, and beyond the range the limit alone;
// a quotient that is no int32 is left open.
func TestStaticQuantization(t *testing.T) {
	op, ok := oracle.Lookup("quantize_static_tensor")
	if !ok {
		t.Fatal("no quantize_static_tensor")
	}
	for _, c := range []struct {
		qdtype       string
		x, zero      float64
		want, bound  float64
		undetermined bool
	}{
		{"int8", 0.3, 5, 5, 0, false},
		{"int8", 0.5, 5, 5, 1, false}, // 0 or 1, plus 5
		{"int8", 1.5, -3, -1, 1, false},
		{"int8", -1.4999, 0, -1, 0, false},
		{"int8", 130, 0, 127, 0, false},
		{"int8", 127.5, 0, 127, 0, false},
		{"int8", 126.5, 0, 126, 1, false},
		{"int8", -1000, 100, -128, 0, false},
		{"uint8", -0.75, 0, 0, 0, false},
		{"uint8", 300, 255, 255, 0, false},
		{"uint8", -5, 255, 250, 0, false},
		{"int8", 3e9, 0, 127, 0, true},
	} {
		d, err := dtype.Parse(c.qdtype)
		if err != nil {
			t.Fatal(err)
		}
		inputs := map[string]*tensor.Tensor{
			"input":      tensor.FromFloat64s(dtype.Float32, tensor.MustShape(1, 1), []float64{c.x}),
			"scale":      tensor.FromFloat64s(dtype.Float32, tensor.MustShape(1), []float64{1}),
			"zero_point": tensor.FromFloat64s(d, tensor.MustShape(1), []float64{c.zero}),
		}
		wants, err := oracle.Evaluate(op, inputs, opspec.Attrs{"qdtype": c.qdtype, "math": "gpu"}, dtype.Float32)
		if err != nil {
			t.Fatal(err)
		}
		w := wants["q"]
		open := w.Undetermined != nil && w.Undetermined[0]
		if w.DType != d || w.Value[0] != c.want || open != c.undetermined || !open && w.Bound[0] != c.bound {
			t.Errorf("%s %v + %v = %v ± %v (undetermined %v), want %v ± %v (%v)", w.DType, c.x, c.zero, w.Value[0], w.Bound[0],
				open, c.want, c.bound, c.undetermined)
		}
	}
}
