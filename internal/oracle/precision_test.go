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
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/honest"
)

// computes returns the names that the attribute compute of op has beside its default, and the types each applies to.
func computes(op *oracle.Op) map[string][]dtype.DType {
	out := map[string][]dtype.DType{}
	a, _ := op.Schema.Attr("compute")
	for _, d := range op.Schema.AllowedDTypes() {
		for _, v := range a.Values {
			switch {
			case v == "storage" && (d == dtype.Float16 || d == dtype.BFloat16), v == "tf32" && d == dtype.Float32:
				out[v.(string)] = append(out[v.(string)], d)
			}
		}
	}
	return out
}

// TestNamedPrecisionsKeepTheirBound runs every op in every precision that has a name, in styles that use what it
// permits: results rounded to the case's type, operands truncated or rounded to TF32.
func TestNamedPrecisionsKeepTheirBound(t *testing.T) {
	testkit.ValuesOnly(t)
	n := 60
	if testing.Short() {
		n = 24
	}
	n = testkit.Soak(t, n)
	var values []string
	for _, v := range gen.ValueDistributions() {
		values = append(values, v.Name)
	}
	for _, op := range oracle.Ops() {
		for compute, types := range computes(op) {
			for _, d := range types {
				t.Run(op.Name+"/"+compute+"/"+d.String(), func(t *testing.T) {
					t.Parallel()
					soakPrecision(t, op, d, opspec.Attrs{"compute": compute}, n, values)
					soakPrecision(t, op, d, opspec.Attrs{"compute": compute, "math": "ieee"}, n/2, values)
				})
			}
		}
	}
}

func soakPrecision(t *testing.T, op *oracle.Op, d dtype.DType, attrs opspec.Attrs, n int, values []string) {
	styles := honest.PrecisionStyles(attrs.Str("compute"))
	ts := newTrials(op, d, values...)
	ts.attrs = attrs
	bad := 0
	for i := range n {
		tr, err := ts.next(i)
		if err != nil {
			t.Fatal(err)
		}
		style := styles[i/len(values)%len(styles)]
		if n < len(values)*len(styles) {
			style = styles[i%len(styles)]
		}
		out, err := tr.run(style, tr.c.Seed)
		if err != nil {
			t.Fatalf("%s: %v", tr.c, err)
		}
		j, err := tr.judge(out)
		if err != nil {
			t.Fatalf("%s: %v", tr.c, err)
		}
		if j.bad != nil {
			t.Errorf("style %+v\ncase %s\noutput %q\n%s", style, tr.c, j.output, brief(j.bad))
			if bad++; bad == 3 {
				return
			}
		}
	}
}

// evaluateOne returns what a product of two numbers, or a function of one, is compared with.
func evaluateOne(t *testing.T, name string, d dtype.DType, compute string, x ...float64) *compare.Want {
	t.Helper()
	op, _ := oracle.Lookup(name)
	attrs := op.Schema.DefaultAttrs()
	attrs["compute"] = compute
	inputs := map[string]*tensor.Tensor{}
	for i := range op.Schema.Inputs {
		in := tensor.New(d, tensor.MustShape(slices.Repeat([]int{1}, len(op.Schema.Inputs[i].Dims))...))
		dtype.Encode(in.Data, d, x[i:i+1])
		inputs[op.Schema.Inputs[i].Name] = in
	}
	wants, err := oracle.Evaluate(op, inputs, attrs, d)
	if err != nil {
		t.Fatal(err)
	}
	return wants["output"]
}

// TestPrecisionEdges checks single values: what the wider contract permits, and that it permits no more.
func TestPrecisionEdges(t *testing.T) {
	third, top := float64(float32(1.0/3)), math.MaxFloat32
	for _, tt := range []struct {
		op, compute string
		d           dtype.DType
		x           []float64
		least, most float64 // of the bound, relative to the value
		open        bool    // undetermined
	}{
		{"matmul", "float32", dtype.Float32, []float64{third, third}, 0, 0x1p-22, false},
		{"matmul", "tf32", dtype.Float32, []float64{third, third}, 0x1p-11, 0x1p-9, false},
		{"matmul", "tf32", dtype.Float32, []float64{1.5, -0.25}, 0, 0x1p-20, false}, // values of TF32
		{"matmul", "tf32", dtype.Float64, []float64{third, third}, 0, 0x1p-50, false},
		{"matmul", "float32", dtype.Float32, []float64{top, 0.25}, 0, 0x1p-20, false},
		{"matmul", "tf32", dtype.Float32, []float64{top, 0.25}, 0, 1, true}, // the nearest TF32 value is an infinity
		{"silu", "float32", dtype.BFloat16, []float64{1.5}, 0, 0x1.1p-8, false},
		{"silu", "storage", dtype.BFloat16, []float64{1.5}, 0x1.8p-8, 0x1p-5, false},
		{"silu", "storage", dtype.Float32, []float64{1.5}, 0, 0x1p-20, false},
		{"geglu", "storage", dtype.Float16, []float64{60000, 1}, 0, 1, false},
		{"gelu_tanh", "float32", dtype.Float16, []float64{60}, 0, 0x1p-9, false},
		{"gelu_tanh", "storage", dtype.Float16, []float64{60}, 0, 0x1p-7, false}, // 60³ overflows, tanh(Inf) is 1
	} {
		w := evaluateOne(t, tt.op, tt.d, tt.compute, tt.x...)
		open := w.Undetermined != nil && w.Undetermined[0]
		rel := w.Bound[0] / math.Abs(w.Value[0])
		if open != tt.open || !open && (rel < tt.least || rel > tt.most) {
			t.Errorf("%s of %v in %s, compute = %s: value %g, relative bound %.3g, undetermined %v, want %.3g to %.3g, %v",
				tt.op, tt.x, tt.d, tt.compute, w.Value[0], rel, open, tt.least, tt.most, tt.open)
		}
	}
}
