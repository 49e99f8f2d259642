package oracle_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/honest"
)

// offsetTrial returns a case of a normalization or variance whose rows have the given mean and standard deviation 1.
func offsetTrial(t *testing.T, name string, d dtype.DType, width int, mean float64, seed uint64) *trial {
	t.Helper()
	op, ok := oracle.Lookup(name)
	if !ok {
		t.Fatalf("no op %s", name)
	}
	r := rng.New(seed)
	fill := func(shape tensor.Shape, f func() float64) *tensor.Tensor {
		x := make([]float64, shape.Elems())
		for i := range x {
			x[i] = f()
		}
		out := tensor.New(d, shape)
		dtype.Encode(out.Data, d, x)
		return out
	}
	normal := func() float64 { return r.Normal() }
	inputs := map[string]*tensor.Tensor{}
	const rows = 8
	dims := map[string]int{"B": 2, "S": rows / 2, "H": width, "N": 2, "C": 4, "L": width / 2} // two channels a group
	for _, in := range op.Schema.Inputs {
		shape := tensor.Shape{}
		for _, dim := range in.Dims {
			shape = append(shape, dims[dim])
		}
		switch in.Name {
		case "input":
			inputs[in.Name] = fill(shape, func() float64 { return mean + r.Normal() })
		case "mean":
			inputs[in.Name] = fill(shape, func() float64 { return mean + float64(r.Normal()/8) })
		case "var":
			inputs[in.Name] = fill(shape, func() float64 { return 0.5 + r.Float64() })
		default:
			inputs[in.Name] = fill(shape, normal)
		}
	}
	tr := &trial{op: op, inputs: inputs, attrs: op.Schema.DefaultAttrs(), c: opspec.Case{DType: d}}
	var err error
	if tr.want, err = oracle.Evaluate(op, inputs, tr.attrs, d); err != nil {
		t.Fatal(err)
	}
	return tr
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}

// offsetOps are the operators whose rows may lie far from zero.
var offsetOps = []string{"layernorm", "rmsnorm", "groupnorm", "batchnorm", "var", "l2norm"}

// eachOffset calls f for every such operator, type, width and mean: up to 1e4 deviations in float32, 1e8 in float64.
func eachOffset(t *testing.T, f func(t *testing.T, tr *trial)) {
	for _, name := range offsetOps {
		for _, d := range []dtype.DType{dtype.Float32, dtype.Float64} {
			for _, mean := range []float64{100, 1000, 1e4, 1e6, 1e8} {
				if d == dtype.Float32 && mean > 1e4 {
					continue
				}
				for _, width := range []int{256, 1024} {
					t.Run(fmt.Sprintf("%s/%s/%g/%d", name, d, mean, width), func(t *testing.T) {
						f(t, offsetTrial(t, name, d, width, mean, 7))
					})
				}
			}
		}
	}
}

// TestOffsetRows holds the bounds of normalizations to what conforming implementations err by on rows far from zero. A
// bound that counts one error twice grows there with the square of mean over deviation and lets anything pass.
func TestOffsetRows(t *testing.T) {
	testkit.ValuesOnly(t)
	const most = 50 // median bound over the median of the largest error that any style makes
	eachOffset(t, func(t *testing.T, tr *trial) {
		w := tr.want["output"]
		worst := make([]float64, len(w.Value))
		for i, style := range honest.Styles() {
			got, err := tr.run(style, uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			for k, g := range got["output"].Float64s() {
				e := math.Abs(g - w.Value[k])
				if e > w.Bound[k] {
					t.Fatalf("style %s, element %d: error %g is beyond the bound %g", style.Name, k, e, w.Bound[k])
				}
				worst[k] = math.Max(worst[k], e)
			}
		}
		if b, e := median(w.Bound), median(worst); b > float64(most*e) {
			t.Errorf("median bound %.3g is %.1f times the median error %.3g of conforming implementations, want at most %d",
				b, b/e, e, most)
		}
	})
}

// TestOffsetRowsRefuseGarbage: zeros, a constant and swapped rows fail there.
func TestOffsetRowsRefuseGarbage(t *testing.T) {
	testkit.ValuesOnly(t)
	eachOffset(t, func(t *testing.T, tr *trial) {
		w := tr.want["output"]
		width := w.Shape[len(w.Shape)-1]
		garbage := map[string]func(k int) float64{
			"zeros":    func(int) float64 { return 0 },
			"constant": func(int) float64 { return 100 },
			"swapped":  func(k int) float64 { return w.Value[(k/width^1)*width+k%width] },
		}
		for name, f := range garbage {
			x := make([]float64, len(w.Value))
			for k := range x {
				x[k] = f(k)
			}
			got := tensor.New(w.DType, w.Shape)
			dtype.Encode(got.Data, w.DType, x)
			j, err := tr.judge(map[string]*tensor.Tensor{"output": got})
			if err != nil {
				t.Fatal(err)
			}
			if j.bad == nil {
				t.Errorf("%s pass", name)
			}
		}
	})
}
