package opspec

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

const publishedMatmul = `{
  "name": "matmul",
  "dims": [
    {"name": "M", "candidates": [1, 2, 7, 31, 128, 257]},
    {"name": "K", "candidates": [1, 3, 16, 127, 256]},
    {"name": "N", "candidates": [1, 2, 15, 64, 255]}
  ],
  "inputs": [{"name": "a", "dims": ["M", "K"]}, {"name": "b", "dims": ["K", "N"]}],
  "output": {"name": "out", "dims": ["M", "N"]}
}`

// everything uses every field of a schema.
func everything() *Schema {
	return &Schema{
		Name: "conv2d_topk", Doc: "a made-up operator",
		Dims: []Dim{
			{Name: "B", Candidates: []int{1, 2, 3}, Empty: true, Batch: true},
			{Name: "H", Candidates: []int{3, 8, 33}, Min: 1, Max: 64, Tile: 16, Reduced: true},
			{Name: "KH", Candidates: []int{1, 3}},
			{Name: "OH", Expr: "(H+2*pad-KH)/stride+1"},
			{Name: "V", Min: 2, Max: 100},
			{Name: "head-dim", Candidates: []int{8, 16}},
		},
		Relations: []string{"KH <= H+2*pad", "V % 2 == 0", "k <= V"},
		Usual:     []string{"H >= 2*KH"},
		Inputs: []Input{
			{Name: "x", Dims: []string{"B", "H", "head-dim"}, Rare: []string{"offset", "masked"}, Factor: true,
				Often: []string{"near_eps"}},
			{Name: "w", Dims: []string{"KH", "2*V"}, Role: RoleWeight, Domain: Domain{Min: 0, Max: math.Inf(1), Finite: true}},
			{Name: "index", Dims: []string{"B", "3"}, Role: RoleIndex, DType: "int64", Domain: Domain{Below: "V",
				Distinct: true, Counts: true}},
			{Name: "scale", Role: RoleScale, DType: "float32", Domain: Domain{Min: -1, Max: 2, NonZero: true}},
		},
		Outputs: []Output{
			{Name: "y", Dims: []string{"B", "OH"}, DType: AccDType, Saturate: true},
			{Name: "top", Dims: []string{"B", "k"}, DType: "int64", AlsoDTypes: []string{"int32"}, Ties: "first"},
			{Name: "loss", Dims: []string{"B"}, DType: "attr:out_dtype", Variants: []Variant{
				{Attr: "approximate", Value: "tanh", Dims: []string{"B", "2*V"}}}},
		},
		Attrs: []Attr{
			{Name: "pad", Kind: Int, Default: int64(0), Values: []any{int64(0), int64(1)}},
			{Name: "stride", Kind: Int, Values: []any{int64(1), int64(2)}},
			{Name: "k", Kind: Int, Default: int64(2), Doc: "how many"},
			{Name: "eps", Kind: Float, Default: 1e-5, Values: []any{1e-5, 1.0, math.Inf(1)}},
			{Name: "causal", Kind: Bool, Default: false},
			{Name: "approximate", Kind: String, Default: "none", Values: []any{"none", "tanh"}, Fixed: true},
			{Name: "out_dtype", Kind: String, Default: "float32", Values: []any{"float32", "int8"}},
		},
		DTypes: []dtype.DType{dtype.Float32, dtype.BFloat16},
		NaN:    "ignore",
		Ranks:  Ranks{Lead: []string{"B"}, Axis: "H", Channels: true, Broadcast: true},
	}
}

func TestPublishedForm(t *testing.T) {
	s, err := ParseSchema([]byte(publishedMatmul))
	if err != nil {
		t.Fatal(err)
	}
	want := &Schema{Name: "matmul",
		Dims: []Dim{{Name: "M", Candidates: []int{1, 2, 7, 31, 128, 257}}, {Name: "K", Candidates: []int{1, 3, 16, 127, 256}},
			{Name: "N", Candidates: []int{1, 2, 15, 64, 255}}},
		Inputs:  []Input{{Name: "a", Dims: []string{"M", "K"}}, {Name: "b", Dims: []string{"K", "N"}}},
		Outputs: []Output{{Name: "out", Dims: []string{"M", "N"}}}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("ParseSchema = %+v, want %+v", s, want)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var compact, original any
	if json.Unmarshal(text, &compact) != nil || json.Unmarshal([]byte(publishedMatmul), &original) != nil ||
		!reflect.DeepEqual(compact, original) {
		t.Errorf("the published form is written as %s", text)
	}
	// No output, no candidates, empty lists: all of these load there, too.
	for _, src := range []string{
		`{"name":"x","dims":[{"name":"N","candidates":[]}],"inputs":[{"name":"input","dims":["N"]}]}`,
		`{"name":"x","dims":[{"name":"N"}],"inputs":[{"name":"input","dims":["N"]}],"output":null}`,
		`{"name":"x","dims":[],"inputs":[]}`,
		`{"name":"x","dims":[{"name":"N","candidates":[0,4]}],"inputs":[{"name":"input","dims":["N"]}]}`,
	} {
		if _, err := ParseSchema([]byte(src)); err != nil {
			t.Errorf("ParseSchema(%s) = %v", src, err)
		}
	}
}

func TestSchemaRoundTrip(t *testing.T) {
	s := everything()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseSchema(text)
	if err != nil {
		t.Fatalf("ParseSchema(%s) = %v", text, err)
	}
	got.Inputs[3].Dims = nil // [] and nothing are the same scalar
	if !reflect.DeepEqual(got, s) {
		t.Errorf("ParseSchema(Marshal(s)) = %+v, want %+v", got, s)
	}
	if got, want := s.AllowedDTypes(), s.DTypes; !reflect.DeepEqual(got, want) {
		t.Errorf("AllowedDTypes = %v, want %v", got, want)
	}
	if got := (&Schema{}).AllowedDTypes(); !reflect.DeepEqual(got, dtype.Floats()) {
		t.Errorf("AllowedDTypes = %v, want all floats", got)
	}
}

// one returns a schema of one dimension, one input and extra fields.
func one(dims, inputs, extra string) string {
	return fmt.Sprintf(`{"name":"x","dims":[%s],"inputs":[%s]%s}`, dims, inputs, extra)
}

func TestSchemaErrors(t *testing.T) {
	const n = `{"name":"N","candidates":[4,8]}`
	const in = `{"name":"input","dims":["N"]}`
	for _, tt := range []struct {
		name, src string
		code      diag.Code
		text      string // part of the error
		hint      string // part of the hint
	}{
		{"empty", ``, SchemaSyntax, "schema:1:1: the text ends in the middle of a value", ""},
		{"no json", `{"name"`, SchemaSyntax, "schema:1:8:", ""},
		{"bad token", "{\n  name: 1}", SchemaSyntax, "schema:2:3:", ""},
		{"not an object", `[1]`, SchemaSyntax, "the schema is a list, want an object", ""},
		{"two documents", `{"name":"x"} {}`, SchemaSyntax, "schema:1:14: unexpected text after the schema", ""},
		{"unclosed", one(n, in, `,"relations":["N>1"`)[:60], SchemaSyntax, "schema:1:", ""},
		{"key twice", `{"name":"x","name":"y"}`, SchemaSyntax, `schema:1:13: key "name" stands twice`, "remove one"},
		{"unknown key", "{\"name\":\"x\",\n \"dimz\":[]}", SchemaUnknownKey, `schema:2:2: unknown key "dimz" in the schema`,
			"did you mean dims?"},
		{"unknown nested key", one(`{"name":"N","candidate":[1]}`, in, ""), SchemaUnknownKey,
			`unknown key "candidate" in dims[0]`, "did you mean candidates?"},
		{"unknown domain key", one(n, `{"name":"a","dims":["N"],"domain":{"nonzero":true}}`, ""), SchemaUnknownKey,
			`unknown key "nonzero" in inputs[0].domain`, "did you mean non_zero?"},
		{"unknown key, none near", one(n, in, `,"qqqqqqqqqqqq":1`), SchemaUnknownKey, `"qqqqqqqqqqqq"`,
			"known: name, doc, dims"},
		{"name missing", `{"dims":[],"inputs":[]}`, SchemaInvalid, "name is empty", `add "name"`},
		{"name too long", `{"name":"` + strings.Repeat("x", 200) + `"}`, SchemaLimit, "name: size 200, limit 128", ""},
		{"wrong type", one(`{"name":"N","candidates":["4"]}`, in, ""), SchemaSyntax,
			"schema:1:47: dims[0].candidates[0] is a string, want a number", ""},
		{"fraction", one(`{"name":"N","candidates":[4.5]}`, in, ""), SchemaSyntax, "candidates[0] = 4.5, want an integer",
			""},
		{"huge number", one(`{"name":"N","candidates":[1e99]}`, in, ""), SchemaSyntax, "want an integer of 64 bits", ""},
		{"negative candidate", one(`{"name":"N","candidates":[4,-1]}`, in, ""), SchemaInvalid,
			`dim "N": candidates[1] = -1, want 0..`, ""},
		{"enormous candidate", one(`{"name":"N","candidates":[99999999999]}`, in, ""), SchemaInvalid, "candidates[0]", ""},
		{"range", one(`{"name":"N","min":5,"max":4}`, in, ""), SchemaInvalid, `dim "N": range 5..4`, ""},
		{"outside range", one(`{"name":"N","min":5,"candidates":[4]}`, in, ""), SchemaInvalid,
			"candidates[0] = 4 is outside", ""},
		{"negative tile", one(`{"name":"N","tile":-1}`, in, ""), SchemaInvalid, `dim "N": tile = -1`, ""},
		{"expr and candidates", one(n+`,{"name":"P","expr":"N+1","candidates":[1]}`, in, ""), SchemaInvalid,
			`dim "P": expr excludes`, ""},
		{"expr cycle", one(`{"name":"A","expr":"B+1"},{"name":"B","expr":"A+1"}`, "", ""), SchemaInvalid,
			`dim "A": expr "B+1" depends on itself`, ""},
		{"expr of itself", one(`{"name":"A","expr":"A+1"}`, "", ""), SchemaInvalid, `depends on itself`, ""},
		{"empty dim name", one(`{"name":"","candidates":[1]}`, "", ""), SchemaInvalid, "dims[0] has an empty name", ""},
		{"no dim name", one(`{"candidates":[1]}`, "", ""), SchemaInvalid, "dims[0] has an empty name", ""},
		{"dim twice", one(n+","+n, in, ""), SchemaInvalid, `dims[1]: name "N" is already that of dims[0]`, ""},
		{"attr like dim", one(n, in, `,"attrs":[{"name":"N","default":1}]`), SchemaInvalid, `attrs[0]: name "N"`, ""},
		{"input twice", one(n, in+","+in, ""), SchemaInvalid, `inputs[1]: name "input" is already that of inputs[0]`, ""},
		{"output twice", one(n, in, `,"outputs":[{"name":"o","dims":[]},{"name":"o","dims":[]}]`), SchemaInvalid,
			"outputs[1]", ""},
		{"output and outputs", one(n, in, `,"output":{"name":"o","dims":[]},"outputs":[{"name":"p","dims":[]}]`),
			SchemaInvalid,
			"both output and outputs are given", "keep outputs"},
		{"unknown dim", one(n, `{"name":"input","dims":["M"]}`, ""), ExprUnknownName,
			`input "input": dims[0]: no dimension or integer attribute "M"`, "known: N"},
		{"unknown dim in output", one(n, in, `,"output":{"name":"o","dims":["N","Q*2"]}`), ExprUnknownName,
			`output "o": dims[1]: no dimension or integer attribute "Q"`, ""},
		{"bad expression", one(n, `{"name":"input","dims":["N+"]}`, ""), ExprSyntax,
			`input "input": dims[0]: expression "N+"`, ""},
		{"rank", one(n, `{"name":"input","dims":["N","N","N","N","N","N","N","N","N"]}`, ""), SchemaLimit,
			"inputs[0].dims: size 9, limit 8", ""},
		{"relation syntax", one(n, in, `,"relations":["N = 4"]`), ExprSyntax, `relations[0]: expression "N = 4", column 3`,
			""},
		{"relation unknown", one(n, in, `,"relations":["N > 1","N < X"]`), ExprUnknownName, "relations[1]", ""},
		{"relation on float attr", one(n, in, `,"relations":["N > e"],"attrs":[{"name":"e","default":1.5}]`), ExprUnknownName,
			`attribute "e" has type float, want int or bool`, ""},
		{"unsatisfiable", one(n, in, `,"relations":["N > 1", "N % 3 == 0"]`), SchemaUnsatisfiable,
			`relation "N % 3 == 0" holds for no choice of candidates (relation "N % 3 == 0" does not hold: N = 4)`,
			"add candidates"},
		{"unsatisfiable constants", one(n, in, `,"relations":["1 == 2"]`), SchemaUnsatisfiable, `relation "1 == 2"`, ""},
		{"unsatisfiable together", one(n, in, `,"relations":["N > 4", "N < 8"]`), SchemaUnsatisfiable,
			"no choice of candidates fulfils all relations", ""},
		{"unsatisfiable with attr", one(n, in, `,"relations":["k > N"],"attrs":[{"name":"k","values":[1,2]}]`),
			SchemaUnsatisfiable,
			`relation "k > N"`, ""},
		{"unsatisfiable derived", one(n+`,{"name":"P","expr":"N-9"}`, in, ""), SchemaUnsatisfiable, `dim "P" = N-9 = -5`, ""},
		{"unsatisfiable range", one(`{"name":"N","min":1,"max":5}`, in, `,"relations":["N == 7"]`), SchemaUnsatisfiable,
			`"N == 7"`, ""},
		{"division by zero", one(n, in, `,"relations":["N / (N-N) == 1"]`), SchemaUnsatisfiable, "division by zero", ""},
		{"role", one(n, `{"name":"a","dims":["N"],"role":"wieght"}`, ""), SchemaInvalid,
			`inputs[0].role: unknown role "wieght"`, "did you mean weight?"},
		{"input dtype", one(n, `{"name":"a","dims":["N"],"dtype":"float31"}`, ""), SchemaInvalid, `input "a": dtype:`, ""},
		{"domain", one(n, `{"name":"a","dims":["N"],"domain":{"min":2,"max":1}}`, ""), SchemaInvalid,
			`input "a": domain: range 2..1`, ""},
		{"below without index", one(n, `{"name":"a","dims":["N"],"domain":{"below":"N"}}`, ""), SchemaInvalid, "role index",
			""},
		{"index without below", one(n, `{"name":"a","dims":["N"],"role":"index"}`, ""), SchemaInvalid,
			"without domain.below", ""},
		{"below unknown", one(n, `{"name":"a","dims":["N"],"role":"index","domain":{"below":"Z"}}`, ""), ExprUnknownName,
			`input "a": domain.below: no dimension`, ""},
		{"output dtype", one(n, in, `,"output":{"name":"o","dims":[],"dtype":"q"}`), SchemaInvalid, `output "o": dtype:`, ""},
		{"ties", one(n, in, `,"output":{"name":"o","dims":[],"ties":"last"}`), SchemaInvalid,
			`output "o": ties: got "last"`, ""},
		{"other type of a float", one(n, in, `,"output":{"name":"o","dims":[],"also_dtypes":["int32"]}`), SchemaInvalid,
			`output "o": also_dtypes: "" is not an integer dtype`, `"dtype": "int64", "also_dtypes": ["int32"]`},
		{"other type is a float", one(n, in, `,"output":{"name":"o","dims":[],"dtype":"int64","also_dtypes":["float32"]}`),
			SchemaInvalid, `also_dtypes: "float32" is not an integer dtype`, ""},
		{"other type twice", one(n, in, `,"output":{"name":"o","dims":[],"dtype":"int8","also_dtypes":["int16","int16"]}`),
			SchemaInvalid, `also_dtypes: "int16" stands twice`, "remove one"},
		{"other type is its own", one(n, in, `,"output":{"name":"o","dims":[],"dtype":"int8","also_dtypes":["int8"]}`),
			SchemaInvalid, `also_dtypes: "int8" stands twice`, "remove one"},
		{"batch in an expression", one(`{"name":"N","candidates":[2],"batch":true}`, `{"name":"a","dims":["2*N"]}`, ""),
			SchemaInvalid, `dim "N": a batch dimension stands alone, once in a shape`, "remove batch"},
		{"batch twice", one(`{"name":"N","candidates":[2],"batch":true}`, `{"name":"a","dims":["N","N"]}`, ""),
			SchemaInvalid, "once in a shape", ""},
		{"batch follows", one(`{"name":"M","candidates":[2]},{"name":"N","expr":"2*M","batch":true}`, in, ""),
			SchemaInvalid, "does not follow from others", ""},
		{"batch is followed", one(`{"name":"N","candidates":[2],"batch":true},{"name":"M","expr":"2*N"}`, in, ""),
			SchemaInvalid, "and M follows from it", ""},
		{"type by no attribute", one(n, in, `,"output":{"name":"o","dims":[],"dtype":"attr:t"}`), SchemaInvalid,
			`output "o": dtype: no string attribute "t"`, ""},
		{"type by a number", one(n, in, `,"output":{"name":"o","dims":[],"dtype":"attr:t"},`+
			`"attrs":[{"name":"t","default":1}]`), SchemaInvalid, `dtype: no string attribute "t"`, ""},
		{"type by other words", one(n, `{"name":"a","dims":["N"],"dtype":"attr:t"}`,
			`,"attrs":[{"name":"t","values":["int8","fast"]}]`), SchemaInvalid, `input "a": attribute "t":`, ""},
		{"type by any word", one(n, in, `,"output":{"name":"o","dims":[],"dtype":"attr:t"},`+
			`"attrs":[{"name":"t","default":"int8"}]`), SchemaInvalid, `attribute "t" has no values`, `add "values"`},
		{"variant of no attribute", one(n, in, `,"output":{"name":"o","dims":["N"],"variants":`+
			`[{"attr":"reducton","value":"mean","dims":[]}]},"attrs":[{"name":"reduction","values":["none","mean"]}]`),
			SchemaInvalid, `output "o": variants[0]: no string attribute "reducton"`, "did you mean reduction?"},
		{"variant of no value", one(n, in, `,"output":{"name":"o","dims":["N"],"variants":`+
			`[{"attr":"reduction","value":"max","dims":[]}]},"attrs":[{"name":"reduction","values":["none","mean"]}]`),
			SchemaInvalid, `variants[0]: attribute "reduction" has no value "max"`, ""},
		{"variant of no dim", one(n, in, `,"output":{"name":"o","dims":["N"],"variants":`+
			`[{"attr":"reduction","value":"mean","dims":["Z"]}]},"attrs":[{"name":"reduction","values":["none","mean"]}]`),
			ExprUnknownName, `output "o": variants[0]: dims[0]: no dimension`, ""},
		{"dtypes", one(n, in, `,"dtypes":["float32","int7"]`), SchemaInvalid, "dtypes[1]:", ""},
		{"nan", one(n, in, `,"nan":"drop"`), SchemaInvalid, `nan: got "drop"`, ""},
		{"attr kind", one(n, in, `,"attrs":[{"name":"a","kind":"flaot"}]`), SchemaInvalid,
			`attrs[0].kind: unknown kind "flaot"`, "did you mean float?"},
		{"attr without type", one(n, in, `,"attrs":[{"name":"a"}]`), SchemaInvalid, `attr "a": the type is not known`, ""},
		{"attr default", one(n, in, `,"attrs":[{"name":"a","kind":"int","default":"x"}]`), SchemaInvalid,
			`attr "a": default: got x (string)`, ""},
		{"attr value", one(n, in, `,"attrs":[{"name":"a","default":1,"values":[1,true]}]`), SchemaInvalid,
			`attr "a": values[1]`, ""},
		{"attr list", one(n, in, `,"attrs":[{"name":"a","default":[1]}]`), SchemaSyntax, "attrs[0].default is a list", ""},
		{"attr huge", one(n, in, `,"attrs":[{"name":"a","default":1e999}]`), SchemaSyntax, "does not fit a float64", ""},
		{"attr long int", one(n, in, `,"attrs":[{"name":"a","default":99999999999999999999}]`), SchemaSyntax,
			"does not fit 64 bits", ""},
		{"deep", strings.Repeat(`[`, 5000), SchemaLimit, "nested deeper than 16", ""},
		{"many dims", one(strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, 65), ","), "", ""), SchemaLimit,
			"dims: size 65, limit 64", ""},
		{"many candidates", one(`{"name":"N","candidates":[`+strings.TrimSuffix(strings.Repeat("1,", 1025), ",")+`]}`, in,
			""),
			SchemaLimit, "dims[0].candidates: size 1025, limit 1024", ""},
		{"many bytes", strings.Repeat(" ", MaxSchemaBytes+1), SchemaLimit, "schema of 1048577 bytes, limit 1048576", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseSchema([]byte(tt.src))
			if err == nil {
				t.Fatalf("ParseSchema(%.200s) = nil, want %s", tt.src, tt.code)
			}
			if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) || !strings.Contains(diag.HintOf(err),
				tt.hint) {
				t.Errorf("ParseSchema(%.200s) = %v (hint %q), want %s with %q (hint %q)",
					tt.src, err, diag.HintOf(err), tt.code, tt.text, tt.hint)
			}
		})
	}
}

// TestUndecidedIsAccepted: what a sample of a long range does not fulfil may still hold.
func TestUndecidedIsAccepted(t *testing.T) {
	src := one(`{"name":"N","min":1,"max":1000}`, `{"name":"a","dims":["N"]}`, `,"relations":["N == 777"]`)
	if _, err := ParseSchema([]byte(src)); err != nil {
		t.Errorf("ParseSchema(%s) = %v", src, err)
	}
}

// TestHostileSchemaIsCheap: the search for a solution is bounded.
func TestHostileSchemaIsCheap(t *testing.T) {
	s := &Schema{Name: "hostile"}
	for i := range MaxDims {
		d := Dim{Name: fmt.Sprintf("D%d", i)}
		for c := range 16 {
			d.Candidates = append(d.Candidates, 2*c+2)
		}
		s.Dims = append(s.Dims, d)
	}
	sum := "D0"
	for i := 1; i < MaxDims; i++ {
		sum += fmt.Sprintf("+D%d", i)
	}
	for range MaxRelations {
		s.Relations = append(s.Relations, sum+" == 3*2 + 1") // odd: never
	}
	if err := s.Validate(); err != nil { // not decided within the budget, so not refused
		t.Errorf("Validate = %v, want nil", err)
	}
}

func TestResolveAndBind(t *testing.T) {
	s := everything()
	attrs := s.DefaultAttrs()
	attrs["pad"], attrs["stride"] = int64(1), int64(2)
	dims := map[string]int{"B": 2, "H": 8, "KH": 3, "V": 4, "head-dim": 16}
	in, out, err := s.Resolve(dims, attrs)
	if err != nil {
		t.Fatal(err)
	}
	wantIn := map[string]tensor.Shape{"x": {2, 8, 16}, "w": {3, 8}, "index": {2, 3}, "scale": {}}
	wantOut := map[string]tensor.Shape{"y": {2, 4}, "top": {2, 2}}
	for n, w := range wantIn {
		if !in[n].Equal(w) {
			t.Errorf("input %s has shape %v, want %v", n, in[n], w)
		}
	}
	for n, w := range wantOut {
		if !out[n].Equal(w) {
			t.Errorf("output %s has shape %v, want %v", n, out[n], w)
		}
	}
	bound, err := s.Bind(in, attrs)
	if err != nil {
		t.Fatal(err)
	}
	if want := (map[string]int{"B": 2, "H": 8, "KH": 3, "V": 4, "head-dim": 16, "OH": 4}); !reflect.DeepEqual(bound,
		want) {
		t.Errorf("Bind = %v, want %v", bound, want)
	}
	if _, _, err := s.Resolve(bound, attrs); err != nil {
		t.Errorf("Resolve(Bind) = %v", err)
	}
	p, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for v, want := range map[int]bool{4: true, 5: false} {
		if got := p.Admits("V", v); got != want {
			t.Errorf("Admits(V, %d) = %v, want %v", v, got, want)
		}
	}
	if !p.Admits("KH", 999) {
		t.Error("Admits(KH, 999) = false, but the relation on KH is also about H")
	}
	if limit, ok, err := p.Below(2, bound, attrs); limit != 4 || !ok || err != nil {
		t.Errorf("Below(index) = %d, %v, %v, want 4", limit, ok, err)
	}
	if _, ok, err := p.Below(0, bound, attrs); ok || err != nil {
		t.Errorf("Below(x) = %v, %v, want none", ok, err)
	}
}

func TestResolveErrors(t *testing.T) {
	s := everything()
	s.Dims = append(s.Dims, Dim{Name: "OB", Expr: "3*B"}) // 0 where B is
	base := map[string]int{"B": 2, "H": 8, "KH": 3, "V": 4, "head-dim": 16}
	for _, tt := range []struct {
		name string
		set  map[string]int
		code diag.Code
		text string
	}{
		{"missing", map[string]int{"B": -99}, DimInvalid, `dim "B" has no value`},
		{"unknown", map[string]int{"Q": 1}, DimInvalid, `has no dim "Q"`},
		{"negative", map[string]int{"H": -1}, DimInvalid, `dim "H" = -1, want 1..`},
		{"zero", map[string]int{"H": 0}, DimInvalid, `dim "H" = 0, want 1..`},
		{"zero allowed", map[string]int{"B": 0}, "", ""},
		{"huge", map[string]int{"H": MaxDimValue + 1}, DimInvalid, `dim "H"`},
		{"relation", map[string]int{"V": 5}, RelationFailed, `relation "V % 2 == 0" does not hold: V = 5`},
		{"derived given", map[string]int{"OH": 6}, "", ""},
		{"derived wrong", map[string]int{"OH": 3}, DimInvalid, `dim "OH" is given as 3, but (H+2*pad-KH)/stride+1 = 6`},
		{"window too large", map[string]int{"KH": 9}, DimInvalid, `dim "OH" = (H+2*pad-KH)/stride+1 = 0, want 1..`},
		{"derived from nothing", map[string]int{"B": 0, "OB": 0}, "", ""},
		{"too many elements", map[string]int{"H": 1 << 20, "B": 1 << 20}, tensor.ShapeLimit, `input "x"`},
	} {
		dims := map[string]int{}
		for k, v := range base {
			dims[k] = v
		}
		for k, v := range tt.set {
			if dims[k] = v; v == -99 {
				delete(dims, k)
			}
		}
		_, _, err := s.Resolve(dims, s.DefaultAttrs())
		if diag.CodeOf(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: Resolve = %v, want %q with %q", tt.name, err, tt.code, tt.text)
		}
	}
}

func TestBindErrors(t *testing.T) {
	s, err := ParseSchema([]byte(one(
		`{"name":"M","candidates":[2]},{"name":"N","candidates":[3]},{"name":"E","expr":"M*2"}`,
		`{"name":"a","dims":["M","N"]},{"name":"b","dims":["N","E"]}`, `,"relations":["M != N"]`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		shapes map[string]tensor.Shape
		code   diag.Code
		text   string
	}{
		{"right", map[string]tensor.Shape{"a": {2, 3}, "b": {3, 4}}, "", ""},
		{"missing", map[string]tensor.Shape{"a": {2, 3}}, BindFailed, `input "b" is missing`},
		{"extra", map[string]tensor.Shape{"a": {2, 3}, "b": {3, 4}, "c": {}}, BindFailed, `has no input "c"`},
		{"rank", map[string]tensor.Shape{"a": {2, 3}, "b": {3}}, BindFailed,
			`input "b" has shape [3] of rank 1, want rank 2 [N,E]`},
		{"conflict", map[string]tensor.Shape{"a": {2, 3}, "b": {5, 4}}, BindFailed,
			`dim "N" is 3 in input "a" but 5 in input "b"`},
		{"derived", map[string]tensor.Shape{"a": {2, 3}, "b": {3, 5}}, BindFailed,
			`input "b" has shape [3,5], want [3,4] [N,E]`},
		{"relation", map[string]tensor.Shape{"a": {3, 3}, "b": {3, 6}}, RelationFailed, `"M != N"`},
		{"zero", map[string]tensor.Shape{"a": {0, 3}, "b": {3, 0}}, DimInvalid, `dim "M" = 0`},
	} {
		_, err := s.Bind(tt.shapes, nil)
		if diag.CodeOf(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: Bind = %v, want %q with %q", tt.name, err, tt.code, tt.text)
		}
	}
	// A dimension that only a derived one mentions is solved for; one that only a division mentions cannot be.
	for src, want := range map[string]string{"2*M+1": "", "M/2": `dim "M" cannot be inferred`} {
		s := &Schema{Name: "x", Dims: []Dim{{Name: "M", Candidates: []int{4}}, {Name: "E", Expr: src}},
			Inputs: []Input{{Name: "a", Dims: []string{"E"}}}}
		dims, err := s.Bind(map[string]tensor.Shape{"a": {9}}, nil)
		if want == "" && (err != nil || dims["M"] != 4) || want != "" && (err == nil || !strings.Contains(err.Error(),
			want)) {
			t.Errorf("Bind(E = %s = 9) = %v, %v, want %q", src, dims, err, want)
		}
	}
}

func TestAttrs(t *testing.T) {
	s := everything()
	a, err := s.ResolveAttrs(map[string]string{"pad": "3", "eps": "1e-3", "causal": "True", "approximate": "tanh"})
	if err != nil {
		t.Fatal(err)
	}
	want := Attrs{"pad": int64(3), "stride": int64(1), "k": int64(2), "eps": 1e-3, "causal": true, "approximate": "tanh",
		"out_dtype": "float32"}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("ResolveAttrs = %v, want %v", a, want)
	}
	if a.Int("pad") != 3 || a.Float("eps") != 1e-3 || !a.Bool("causal") || a.Str("approximate") != "tanh" ||
		a.Float("pad") != 3 ||
		a.Int("none") != 0 || a.Float("none") != 0 || a.Bool("none") || a.Str("pad") != "" {
		t.Errorf("accessors of %v are wrong", a)
	}
	for _, tt := range []struct {
		k, v string
		code diag.Code
		text string
		hint string
	}{
		{"epz", "1", AttrUnknown, `operator "conv2d_topk" has no attribute "epz"`, "did you mean eps?"},
		{"pad", "1.5", AttrInvalid, `attribute "pad": got "1.5", want a value of type int`, "--attr pad=3"},
		{"eps", "small", AttrInvalid, `want a value of type float`, "--attr eps=1e-5"},
		{"eps", "nan", AttrInvalid, `got "nan", which is no value of an attribute`, ""},
		{"eps", "1e400", AttrInvalid, `got "1e400", which is beyond the range of float64`, ""},
		{"pad", "9223372036854775808", AttrInvalid, `which does not fit 64 bits`, "--attr pad=3"},
		{"causal", "maybe", AttrInvalid, `want a value of type bool`, "--attr causal=true"},
		{"approximate", "tan", AttrInvalid, `got "tan", want one of none, tanh`, "did you mean tanh?"},
	} {
		_, err := s.ResolveAttrs(map[string]string{tt.k: tt.v})
		if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) || !strings.Contains(diag.HintOf(err),
			tt.hint) {
			t.Errorf("ResolveAttrs(%s=%s) = %v (hint %q), want %s %q", tt.k, tt.v, err, diag.HintOf(err), tt.code, tt.text)
		}
	}
	for _, tt := range []struct {
		name string
		v    any
		want any // nil: refused
	}{
		{"pad", 2, int64(2)}, {"eps", 2, 2.0}, {"causal", true, true}, {"approximate", "tanh", "tanh"},
		{"pad", 2.5, nil}, {"eps", math.NaN(), nil}, {"approximate", "tan", nil}, {"causal", "true", nil},
	} {
		attr, _ := s.Attr(tt.name)
		if got, err := attr.Normal(tt.v); got != tt.want || (err == nil) != (tt.want != nil) {
			t.Errorf("%s: Normal(%v) = %v, %v, want %v", tt.name, tt.v, got, err, tt.want)
		}
	}
	// Go literals may say 1 where they mean 1.0 or int64(1).
	lit := Attr{Name: "x", Kind: Float, Default: 1, Values: []any{1, 2.5}}
	if v := lit.DefaultValue(); v != 1.0 || !reflect.DeepEqual(lit.NormalValues(), []any{1.0, 2.5}) {
		t.Errorf("DefaultValue = %v (%T), NormalValues = %v", v, v, lit.NormalValues())
	}
	if v := (&Attr{Name: "x", Values: []any{3}}).DefaultValue(); v != int64(3) {
		t.Errorf("DefaultValue = %v (%T), want int64 3", v, v)
	}
}

// TestByAttribute: attributes choose dims and dtypes of outputs.
func TestByAttribute(t *testing.T) {
	s := everything()
	dims := map[string]int{"B": 2, "H": 8, "KH": 3, "V": 10, "head-dim": 8}
	for _, tt := range []struct {
		given map[string]string
		shape string
		want  dtype.DType
	}{
		{nil, "[2]", dtype.Float32},
		{map[string]string{"approximate": "tanh"}, "[2,20]", dtype.Float32},
		{map[string]string{"out_dtype": "int8"}, "[2]", dtype.Int8},
	} {
		attrs, err := s.ResolveAttrs(tt.given)
		if err != nil {
			t.Fatal(err)
		}
		_, shapes, err := s.Resolve(dims, attrs)
		if err != nil {
			t.Fatal(err)
		}
		o := &s.Outputs[2]
		d, err := o.ElemType(dtype.BFloat16, attrs)
		if shapes["loss"].String() != tt.shape || d != tt.want || err != nil || len(o.DimsOf(attrs)) != len(shapes["loss"]) {
			t.Errorf("%v: loss is %s%s, %v, want %s%s", tt.given, d, shapes["loss"], err, tt.want, tt.shape)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		dim  Dim
		want []int
		all  bool
	}{
		{Dim{Candidates: []int{8, 4, 8}}, []int{4, 8}, true},
		{Dim{Candidates: []int{4, 100}, Tile: 16}, []int{4, 15, 16, 17, 33, 100}, true},
		{Dim{Candidates: []int{4, 20}, Tile: 16, Max: 20}, []int{4, 15, 16, 17, 20}, true},
		{Dim{}, []int{1}, true},
		{Dim{Min: 3, Max: 6}, []int{3, 4, 5, 6}, true},
		{Dim{Min: 3, Max: 100}, []int{3, 4, 8, 16, 32, 64, 99, 100}, false},
		{Dim{Candidates: []int{0, 2}, Empty: true}, []int{0, 2}, true},
		{Dim{Tile: 1}, []int{1, 2, 3}, true},
	} {
		if got, all := tt.dim.Sizes(); !reflect.DeepEqual(got, tt.want) || all != tt.all {
			t.Errorf("%+v.Sizes() = %v, %v, want %v, %v", tt.dim, got, all, tt.want, tt.all)
		}
	}
}

func TestElemType(t *testing.T) {
	for _, tt := range []struct{ name, d, want string }{
		{"", "float16", "float16"}, {"acc", "float16", "float32"}, {"acc", "float64", "float64"}, {"int64", "float16",
			"int64"},
	} {
		d, _ := dtype.Parse(tt.d)
		if got, err := (&Output{DType: tt.name}).ElemType(d, Attrs{"t": "int8"}); got.String() != tt.want || err != nil {
			t.Errorf("Output{%q}.ElemType(%s) = %s, %v, want %s", tt.name, tt.d, got, err, tt.want)
		}
	}
}

func FuzzParseSchema(f *testing.F) {
	text, err := json.Marshal(everything())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(publishedMatmul))
	f.Add([]byte(one(`{"name":"N","candidates":[4,8]}`, `{"name":"input","dims":["N"]}`, `,"relations":["N % 3 == 0"]`)))
	f.Add([]byte(`{"name":"x","dims":[{"name":"A","expr":"B"},{"name":"B","expr":"A"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSchema(data)
		if err != nil {
			if diag.CodeOf(err) == "" {
				t.Errorf("ParseSchema(%q): error without a code: %v", data, err)
			}
			return
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("Marshal(%q) = %v", data, err)
		}
		again, err := ParseSchema(text)
		if err != nil {
			t.Fatalf("ParseSchema(Marshal(%q)) = %v", data, err)
		}
		text2, err := json.Marshal(again)
		if err != nil || string(text) != string(text2) {
			t.Errorf("Marshal is not stable: %s, then %s (%v)", text, text2, err)
		}
		// Whatever was accepted resolves or is refused with a code.
		dims := map[string]int{}
		for i := range s.Dims {
			if d := &s.Dims[i]; !d.Derived() {
				sizes, _ := d.Sizes()
				dims[d.Name] = sizes[0]
			}
		}
		in, _, err := s.Resolve(dims, s.DefaultAttrs())
		if err != nil {
			if diag.CodeOf(err) == "" {
				t.Errorf("Resolve: error without a code: %v", err)
			}
			return
		}
		if bound, err := s.Bind(in, s.DefaultAttrs()); err == nil {
			if _, _, err := s.Resolve(bound, s.DefaultAttrs()); err != nil {
				t.Errorf("Resolve(Bind(%v)) = %v", in, err)
			}
		}
	})
}
