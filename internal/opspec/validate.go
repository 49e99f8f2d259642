// This file implements the checks a schema passes before anybody uses it.

package opspec

import (
	"math"
	"slices"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// Validate checks the whole schema: limits, names, references, attribute types and, by a bounded search over
// the candidates, that the relations can be fulfilled at all.
func (s *Schema) Validate() error {
	if err := s.checkLimits(); err != nil {
		return err
	}
	if err := s.checkUnique(); err != nil {
		return err
	}
	for i := range s.Dims {
		if err := s.Dims[i].validate(); err != nil {
			return at(err, "dim %q", s.Dims[i].Name)
		}
	}
	for i := range s.Attrs {
		if err := s.Attrs[i].validate(); err != nil {
			return at(err, "attr %q", s.Attrs[i].Name)
		}
	}
	for i := range s.Inputs {
		in := &s.Inputs[i]
		err := in.validate()
		if name, ok := strings.CutPrefix(in.DType, AttrDType); ok && err == nil {
			err = s.checkTypeAttr(name)
		}
		if err != nil {
			return at(err, "input %q", in.Name)
		}
	}
	for i := range s.Outputs {
		if err := s.checkOutput(&s.Outputs[i]); err != nil {
			return at(err, "output %q", s.Outputs[i].Name)
		}
	}
	for _, d := range s.DTypes {
		if d == dtype.Invalid || d.Size() == 0 {
			return diag.Errorf(SchemaInvalid, "", "dtypes: invalid dtype %d", d)
		}
	}
	if s.NaN != "" && s.NaN != "ignore" {
		return diag.Errorf(SchemaInvalid, "", "nan: got %q, want \"\" or \"ignore\"", s.NaN)
	}
	if err := s.checkRanks(); err != nil {
		return err
	}
	p, err := s.Compile()
	if err != nil {
		return err
	}
	if err := p.checkBatches(); err != nil {
		return err
	}
	return p.checkSatisfiable()
}

// checkRanks refuses a rule of ranks that no input follows, or that contradicts itself.
func (s *Schema) checkRanks() error {
	r := &s.Ranks
	names := slices.Clone(r.Lead)
	for _, name := range []string{r.Tail, r.Axis} {
		if name != "" {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if _, ok := s.Dim(name); !ok {
			return diag.Errorf(SchemaInvalid, "name a dimension", "ranks: there is no dim %q", name)
		}
	}
	switch {
	case len(r.Lead) > 0 && r.Tail != "":
		return diag.Errorf(SchemaInvalid, "keep one of them", "ranks: both lead and tail are given")
	case len(r.Lead) == 0 && (r.Axis != "" || r.Broadcast), !r.Any() && r.Channels:
		return diag.Errorf(SchemaInvalid, "add lead", "ranks: axis, channels and broadcast need leading axes")
	}
	for i := range s.Inputs {
		if _, more := r.Least(s.Inputs[i].Dims); more {
			return nil
		}
	}
	if r.Any() {
		return diag.Errorf(SchemaInvalid, "begin the dims of an input with lead, or end them with tail",
			"ranks: no input takes part")
	}
	return nil
}

func (s *Schema) checkLimits() error {
	for _, l := range []struct {
		field      string
		got, limit int
	}{
		{"name", len(s.Name), MaxNameLen},
		{"doc", len(s.Doc), MaxDocLen},
		{"dims", len(s.Dims), MaxDims},
		{"inputs", len(s.Inputs), MaxInputs},
		{"outputs", len(s.Outputs), MaxOutputs},
		{"attrs", len(s.Attrs), MaxAttrs},
		{"relations", len(s.Relations), MaxRelations},
		{"usual", len(s.Usual), MaxRelations},
		{"dtypes", len(s.DTypes), len(dtype.All())},
	} {
		if l.got > l.limit {
			return diag.Errorf(SchemaLimit, "", "%s: size %d, limit %d", l.field, l.got, l.limit)
		}
	}
	if s.Name == "" {
		return diag.Errorf(SchemaInvalid, `add "name"`, "name is empty")
	}
	return nil
}

// checkUnique refuses empty and repeated names. Dimensions and attributes share the names of expressions.
func (s *Schema) checkUnique() error {
	check := func(seen map[string]string, field, name string) error {
		if name == "" {
			return diag.Errorf(SchemaInvalid, "", "%s has an empty name", field)
		}
		if len(name) > MaxNameLen {
			return diag.Errorf(SchemaLimit, "", "%s: name of %d bytes, limit %d", field, len(name), MaxNameLen)
		}
		if old, ok := seen[name]; ok {
			return diag.Errorf(SchemaInvalid, "give each its own name", "%s: name %q is already that of %s", field, name, old)
		}
		seen[name] = field
		return nil
	}
	vars, inputs, outputs := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range s.Dims {
		if err := check(vars, indexed("dims", i), s.Dims[i].Name); err != nil {
			return err
		}
	}
	for i := range s.Attrs {
		if err := check(vars, indexed("attrs", i), s.Attrs[i].Name); err != nil {
			return err
		}
	}
	for i := range s.Inputs {
		if err := check(inputs, indexed("inputs", i), s.Inputs[i].Name); err != nil {
			return err
		}
	}
	for i := range s.Outputs {
		if err := check(outputs, indexed("outputs", i), s.Outputs[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dim) validate() error {
	if d.Derived() && (len(d.Candidates) > 0 || d.Min != 0 || d.Max != 0 || d.Tile != 0 ||
		d.Reduced) {
		return diag.Errorf(SchemaInvalid, "remove expr or the others",
			"expr excludes candidates, min, max and tile")
	}
	if len(d.Candidates) > MaxCandidates {
		return diag.Errorf(SchemaLimit, "", "%d candidates, limit %d", len(d.Candidates), MaxCandidates)
	}
	for i, c := range d.Candidates {
		if c < 0 || c > MaxDimValue {
			return diag.Errorf(SchemaInvalid, "", "candidates[%d] = %d, want 0..%d", i, c, MaxDimValue)
		}
	}
	if d.Min < 0 || d.Min > MaxDimValue || d.Max < 0 || d.Max > MaxDimValue || d.Max != 0 && d.Max < d.Min {
		return diag.Errorf(SchemaInvalid, "", "range %d..%d, want 0 <= min <= max <= %d", d.Min, d.Max, MaxDimValue)
	}
	for i, c := range d.Candidates {
		if c < d.Min && !(c == 0 && d.Empty) || d.Max != 0 && c > d.Max {
			return diag.Errorf(SchemaInvalid, "", "candidates[%d] = %d is outside the range %d..%d", i, c, d.Min, d.Max)
		}
	}
	if d.Tile < 0 || d.Tile > MaxDimValue {
		return diag.Errorf(SchemaInvalid, "", "tile = %d, want 0..%d", d.Tile, MaxDimValue)
	}
	return nil
}

func (a *Attr) validate() error {
	kind := a.EffectiveKind()
	if kind == KindUnset || kind > String {
		return diag.Errorf(SchemaInvalid, `add "kind" or "default"`, "the type is not known")
	}
	if len(a.Values) > MaxCandidates {
		return diag.Errorf(SchemaLimit, "", "%d values, limit %d", len(a.Values), MaxCandidates)
	}
	check := func(field string, v any) error {
		n, ok := normalValue(kind, v)
		if !ok {
			return diag.Errorf(SchemaInvalid, "", "%s: got %v (%T), want a value of type %s", field, v, v, kind)
		}
		if text, ok := n.(string); ok && len(text) > MaxDocLen {
			return diag.Errorf(SchemaLimit, "", "%s: %d bytes, limit %d", field, len(text), MaxDocLen)
		}
		return nil
	}
	if a.Default != nil {
		if err := check("default", a.Default); err != nil {
			return err
		}
	}
	for i, v := range a.Values {
		if err := check(indexed("values", i), v); err != nil {
			return err
		}
	}
	if len(a.Doc) > MaxDocLen {
		return diag.Errorf(SchemaLimit, "", "doc: %d bytes, limit %d", len(a.Doc), MaxDocLen)
	}
	return nil
}

func (in *Input) validate() error {
	if len(in.Dims) > tensor.MaxRank {
		return diag.Errorf(SchemaLimit, "", "rank %d, limit %d", len(in.Dims), tensor.MaxRank)
	}
	if in.Role > RoleScale {
		return diag.Errorf(SchemaInvalid, "", "unknown role %d", in.Role)
	}
	if in.DType != "" && !strings.HasPrefix(in.DType, AttrDType) {
		if _, err := dtype.Parse(in.DType); err != nil {
			return diag.Errorf(SchemaInvalid, "", "dtype: %w", err)
		}
	}
	d := &in.Domain
	if math.IsNaN(d.Min) || math.IsNaN(d.Max) || d.Min > d.Max {
		return diag.Errorf(SchemaInvalid, "", "domain: range %v..%v, want min <= max", d.Min, d.Max)
	}
	if in.Role != RoleIndex && (d.Below != "" || d.Distinct || d.Counts) {
		return diag.Errorf(SchemaInvalid, `add "role": "index"`, "domain: below, distinct and counts are for role index")
	}
	if n := len(in.Rare) + len(in.Often); n > MaxRare {
		return diag.Errorf(SchemaLimit, "", "rare and often: %d distributions, limit %d", n, MaxRare)
	}
	if in.Role == RoleIndex && d.Below == "" {
		return diag.Errorf(SchemaInvalid, `add "below" to the domain`, "role index without domain.below")
	}
	return nil
}

func (s *Schema) checkOutput(o *Output) error {
	if len(o.Dims) > tensor.MaxRank {
		return diag.Errorf(SchemaLimit, "", "rank %d, limit %d", len(o.Dims), tensor.MaxRank)
	}
	for i := range o.Variants {
		if err := s.checkVariant(&o.Variants[i]); err != nil {
			return at(err, "variants[%d]", i)
		}
	}
	name, byAttr := strings.CutPrefix(o.DType, AttrDType)
	switch {
	case byAttr:
		if err := s.checkTypeAttr(name); err != nil {
			return err
		}
	case o.DType != "" && o.DType != AccDType:
		if _, err := dtype.Parse(o.DType); err != nil {
			return diag.Errorf(SchemaInvalid, "", "dtype: %w", err)
		}
	}
	if err := o.checkAlternatives(); err != nil {
		return err
	}
	if o.Ties != "" && o.Ties != "any" && o.Ties != "first" {
		return diag.Errorf(SchemaInvalid, "", `ties: got %q, want "any" or "first"`, o.Ties)
	}
	return nil
}

// checkBatches refuses batch dimensions that rows cannot be taken along: derived ones, those inside of expressions, and
// those that stand twice in a shape.
func (p *Program) checkBatches() error {
	s := p.schema
	for _, name := range s.BatchDims() {
		fail := func(what string) error {
			return diag.Errorf(SchemaInvalid, "remove batch, or name the dimension by itself",
				"dim %q: a batch dimension %s", name, what)
		}
		if d, _ := s.Dim(name); d.Derived() {
			return fail("does not follow from others")
		}
		for _, w := range p.derived {
			if slices.Contains(w.expr.Names(), name) {
				return fail("stands alone, and " + w.dim.Name + " follows from it")
			}
		}
		shapes := slices.Concat(p.inputs, p.outputs)
		for _, variants := range p.variants {
			shapes = append(shapes, variants...)
		}
		for _, exprs := range shapes {
			count := 0
			for _, e := range exprs {
				if !slices.Contains(e.Names(), name) {
					continue
				}
				if count++; e.src != name || count > 1 {
					return fail("stands alone, once in a shape")
				}
			}
		}
	}
	return nil
}

// stringAttr returns a string attribute, whose values are all there are.
func (s *Schema) stringAttr(name string) (*Attr, error) {
	if a, ok := s.Attr(name); ok && a.EffectiveKind() == String {
		return a, nil
	}
	var known []string
	for i := range s.Attrs {
		if s.Attrs[i].EffectiveKind() == String {
			known = append(known, s.Attrs[i].Name)
		}
	}
	return nil, diag.Errorf(SchemaInvalid, suggest(name, known), "no string attribute %q", name)
}

func (s *Schema) checkVariant(v *Variant) error {
	if len(v.Dims) > tensor.MaxRank {
		return diag.Errorf(SchemaLimit, "", "rank %d, limit %d", len(v.Dims), tensor.MaxRank)
	}
	a, err := s.stringAttr(v.Attr)
	if err != nil {
		return err
	}
	if !slices.Contains(a.Values, any(v.Value)) {
		return diag.Errorf(SchemaInvalid, "", "attribute %q has no value %q", v.Attr, v.Value)
	}
	return nil
}

// checkTypeAttr refuses an attribute whose values are not all dtypes.
func (s *Schema) checkTypeAttr(name string) error {
	a, err := s.stringAttr(name)
	if err != nil {
		return at(err, "dtype")
	}
	if len(a.Values) == 0 {
		return diag.Errorf(SchemaInvalid, `add "values"`, "attribute %q has no values, of which each is a dtype", name)
	}
	for _, v := range append([]any{a.DefaultValue()}, a.Values...) {
		text, _ := v.(string)
		if _, err := dtype.Parse(text); err != nil {
			return diag.Errorf(SchemaInvalid, "", "attribute %q: %w", name, err)
		}
	}
	return nil
}

// checkAlternatives allows integer types beside an integer type only: between others a value would be rounded, and the
// comparison could not say to which.
func (o *Output) checkAlternatives() error {
	if len(o.AlsoDTypes) == 0 {
		return nil
	}
	for i, name := range append([]string{o.DType}, o.AlsoDTypes...) {
		d, err := dtype.Parse(name)
		if err != nil || d.IsFloat() || d == dtype.Bool {
			return diag.Errorf(SchemaInvalid, `as in "dtype": "int64", "also_dtypes": ["int32"]`,
				"also_dtypes: %q is not an integer dtype", name)
		}
		if i > 0 && (name == o.DType || slices.Contains(o.AlsoDTypes[:i-1], name)) {
			return diag.Errorf(SchemaInvalid, "remove one", "also_dtypes: %q stands twice", name)
		}
	}
	return nil
}
