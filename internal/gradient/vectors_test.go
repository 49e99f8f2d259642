package gradient

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
)

// vectorTensor is a tensor of a vector: floats as bits, integers in decimal.
type vectorTensor struct {
	Shape  tensor.Shape `json:"shape"`
	Values []string     `json:"values"`
}

type vector struct {
	Op         string                  `json:"op"`
	Attrs      map[string]string       `json:"attrs"`
	Inputs     map[string]vectorTensor `json:"inputs"`
	GradOutput vectorTensor            `json:"grad_output"`
	Grads      map[string][]string     `json:"grads"`
}

func numbers(t *testing.T, texts []string) []float64 {
	t.Helper()
	out := make([]float64, len(texts))
	for i, text := range texts {
		bits, isFloat := strings.CutPrefix(text, "0x")
		base := 10
		if isFloat {
			base = 16
		}
		n, err := strconv.ParseUint(bits, base, 64)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = float64(n)
		if isFloat {
			out[i] = math.Float64frombits(n)
		}
	}
	return out
}

// TestVectors: the gradients that autograd gave in float64 are within the bound, which is narrow in float64.
func TestVectors(t *testing.T) {
	file := testkit.Read[struct {
		Source  string   `json:"source"`
		Vectors []vector `json:"vectors"`
	}](t, "gradient/torch-v1.json")
	seen := map[string]bool{}
	testkit.EachOf(t, "torch", file.Vectors, func(t *testing.T, v vector) {
		op, ok := oracle.Lookup(v.Op)
		if !ok {
			t.Fatalf("the catalogue has no %q", v.Op)
		}
		seen[v.Op] = true
		attrs, err := op.Schema.ResolveAttrs(v.Attrs)
		if err != nil {
			t.Fatal(err)
		}
		p := Problem{Op: op, Attrs: attrs, DType: dtype.Float64, Inputs: map[string]*tensor.Tensor{},
			Outputs: map[string]*tensor.Tensor{
				"output": tensor.FromFloat64s(dtype.Float64, v.GradOutput.Shape, numbers(t, v.GradOutput.Values))}}
		for i := range op.Schema.Inputs {
			in := &op.Schema.Inputs[i]
			d, err := in.ElemType(dtype.Float64, attrs)
			if err != nil {
				t.Fatal(err)
			}
			x := v.Inputs[in.Name]
			p.Inputs[in.Name] = tensor.FromFloat64s(d, x.Shape, numbers(t, x.Values))
		}
		got, err := Analytic(p)
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Grads) != len(got) {
			t.Fatalf("%s: %d gradients, want %d", v.Op, len(got), len(v.Grads))
		}
		for name, texts := range v.Grads {
			w := got[name].Want(dtype.Float64)
			for i, want := range numbers(t, texts) {
				if !(math.Abs(w.Value[i]-want) <= w.Bound[i]) || w.Bound[i] > 1e-10 {
					t.Errorf("%s %v grad/%s[%d] = %v, autograd %v, within %v", v.Op, v.Attrs, name, i, w.Value[i], want, w.Bound[i])
				}
			}
		}
	})
	for name := range formulas {
		if !seen[name] && name != "decode_attention" { // PyTorch has no such operator
			t.Errorf("no vector for %s", name)
		}
	}
}
