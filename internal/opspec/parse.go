// This file implements the JSON form of a schema, reading and writing.

package opspec

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// ParseSchema reads a schema from JSON and validates it.
//
// The published form {"name", "dims": [{"name", "candidates"}], "inputs": [{"name", "dims"}], "output": {"name",
// "dims"}} is a subset of ours, which has every field of Schema in snake_case. Unknown keys are errors that name
// the nearest known one; a null value is the same as leaving the key out.
func ParseSchema(data []byte) (*Schema, error) {
	r := newJSONReader(data)
	if len(data) > MaxSchemaBytes {
		return nil, r.errorf(SchemaLimit, 0, "", "schema of %d bytes, limit %d", len(data), MaxSchemaBytes)
	}
	root, err := r.document()
	if err != nil {
		return nil, err
	}
	s := &Schema{}
	var single *jsonNode
	err = r.fields(root, "", []jsonField{
		{"name", r.str(&s.Name)},
		{"doc", r.str(&s.Doc)},
		{"dims", r.list(MaxDims, func(n *jsonNode, path string) error { return r.dim(s, n, path) })},
		{"relations", r.list(MaxRelations, r.strings(&s.Relations))},
		{"usual", r.list(MaxRelations, r.strings(&s.Usual))},
		{"inputs", r.list(MaxInputs, func(n *jsonNode, path string) error { return r.input(s, n, path) })},
		{"output", func(n *jsonNode, path string) error { single = n; return r.output(s, n, path) }},
		{"outputs", r.list(MaxOutputs, func(n *jsonNode, path string) error { return r.output(s, n, path) })},
		{"attrs", r.list(MaxAttrs, func(n *jsonNode, path string) error { return r.attr(s, n, path) })},
		{"dtypes", r.list(len(dtype.All()), func(n *jsonNode, path string) error { return r.dtypeName(s, n, path) })},
		{"ranks", func(n *jsonNode, path string) error { return r.ranks(&s.Ranks, n, path) }},
		{"nan", r.str(&s.NaN)},
	})
	if err != nil {
		return nil, err
	}
	if single != nil && len(s.Outputs) > 1 {
		return nil, r.errorf(SchemaInvalid, single.offset, "keep outputs", "both output and outputs are given")
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

func (r *jsonReader) ranks(dst *Ranks, n *jsonNode, path string) error {
	return r.fields(n, path, []jsonField{
		{"lead", r.list(tensor.MaxRank, r.strings(&dst.Lead))},
		{"tail", r.str(&dst.Tail)},
		{"axis", r.str(&dst.Axis)},
		{"channels", r.boolean(&dst.Channels)},
		{"broadcast", r.boolean(&dst.Broadcast)},
	})
}

func (r *jsonReader) strings(dst *[]string) func(*jsonNode, string) error {
	return func(n *jsonNode, path string) error {
		var v string
		err := r.str(&v)(n, path)
		*dst = append(*dst, v)
		return err
	}
}

// shape reads the dims of an input or output: names, expressions or integers.
func (r *jsonReader) shape(dst *[]string) func(*jsonNode, string) error {
	return r.list(tensor.MaxRank, func(n *jsonNode, path string) error {
		if n.kind == jsonNumber {
			var v int
			err := r.integer(&v)(n, path)
			*dst = append(*dst, strconv.Itoa(v))
			return err
		}
		return r.strings(dst)(n, path)
	})
}

func (r *jsonReader) dim(s *Schema, n *jsonNode, path string) error {
	var d Dim
	err := r.fields(n, path, []jsonField{
		{"name", r.str(&d.Name)},
		{"candidates", r.list(MaxCandidates, func(n *jsonNode, path string) error {
			var v int
			err := r.integer(&v)(n, path)
			d.Candidates = append(d.Candidates, v)
			return err
		})},
		{"min", r.integer(&d.Min)},
		{"max", r.integer(&d.Max)},
		{"tile", r.integer(&d.Tile)},
		{"empty", r.boolean(&d.Empty)},
		{"reduced", r.boolean(&d.Reduced)},
		{"batch", r.boolean(&d.Batch)},
		{"expr", r.str(&d.Expr)},
	})
	s.Dims = append(s.Dims, d)
	return err
}

func (r *jsonReader) input(s *Schema, n *jsonNode, path string) error {
	var in Input
	err := r.fields(n, path, []jsonField{
		{"name", r.str(&in.Name)},
		{"dims", r.shape(&in.Dims)},
		{"role", func(n *jsonNode, path string) error {
			var name string
			if err := r.str(&name)(n, path); err != nil {
				return err
			}
			role, err := ParseRole(name)
			in.Role = role
			if err != nil {
				return r.errorf(SchemaInvalid, n.offset, suggest(name, roleNames[:]), "%s: unknown role %q", path, name)
			}
			return nil
		}},
		{"dtype", r.str(&in.DType)},
		{"domain", func(n *jsonNode, path string) error {
			return r.fields(n, path, []jsonField{
				{"min", r.float(&in.Domain.Min)},
				{"max", r.float(&in.Domain.Max)},
				{"finite", r.boolean(&in.Domain.Finite)},
				{"non_zero", r.boolean(&in.Domain.NonZero)},
				{"below", func(n *jsonNode, path string) error {
					if n.kind == jsonNumber {
						in.Domain.Below = n.text
						return nil
					}
					return r.str(&in.Domain.Below)(n, path)
				}},
				{"distinct", r.boolean(&in.Domain.Distinct)},
				{"counts", r.boolean(&in.Domain.Counts)},
			})
		}},
		{"factor", r.boolean(&in.Factor)},
		{"rare", r.list(MaxRare, r.strings(&in.Rare))},
		{"often", r.list(MaxRare, r.strings(&in.Often))},
	})
	s.Inputs = append(s.Inputs, in)
	return err
}

func (r *jsonReader) output(s *Schema, n *jsonNode, path string) error {
	var o Output
	err := r.fields(n, path, []jsonField{
		{"name", r.str(&o.Name)},
		{"dims", r.shape(&o.Dims)},
		{"variants", r.list(MaxCandidates, func(n *jsonNode, path string) error {
			var v Variant
			err := r.fields(n, path, []jsonField{
				{"attr", r.str(&v.Attr)}, {"value", r.str(&v.Value)}, {"dims", r.shape(&v.Dims)},
			})
			o.Variants = append(o.Variants, v)
			return err
		})},
		{"dtype", r.str(&o.DType)},
		{"also_dtypes", r.list(len(dtype.All()), func(n *jsonNode, path string) error {
			var name string
			err := r.str(&name)(n, path)
			o.AlsoDTypes = append(o.AlsoDTypes, name)
			return err
		})},
		{"ties", r.str(&o.Ties)},
		{"saturate", r.boolean(&o.Saturate)},
	})
	s.Outputs = append(s.Outputs, o)
	return err
}

func (r *jsonReader) attr(s *Schema, n *jsonNode, path string) error {
	var a Attr
	err := r.fields(n, path, []jsonField{
		{"name", r.str(&a.Name)},
		{"kind", func(n *jsonNode, path string) error {
			var name string
			if err := r.str(&name)(n, path); err != nil {
				return err
			}
			for k := Int; k <= String; k++ {
				if k.String() == name {
					a.Kind = k
					return nil
				}
			}
			return r.errorf(SchemaInvalid, n.offset, suggest(name, kindNames[1:]), "%s: unknown kind %q", path, name)
		}},
		{"default", func(n *jsonNode, path string) error { return r.scalar(&a.Default, n, path) }},
		{"values", r.list(MaxCandidates, func(n *jsonNode, path string) error {
			var v any
			err := r.scalar(&v, n, path)
			a.Values = append(a.Values, v)
			return err
		})},
		{"fixed", r.boolean(&a.Fixed)},
		{"quiet", r.boolean(&a.Quiet)},
		{"doc", r.str(&a.Doc)},
	})
	a.normalise()
	s.Attrs = append(s.Attrs, a)
	return err
}

// normalise brings an attribute read from JSON, where 1 may mean 1.0, into the types of its kind. What does not
// fit stays as it is: Validate names it.
func (a *Attr) normalise() {
	a.Kind = a.EffectiveKind()
	fix := func(v any) any {
		if text, ok := v.(string); ok && a.Kind == Float {
			if x, ok := infinity(&jsonNode{kind: jsonString, text: text}); ok {
				return x
			}
		}
		if n, ok := normalValue(a.Kind, v); ok {
			return n
		}
		return v
	}
	if a.Default != nil {
		a.Default = fix(a.Default)
	}
	for i := range a.Values {
		a.Values[i] = fix(a.Values[i])
	}
}

func (r *jsonReader) scalar(dst *any, n *jsonNode, path string) error {
	switch n.kind {
	case jsonBool:
		*dst = n.truth
	case jsonString:
		*dst = n.text
	case jsonNumber:
		if !strings.ContainsAny(n.text, ".eE") {
			v, err := strconv.ParseInt(n.text, 10, 64)
			if err != nil {
				return r.errorf(SchemaSyntax, n.offset, "", "%s = %s does not fit 64 bits", path, clip(n.text))
			}
			*dst = v
			return nil
		}
		var v float64
		err := r.float(&v)(n, path)
		*dst = v
		return err
	default:
		return r.errorf(SchemaSyntax, n.offset, "", "%s is %s, want a number, string or boolean", path, jsonKindNames[n.kind])
	}
	return nil
}

func (r *jsonReader) dtypeName(s *Schema, n *jsonNode, path string) error {
	var name string
	if err := r.str(&name)(n, path); err != nil {
		return err
	}
	d, err := dtype.Parse(name)
	if err != nil {
		return r.errorf(SchemaInvalid, n.offset, "", "%s: %w", path, err)
	}
	s.DTypes = append(s.DTypes, d)
	return nil
}

// The JSON types below are the written form; zero values are left out, so that a schema in the published form is
// written in the published form.
type (
	schemaJSON struct {
		Name      string       `json:"name"`
		Doc       string       `json:"doc,omitempty"`
		Dims      []dimJSON    `json:"dims"`
		Relations []string     `json:"relations,omitempty"`
		Usual     []string     `json:"usual,omitempty"`
		Inputs    []inputJSON  `json:"inputs"`
		Output    *outputJSON  `json:"output,omitempty"`
		Outputs   []outputJSON `json:"outputs,omitempty"`
		Attrs     []attrJSON   `json:"attrs,omitempty"`
		DTypes    []string     `json:"dtypes,omitempty"`
		Ranks     *ranksJSON   `json:"ranks,omitempty"`
		NaN       string       `json:"nan,omitempty"`
	}
	ranksJSON struct {
		Lead      []string `json:"lead,omitempty"`
		Tail      string   `json:"tail,omitempty"`
		Axis      string   `json:"axis,omitempty"`
		Channels  bool     `json:"channels,omitempty"`
		Broadcast bool     `json:"broadcast,omitempty"`
	}
	dimJSON struct {
		Name       string `json:"name"`
		Candidates []int  `json:"candidates,omitempty"`
		Min        int    `json:"min,omitempty"`
		Max        int    `json:"max,omitempty"`
		Tile       int    `json:"tile,omitempty"`
		Empty      bool   `json:"empty,omitempty"`
		Reduced    bool   `json:"reduced,omitempty"`
		Batch      bool   `json:"batch,omitempty"`
		Expr       string `json:"expr,omitempty"`
	}
	inputJSON struct {
		Name   string      `json:"name"`
		Dims   []string    `json:"dims"`
		Role   string      `json:"role,omitempty"`
		DType  string      `json:"dtype,omitempty"`
		Domain *domainJSON `json:"domain,omitempty"`
		Factor bool        `json:"factor,omitempty"`
		Rare   []string    `json:"rare,omitempty"`
		Often  []string    `json:"often,omitempty"`
	}
	domainJSON struct {
		Min      any    `json:"min,omitempty"`
		Max      any    `json:"max,omitempty"`
		Finite   bool   `json:"finite,omitempty"`
		NonZero  bool   `json:"non_zero,omitempty"`
		Below    string `json:"below,omitempty"`
		Distinct bool   `json:"distinct,omitempty"`
		Counts   bool   `json:"counts,omitempty"`
	}
	outputJSON struct {
		Name       string    `json:"name"`
		Dims       []string  `json:"dims"`
		Variants   []Variant `json:"variants,omitempty"`
		DType      string    `json:"dtype,omitempty"`
		AlsoDTypes []string  `json:"also_dtypes,omitempty"`
		Ties       string    `json:"ties,omitempty"`
		Saturate   bool      `json:"saturate,omitempty"`
	}
	attrJSON struct {
		Name    string `json:"name"`
		Kind    string `json:"kind"`
		Default any    `json:"default,omitempty"`
		Values  []any  `json:"values,omitempty"`
		Fixed   bool   `json:"fixed,omitempty"`
		Quiet   bool   `json:"quiet,omitempty"`
		Doc     string `json:"doc,omitempty"`
	}
)

// MarshalJSON writes the schema in the form that ParseSchema reads.
func (s *Schema) MarshalJSON() ([]byte, error) {
	j := schemaJSON{Name: s.Name, Doc: s.Doc, Relations: s.Relations, Usual: s.Usual, NaN: s.NaN, Dims: []dimJSON{},
		Inputs: []inputJSON{}}
	if s.Ranks.Any() {
		r := ranksJSON(s.Ranks)
		j.Ranks = &r
	}
	for _, d := range s.Dims {
		j.Dims = append(j.Dims, dimJSON(d))
	}
	for _, in := range s.Inputs {
		x := inputJSON{Name: in.Name, Dims: nonNil(in.Dims), DType: in.DType, Factor: in.Factor, Rare: in.Rare,
			Often: in.Often}
		if in.Role != RoleData {
			x.Role = in.Role.String()
		}
		if d := in.Domain; d != (Domain{}) {
			x.Domain = &domainJSON{jsonFloat(d.Min), jsonFloat(d.Max), d.Finite, d.NonZero, d.Below, d.Distinct,
				d.Counts}
		}
		j.Inputs = append(j.Inputs, x)
	}
	for _, o := range s.Outputs {
		x := outputJSON(o)
		x.Dims, x.Variants = nonNil(o.Dims), slices.Clone(o.Variants)
		for i := range x.Variants {
			x.Variants[i].Dims = nonNil(x.Variants[i].Dims)
		}
		j.Outputs = append(j.Outputs, x)
	}
	if len(j.Outputs) == 1 {
		j.Output, j.Outputs = &j.Outputs[0], nil
	}
	for _, a := range s.Attrs {
		x := attrJSON{Name: a.Name, Kind: a.EffectiveKind().String(), Fixed: a.Fixed, Quiet: a.Quiet, Doc: a.Doc}
		if a.Default != nil {
			x.Default = jsonScalar(a.Default)
		}
		for _, v := range a.Values {
			x.Values = append(x.Values, jsonScalar(v))
		}
		j.Attrs = append(j.Attrs, x)
	}
	for _, d := range s.DTypes {
		j.DTypes = append(j.DTypes, d.String())
	}
	return json.Marshal(j)
}

func nonNil(dims []string) []string {
	if dims == nil {
		return []string{}
	}
	return dims
}

func jsonScalar(v any) any {
	if x, ok := v.(float64); ok && math.IsInf(x, 0) {
		return jsonFloat(x)
	}
	return v
}

// jsonFloat returns x, nil for 0 (left out) and a string for an infinity.
func jsonFloat(x float64) any {
	switch {
	case x == 0:
		return nil
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	return x
}
