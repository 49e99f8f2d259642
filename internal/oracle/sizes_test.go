package oracle

import (
	"fmt"
	"reflect"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// Sizes that are kept are those that binding gives, for every shape and attribute, also when there are too many.
func TestSizesAreThoseOfTheShapes(t *testing.T) {
	x := func(shape ...int) *tensor.Tensor { return tensor.New(dtype.Float32, tensor.Shape(shape)) }
	type call struct {
		op     string
		inputs map[string]*tensor.Tensor
		attrs  map[string]string
	}
	var calls []call
	for _, shape := range [][]int{{1, 2, 3}, {2, 1, 3}, {1, 1, 6}, {1, 1, 130}, {1, 130, 1}, {1, 1, 35}, {1, 18, 3}} {
		in := map[string]*tensor.Tensor{"input": x(shape...)}
		calls = append(calls, call{"softmax", in, nil}, call{"softmax", in, map[string]string{"math": "ieee"}})
		calls = append(calls, call{"layer_norm", map[string]*tensor.Tensor{"input": x(shape...), "weight": x(shape[2]),
			"bias": x(shape[2])}, nil})
	}
	for _, kernel := range []string{"1", "2", "3"} {
		for _, stride := range []string{"1", "2"} {
			calls = append(calls, call{"max_pool2d", map[string]*tensor.Tensor{"input": x(1, 2, 8, 9)},
				map[string]string{"kernel": kernel, "stride": stride}})
		}
	}
	for n := range maxSizes + 10 {
		calls = append(calls, call{"softmax", map[string]*tensor.Tensor{"input": x(1, 1, n+1)}, nil})
	}
	for range 2 { // the second time some of them are known
		for _, c := range calls {
			op, ok := Lookup(c.op)
			if !ok {
				t.Fatalf("no op %s", c.op)
			}
			attrs, err := op.Schema.ResolveAttrs(c.attrs)
			if err != nil {
				t.Fatal(err)
			}
			want, wrong := op.bind(c.inputs, attrs)
			got, err := op.sizesOf(c.inputs, attrs)
			if fmt.Sprint(err) != fmt.Sprint(wrong) || wrong == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%s %v: sizes are %v, %v, want %v, %v", c.op, c.attrs, got, err, want, wrong)
			}
			if n := len(op.sizes.known); n == 0 || n > maxSizes {
				t.Fatalf("%s keeps %d sizes", c.op, n)
			}
		}
	}
}

// What a caller does to the shape of an expected value is its own.
func TestSizesAreNotShared(t *testing.T) {
	op, _ := Lookup("softmax")
	attrs := opspec.Attrs{"math": "gpu"}
	for range 2 {
		in := map[string]*tensor.Tensor{"input": tensor.New(dtype.Float32, tensor.Shape{2, 3, 4})}
		wants, err := Evaluate(op, in, attrs, dtype.Float32)
		if err != nil {
			t.Fatal(err)
		}
		if got := wants["output"].Shape; !reflect.DeepEqual(got, tensor.Shape{2, 3, 4}) {
			t.Fatalf("shape is %v", got)
		}
		wants["output"].Shape[0] = 7
	}
}
