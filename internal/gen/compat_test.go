package gen

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
)

type compatVectors struct {
	Format      string         `json:"format"`
	Seed        testkit.U64    `json:"data_seed"`
	DerivedSeed testkit.U64    `json:"data_derived_seed"`
	Data        []compatData   `json:"data"`
	Cases       []compatCase   `json:"cases"`
	Schemas     []compatSchema `json:"schemas"`
}

type compatData struct {
	DType  string `json:"dtype"`
	Prefix string `json:"prefix"`
}

type compatCase struct {
	Master   testkit.U64   `json:"master"`
	Iter     int           `json:"iter"`
	CaseSeed testkit.U64   `json:"case_seed"`
	DType    string        `json:"dtype"`
	Layout   string        `json:"layout"`
	Inputs   []compatInput `json:"inputs"`
}

type compatInput struct {
	Name    string `json:"name"`
	Shape   []int  `json:"shape"`
	Strides []int  `json:"strides"` // absent: not checked
	Prefix  string `json:"prefix"`  // of the bytes
	SHA256  string `json:"sha256"`  // whole, or both ends with ".." between them
}

type compatSchema struct {
	Schema  json.RawMessage `json:"schema"`
	DTypes  []string        `json:"dtypes"`
	Layouts []string        `json:"layouts"`
	Cases   []compatCase    `json:"cases"`
}

func TestCompatData(t *testing.T) {
	v := testkit.Read[compatVectors](t, "gen/compat-v1.json")
	testkit.EachOf(t, "data", v.Data, func(t *testing.T, d compatData) {
		r := rng.New(uint64(v.Seed)).Derive("data").Derive("input_0")
		if r.Seed() != uint64(v.DerivedSeed) {
			t.Fatalf("derived seed = %d, want %d", r.Seed(), v.DerivedSeed)
		}
		dt, err := dtype.Parse(d.DType)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(FuzzData(r, dt, 8)); !strings.HasPrefix(got, d.Prefix) {
			t.Errorf("FuzzData(%s) = %s, want %s", d.DType, got, d.Prefix)
		}
	})
}

func TestCompatCases(t *testing.T) {
	v := testkit.Read[compatVectors](t, "gen/compat-v1.json")
	testkit.EachOf(t, "cases", v.Cases, func(t *testing.T, c compatCase) { checkCompat(t, DefaultFuzzConfig(), c) })
	testkit.EachOf(t, "schemas", v.Schemas, func(t *testing.T, s compatSchema) {
		schema, err := opspec.ParseSchema(s.Schema)
		if err != nil {
			t.Fatal(err)
		}
		config := FuzzConfig{Schema: schema}
		for _, n := range s.DTypes {
			d, err := dtype.Parse(n)
			if err != nil {
				t.Fatal(err)
			}
			config.DTypes = append(config.DTypes, d)
		}
		for _, n := range s.Layouts {
			l, err := tensor.ParseLayout(n)
			if err != nil {
				t.Fatal(err)
			}
			config.Layouts = append(config.Layouts, l)
		}
		for i := range schema.Inputs {
			config.Inputs = append(config.Inputs, schema.Inputs[i].Name)
		}
		testkit.EachOf(t, "cases", s.Cases, func(t *testing.T, c compatCase) { checkCompat(t, config, c) })
	})
}

func checkCompat(t *testing.T, config FuzzConfig, want compatCase) {
	t.Helper()
	got, err := config.Case(uint64(want.Master), want.Iter)
	if err != nil {
		t.Fatal(err)
	}
	if got.Seed != uint64(want.CaseSeed) || got.DType.String() != want.DType || got.Layout.String() != want.Layout {
		t.Errorf("case = seed %d %s %s, want %d %s %s", got.Seed, got.DType, got.Layout, want.CaseSeed, want.DType,
			want.Layout)
	}
	if len(got.Inputs) != len(want.Inputs) {
		t.Fatalf("%d inputs, want %d", len(got.Inputs), len(want.Inputs))
	}
	for i, w := range want.Inputs {
		g := got.Inputs[i]
		if g.Name != w.Name || !slices.Equal(g.Shape, w.Shape) || w.Strides != nil && !slices.Equal(g.Strides, w.Strides) {
			t.Errorf("input %s %v / %v, want %s %v / %v", g.Name, g.Shape, g.Strides, w.Name, w.Shape, w.Strides)
		}
		if text := hex.EncodeToString(g.Data[:min(len(g.Data), 16)]); !strings.HasPrefix(text, w.Prefix) {
			t.Errorf("input %s begins with %s, want %s", g.Name, text, w.Prefix)
		}
		sum := sha256.Sum256(g.Data)
		head, tail, _ := strings.Cut(w.SHA256, "..")
		if text := hex.EncodeToString(sum[:]); !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
			t.Errorf("input %s has sha256 %s, want %s", g.Name, text, w.SHA256)
		}
		if ten, err := g.Tensor(got.DType); err != nil || !ten.IsContiguous() {
			t.Errorf("Tensor() = %v, %v, want a contiguous tensor", ten, err)
		}
	}
	again, err := config.CaseOfSeed(got.Seed)
	if err != nil || !bytes.Equal(again.Inputs[0].Data, got.Inputs[0].Data) {
		t.Errorf("CaseOfSeed(%d) differs from Case: %v", got.Seed, err)
	}
}

// TestCompatOddities: inputs beside the schema, dimensions without candidates, a schema without inputs.
func TestCompatOddities(t *testing.T) {
	c := FuzzConfig{DTypes: []dtype.DType{dtype.Int16}, Layouts: []tensor.Layout{tensor.Transposed},
		Inputs: []string{"x", "other"},
		Schema: &opspec.Schema{Name: "s", Dims: []opspec.Dim{{Name: "N", Candidates: []int{5}}, {Name: "Q"}},
			Inputs:  []opspec.Input{{Name: "x", Dims: []string{"N", "Q", "unknown"}}},
			Outputs: []opspec.Output{{Name: "o", Dims: []string{"Q", "N"}}}}}
	got, err := c.Case(3, 0)
	if err != nil {
		t.Fatal(err)
	}
	if x, other := got.Inputs[0], got.Inputs[1]; !x.Shape.Equal(tensor.Shape{5, 1, 1}) ||
		!other.Shape.Equal(tensor.Shape{1, 5}) ||
		!slices.Equal(other.Strides, []int{1, 1}) || len(x.Data) != 10 {
		t.Errorf("inputs = %+v", got.Inputs)
	}
	for i := 0; i < len(got.Inputs[0].Data); i += 2 {
		if v := int16(dtype.Int16.Load(got.Inputs[0].Data[i:])); v < -100 || v >= 100 {
			t.Errorf("int16 value %d outside [-100,100)", v)
		}
	}
	c.Schema = &opspec.Schema{Name: "s"}
	if got, err = c.Case(3, 0); err != nil || !got.Shape.Equal(tensor.Shape{1}) {
		t.Errorf("schema without tensors: shape %v, %v, want [1]", got.Shape, err)
	}
}

// TestCompatEdgeCases: one shape in ten is an edge case.
func TestCompatEdgeCases(t *testing.T) {
	c := DefaultFuzzConfig()
	c.Shapes.BatchSizes, c.Shapes.SeqLengths, c.Shapes.HiddenDims = []int{2}, []int{2}, []int{2}
	edges := 0
	for i := range 2000 {
		got, err := c.Case(5, i)
		if err != nil {
			t.Fatal(err)
		}
		if got.Shape.Elems() == 1 {
			edges++
		}
	}
	within(t, "edge cases", float64(edges), 160, 240)
}

func TestCompatErrors(t *testing.T) {
	good := DefaultFuzzConfig()
	for name, change := range map[string]func(c *FuzzConfig){
		"no dtypes":  func(c *FuzzConfig) { c.DTypes = nil },
		"no layouts": func(c *FuzzConfig) { c.Layouts = nil },
		"no batch":   func(c *FuzzConfig) { c.Shapes.BatchSizes = nil },
		"fp8":        func(c *FuzzConfig) { c.DTypes = []dtype.DType{dtype.Float8E5M2} },
		"invalid":    func(c *FuzzConfig) { c.DTypes = []dtype.DType{dtype.Invalid} },
		"broadcast":  func(c *FuzzConfig) { c.Layouts = []tensor.Layout{tensor.Broadcast} },
		"inputs":     func(c *FuzzConfig) { c.Inputs = make([]string, 65) },
		"negative":   func(c *FuzzConfig) { c.Shapes.BatchSizes = []int{-1}; c.Shapes.EdgeCases = nil },
		"huge": func(c *FuzzConfig) {
			c.Shapes = ShapeOptions{BatchSizes: []int{1 << 20}, SeqLengths: []int{1 << 20}, HiddenDims: []int{1 << 40}}
		},
		"many bytes": func(c *FuzzConfig) {
			c.Shapes = ShapeOptions{BatchSizes: []int{1 << 15}, SeqLengths: []int{1 << 16}, HiddenDims: []int{1}}
			c.DTypes = []dtype.DType{dtype.Float64}
			c.Shapes.BatchSizes[0]++
		},
	} {
		c := good
		change(&c)
		if _, err := c.Case(1, 0); diag.CodeOf(err) == "" {
			t.Errorf("%s: Case = %v, want an error with a code", name, err)
		}
	}
}

func TestTruncateToHalf(t *testing.T) {
	for _, tt := range []struct {
		x    float32
		want uint16
	}{
		{0, 0}, {1, 0x3c00}, {-1, 0xbc00}, {0x1.ffep0, 0x3fff}, {0x1.ffffp0, 0x3fff}, {65504, 0x7bff}, {65535, 0x7bff},
		{65536, 0x7c00}, {-1e9, 0xfc00}, {0x1p-14, 0x0400}, {0x1.fp-15, 0}, {-0x1p-20, 0x8000},
	} {
		if got := truncateToHalf(tt.x); got != tt.want {
			t.Errorf("truncateToHalf(%v) = %#04x, want %#04x", tt.x, got, tt.want)
		}
	}
}
