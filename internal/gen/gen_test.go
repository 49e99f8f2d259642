package gen

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// attentionLike has relations, a derived dimension, attributes and every role.
func attentionLike() *opspec.Schema {
	return &opspec.Schema{
		Name: "attention_like",
		Dims: []opspec.Dim{
			{Name: "B", Candidates: []int{1, 2}, Empty: true},
			{Name: "HQ", Candidates: []int{1, 2, 4}}, {Name: "HKV", Candidates: []int{1, 2}},
			{Name: "M", Candidates: []int{1, 7, 33}, Tile: 16}, {Name: "N", Candidates: []int{1, 8, 65}, Tile: 32},
			{Name: "D", Candidates: []int{8, 16}},
			{Name: "P", Min: 1, Max: 300},
			{Name: "W", Expr: "M+window"},
		},
		Relations: []string{"HQ % HKV == 0", "D % 8 == 0", "M != N", "k <= N"},
		Inputs: []opspec.Input{
			{Name: "q", Dims: []string{"B", "HQ", "M", "D"}},
			{Name: "w", Dims: []string{"N", "D"}, Role: opspec.RoleWeight},
			{Name: "mask", Dims: []string{"B", "M", "N"}, Role: opspec.RoleMask, DType: "bool"},
			{Name: "index", Dims: []string{"B", "W"}, Role: opspec.RoleIndex, DType: "int64", Domain: opspec.Domain{Below: "N"}},
			{Name: "top", Dims: []string{"B", "k"}, Role: opspec.RoleIndex, DType: "int32",
				Domain: opspec.Domain{Below: "N", Distinct: true}},
			{Name: "p", Dims: []string{"P"}, Role: opspec.RoleProbability},
			{Name: "scale", Dims: []string{}, Role: opspec.RoleScale, DType: "float32"},
			{Name: "bytes", Dims: []string{"P", "3"}, DType: "uint8"},
		},
		Outputs: []opspec.Output{{Name: "o", Dims: []string{"B", "HQ", "M", "N"}}},
		Attrs: []opspec.Attr{
			{Name: "window", Kind: opspec.Int, Values: []any{0, 1, 5}}, {Name: "k", Kind: opspec.Int, Values: []any{1, 2}},
			{Name: "eps", Kind: opspec.Float, Values: []any{1e-5, 1e-3}}, {Name: "causal", Kind: opspec.Bool,
				Values: []any{false, true}},
			{Name: "mode", Kind: opspec.String, Values: []any{"none", "tanh"}, Fixed: true},
			{Name: "compute", Kind: opspec.String, Values: []any{"plain", "wide"}, Fixed: true, Quiet: true},
		},
	}
}

func mustCases(t testing.TB, s *opspec.Schema, st Strategy, master uint64) *Stream {
	t.Helper()
	c, err := Cases(s, st, master)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustCase(t testing.TB, c *Stream, i int) opspec.Case {
	t.Helper()
	out, err := c.Case(i)
	if err != nil {
		t.Fatalf("Case(%d) = %v", i, err)
	}
	return out
}

func mustInputs(t testing.TB, s *opspec.Schema, c opspec.Case) map[string]*tensor.Tensor {
	t.Helper()
	in, err := Inputs(s, c)
	if err != nil {
		t.Fatalf("Inputs(%s) = %v", c, err)
	}
	return in
}

func equalTensors(x, y *tensor.Tensor) bool {
	return x.DType == y.DType && x.Shape.Equal(y.Shape) && slices.Equal(x.Strides, y.Strides) && x.Offset == y.Offset &&
		bytes.Equal(x.Data, y.Data)
}

// allStrategies are every shape strategy with every layout.
func allStrategies() []Strategy {
	var out []Strategy
	for _, n := range ShapeStrategies() {
		out = append(out, Strategy{Shapes: n.Name, Layouts: tensor.Layouts(), DTypes: dtype.Floats(), MaxElems: 1 << 14})
	}
	return out
}

// TestDeterminism: the order of calls and the number of goroutines do not matter, nor does going through text.
// Listed sizes are the only ones, under every strategy; the other dimensions stay as the strategy draws them.
func TestListedDims(t *testing.T) {
	s := &opspec.Schema{Name: "x", Dims: []opspec.Dim{{Name: "M", Candidates: []int{4}, Empty: true},
		{Name: "N", Candidates: []int{7}, Max: 5000}, {Name: "P", Expr: "M+N"}},
		Inputs: []opspec.Input{{Name: "a", Dims: []string{"M", "N"}}}}
	for _, strategy := range ShapeStrategies() {
		if strategy.Name == "zero_size" { // only M may be empty, and it is listed below
			continue
		}
		stream, err := Cases(s, Strategy{Shapes: strategy.Name, Dims: map[string][]int{"M": {3, 4097}}}, 1)
		if err != nil {
			t.Fatalf("%s: %v", strategy.Name, err)
		}
		seen := map[int]bool{}
		for i := range 50 {
			c, err := stream.Case(i)
			if err != nil {
				t.Fatalf("%s: %v", strategy.Name, err)
			}
			seen[c.Inputs[0].Shape[0]] = true
		}
		if len(seen) != 2 || !seen[3] || !seen[4097] {
			t.Errorf("%s: M has sizes %v, want 3 and 4097", strategy.Name, seen)
		}
	}
	for name, dims := range map[string]map[string][]int{
		"no dimension": {"Q": {1}}, "follows from others": {"P": {1}}, "no size to choose": {"M": {}},
		"cannot be 5001": {"N": {5001}}, "cannot be 0": {"N": {0}}, "cannot be -1": {"M": {-1}},
	} {
		if _, err := Cases(s, Strategy{Dims: dims}, 1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Dims %v: error %v, want one with %q", dims, err, name)
		}
	}
}

func TestDeterminism(t *testing.T) {
	s := attentionLike()
	for _, st := range allStrategies() {
		const n = 24
		type result struct {
			text   string
			inputs map[string]*tensor.Tensor
		}
		want := make([]result, n)
		stream := mustCases(t, s, st, 7)
		for i := range want {
			c := mustCase(t, stream, i)
			want[i] = result{c.String(), mustInputs(t, s, c)}
		}
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				own, err := Cases(attentionLike(), st, 7)
				if err != nil {
					t.Error(err)
					return
				}
				for k := range n {
					i := n - 1 - (k*7+g*5)%n
					shared := []*Stream{own, stream}[k%2]
					c, err := shared.Case(i)
					if err != nil || c.String() != want[i].text {
						t.Errorf("Case(%d) = %s, %v, want %s", i, c, err, want[i].text)
						return
					}
					back, err := opspec.ParseCase(want[i].text)
					if err != nil || !reflect.DeepEqual(back, c) {
						t.Errorf("ParseCase(%s) = %+v, %v", want[i].text, back, err)
					}
					in, err := Inputs(s, back)
					if err != nil {
						t.Error(err)
						return
					}
					for name, x := range in {
						if !equalTensors(x, want[i].inputs[name]) {
							t.Errorf("case %s: input %s differs", c, name)
						}
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestStreamIndependence: a new input, dimension or attribute changes nothing about the others.
func TestStreamIndependence(t *testing.T) {
	for _, st := range allStrategies() {
		old := attentionLike()
		extended := attentionLike()
		extended.Dims = slices.Insert(extended.Dims, 1, opspec.Dim{Name: "X", Candidates: []int{2, 3}, Max: 5, Min: 2})
		extended.Attrs = slices.Insert(extended.Attrs, 0, opspec.Attr{Name: "alpha", Values: []any{1.0, 2.0}})
		extended.Inputs = slices.Insert(extended.Inputs, 0, opspec.Input{Name: "extra", Dims: []string{"X", "D"}})
		if st.Shapes == "large" {
			extended.Dims = slices.DeleteFunc(extended.Dims, func(d opspec.Dim) bool { return d.Name == "X" })
			extended.Inputs[0].Dims = []string{"D"} // which axis is the long one is a choice among all
		}
		a, b := mustCases(t, old, st, 11), mustCases(t, extended, st, 11)
		for i := range 12 {
			ca, cb := mustCase(t, a, i), mustCase(t, b, i)
			if !reflect.DeepEqual(ca.Inputs, cb.Inputs[1:]) || !reflect.DeepEqual(ca.Attrs, cb.Attrs[1:]) {
				t.Fatalf("%s: case %d changes with one more input:\n%s\n%s", st.Shapes, i, ca, cb)
			}
			ia, ib := mustInputs(t, old, ca), mustInputs(t, extended, cb)
			for name, x := range ia {
				if !equalTensors(x, ib[name]) {
					t.Errorf("%s: case %d: input %s changes with one more input", st.Shapes, i, name)
				}
			}
		}
	}
}

// TestStreamsDiffer: inputs of one shape and distribution get different values, and so do two cases.
func TestStreamsDiffer(t *testing.T) {
	s := vectorSchema()
	s.Inputs = append(s.Inputs, s.Inputs[0])
	s.Inputs[1].Name = "y"
	seen := map[string]string{}
	for i := range distributions {
		for seed := range uint64(3) {
			c := vectorCase(dtype.Float64, distributions[i].Name, 16, 16)
			c.Inputs = append(c.Inputs, c.Inputs[0])
			c.Inputs[1].Name, c.Seed = "y", seed
			for name, x := range mustInputs(t, s, c) {
				what := fmt.Sprint(distributions[i].Name, seed, name)
				if old, ok := seen[string(x.Data)]; ok {
					t.Errorf("%s has the values of %s", what, old)
				}
				seen[string(x.Data)] = what
			}
		}
	}
}

// TestSeedsMatter: other master seed, operator or index, other case.
func TestSeedsMatter(t *testing.T) {
	seen := map[uint64]string{}
	for _, op := range []string{"a", "b", "a/1"} {
		for master := range uint64(10) {
			for i := range 10 {
				seed := CaseSeed(master, op, i)
				if old, ok := seen[seed]; ok {
					t.Errorf("seed %d of %s/%d/%d is also that of %s", seed, op, master, i, old)
				}
				seen[seed] = op
			}
		}
	}
}

func TestShapes(t *testing.T) {
	s := attentionLike()
	prog, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range allStrategies() {
		st.MaxElems = DefaultMaxElems
		sizes := map[string]map[int]int{}
		stream := mustCases(t, s, st, 3)
		zeros, long := 0, 0
		const n = 400
		for i := range n {
			c := mustCase(t, stream, i)
			dims := c.DimMap()
			in, out, err := prog.Resolve(dims, c.AttrMap())
			if err != nil { // relations, sizes
				t.Fatalf("%s: %v", c, err)
			}
			for _, shapes := range []map[string]tensor.Shape{in, out} {
				for name, shape := range shapes {
					if shape.Elems() > st.MaxElems {
						t.Fatalf("%s: tensor %s has %d elements", c, name, shape.Elems())
					}
				}
			}
			for _, d := range c.Dims {
				if sizes[d.Name] == nil {
					sizes[d.Name] = map[int]int{}
				}
				sizes[d.Name][d.Value]++
				if d.Value >= 4096 {
					long++
				}
			}
			if dims["B"] == 0 {
				zeros++
			}
		}
		wantZeros := map[string]bool{"zero_size": zeros == n, "tile_aware": zeros > 0 && zeros < n/8,
			"boundary": zeros > 0 && zeros < n/8, "default": zeros > n/80 && zeros < n/20}
		if ok, special := wantZeros[st.Shapes]; special && !ok || !special && zeros > 0 {
			t.Errorf("%s: %d of %d cases are empty", st.Shapes, zeros, n)
		}
		if (st.Shapes == "large") != (long > n/2) {
			t.Errorf("%s: %d of %d cases have a long axis", st.Shapes, long, n)
		}
		var want map[string][]int
		switch st.Shapes {
		case "default":
			want = map[string][]int{"M": {1, 7, 15, 16, 17, 33}, "N": {1, 8, 31, 32, 33, 65}, "D": {8, 16}, "B": {0, 1, 2}}
			if len(sizes["P"]) < 50 {
				t.Errorf("default: only %d sizes of the range P", len(sizes["P"]))
			}
		case "boundary":
			want = map[string][]int{"M": {1, 2, 3, 5, 7, 11, 13}, "D": {8, 16}}
		case "regular":
			want = map[string][]int{"HQ": {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, "D": {8, 16, 32, 64, 128, 256, 512,
				1024}}
		case "tile_aware":
			want = map[string][]int{"M": {1, 15, 16, 17, 33, 3, 7, 13, 31, 61, 127, 251}}
		}
		for name, list := range want {
			for _, v := range list {
				if sizes[name][v] == 0 && v < 200 {
					t.Errorf("%s: size %d of %s never drawn: %v", st.Shapes, v, name, sizes[name])
				}
			}
			for v := range sizes[name] {
				if !slices.Contains(list, v) && st.Shapes != "regular" && !(st.Shapes == "tile_aware" && name == "M") {
					t.Errorf("%s: size %d of %s drawn, want one of %v", st.Shapes, v, name, list)
				}
			}
		}
	}
}

// TestMaxElems: shapes are shrunk to what is allowed, down to a single element.
func TestMaxElems(t *testing.T) {
	s := &opspec.Schema{Name: "big", Dims: []opspec.Dim{{Name: "A", Candidates: []int{1 << 20}}, {Name: "B",
		Candidates: []int{1 << 20}},
		{Name: "C", Candidates: []int{1 << 20, 3}}}, Inputs: []opspec.Input{{Name: "x", Dims: []string{"A", "B", "C"}}}}
	for _, limit := range []int{1, 7, 1000, 1 << 20} {
		stream := mustCases(t, s, Strategy{MaxElems: limit}, 1)
		for i := range 20 {
			c := mustCase(t, stream, i)
			if n := c.Inputs[0].Shape.Elems(); n > limit || n < (limit+1)/8 {
				t.Errorf("max %d: shape %s has %d elements", limit, c.Inputs[0].Shape, n)
			}
		}
	}
	s.Dims[0].Min = 1 << 20
	if _, err := mustCases(t, s, Strategy{MaxElems: 10}, 1).Case(0); diag.CodeOf(err) != NoShape ||
		!strings.Contains(err.Error(), "more than 10 elements") {
		t.Errorf("Case = %v, want %s", err, NoShape)
	}
}

// TestDistinctNeedsRoom: a shape for which a distinct index could not exist is not drawn, and refused in a case.
func TestDistinctNeedsRoom(t *testing.T) {
	s := &opspec.Schema{Name: "x", Dims: []opspec.Dim{{Name: "K", Candidates: []int{1, 2, 3, 4}}, {Name: "N",
		Candidates: []int{1, 2, 3}}},
		Inputs: []opspec.Input{{Name: "i", Dims: []string{"K"}, Role: opspec.RoleIndex, DType: "int64",
			Domain: opspec.Domain{Below: "N", Distinct: true}}}}
	stream := mustCases(t, s, Strategy{}, 1)
	for i := range 50 {
		c := mustCase(t, stream, i)
		if dims := c.DimMap(); dims["K"] > dims["N"] {
			t.Errorf("%s: %d different indices below %d", c, dims["K"], dims["N"])
		}
		c.Dims[0].Value, c.Inputs[0].Shape, c.Inputs[0].Layout = 4, tensor.Shape{4}, tensor.Contiguous
		if _, err := Inputs(s, c); diag.CodeOf(err) != NoShape {
			t.Errorf("Inputs(%s) = %v, want %s", c, err, NoShape)
		}
	}
}

func TestAttributes(t *testing.T) {
	s := attentionLike()
	stream := mustCases(t, s, Strategy{}, 5)
	count := map[string]map[any]int{}
	const n = 600
	for i := range n {
		for _, a := range mustCase(t, stream, i).Attrs {
			if count[a.Name] == nil {
				count[a.Name] = map[any]int{}
			}
			count[a.Name][a.Value]++
		}
	}
	for name, want := range map[string][]any{"window": {int64(0), int64(1), int64(5)}, "eps": {1e-5, 1e-3},
		"causal": {false, true}, "mode": {"none"}} {
		if len(count[name]) != len(want) || count[name][want[0]] < n/2 {
			t.Errorf("attribute %s: drawn %v, want all of %v, the first most often", name, count[name], want)
		}
		for _, v := range want {
			if count[name][v] == 0 {
				t.Errorf("attribute %s: %v never drawn", name, v)
			}
		}
	}
	joint := map[[2]any]int{} // attributes are drawn independently of each other
	for i := range n {
		a := mustCase(t, stream, i).AttrMap()
		joint[[2]any{a["eps"], a["causal"]}]++
	}
	if len(joint) != 4 || joint[[2]any{1e-3, true}] > n/8 {
		t.Errorf("eps and causal are drawn together: %v", joint)
	}
	fixed := mustCases(t, s, Strategy{Attrs: opspec.Attrs{"eps": 0.25, "k": 2}}, 5)
	for i := range 50 {
		if a := mustCase(t, fixed, i).AttrMap(); a.Float("eps") != 0.25 || a.Int("k") != 2 {
			t.Fatalf("fixed attributes became %v", a)
		}
	}
}

func TestLayouts(t *testing.T) {
	s := attentionLike()
	stream := mustCases(t, s, Strategy{Layouts: tensor.Layouts(), Shapes: "boundary", MaxElems: 1 << 12}, 9)
	seen := map[tensor.Layout]int{}
	poisoned := 0
	for i := range 150 {
		c := mustCase(t, stream, i)
		in := mustInputs(t, s, c)
		for _, ci := range c.Inputs {
			x := in[ci.Name]
			seen[ci.Layout]++
			switch ci.Layout {
			case tensor.Contiguous:
				if !x.IsContiguous() || x.Offset != 0 {
					t.Errorf("%s: input %s is not contiguous", c, ci.Name)
				}
			case tensor.Sliced:
				if x.Offset == 0 {
					t.Errorf("%s: input %s starts at the base", c, ci.Name)
				}
			default:
				if x.IsContiguous() {
					t.Errorf("%s: input %s claims %s, but is contiguous", c, ci.Name, ci.Layout)
				}
			}
			if ci.Layout == tensor.Broadcast && !slices.Contains(x.Strides, 0) {
				t.Errorf("%s: input %s has no stride 0: %v", c, ci.Name, x.Strides)
			}
			if v := x.Float64s(); ci.Name == "top" && ci.Shape[1] == 2 && len(v) > 0 && v[0] == v[1] {
				t.Errorf("%s: input %s is not distinct in layout %s", c, ci.Name, ci.Layout)
			}
			if len(x.Data) > x.Elems()*x.DType.Size() {
				poisoned++
			}
			// Values do not depend on the layout, but for the equal slices of a broadcast.
			plain := c
			plain.Inputs = slices.Clone(c.Inputs)
			for k := range plain.Inputs {
				plain.Inputs[k].Layout = tensor.Contiguous
			}
			if y := mustInputs(t, s, plain)[ci.Name]; ci.Layout != tensor.Broadcast && !bytes.Equal(x.Bytes(), y.Bytes()) {
				t.Errorf("%s: the values of %s change with the layout", c, ci.Name)
			}
		}
	}
	for _, l := range tensor.Layouts() {
		if seen[l] == 0 {
			t.Errorf("layout %s never drawn: %v", l, seen)
		}
	}
	if poisoned == 0 {
		t.Error("no storage has gaps")
	}
	for _, tt := range []struct {
		l    tensor.Layout
		s    tensor.Shape
		want tensor.Layout
	}{
		{tensor.Strided, tensor.Shape{}, tensor.Contiguous}, {tensor.Strided, tensor.Shape{1, 1}, tensor.Contiguous},
		{tensor.Strided, tensor.Shape{1, 2}, tensor.Strided}, {tensor.Transposed, tensor.Shape{5}, tensor.Contiguous},
		{tensor.Transposed, tensor.Shape{1, 5}, tensor.Contiguous}, {tensor.Transposed, tensor.Shape{2, 1, 5},
			tensor.Transposed},
		{tensor.ChannelsLast, tensor.Shape{2, 3}, tensor.Contiguous}, {tensor.ChannelsLast, tensor.Shape{2, 1, 4, 4},
			tensor.Contiguous},
		{tensor.ChannelsLast, tensor.Shape{2, 3, 1, 4}, tensor.ChannelsLast}, {tensor.Broadcast, tensor.Shape{1},
			tensor.Contiguous},
		{tensor.Broadcast, tensor.Shape{2}, tensor.Broadcast}, {tensor.Sliced, tensor.Shape{1}, tensor.Sliced},
		{tensor.Sliced, tensor.Shape{0, 3}, tensor.Contiguous}, {tensor.Contiguous, tensor.Shape{}, tensor.Contiguous},
	} {
		if got := effectiveLayout(tt.l, tt.s, &opspec.Input{}); got != tt.want {
			t.Errorf("effectiveLayout(%s, %s) = %s, want %s", tt.l, tt.s, got, tt.want)
		}
	}
}

func TestDTypes(t *testing.T) {
	s := attentionLike()
	for _, tt := range []struct {
		allowed, ask, want []dtype.DType
	}{
		{nil, nil, []dtype.DType{dtype.Float32, dtype.Float16}},
		{nil, []dtype.DType{dtype.Int8, dtype.Float64}, []dtype.DType{dtype.Float64}},
		{[]dtype.DType{dtype.BFloat16}, nil, []dtype.DType{dtype.BFloat16}},
		{[]dtype.DType{dtype.BFloat16}, []dtype.DType{dtype.Float32}, nil},
	} {
		s.DTypes = tt.allowed
		got, err := allowedDTypes(s, tt.ask)
		if !slices.Equal(got, tt.want) || (tt.want == nil) != (diag.CodeOf(err) == NoDType) {
			t.Errorf("allowedDTypes(%v, %v) = %v, %v, want %v", tt.allowed, tt.ask, got, err, tt.want)
		}
	}
}

func TestCasesErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    *opspec.Schema
		st   Strategy
		code diag.Code
		text string
		hint string
	}{
		{"shapes", attentionLike(), Strategy{Shapes: "odd"}, UnknownStrategy, `unknown shape strategy "odd"`, "tile_aware"},
		{"values", attentionLike(), Strategy{Values: "odd"}, UnknownDistribution, `unknown value distribution "odd"`,
			"rising_max"},
		{"role values", attentionLike(), Strategy{Values: "index"}, UnknownDistribution, `"index"`, ""},
		{"no layouts", attentionLike(), Strategy{Layouts: []tensor.Layout{}}, BadStrategy, "layouts", ""},
		{"bad layout", attentionLike(), Strategy{Layouts: []tensor.Layout{0}}, BadStrategy, "layouts", ""},
		{"elements", attentionLike(), Strategy{MaxElems: -1}, BadStrategy, "max elements", ""},
		{"too many elements", attentionLike(), Strategy{MaxElems: tensor.MaxElems + 1}, BadStrategy, "max elements", ""},
		{"attribute", attentionLike(), Strategy{Attrs: opspec.Attrs{"x": 1}}, BadStrategy, `no attribute "x"`, ""},
		{"attribute type", attentionLike(), Strategy{Attrs: opspec.Attrs{"k": "x"}}, opspec.AttrInvalid, `attribute "k"`, ""},
		{"dtypes", attentionLike(), Strategy{DTypes: []dtype.DType{dtype.Int8}}, NoDType, `takes none of the dtypes int8`,
			"float64"},
		{"empty", &opspec.Schema{Name: "x", Dims: []opspec.Dim{{Name: "N"}}}, Strategy{Shapes: "zero_size"}, NoEmptyDim,
			"no dimension that may be empty", ""},
		{"schema", &opspec.Schema{}, Strategy{}, opspec.SchemaInvalid, "name is empty", ""},
	} {
		_, err := Cases(tt.s, tt.st, 0)
		if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) || !strings.Contains(diag.HintOf(err),
			tt.hint) {
			t.Errorf("%s: Cases = %v (hint %q), want %s %q", tt.name, err, diag.HintOf(err), tt.code, tt.text)
		}
	}
	if _, err := mustCases(t, attentionLike(), Strategy{}, 0).Case(-1); diag.CodeOf(err) != BadStrategy {
		t.Errorf("Case(-1) = %v", err)
	}
	// A relation that the candidates fulfil but the strategy's sizes do not is named.
	s := &opspec.Schema{Name: "x", Dims: []opspec.Dim{{Name: "M", Candidates: []int{60}}, {Name: "N",
		Candidates: []int{60}}},
		Relations: []string{"M + N == 120"}, Inputs: []opspec.Input{{Name: "x", Dims: []string{"M", "N"}}}}
	if _, err := mustCases(t, s, Strategy{Shapes: "boundary"}, 0).Case(0); diag.CodeOf(err) != NoShape ||
		!strings.Contains(err.Error(), `relation "M + N == 120" does not hold`) ||
		!strings.Contains(diag.HintOf(err), `another --shapes, or change "candidates" of a dimension or "relations"`) {
		t.Errorf("Case = %v (hint %q), want the relation named and what to change", err, diag.HintOf(err))
	}
}

func TestInputsErrors(t *testing.T) {
	s := attentionLike()
	base := mustCase(t, mustCases(t, s, Strategy{}, 1), 0)
	for _, tt := range []struct {
		name   string
		change func(c *opspec.Case)
		code   diag.Code
		text   string
	}{
		{"op", func(c *opspec.Case) { c.Op = "other" }, CaseMismatch, `case of operator "other"`},
		{"version", func(c *opspec.Case) { c.Gen = 2 }, CaseVersion, "generator version 2, this is version 1"},
		{"dtype", func(c *opspec.Case) { c.DType = dtype.Int8 }, CaseMismatch, "does not take dtype int8"},
		{"attrs", func(c *opspec.Case) { c.Attrs = nil }, CaseMismatch, "case has 0 attributes"},
		{"attr type", func(c *opspec.Case) { c.Attrs[0].Value = 1.0 }, CaseMismatch,
			`attribute 0 is "window" = 1, want "window" of type int`},
		{"attr left out", func(c *opspec.Case) { c.Attrs = c.Attrs[:4] }, CaseMismatch, "case has 4 attributes"},
		{"quiet attr with its default", func(c *opspec.Case) {
			c.Attrs = append(c.Attrs, opspec.AttrValue{Name: "compute", Value: "plain"})
		}, CaseMismatch, "case has 6 attributes and 8 inputs, the schema 5 and 8"},
		{"attr nil", func(c *opspec.Case) { c.Attrs[0].Value = nil }, CaseMismatch, `attribute 0`},
		{"dims", func(c *opspec.Case) { c.Dims = c.Dims[1:] }, opspec.DimInvalid, `dim "B" has no value`},
		{"relation", func(c *opspec.Case) { c.Dims[5].Value = 9 }, opspec.RelationFailed, `"D % 8 == 0"`},
		{"shape", func(c *opspec.Case) { c.Inputs[0].Shape = tensor.Shape{1} }, CaseMismatch, "input 0 is q:"},
		{"input dtype", func(c *opspec.Case) { c.Inputs[2].DType = dtype.Float32 }, CaseMismatch, "input 2 is mask:float32"},
		{"layout", func(c *opspec.Case) { c.Inputs[6].Layout = tensor.Transposed }, CaseMismatch,
			"layout transposed does not exist"},
		{"values", func(c *opspec.Case) { c.Inputs[0].Values = "odd" }, UnknownDistribution,
			`input "q": unknown value distribution "odd"`},
		{"values of a role", func(c *opspec.Case) { c.Inputs[0].Values = "scale" }, UnknownDistribution, `"scale"`},
		{"mixed", func(c *opspec.Case) { c.Inputs[0].Values = "mixed" }, UnknownDistribution, `"mixed"`},
		{"finite uniform", func(c *opspec.Case) { c.Inputs[0].Values = "uniform/finite" }, UnknownDistribution,
			`"uniform/finite"`},
		{"role", func(c *opspec.Case) { c.Inputs[3].Values = "uniform" }, CaseMismatch, `want "index" for role index`},
	} {
		c := base
		c.Attrs, c.Dims, c.Inputs = slices.Clone(base.Attrs), slices.Clone(base.Dims), slices.Clone(base.Inputs)
		tt.change(&c)
		if _, err := Inputs(s, c); diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: Inputs = %v, want %s %q", tt.name, err, tt.code, tt.text)
		}
	}
	// Domains without a value of the dtype, and indices that do not fit.
	for _, in := range []opspec.Input{
		{Name: "x", Dims: []string{"N"}, Domain: opspec.Domain{Min: 1.0001, Max: 1.0002}, DType: "float16"},
		{Name: "x", Dims: []string{"N"}, Domain: opspec.Domain{Min: -3, Max: -1}, DType: "uint8"},
		{Name: "x", Dims: []string{"N"}, Domain: opspec.Domain{Min: 1e6, Max: 1e7}, DType: "float16"},
		{Name: "x", Dims: []string{"N"}, Domain: opspec.Domain{Max: 1e-30, NonZero: true}, DType: "float16"},
		{Name: "x", Dims: []string{"N"}, Role: opspec.RoleIndex, Domain: opspec.Domain{Below: "300"}, DType: "int8"},
	} {
		s := &opspec.Schema{Name: "x", Dims: []opspec.Dim{{Name: "N", Candidates: []int{4}}}, Inputs: []opspec.Input{in}}
		c := mustCase(t, mustCases(t, s, Strategy{}, 1), 0)
		if _, err := Inputs(s, c); diag.CodeOf(err) != EmptyDomain || !strings.Contains(err.Error(), "input") {
			t.Errorf("Inputs with domain %+v of %s = %v, want %s", in.Domain, in.DType, err, EmptyDomain)
		}
	}
}

// TestQuietAttributeInCases: a case lists a quiet attribute that is not at its default, and only then.
func TestQuietAttributeInCases(t *testing.T) {
	s := attentionLike()
	plain := mustCase(t, mustCases(t, s, Strategy{}, 1), 0)
	wide := mustCase(t, mustCases(t, s, Strategy{Attrs: opspec.Attrs{"compute": "wide"}}, 1), 0)
	if strings.Contains(plain.String(), "compute") || !strings.Contains(wide.String(), "mode:none,compute:wide ") {
		t.Errorf("cases are %q and %q", plain, wide)
	}
	mustInputs(t, s, wide)
	same := mustCase(t, mustCases(t, s, Strategy{Attrs: opspec.Attrs{"compute": "plain"}}, 1), 0)
	if same.String() != plain.String() {
		t.Errorf("case with the default given is %q, want %q", same, plain)
	}
}

// TestFiniteOnly: nothing but numbers, and the case says so.
func TestFiniteOnly(t *testing.T) {
	s := vectorSchema()
	for _, values := range []string{"adversarial", "nan_injected", "masked", "mixed"} {
		stream := mustCases(t, s, Strategy{Values: values, FiniteOnly: true, DTypes: dtype.Floats()}, 1)
		for i := range 60 {
			c := mustCase(t, stream, i)
			name, finite := strings.CutSuffix(c.Inputs[0].Values, "/finite")
			if slices.Contains([]string{"adversarial", "nan_injected", "masked"}, name) != finite {
				t.Errorf("case %s does not say finite", c)
			}
			c.Dims[1].Value, c.Inputs[0].Shape = 500, tensor.Shape{c.Dims[0].Value, 500}
			for _, x := range mustInputs(t, s, c)["x"].Float64s() {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("%s holds %v", c, x)
				}
			}
		}
	}
}

func TestNamedLists(t *testing.T) {
	if got := ShapeStrategies(); got[0].Name != "default" || len(got) != 6 {
		t.Errorf("ShapeStrategies = %v", got)
	}
	if got := ValueDistributions(); got[0].Name != "mixed" || len(got) != 15 {
		t.Errorf("ValueDistributions = %v", got)
	}
	for _, n := range append(ShapeStrategies(), ValueDistributions()...) {
		if n.Doc == "" || strings.HasSuffix(n.Doc, ".") {
			t.Errorf("%s: doc %q, want one sentence without a full stop", n.Name, n.Doc)
		}
	}
	data, weight := 0, 0
	for _, d := range distributions {
		data += d.weight
		weight += d.weightRole
	}
	if data != 100 || weight != 100 {
		t.Errorf("weights sum to %d and %d, want 100", data, weight)
	}
}
