package oracle_test

import (
	"fmt"
	"maps"
	"math"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/honest"
)

// drawnTrial returns one case with given sizes and values.
func drawnTrial(t *testing.T, name string, d dtype.DType, values string, dims map[string][]int, seed uint64) *trial {
	t.Helper()
	op, ok := oracle.Lookup(name)
	if !ok {
		t.Fatalf("no op %s", name)
	}
	s, err := gen.Cases(op.Schema, gen.Strategy{
		Values: values, DTypes: []dtype.DType{d}, Layouts: []tensor.Layout{tensor.Contiguous}, Dims: dims,
	}, seed)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Case(0)
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{op: op, c: c, attrs: c.AttrMap()}
	if tr.inputs, err = gen.Inputs(op.Schema, c); err != nil {
		t.Fatal(err)
	}
	if tr.want, err = oracle.Evaluate(op, tr.inputs, tr.attrs, d); err != nil {
		t.Fatal(err)
	}
	return tr
}

// leanOf runs a trial with some attributes changed and returns what the test for a common sign counts.
func leanOf(t *testing.T, tr *trial, style honest.Style, change opspec.Attrs) judgement {
	t.Helper()
	wrong := *tr
	wrong.attrs = maps.Clone(tr.attrs)
	maps.Copy(wrong.attrs, change)
	got, err := wrong.run(style, 1)
	if err != nil {
		t.Fatal(err)
	}
	j, err := tr.judge(got)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestCommonSign: a wrong constant that stays within the bound of every element has a common sign over rows, and no
// conforming implementation has.
func TestCommonSign(t *testing.T) {
	testkit.ValuesOnly(t)
	rows := map[string][]int{"B": {4}, "S": {64}, "H": {1024}}
	tests := []struct {
		op, values string
		dims       map[string][]int
		eps        float64
		change     opspec.Attrs
	}{
		{"layernorm", "normal", rows, 1e-5, opspec.Attrs{"eps": 2e-5}},
		{"rmsnorm", "normal", rows, 1e-6, opspec.Attrs{"eps": 1e-5}},
		{"groupnorm", "normal", map[string][]int{"N": {64}, "C": {32}, "L": {64}}, 1e-5, opspec.Attrs{"eps": 1e-4}},
		{"var", "normal", map[string][]int{"B": {4}, "S": {16}, "H": {16384}}, 0, opspec.Attrs{"correction": int64(1)}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s/%s", tt.op, tt.values), func(t *testing.T) {
			tr := drawnTrial(t, tt.op, dtype.Float32, tt.values, tt.dims, 3)
			if _, ok := tr.attrs["groups"]; ok {
				tr.attrs["groups"] = int64(2)
			}
			if _, ok := tr.attrs["eps"]; ok {
				tr.attrs["eps"] = tt.eps
			}
			var err error
			if tr.want, err = oracle.Evaluate(tr.op, tr.inputs, tr.attrs, dtype.Float32); err != nil {
				t.Fatal(err)
			}
			for _, style := range honest.Styles() {
				if j := leanOf(t, tr, style, nil); j.bad != nil || j.biased {
					t.Errorf("style %s: a conforming implementation is refused: %+v", style.Name, j.lean)
				}
				if j := leanOf(t, tr, style, tt.change); j.bad == nil && !j.biased {
					t.Errorf("style %s, %v: not found: %+v", style.Name, tt.change, j.lean)
				}
			}
		})
	}
}

// TestHalves: rounding half up instead of half to even is found where the value before it is exact.
func TestHalves(t *testing.T) {
	sizes := map[string]map[string][]int{
		"add": {"B": {4}, "S": {64}, "H": {256}}, "mul": {"B": {4}, "S": {64}, "H": {256}},
		"scatter_add": {"V": {256}, "R": {256}, "D": {64}},
	}
	for name, dims := range sizes {
		for _, d := range []dtype.DType{dtype.BFloat16, dtype.Float16} {
			tr := drawnTrial(t, name, d, "uniform", dims, 3)
			w := tr.want["output"]
			up, even := tensor.New(d, w.Shape), tensor.New(d, w.Shape)
			dtype.Encode(even.Data, d, w.Value)
			for i, v := range w.Value {
				bits := d.Bits(v)
				if x := d.Float64(bits); math.Abs(x) < math.Abs(v) {
					if y := d.Float64(bits + 1); math.Abs(y-v) == math.Abs(x-v) {
						bits++
					}
				}
				up.Data[2*i], up.Data[2*i+1] = byte(bits), byte(bits>>8)
			}
			if l := compare.Halves(even, w); l.Units != 0 {
				t.Errorf("%s %s: rounding to even counts %+v", name, d, l)
			}
			if l := compare.Halves(up, w); !l.Biased() {
				t.Errorf("%s %s: rounding half up counts %+v", name, d, l)
			}
		}
	}
}

// TestLeanByChance: units that lean to either side at random are biased about as often as LeanChance says: never here.
func TestLeanByChance(t *testing.T) {
	r := rng.New(1)
	for range 20000 {
		l := compare.Lean{Units: 1 + r.Intn(500)}
		for range l.Units {
			if r.Bool(0.5) {
				l.Above++
			} else {
				l.Below++
			}
		}
		if l.Biased() {
			t.Fatalf("%+v is biased", l)
		}
	}
	for _, tt := range []struct {
		l    compare.Lean
		want bool
	}{
		{compare.Lean{}, false}, {compare.Lean{Units: 40, Above: 40}, false}, {compare.Lean{Units: 47, Below: 47}, true},
		{compare.Lean{Units: 1000, Above: 600}, false}, {compare.Lean{Units: 1000, Above: 610}, true},
		{compare.Lean{Units: 1000, Above: 10, Below: 10}, false},
	} {
		if got := tt.l.Biased(); got != tt.want {
			t.Errorf("%+v: biased = %v, want %v", tt.l, got, tt.want)
		}
	}
}
