package main

import (
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"gpuemu/bench/detection/record"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// TestDraw: inputs of every operator stay within their domains, whatever source they come from, in any layout, so that
// the reference takes them.
func TestDraw(t *testing.T) {
	sources := map[string]source{"specials": func(r *rand.Rand) float64 { return specials[r.IntN(len(specials))] },
		"randn": randn, "rand": rand01}
	strided := 0
	for _, op := range oracle.Ops() {
		program, err := op.Program()
		if err != nil {
			t.Fatal(err)
		}
		s := &subject{entry: op, program: program}
		for name, from := range sources {
			r := rand.New(rand.NewPCG(1, stream(name)))
			d := op.Schema.AllowedDTypes()[0]
			sh, ok := s.nearest(smallShapes(op)[0])
			if !ok {
				t.Fatalf("%s: no shape", op.Name)
			}
			memory := func(d dtype.DType, s tensor.Shape) (*tensor.Tensor, error) { return anyLayout(r, d, s) }
			in, err := s.draw(r, d, sh, memory, func(*rand.Rand, *opspec.Input, tensor.Shape) source { return from })
			if err != nil {
				t.Errorf("%s from %s: %v", op.Name, name, err)
				continue
			}
			if _, err := oracle.Evaluate(op, in.inputMap(), in.attrs, d); err != nil {
				t.Errorf("%s from %s: %v", op.Name, name, err)
			}
			for i, x := range in.inputs {
				if !x.Tensor.IsContiguous() {
					strided++
				}
				checkDomain(t, op.Name, &op.Schema.Inputs[i], x.Tensor.Float64s())
			}
		}
	}
	if strided < 10 {
		t.Errorf("%d inputs are not contiguous", strided)
	}
}

func checkDomain(t *testing.T, op string, in *opspec.Input, values []float64) {
	t.Helper()
	dom := &in.Domain
	for _, v := range values {
		switch finite := !math.IsNaN(v) && !math.IsInf(v, 0); {
		case !finite && (dom.Finite || dom.Bounded()), dom.Bounded() && (v < dom.Min || v > dom.Max), dom.NonZero && v == 0,
			in.Role == opspec.RoleScale && v <= 0:
			t.Errorf("%s: input %s has %v outside of its domain", op, in.Name, v)
			return
		}
	}
}

// TestSample: samples are legal, of limited size, differ from each other, and have strides only where a launch takes
// them; the same number gives the same sample.
func TestSample(t *testing.T) {
	s := softmax(t, "base", "softmax")
	k, err := s.open(ptxvm.NoChecks)
	if err != nil {
		t.Fatal(err)
	}
	c := &comparison{base: k, dtypes: s.dtypes}
	seen, large := map[string]bool{}, 0
	for i := range 200 {
		in, err := c.sample(rand.New(rand.NewPCG(1, uint64(i))))
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.sample(rand.New(rand.NewPCG(1, uint64(i))))
		if err != nil || again.String() != in.String() ||
			string(again.inputs[0].Tensor.Data) != string(in.inputs[0].Tensor.Data) {
			t.Fatalf("sample %d: %s, then %s, %v", i, in, again, err)
		}
		n := in.inputs[0].Tensor.Elems()
		if n < 1 || n > largeWork || !in.inputs[0].Tensor.IsContiguous() {
			t.Errorf("sample %d: %s has %d elements", i, in, n)
		}
		if n > usualWork {
			large++
		}
		seen[in.String()] = true
	}
	if len(seen) < 150 || large == 0 || large > 20 {
		t.Errorf("%d different shapes of 200, %d large ones", len(seen), large)
	}
}

// TestRowOf: of a scalar and of fewer axes than asked for it is all there is.
func TestRowOf(t *testing.T) {
	for _, tt := range []struct {
		shape []int
		axes  int
		want  int
	}{{nil, 1, 1}, {[]int{5}, 2, 5}, {[]int{2, 3, 5}, 1, 5}, {[]int{2, 3, 5}, 2, 15}} {
		if got := rowOf(tensor.MustShape(tt.shape...), tt.axes); got != tt.want {
			t.Errorf("rowOf(%v, %d) = %d, want %d", tt.shape, tt.axes, got, tt.want)
		}
	}
}

// TestTrialText: a trial tells what it was run on.
func TestTrialText(t *testing.T) {
	x := tensor.New(dtype.Float32, tensor.MustShape(2, 3))
	view, err := x.Transpose(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	in := &trial{dtype: dtype.Float32, dims: map[string]int{"B": 1, "A": 2}, attrs: opspec.Attrs{"eps": 1e-5},
		inputs: []tensor.Named{{Name: "x", Tensor: view}, {Name: "y", Tensor: x}}}
	if got, want := in.String(), "dtype=float32 A:2 B:1 eps:1e-05 x.strides:[1 3]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDrawSize: sizes are any that a dimension allows, with each power of two often enough to be met.
func TestDrawSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	met := map[int]int{}
	for range 4000 {
		met[drawSize(r, &opspec.Dim{Name: "A", Min: 2, Max: 300})]++
	}
	for n, times := range met {
		if n < 2 || n > 300 {
			t.Errorf("%d is drawn %d times", n, times)
		}
	}
	if len(met) < 280 || met[64] < 50 || met[256] < 50 || met[300] == 0 {
		t.Errorf("%d different sizes, 64 %d times, 256 %d times, 300 %d times", len(met), met[64], met[256], met[300])
	}
}

// TestShrink: sizes shrink until the work is small enough, and not below what a dimension allows.
func TestShrink(t *testing.T) {
	schema := &opspec.Schema{Dims: []opspec.Dim{{Name: "A", Min: 8}, {Name: "B"}}}
	dims := map[string]int{"A": 64, "B": 1000}
	shrink(rand.New(rand.NewPCG(1, 1)), schema, dims, 100, "")
	if dims["A"]*dims["B"] > 100 || dims["A"] < 8 || dims["B"] < 1 {
		t.Errorf("%v", dims)
	}
	for spared, want := range map[string]sizes{"A": {"A": 64, "B": 1}, "B": {"A": 8, "B": 12}} {
		dims := map[string]int{"A": 64, "B": 100}
		if shrink(rand.New(rand.NewPCG(1, 1)), schema, dims, 100, spared); !maps.Equal(dims, want) {
			t.Errorf("with %s spared: %v, want %v", spared, dims, want)
		}
	}
	dims = map[string]int{"A": 8, "B": 1}
	if shrink(rand.New(rand.NewPCG(1, 1)), schema, dims, 1, "A"); dims["A"] != 8 || dims["B"] != 1 {
		t.Errorf("nothing is left to be shrunk: %v", dims)
	}
}

// TestMasked: some rows have a run of -Inf at one end, of any length, and none elsewhere.
func TestMasked(t *testing.T) {
	const row = 300
	r := rand.New(rand.NewPCG(1, 1))
	from := masked(row)
	kinds, long := map[[2]bool]int{}, 0
	for range 400 {
		values, count := make([]bool, row), 0
		for i := range values {
			if values[i] = math.IsInf(from(r), -1); values[i] {
				count++
			}
		}
		changes := 0
		for i := range row - 1 {
			if values[i] != values[i+1] {
				changes++
			}
		}
		if changes > 1 {
			t.Fatalf("%d runs", changes)
		}
		kinds[[2]bool{values[0], values[row-1]}]++
		if count >= 128 && count < row {
			long++
		}
	}
	for _, kind := range [][2]bool{{}, {true, false}, {false, true}, {true, true}} {
		if n := kinds[kind]; n < 10 || n > 300 {
			t.Errorf("-Inf at begin and end %v: %d rows of 400", kind, n)
		}
	}
	if long < 40 {
		t.Errorf("%d rows of 400 have a run of tile length", long)
	}
}

// TestFirstDifference: bits count, all of them.
func TestFirstDifference(t *testing.T) {
	values := func(v ...float64) tensor.Named {
		return tensor.Named{Name: "y", Tensor: tensor.FromFloat64s(dtype.Float32, tensor.MustShape(2, 2), v)}
	}
	if got := firstDifference(values(1, 2, 3, 0), values(1, 2, 3, 0)); got != "" {
		t.Errorf("the same bits: %q", got)
	}
	got := firstDifference(values(1, 2, 3, 0), values(1, 2, 3, math.Copysign(0, -1)))
	if want := "y[1 1]: base 0x0, mutant 0x80000000"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFindings: kinds are noted once.
func TestFindings(t *testing.T) {
	rec, reply := &record.Record{}, &runner.Reply{}
	for _, kind := range []string{"race", "oob_read", "race"} {
		reply.Findings = append(reply.Findings, verdict.Finding{Kind: kind})
	}
	noteFindings(rec, reply)
	noteFindings(rec, reply)
	if len(rec.Findings) != 2 || rec.Findings[0] != "oob_read" {
		t.Errorf("%v", rec.Findings)
	}
}
