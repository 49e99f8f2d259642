package opspec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

func TestCaseText(t *testing.T) {
	for _, tt := range []struct {
		c    Case
		want string
	}{
		{Case{Op: "softmax", DType: dtype.Float32, Dims: []DimValue{{"B", 4}, {"S", 16}, {"H", 257}},
			Attrs:  []AttrValue{{"axis", int64(-1)}, {"eps", 1e-5}},
			Inputs: []CaseInput{{"input", dtype.Float32, tensor.Shape{4, 16, 257}, tensor.Strided, "offset"}},
			Seed:   8837462910, Gen: 1},
			`softmax dtype=float32 dims=B:4,S:16,H:257 attrs=axis:-1,eps:1e-05 ` +
				`in=input:float32[4,16,257]:strided:offset seed=8837462910 gen=1`},
		{Case{Op: "matmul", DType: dtype.Float16, Dims: []DimValue{{"M", 1}, {"K", 2}, {"N", 0}},
			Inputs: []CaseInput{{"a", dtype.Float16, tensor.Shape{1, 2}, tensor.Contiguous, "adversarial/finite"},
				{"b", dtype.Float16, tensor.Shape{2, 0}, tensor.Contiguous, "uniform"}}, Seed: math.MaxUint64, Gen: 1},
			`matmul dtype=float16 dims=M:1,K:2,N:0 in=a:float16[1,2]:contiguous:adversarial/finite ` +
				`in=b:float16[2,0]:contiguous:uniform seed=18446744073709551615 gen=1`},
		{Case{Op: "no op", DType: dtype.Bool, Dims: []DimValue{{`head "dim"`, 3}},
			Attrs: []AttrValue{{"f", 1.0}, {"g", math.Copysign(0, -1)}, {"h", math.Inf(-1)}, {"i", math.Inf(1)}, {"t", true},
				{"s", "tanh"},
				{"u", "true"}, {"v", "two words"}, {"w", ""}, {"x", "1"}, {"y", "Inf"}, {"z", "é\xff"}, {"big", 1e300}, {"n",
					int64(math.MinInt64)}},
			Inputs: []CaseInput{{"größe", dtype.Int64, tensor.Shape{}, tensor.Contiguous, "index"}}, Gen: 2},
			`"no op" dtype=bool dims="head \"dim\"":3 attrs=f:1.0,g:-0.0,h:-Inf,i:Inf,t:true,` +
				`s:tanh,u:"true",v:"two words",w:"",x:"1",y:"Inf",z:"\u00e9\xff",big:1e+300,n:-9223372036854775808 ` +
				`in="gr\u00f6\u00dfe":int64[]:contiguous:index seed=0 gen=2`},
		{Case{Op: "empty", DType: dtype.Float8E4M3FN}, "empty dtype=float8_e4m3fn seed=0 gen=0"},
	} {
		got := tt.c.String()
		if got != tt.want {
			t.Errorf("String() = %s\nwant      %s", got, tt.want)
		}
		back, err := ParseCase(got)
		if err != nil || !equalCases(back, tt.c) {
			t.Errorf("ParseCase(%s) = %+v, %v", got, back, err)
		}
	}
}

// equalCases compares with nil and empty lists alike.
func equalCases(x, y Case) bool {
	norm := func(c Case) Case {
		if len(c.Dims) == 0 {
			c.Dims = nil
		}
		if len(c.Attrs) == 0 {
			c.Attrs = nil
		}
		if len(c.Inputs) == 0 {
			c.Inputs = nil
		}
		for i := range c.Inputs {
			if len(c.Inputs[i].Shape) == 0 {
				c.Inputs[i].Shape = nil
			}
		}
		return c
	}
	return reflect.DeepEqual(norm(x), norm(y))
}

func TestCaseProperty(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		const letters = "abzAZ_09.-/ \"\\:,=[]\n\x00\xff\xc3\xa9+true"
		b := make([]byte, r.IntN(6))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	for n := range 20000 {
		c := Case{Op: word(), DType: dtype.All()[r.IntN(len(dtype.All()))], Seed: r.Uint64(), Gen: r.IntN(3)}
		for i := range r.IntN(4) {
			c.Dims = append(c.Dims, DimValue{fmt.Sprint(word(), i), r.IntN(1 << 20)})
		}
		for i := range r.IntN(4) {
			v := []any{int64(r.Uint64()), math.Float64frombits(r.Uint64()), r.IntN(2) == 0, word()}[r.IntN(4)]
			if f, ok := v.(float64); ok && math.IsNaN(f) {
				v = 0.5
			}
			c.Attrs = append(c.Attrs, AttrValue{fmt.Sprint(word(), i), v})
		}
		for i := range r.IntN(3) {
			in := CaseInput{fmt.Sprint(word(), i), dtype.Float32, nil, tensor.Layouts()[r.IntN(6)], word()}
			for range r.IntN(tensor.MaxRank + 1) {
				in.Shape = append(in.Shape, r.IntN(12))
			}
			c.Inputs = append(c.Inputs, in)
		}
		text := c.String()
		if strings.Contains(text, "\n") {
			t.Fatalf("case %d: more than one line: %q", n, text)
		}
		back, err := ParseCase(text)
		if err != nil || !equalCases(back, c) {
			t.Fatalf("ParseCase(%s) = %+v, %v, want %+v", text, back, err, c)
		}
	}
}

func TestCaseErrors(t *testing.T) {
	const good = `softmax dtype=float32 dims=B:4 attrs=eps:1e-05 in=input:float32[4]:strided:offset seed=7 gen=1`
	if _, err := ParseCase(good); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ old, new, text string }{
		{"softmax", "", `case:1:1: got " dtype=float32`},
		{"softmax", `"softmax`, "case:1:1: string"},
		{"softmax", `"softmax"`, `case:1:1: not in canonical form, want "softmax`},
		{"dtype=float32 ", "", `case:1:8: got " dims=B:4`},
		{"dtype=float32", "dtype=float31", `case:1:15: unknown dtype "float31"`},
		{"dtype=float32", "dtype=f32", `case:1:16: not in canonical form`},
		{"B:4 ", "B:-4 ", "case:1:30: dimension is not a number in 0.."},
		{"B:4 ", "B:04 ", "not in canonical form"},
		{"B:4 ", "B:99999999999 ", "dimension is not a number in 0.."},
		{"B:4 ", "B:4,B:5 ", `dim "B" stands twice`},
		{"B:4 ", "B:4, ", `got " attrs=eps`},
		{"B:4 ", "B ", `want ":"`},
		{"eps:1e-05", "eps:1e-5", "not in canonical form"},
		{"eps:1e-05", "eps:1e999", "want an attribute value"},
		{"eps:1e-05", "eps:--1", "want an attribute value"},
		{"eps:1e-05", "eps:", "want an attribute value"},
		{"eps:1e-05", "eps:NaN", ""}, // a string: attributes are never NaN
		{"eps:1e-05", "eps:1,eps:2", `attribute "eps" stands twice`},
		{"[4]", "[4,]", "dimension is not a number"},
		{"[4]", "[4", "want \",\""},
		{"[4]", "", `want "["`},
		{"[4]", "[1,1,1,1,1,1,1,1,1]", "case:1:64: shape has 9 dimensions"},
		{"[4]", "[2147483647,2147483647]", "case:1:64: dimension 1 of shape"},
		{":strided", ":striped", `unknown layout "striped"`},
		{":offset", "", `got " seed=7`},
		{"offset ", "offset in=input:int8[]:contiguous:x ", `input "input" stands twice`},
		{"seed=7", "seed=-7", "seed is not an unsigned 64-bit number"},
		{"seed=7", "seed=18446744073709551616", "seed is not an unsigned 64-bit number"},
		{"seed=7 ", "", `want " seed="`},
		{"gen=1", "gen=", "generator version is not a number"},
		{"gen=1", "gen=1 ", `unexpected " " after the case`},
		{"gen=1", "gen=1\n", `after the case`},
	} {
		text := strings.Replace(good, tt.old, tt.new, 1)
		_, err := ParseCase(text)
		if tt.text == "" {
			if err != nil {
				t.Errorf("ParseCase(%s) = %v", text, err)
			}
			continue
		}
		if diag.CodeOf(err) != CaseSyntax || !strings.Contains(err.Error(), tt.text) || diag.HintOf(err) == "" {
			t.Errorf("ParseCase(%s) = %v, want %q", text, err, tt.text)
		}
	}
	if _, err := ParseCase(strings.Repeat("a", MaxCaseBytes+1)); diag.CodeOf(err) != CaseSyntax {
		t.Errorf("ParseCase of %d bytes = %v", MaxCaseBytes+1, err)
	}
	many := "x dtype=bool dims=a0:1"
	for i := range MaxDims {
		many += fmt.Sprintf(",b%d:1", i)
	}
	if _, err := ParseCase(many + " seed=0 gen=1"); err == nil || !strings.Contains(err.Error(), "more than 64 entries") {
		t.Errorf("ParseCase of 65 dims = %v", err)
	}
}

func TestCaseMaps(t *testing.T) {
	c, err := ParseCase(`x dtype=bool dims=a:1,b:2 attrs=k:3,s:q in=i:int8[2]:contiguous:uniform seed=0 gen=1`)
	if err != nil {
		t.Fatal(err)
	}
	if m := c.DimMap(); m["a"] != 1 || m["b"] != 2 || len(m) != 2 {
		t.Errorf("DimMap = %v", m)
	}
	if m := c.AttrMap(); m.Int("k") != 3 || m.Str("s") != "q" {
		t.Errorf("AttrMap = %v", m)
	}
	if in, ok := c.Input("i"); !ok || in.DType != dtype.Int8 {
		t.Errorf("Input(i) = %v, %v", in, ok)
	}
	if _, ok := c.Input("j"); ok {
		t.Error("Input(j) is there")
	}
}

func FuzzParseCase(f *testing.F) {
	f.Add(`softmax dtype=float32 dims=B:4,S:16 attrs=axis:-1,eps:1e-05,b:true,s:tanh ` +
		`in=input:float32[4,16]:strided:offset seed=8 gen=1`)
	f.Add(`"no op" dtype=bool dims="head \"dim\"":3 attrs=v:"two words",h:-Inf ` +
		`in="\u00e9":int64[]:contiguous:index seed=0 gen=2`)
	f.Add(`x dtype=int8 seed=0 gen=0`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCase(text)
		if err != nil {
			if diag.CodeOf(err) != CaseSyntax {
				t.Errorf("ParseCase(%q): error without its code: %v", text, err)
			}
			return
		}
		if got := c.String(); got != text {
			t.Errorf("ParseCase(%q).String() = %q", text, got)
		}
	})
}

// TestQuietAttributesAreLeftOut holds an attribute that was added later to the texts of older cases: with its default
// it is not listed, with another value it is, and what is listed reads back to the same attributes.
func TestQuietAttributesAreLeftOut(t *testing.T) {
	s := &Schema{
		Name: "op", Inputs: []Input{{Name: "x", Dims: []string{"N"}}}, Dims: []Dim{{Name: "N", Candidates: []int{1}}},
		Attrs: []Attr{
			{Name: "k", Kind: Int, Values: []any{1, 2}},
			{Name: "mode", Kind: String, Values: []any{"plain", "wide"}, Fixed: true, Quiet: true},
			{Name: "eps", Kind: Float, Values: []any{0.5}, Quiet: true},
		}}
	for _, tt := range []struct {
		attrs Attrs
		want  string
	}{
		{Attrs{"k": int64(1), "mode": "plain", "eps": 0.5}, "op dtype=float32 attrs=k:1 seed=3 gen=1"},
		{Attrs{"k": int64(2), "mode": "wide", "eps": 0.5}, "op dtype=float32 attrs=k:2,mode:wide seed=3 gen=1"},
		{Attrs{"k": int64(1), "mode": "plain", "eps": 0.25}, "op dtype=float32 attrs=k:1,eps:0.25 seed=3 gen=1"},
	} {
		c := Case{Op: "op", DType: dtype.Float32, Attrs: s.CaseAttrs(tt.attrs), Seed: 3, Gen: GenVersion}
		if got := c.String(); got != tt.want {
			t.Errorf("case of %v = %q, want %q", tt.attrs, got, tt.want)
		}
		back, err := ParseCase(tt.want)
		if err != nil {
			t.Fatal(err)
		}
		all := s.DefaultAttrs()
		for name, v := range back.AttrMap() {
			all[name] = v
		}
		if !reflect.DeepEqual(all, tt.attrs) {
			t.Errorf("attributes of %q = %v, want %v", tt.want, all, tt.attrs)
		}
	}
	data, err := s.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseSchema(data)
	if err != nil {
		t.Fatal(err)
	}
	if !back.Attrs[1].Quiet || back.Attrs[0].Quiet {
		t.Errorf("quiet is lost in JSON: %s", data)
	}
}
