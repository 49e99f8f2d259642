package shrink

import (
	"slices"
	"testing"
	"time"

	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

func startCase(t *testing.T, op string, st gen.Strategy, index int) (*opspec.Schema, opspec.Case) {
	t.Helper()
	entry, ok := oracle.Lookup(op)
	if !ok {
		t.Fatalf("no op %q", op)
	}
	stream, err := gen.Cases(entry.Schema, st, 7)
	if err != nil {
		t.Fatal(err)
	}
	c, err := stream.Case(index)
	if err != nil {
		t.Fatal(err)
	}
	return entry.Schema, c
}

// A kernel that is wrong from size 17 on along the last dimension: the least case has exactly 17, and 1 elsewhere.
func TestCaseFindsTheLeastSize(t *testing.T) {
	s, c := startCase(t, "softmax", gen.Strategy{Values: "uniform"}, 0)
	last := c.Dims[len(c.Dims)-1].Name
	for i := 0; c.DimMap()[last] < 17; i++ {
		s, c = startCase(t, "softmax", gen.Strategy{Values: "uniform"}, i)
	}
	fails := func(c opspec.Case) bool { return c.DimMap()[last] >= 17 }
	got, asked := Case(s, c, Options{Budget: 1000, AnyDType: true}, fails)
	if !fails(got) {
		t.Fatalf("Case returned one that does not fail: %s", got)
	}
	for _, d := range got.Dims {
		want := 17
		if d.Name != last {
			want = 1
		}
		if d.Value != want {
			t.Errorf("dim %s = %d, want %d (%s)", d.Name, d.Value, want, got)
		}
	}
	if got.Inputs[0].Layout != tensor.Contiguous || got.DType != dtype.Float32 || got.Inputs[0].Values != "normal" {
		t.Errorf("Case = %s, want contiguous float32 normal", got)
	}
	if asked > 200 {
		t.Errorf("asked %d times", asked)
	}
	again, _ := Case(s, c, Options{Budget: 1000, AnyDType: true}, fails)
	if again.String() != got.String() {
		t.Errorf("not deterministic: %s, then %s", got, again)
	}
}

// A long case costs seconds in the emulator: the candidates of a failure that a short row shows, too, have few elements
// together. One that needs a size that is no multiple of four ends at 2 or 3, although the powers of two pass.
func TestLongCasesCostLittle(t *testing.T) {
	s, c := startCase(t, "softmax", gen.Strategy{Values: "uniform"}, 0)
	last := c.Dims[len(c.Dims)-1].Name
	long, ok := Resize(s, c, last, 32769)
	if !ok {
		t.Fatalf("%s cannot have 32769 columns", c)
	}
	elements := 0
	count := func(fails func(h int) bool) func(opspec.Case) bool {
		return func(c opspec.Case) bool {
			elements += c.Inputs[0].Shape.Elems()
			return fails(c.DimMap()[last])
		}
	}
	got, _ := Case(s, long, Options{Budget: 1000}, count(func(h int) bool { return h >= 5 }))
	if h := got.DimMap()[last]; h != 5 || elements > 32769 {
		t.Errorf("ends at %d columns after %d elements, want 5 after less than one row", h, elements)
	}
	got, _ = Case(s, long, Options{Budget: 1000}, count(func(h int) bool { return h > 1 && h%4 != 0 }))
	if h := got.DimMap()[last]; h > 3 {
		t.Errorf("ends at %d columns, want 2 or 3", h)
	}
}

// A kernel that is wrong from four axes on keeps them; one that is wrong anyway ends with the operator's own rank.
func TestRanks(t *testing.T) {
	var s *opspec.Schema
	var c opspec.Case
	for i := 0; len(c.Inputs) == 0 || len(c.Inputs[0].Shape) != 5 || c.Inputs[0].Shape.Elems() < 100; i++ {
		s, c = startCase(t, "softmax", gen.Strategy{Values: "uniform", Ranks: []int{5}}, i)
	}
	got, _ := Case(s, c, Options{Budget: 1000}, func(c opspec.Case) bool { return len(c.Inputs[0].Shape) > 3 })
	if want := (tensor.Shape{1, 1, 1, 1, 1}); !got.Inputs[0].Shape.Equal(want) {
		t.Errorf("wrong from four axes on: %s, want the shape %s", got, want)
	}
	got, _ = Case(s, c, Options{Budget: 1000}, func(opspec.Case) bool { return true })
	if want := (tensor.Shape{1, 1, 1}); !got.Inputs[0].Shape.Equal(want) {
		t.Errorf("wrong anyway: %s, want the shape %s", got, want)
	}
	if _, err := gen.Inputs(s, got); err != nil {
		t.Error(err)
	}
}

// Every op of the catalogue: shrinking with a predicate that always holds ends in a valid case and never grows.
func TestCaseStaysValidAndNeverGrows(t *testing.T) {
	for _, op := range oracle.Ops() {
		s, c := startCase(t, op.Name, gen.Strategy{DTypes: op.Schema.AllowedDTypes()}, 3)
		got, asked := Case(s, c, Options{Budget: 60, AnyDType: true}, func(c opspec.Case) bool {
			_, err := gen.Inputs(s, c)
			if err != nil {
				t.Errorf("%s: candidate %s: %v", op.Name, c, err)
			}
			return err == nil
		})
		if asked > 60 {
			t.Errorf("%s: asked %d times with a budget of 60", op.Name, asked)
		}
		if grown(got, c) {
			t.Errorf("%s: %s has grown, it was %s", op.Name, got, c)
		}
	}
}

// An attribute's default may need larger inputs: that is no smaller case.
func TestDerivedDimsDoNotGrow(t *testing.T) {
	for _, op := range oracle.Ops() {
		for i := range 20 {
			s, c := startCase(t, op.Name, gen.Strategy{DTypes: op.Schema.AllowedDTypes()}, i)
			got, _ := Case(s, c, Options{Budget: 200, AnyDType: true}, func(next opspec.Case) bool {
				if grown(next, c) {
					t.Errorf("%s: asked for %s, which is larger than %s", op.Name, next, c)
				}
				return slices.Equal(next.Dims, c.Dims) || len(next.Attrs) > 0 // attributes may change, sizes hardly
			})
			if grown(got, c) {
				t.Errorf("%s: %s has grown, it was %s", op.Name, got, c)
			}
		}
	}
	// A schema in which the default of an attribute makes an input larger.
	s := &opspec.Schema{Name: "growing",
		Dims:    []opspec.Dim{{Name: "N", Candidates: []int{8}}, {Name: "L", Expr: "k*N"}},
		Inputs:  []opspec.Input{{Name: "x", Dims: []string{"L"}}},
		Outputs: []opspec.Output{{Name: "y", Dims: []string{"N"}}},
		Attrs:   []opspec.Attr{{Name: "k", Kind: opspec.Int, Default: int64(4), Values: []any{int64(1), int64(4)}}}}
	stream, err := gen.Cases(s, gen.Strategy{Values: "normal", Attrs: opspec.Attrs{"k": int64(1)}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	c, err := stream.Case(0)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Budget: 50, AnyDType: true}
	got, _ := Case(s, c, opt, func(next opspec.Case) bool { return next.DimMap()["N"] == c.DimMap()["N"] })
	if grown(got, c) {
		t.Errorf("%s has grown, it was %s", got, c)
	}
}

func TestDimsLeavesTheRestAlone(t *testing.T) {
	s, c := startCase(t, "softmax", gen.Strategy{
		DTypes: []dtype.DType{dtype.Float16}, Layouts: []tensor.Layout{tensor.Strided}}, 1)
	opt := Options{Budget: 100, DimsOnly: true, AnyDType: true}
	got, _ := Case(s, c, opt, func(opspec.Case) bool { return true })
	if got.DType != c.DType || got.Inputs[0].Values != c.Inputs[0].Values {
		t.Errorf("Case of dimensions = %s, started from %s", got, c)
	}
}

// A kernel may have another bug in another dtype, so the dtype stays unless asked otherwise.
func TestCaseKeepsTheDType(t *testing.T) {
	s, c := startCase(t, "softmax", gen.Strategy{DTypes: []dtype.DType{dtype.Float16}}, 1)
	for _, anyDType := range []bool{false, true} {
		want := dtype.Float16
		if anyDType {
			want = dtype.Float32
		}
		got, _ := Case(s, c, Options{Budget: 100, AnyDType: anyDType}, func(opspec.Case) bool { return true })
		if got.DType != want || got.Inputs[0].DType != want {
			t.Errorf("Case with any dtype %v = %s, want %s", anyDType, got, want)
		}
	}
}

// One element matters: all others become 0, and the inputs given stay as they were.
func TestValuesKeepsWhatMatters(t *testing.T) {
	s, c := startCase(t, "softmax", gen.Strategy{Values: "uniform", MaxElems: 4096}, 2)
	inputs, err := gen.Inputs(s, c)
	if err != nil {
		t.Fatal(err)
	}
	name := c.Inputs[0].Name
	original := append([]byte(nil), inputs[name].Data...)
	n := inputs[name].Elems()
	matters := n / 3
	wantBits := inputs[name].Float64s()[matters]
	fails := func(in map[string]*tensor.Tensor) bool { return in[name].Float64s()[matters] == wantBits }
	got, _ := Values(s, c, inputs, 100_000, fails)
	left := 0
	for _, v := range got[name].Float64s() {
		if v != 0 {
			left++
		}
	}
	if left != 1 || !fails(got) {
		t.Errorf("%d elements are left, want 1", left)
	}
	if string(inputs[name].Data) != string(original) {
		t.Error("Values changed the inputs it was given")
	}
	if got[name].Strides[0] != inputs[name].Strides[0] {
		t.Error("Values changed the layout")
	}
	if _, asked := Values(s, c, inputs, 5, fails); asked > 5 {
		t.Errorf("asked %d times with a budget of 5", asked)
	}
}

// Everything may be simple: then one question is enough, and nothing is left to look at, however large the input is.
func TestValuesOfALargeInput(t *testing.T) {
	s, c := startCase(t, "relu", gen.Strategy{Values: "uniform"}, 0)
	name := c.Inputs[0].Name
	for _, mostly := range []bool{false, true} {
		big := tensor.New(dtype.Float32, tensor.MustShape(1<<19))
		if mostly { // one element that matters among simple ones
			dtype.Encode(big.Data[4<<17:4<<17+4], dtype.Float32, []float64{7})
		} else {
			dtype.Encode(big.Data, dtype.Float32, slices.Repeat([]float64{7}, 1<<19))
		}
		start := time.Now()
		_, asked := Values(s, c, map[string]*tensor.Tensor{name: big}, 1000, func(map[string]*tensor.Tensor) bool {
			return !mostly
		})
		if asked > 40 || time.Since(start) > 20*time.Second { // it takes milliseconds; it took minutes
			t.Errorf("mostly simple %v: asked %d times in %v", mostly, asked, time.Since(start))
		}
	}
}
