package main

import (
	"math"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// TestRules: what each rule makes of one element.
func TestRules(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	op, _ := oracle.Lookup("softmax")
	rules := map[string]rule{"allclose": allclose(same(1e-2, 1e-2)), "nan": allcloseNaN(byWidth(1e-3, 2e-2)),
		"both": both(1e-2, 1e-8, nil), "absolute": absolute(publishedTolerances(op))}
	for _, tt := range []struct {
		rule      string
		d         dtype.DType
		got, want float64
		accept    bool
	}{
		{"allclose", dtype.Float32, 1.0199, 1, true},
		{"allclose", dtype.Float32, 1.0201, 1, false},
		{"allclose", dtype.Float32, 0, 0.0101, true}, // small values pass as zeros
		{"allclose", dtype.Float32, nan, nan, false},
		{"allclose", dtype.Float32, inf, inf, true},
		{"allclose", dtype.Float32, inf, 1, false},
		{"nan", dtype.Float32, 1.0019, 1, true},
		{"nan", dtype.Float32, 1.0021, 1, false},
		{"nan", dtype.Float16, 1.03, 1, true},
		{"nan", dtype.Float16, nan, nan, true},
		{"nan", dtype.Float16, nan, 1, false},
		{"nan", dtype.Float16, 1, nan, false},
		{"nan", dtype.Float16, inf, -inf, false},
		{"both", dtype.Float32, 100.9, 100, true}, // absolutely off, relatively not
		{"both", dtype.Float32, 0.001, 0.009, true},
		{"both", dtype.Float32, 0.02, 0.009, false},
		{"both", dtype.Float32, nan, nan, false},
		{"both", dtype.Float32, inf, inf, false},
		{"absolute", dtype.Float32, 1.000009, 1, true},
		{"absolute", dtype.Float32, 1.00002, 1, false},
		{"absolute", dtype.Float16, 1.019, 1, true},
		{"absolute", dtype.Float16, inf, inf, false},
	} {
		r := rules[tt.rule]
		if got := r.accept(tt.d, tt.got, tt.want); got != tt.accept {
			t.Errorf("%s in %s: got %v, want %v: accepted %v", tt.rule, tt.d, tt.got, tt.want, got)
		}
	}
}

// TestAccepts: what is compared with what, and how much of it must be right.
func TestAccepts(t *testing.T) {
	values := func(d dtype.DType, v ...float64) *tensor.Tensor {
		return tensor.FromFloat64s(d, tensor.MustShape(len(v)), v)
	}
	exact := allclose(same(0, 0))
	share := both(1e-2, 1e-8, map[string]float64{"quant": 0.75})
	ties := &compare.Ties{Rows: 1, K: 1, N: 3, Score: []float64{2, 5, 5}}
	for name, tt := range map[string]struct {
		rule   rule
		family string
		got    *tensor.Tensor
		want   compare.Want
		accept bool
	}{
		"the reference is rounded": {exact, "norm", values(dtype.Float16, 1.0009765625),
			compare.Want{Value: []float64{1.0008}}, true},
		"a wrong element": {exact, "norm", values(dtype.Float16, 1, 2),
			compare.Want{Value: []float64{1, 3}}, false},
		"undetermined elements are right": {exact, "norm", values(dtype.Float16, 7),
			compare.Want{Value: []float64{1}, Undetermined: []bool{true}}, true},
		"integers may be one off": {exact, "quant", values(dtype.Int8, 5),
			compare.Want{Value: []float64{4.1}}, true},
		"and no more": {exact, "quant", values(dtype.Int8, 6),
			compare.Want{Value: []float64{4.1}}, false},
		"so may floats of 8 bits": {exact, "quant", values(dtype.Float8E4M3FN, 18),
			compare.Want{Value: []float64{16.2}}, true},
		"by one step": {exact, "quant", values(dtype.Float8E4M3FN, 20),
			compare.Want{Value: []float64{16.2}}, false},
		"a tied index": {exact, "reduce", values(dtype.Int64, 2),
			compare.Want{Value: []float64{1}, Ties: ties}, true},
		"another index": {exact, "reduce", values(dtype.Int64, 0),
			compare.Want{Value: []float64{1}, Ties: ties}, false},
		"enough are right": {share, "quant", values(dtype.Float32, 1, 1, 1, 9),
			compare.Want{Value: []float64{1, 1, 1, 1}}, true},
		"too few are right": {share, "norm", values(dtype.Float32, 1, 1, 1, 9),
			compare.Want{Value: []float64{1, 1, 1, 1}}, false},
	} {
		want := tt.want
		want.DType, want.Shape = tt.got.DType, tt.got.Shape
		if got, err := tt.rule.accepts(tt.family, dtype.Float16, tt.got, &want); err != nil || got != tt.accept {
			t.Errorf("%s: %v, %v, want %v", name, got, err, tt.accept)
		}
	}
}

// TestBaselineShapes: every harness has shapes for every operator, sizes that kernels take, and what they resolve to
// is legal.
func TestBaselineShapes(t *testing.T) {
	for _, op := range oracle.Ops() {
		program, err := op.Program()
		if err != nil {
			t.Fatal(err)
		}
		if len(regular[op.Family]) == 0 {
			t.Errorf("family %s has no regular shape", op.Family)
		}
		if tol := publishedTolerances(op)[dtype.Float32]; tol.Abs <= 0 || tol.Rel != 0 {
			t.Errorf("%s: published tolerance %v", op.Name, tol)
		}
		s := &subject{entry: op, program: program}
		for i := range baselines {
			if baselines[i].drawn {
				continue
			}
			list := baselines[i].shapes(op)
			if len(list) == 0 {
				t.Errorf("%s: %s has no shapes", op.Name, baselines[i].name)
			}
			for _, sh := range list {
				legal, ok := s.nearest(sh)
				if !ok {
					t.Errorf("%s: %s: nothing legal near %v", op.Name, baselines[i].name, sh.dims)
				}
				for j := range op.Schema.Dims {
					d := &op.Schema.Dims[j]
					if n, free := legal.dims[d.Name]; free && (n < 1 || n > largest(d)) {
						t.Errorf("%s: %s: %s is %d, at most %d", op.Name, baselines[i].name, d.Name, n, largest(d))
					}
				}
			}
		}
	}
}

// TestNearest: the legal shape with the smallest change.
func TestNearest(t *testing.T) {
	op, _ := oracle.Lookup("rope") // D is even
	program, err := op.Program()
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{entry: op, program: program}
	got, ok := s.nearest(shape{dims: map[string]int{"B": 1, "S": 4, "H": 2, "D": 33}})
	if !ok || got.dims["D"] != 34 && got.dims["D"] != 32 || got.dims["S"] != 4 {
		t.Errorf("nearest of D = 33: %v, %v", got.dims, ok)
	}
}

// TestBenchmarked: KernelBench has sizes that are not powers of two, and they are not rounded to such.
func TestBenchmarked(t *testing.T) {
	for name, want := range map[string][]sizes{
		"gelu": {{"H": 768, "S": 64}}, "log_softmax": {{"H": 768}}, "l2norm": {{"H": 1023}}, "layernorm": {{"H": 1024}},
		"sum": {{"H": 1024, "S": 63}}, "matmul": {{"M": 128, "K": 128, "N": 128}, {"M": 77, "K": 133, "N": 97}},
	} {
		op, _ := oracle.Lookup(name)
		got := kernelBenchShape(op)
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
			continue
		}
		for i := range want {
			for dim, n := range want[i] {
				if got[i].dims[dim] != n {
					t.Errorf("%s: %v, want %v", name, got[i].dims, want[i])
				}
			}
		}
	}
}
