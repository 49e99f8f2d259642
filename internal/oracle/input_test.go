package oracle_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

func zeros(dims ...int) *tensor.Tensor { return tensor.New(dtype.Float32, tensor.MustShape(dims...)) }

// TestRefusedCalls: what a caller may get wrong is an error that says where, never a panic and never another variant.
func TestRefusedCalls(t *testing.T) {
	type tensors = map[string]*tensor.Tensor
	linear := func() tensors { return tensors{"a": zeros(2, 3), "b": zeros(3, 4), "bias": zeros(4)} }
	for _, tt := range []struct {
		name, op string
		inputs   tensors
		change   func(opspec.Attrs)
		want     []string
	}{
		{"act", "linear", linear(), func(a opspec.Attrs) { a["act"] = "tanh" },
			[]string{"matmul_bias_act", `"act"`, `"tanh"`, "none, relu, gelu, gelu_tanh, silu"}},
		{"math", "relu", tensors{"input": zeros(1, 1, 1)}, func(a opspec.Attrs) { a["math"] = "GPU" },
			[]string{"relu", `"math"`, `"GPU"`, "gpu, ieee"}},
		{"type", "relu", tensors{"input": zeros(1, 1, 1)}, func(a opspec.Attrs) { a["math"] = 1 },
			[]string{`"math"`, "string"}},
		{"number", "layernorm", tensors{"input": zeros(1, 1, 2), "weight": zeros(2), "bias": zeros(2)},
			func(a opspec.Attrs) { a["eps"] = "1e-5" }, []string{"layernorm", `"eps"`, "float"}},
		{"NaN", "layernorm", tensors{"input": zeros(1, 1, 2), "weight": zeros(2), "bias": zeros(2)},
			func(a opspec.Attrs) { a["eps"] = math.NaN() }, []string{"layernorm", `"eps"`}},
		{"absent attribute", "relu", tensors{"input": zeros(1, 1, 1)}, func(a opspec.Attrs) { delete(a, "math") },
			[]string{"relu", `"math"`, "missing"}},
		{"nil input", "linear", tensors{"a": zeros(2, 3), "b": nil, "bias": zeros(4)}, nil,
			[]string{"matmul_bias_act", `input "b" is nil`}},
		{"nil input of no name", "relu", tensors{"input": zeros(1, 1, 1), "other": nil}, nil,
			[]string{"relu", `input "other" is nil`}},
		{"absent input", "linear", tensors{"a": zeros(2, 3), "bias": zeros(4)}, nil,
			[]string{"matmul_bias_act", `input "b" is missing`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			op, ok := oracle.Lookup(tt.op)
			if !ok {
				t.Fatalf("no op %q", tt.op)
			}
			attrs := op.Schema.DefaultAttrs()
			if tt.change != nil {
				tt.change(attrs)
			}
			_, err := oracle.Evaluate(op, tt.inputs, attrs, dtype.Invalid)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

// A feed hands out the bytes of a fuzzed input; beyond their end there are zeros.
type feed []byte

func (f *feed) byte() byte {
	if len(*f) == 0 {
		return 0
	}
	b := (*f)[0]
	*f = (*f)[1:]
	return b
}

func (f *feed) pick(n int) int { return int(f.byte()) % n }

// attr returns a value for an attribute: its default, another of its values, or one that nobody expects. Sizes between
// small ones and those no tensor can have are left out: an output of gigabytes is permitted, but no subject of fuzzing.
func (f *feed) attr(a *opspec.Attr) any {
	switch f.pick(4) {
	case 0, 1:
		return a.DefaultValue()
	case 2:
		if len(a.Values) > 0 {
			return a.Values[f.pick(len(a.Values))]
		}
	}
	strange := []any{
		int64(-1), int64(0), int64(1), int64(2), int64(5), int64(17), int64(1 << 32), int64(1 << 62), int64(math.MaxInt64),
		int64(math.MinInt64), math.Inf(1), math.Inf(-1), math.NaN(), -1.0, 0.0, 1e-300, 1e300, true, false, "", "gpu", "x",
		nil,
	}
	return strange[f.pick(len(strange))]
}

// tensor returns a tensor whose shape is the wanted one, mostly, and whose elements are any bits.
func (f *feed) tensor(want tensor.Shape, d dtype.DType) *tensor.Tensor {
	switch f.pick(16) {
	case 15:
		return nil
	case 14:
		want = append(slices.Clone(want), f.pick(3))
	case 13:
		if len(want) > 0 {
			want = slices.Clone(want)
			want[f.pick(len(want))] = f.pick(4)
		}
	case 12:
		d = dtype.All()[f.pick(len(dtype.All()))]
	}
	t := tensor.New(d, want)
	for i := range t.Data {
		t.Data[i] = f.byte()
	}
	return t
}

// FuzzEvaluate: whatever tensors and attributes a caller hands in, Evaluate answers with values or with an error.
func FuzzEvaluate(f *testing.F) {
	ops := oracle.Ops()
	for i := range ops {
		f.Add(uint8(i), uint8(i%3), []byte{})
		f.Add(uint8(i), uint8(i%5), []byte("\x02\x03\x02\x01\x02\x00\x09\x04\x80\x7f\xff\xc0\x7e\x00\x01\x3c"))
	}
	f.Fuzz(func(t *testing.T, which, kind uint8, data []byte) {
		op := ops[int(which)%len(ops)]
		rest := feed(data)
		attrs := opspec.Attrs{}
		for i := range op.Schema.Attrs {
			a := &op.Schema.Attrs[i]
			if v := rest.attr(a); v != nil {
				attrs[a.Name] = v
			}
		}
		dtypes := op.Schema.AllowedDTypes()
		d := dtypes[int(kind)%len(dtypes)]
		dims := map[string]int{}
		for i := range op.Schema.Dims {
			if dim := &op.Schema.Dims[i]; !dim.Derived() {
				dims[dim.Name] = rest.pick(6)
			}
		}
		// A small size fits no relation as a rule (D % 8 == 0): the schema's own candidates do.
		shapes, _, err := op.Schema.Resolve(dims, attrs)
		if err != nil {
			for i := range op.Schema.Dims {
				if dim := &op.Schema.Dims[i]; !dim.Derived() {
					dims[dim.Name] = dim.Candidates[0]
				}
			}
			if shapes, _, err = op.Schema.Resolve(dims, op.Schema.DefaultAttrs()); err != nil {
				t.Skip("the schema allows no shape with these attributes: nothing to evaluate")
			}
		}
		inputs := map[string]*tensor.Tensor{}
		for i := range op.Schema.Inputs {
			in := &op.Schema.Inputs[i]
			elem, err := in.ElemType(d, op.Schema.DefaultAttrs())
			if err != nil {
				t.Fatal(err)
			}
			if shapes[in.Name].Elems() > 1<<12 {
				t.Skip("too large for a fuzz target: one execution would take seconds")
			}
			inputs[in.Name] = rest.tensor(shapes[in.Name], elem)
		}
		wants, err := oracle.Evaluate(op, inputs, attrs, dtype.Invalid)
		if err != nil {
			return
		}
		for name, w := range wants {
			for i, b := range w.Bound {
				if !(b >= 0) {
					t.Errorf("%s: output %q element %d is %v with the bound %v", op.Name, name, i, w.Value[i], b)
				}
			}
		}
	})
}
