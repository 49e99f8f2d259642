package oracle_test

import (
	"fmt"
	"math"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/honest"
)

// momentFamilies are rows on which running means and squares round in different ways.
var momentFamilies = map[string]func(i, n int, r *rng.RNG) float64{
	"normal":     func(_, _ int, r *rng.RNG) float64 { return r.Normal() },
	"offset":     func(_, _ int, r *rng.RNG) float64 { return 1000 + r.Normal() },
	"far offset": func(_, _ int, r *rng.RNG) float64 { return 1e4 + r.Normal() },
	"rising":     func(i, n int, r *rng.RNG) float64 { return float64(10*float64(i)/float64(n)) + float64(r.Float64()/8) },
	"rising far": func(i, n int, r *rng.RNG) float64 {
		return 1e4 + float64(3*float64(i)/float64(n)) + float64(r.Float64()/8)
	},
	"ramp":         func(i, n int, r *rng.RNG) float64 { return 20 + float64(5*(float64(i)+r.Float64())/float64(n)) },
	"exact ramp":   func(i, n int, _ *rng.RNG) float64 { return 3 + float64(5*float64(i)/float64(n)) },
	"ramp from 0":  func(i, n int, r *rng.RNG) float64 { return float64(5 * (float64(i) + r.Float64()) / float64(n)) },
	"far ramp":     func(i, n int, r *rng.RNG) float64 { return 500 + float64(40*(float64(i)+r.Float64())/float64(n)) },
	"two halves":   func(i, n int, r *rng.RNG) float64 { return 1000 + float64(4*float64(2*i/n)) + r.Normal() },
	"period of 32": func(i, _ int, r *rng.RNG) float64 { return 1000 + float64(i%32)/4 + r.Float64() },
	"constant":     func(int, int, *rng.RNG) float64 { return 1000.1 },
	"few values":   func(i, _ int, r *rng.RNG) float64 { return 1000 + []float64{0.1, 0.7, 1.3, 2.9}[r.Intn(4)] },
	"one large": func(i, _ int, r *rng.RNG) float64 {
		if i == 3 {
			return 1e5
		}
		return r.Normal()
	},
	"heavy tails": func(_, _ int, r *rng.RNG) float64 { return 1 / (float64(2*r.Float64()) - 1) },
}

// TestMoments holds mean and variance of rows of all kinds to every way of computing them.
func TestMoments(t *testing.T) {
	testkit.ValuesOnly(t)
	for _, name := range []string{"layernorm", "var", "mean", "rmsnorm"} {
		for family, f := range momentFamilies {
			for _, width := range []int{40, 300, 1024, 4096, 16384} {
				if testing.Short() && width > 1024 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d", name, family, width), func(t *testing.T) {
					op, _ := oracle.Lookup(name)
					r := rng.New(uint64(width))
					inputs := map[string]*tensor.Tensor{}
					for _, in := range op.Schema.Inputs {
						shape := tensor.Shape{width}
						if in.Name == "input" {
							shape = tensor.Shape{1, 1, width}
						}
						x := make([]float64, width)
						for i := range x {
							switch in.Name {
							case "input":
								x[i] = f(i, width, r)
							case "weight":
								x[i] = 1
							}
						}
						inputs[in.Name] = tensor.New(dtype.Float32, shape)
						dtype.Encode(inputs[in.Name].Data, dtype.Float32, x)
					}
					tr := &trial{op: op, inputs: inputs, attrs: op.Schema.DefaultAttrs(), c: opspec.Case{DType: dtype.Float32}}
					var err error
					if tr.want, err = oracle.Evaluate(op, inputs, tr.attrs, dtype.Float32); err != nil {
						t.Fatal(err)
					}
					w := tr.want["output"]
					for i, style := range honest.Styles() {
						got, err := tr.run(style, uint64(i))
						if err != nil {
							t.Fatal(err)
						}
						most, at := 0.0, 0
						for k, g := range got["output"].Float64s() {
							if q := math.Abs(g-w.Value[k]) / w.Bound[k]; q > most {
								most, at = q, k
							}
						}
						if most > 1 {
							t.Errorf("style %s, element %d: error is %.2f of the bound %g (want %g)",
								style.Name, at, most, w.Bound[at], w.Value[at])
						}
					}
				})
			}
		}
	}
}
