// This file implements what follows from a choice of dimensions: derived dimensions, relations and shapes.

package opspec

import (
	"errors"
	"fmt"
	"strconv"

	"gpuemu/internal/diag"
	"gpuemu/internal/tensor"
)

// Program is a schema with its expressions parsed: for callers that resolve many cases of one schema.
// It may be used by several goroutines.
type Program struct {
	schema    *Schema
	derived   []derivedDim // in an order in which each depends on earlier ones only
	relations []*Relation
	usual     []*Relation
	inputs    [][]*Expr
	outputs   [][]*Expr
	variants  [][][]*Expr // per output, in the order of Output.Variants
	below     []*Expr     // per input; nil without Domain.Below
}

type derivedDim struct {
	dim  *Dim
	expr *Expr
}

// Compile parses the schema's expressions and checks every name in them.
func (s *Schema) Compile() (*Program, error) {
	p := &Program{schema: s}
	if err := p.compileDerived(); err != nil {
		return nil, err
	}
	var err error
	if p.relations, err = s.compileRelations("relations", s.Relations); err != nil {
		return nil, err
	}
	if p.usual, err = s.compileRelations("usual", s.Usual); err != nil {
		return nil, err
	}
	for i := range s.Inputs {
		in := &s.Inputs[i]
		exprs, err := s.compileDims(in.Dims)
		if err != nil {
			return nil, at(err, "input %q", in.Name)
		}
		p.inputs = append(p.inputs, exprs)
		var below *Expr
		if in.Domain.Below != "" {
			if below, err = s.compileEntry(in.Domain.Below); err != nil {
				return nil, at(err, "input %q: domain.below", in.Name)
			}
		}
		p.below = append(p.below, below)
	}
	for i := range s.Outputs {
		exprs, err := s.compileDims(s.Outputs[i].Dims)
		if err != nil {
			return nil, at(err, "output %q", s.Outputs[i].Name)
		}
		p.outputs = append(p.outputs, exprs)
		variants := make([][]*Expr, len(s.Outputs[i].Variants))
		for k := range variants {
			if variants[k], err = s.compileDims(s.Outputs[i].Variants[k].Dims); err != nil {
				return nil, at(err, "output %q: variants[%d]", s.Outputs[i].Name, k)
			}
		}
		p.variants = append(p.variants, variants)
	}
	return p, nil
}

// at puts a place in front of an error's message and keeps its code and hint.
func at(err error, format string, args ...any) error {
	var e *diag.Error
	if !errors.As(err, &e) {
		return fmt.Errorf(format+": %w", append(args, err)...)
	}
	c := *e
	c.Msg = fmt.Sprintf(format, args...) + ": " + e.Msg
	return &c
}

func (s *Schema) compileDims(entries []string) ([]*Expr, error) {
	out := make([]*Expr, len(entries))
	for i, src := range entries {
		e, err := s.compileEntry(src)
		if err != nil {
			return nil, at(err, "dims[%d]", i)
		}
		out[i] = e
	}
	return out, nil
}

// compileEntry parses an entry of a shape. A name is looked for first, so that dimensions whose names are no
// identifiers ("head-dim") work too.
func (s *Schema) compileEntry(src string) (*Expr, error) {
	if _, ok := s.Dim(src); ok {
		return &Expr{src: src, nodes: []exprNode{{op: opName, name: src, col: 1}}}, nil
	}
	e, err := ParseExpr(src)
	if err != nil {
		return nil, err
	}
	return e, s.checkNames(e.Names())
}

// checkNames refuses names that are neither dimensions nor attributes with an integer value.
func (s *Schema) checkNames(names []string) error {
	for _, n := range names {
		if _, ok := s.Dim(n); ok {
			continue
		}
		if a, ok := s.Attr(n); ok {
			if k := a.EffectiveKind(); k == Int || k == Bool {
				continue
			}
			return diag.Errorf(ExprUnknownName, "", "attribute %q has type %s, want int or bool", n, a.EffectiveKind())
		}
		return diag.Errorf(ExprUnknownName, suggest(n, s.exprNames()), "no dimension or integer attribute %q", n)
	}
	return nil
}

func (s *Schema) exprNames() []string {
	var known []string
	for i := range s.Dims {
		known = append(known, s.Dims[i].Name)
	}
	for i := range s.Attrs {
		if k := s.Attrs[i].EffectiveKind(); k == Int || k == Bool {
			known = append(known, s.Attrs[i].Name)
		}
	}
	return known
}

// compileDerived orders the derived dimensions so that each comes after those it uses.
func (p *Program) compileDerived() error {
	s := p.schema
	var waiting []derivedDim
	for i := range s.Dims {
		d := &s.Dims[i]
		if !d.Derived() {
			continue
		}
		e, err := ParseExpr(d.Expr)
		if err == nil {
			err = s.checkNames(e.Names())
		}
		if err != nil {
			return at(err, "dim %q: expr", d.Name)
		}
		waiting = append(waiting, derivedDim{d, e})
	}
	blocked := func(name string) bool {
		for _, w := range waiting {
			if w.dim.Name == name {
				return true
			}
		}
		return false
	}
	for len(waiting) > 0 {
		ready := -1
	search:
		for i, w := range waiting {
			for _, n := range w.expr.Names() {
				if blocked(n) {
					continue search
				}
			}
			ready = i
			break
		}
		if ready < 0 {
			return diag.Errorf(SchemaInvalid, "break the cycle", "dim %q: expr %q depends on itself",
				waiting[0].dim.Name, waiting[0].dim.Expr)
		}
		p.derived = append(p.derived, waiting[ready])
		waiting = append(waiting[:ready:ready], waiting[ready+1:]...)
	}
	return nil
}

func lookupIn(dims map[string]int, attrs Attrs) Lookup {
	return func(name string) (int64, bool) {
		if v, ok := dims[name]; ok {
			return int64(v), true
		}
		return attrs.intValue(name)
	}
}

// Derive returns all dimensions, the free ones from dims and the derived ones computed, after checking their
// sizes and the relations. A value given for a derived dimension must be the computed one.
func (p *Program) Derive(dims map[string]int, attrs Attrs) (map[string]int, error) {
	s := p.schema
	all := make(map[string]int, len(s.Dims))
	for i := range s.Dims {
		d := &s.Dims[i]
		if d.Derived() {
			continue
		}
		v, ok := dims[d.Name]
		if !ok {
			return nil, diag.Errorf(DimInvalid, "", "dim %q has no value", d.Name)
		}
		if v < 0 || v > MaxDimValue || v == 0 && !d.AllowsEmpty() {
			return nil, diag.Errorf(DimInvalid, "", "dim %q = %d, want %s", d.Name, v, sizeRange(d))
		}
		all[d.Name] = v
	}
	for n := range dims {
		if _, ok := s.Dim(n); !ok {
			return nil, diag.Errorf(DimInvalid, suggest(n, s.exprNames()), "operator %q has no dim %q", s.Name, n)
		}
	}
	lookup := lookupIn(all, attrs)
	for _, w := range p.derived {
		if err := p.deriveOne(w, all, dims, lookup); err != nil {
			return nil, err
		}
	}
	return all, checkRelations(p.relations, lookup)
}

func sizeRange(d *Dim) string {
	if d.AllowsEmpty() {
		return "0.." + strconv.Itoa(MaxDimValue)
	}
	return "1.." + strconv.Itoa(MaxDimValue)
}

func (p *Program) deriveOne(w derivedDim, all, given map[string]int, lookup Lookup) error {
	v, err := w.expr.Eval(lookup)
	if err != nil {
		return at(err, "dim %q", w.dim.Name)
	}
	empty := w.dim.Empty
	for _, n := range w.expr.Names() {
		if size, ok := all[n]; ok && size == 0 {
			empty = true // B*S of an empty batch is 0 whatever the schema says about the product
		}
	}
	if v < 0 || v > MaxDimValue || v == 0 && !empty {
		return diag.Errorf(DimInvalid, "", "dim %q = %s = %d, want %s", w.dim.Name, w.dim.Expr, v, sizeRange(w.dim))
	}
	if g, ok := given[w.dim.Name]; ok && int64(g) != v {
		return diag.Errorf(DimInvalid, "", "dim %q is given as %d, but %s = %d", w.dim.Name, g, w.dim.Expr, v)
	}
	all[w.dim.Name] = int(v)
	return nil
}

// compileRelations parses the relations of one field of the schema.
func (s *Schema) compileRelations(field string, sources []string) ([]*Relation, error) {
	var out []*Relation
	for i, src := range sources {
		r, err := ParseRelation(src)
		if err == nil {
			err = s.checkNames(r.Names())
		}
		if err != nil {
			return nil, at(err, "%s[%d]", field, i)
		}
		out = append(out, r)
	}
	return out, nil
}

// IsUsual reports whether the relations hold that most generated cases fulfil. Dimensions are those of Derive.
func (p *Program) IsUsual(dims map[string]int, attrs Attrs) bool {
	if len(p.usual) == 0 {
		return true
	}
	r, err := firstBroken(p.usual, lookupIn(dims, attrs))
	return r == nil && err == nil
}

func checkRelations(relations []*Relation, lookup Lookup) error {
	r, err := firstBroken(relations, lookup)
	switch {
	case err != nil:
		return at(err, "relation %q", r.src)
	case r != nil:
		return diag.Errorf(RelationFailed, "", "relation %q does not hold: %s", r.src, describe(r.Names(), lookup))
	}
	return nil
}

// firstBroken returns the first relation that does not hold, nil if all do, or the one that cannot be computed
// together with the reason.
func firstBroken(relations []*Relation, lookup Lookup) (*Relation, error) {
	for _, r := range relations {
		if ok, err := r.Holds(lookup); !ok || err != nil {
			return r, err
		}
	}
	return nil, nil
}

func describe(names []string, lookup Lookup) string {
	text := ""
	for i, n := range names {
		if i > 0 {
			text += ", "
		}
		v, _ := lookup(n)
		text += n + " = " + strconv.FormatInt(v, 10)
	}
	return text
}

// Resolve returns the shapes of all inputs and outputs, of the rank that their dims name. Attributes that say where
// axes stand count.
func (p *Program) Resolve(dims map[string]int, attrs Attrs) (inputs, outputs map[string]tensor.Shape, err error) {
	inputs, outputs, err = p.resolve(dims, attrs)
	a := p.arranger(attrs)
	if err != nil || a.plain() {
		return inputs, outputs, err
	}
	move := func(shapes map[string]tensor.Shape, name string, dims []string) error {
		placed, err := a.placed(dims, shapes[name])
		shapes[name] = placed.Shape
		return err
	}
	for i := range p.schema.Inputs {
		if err := move(inputs, p.schema.Inputs[i].Name, p.schema.Inputs[i].Dims); err != nil {
			return nil, nil, at(err, "input %q", p.schema.Inputs[i].Name)
		}
	}
	for i := range p.schema.Outputs {
		o := &p.schema.Outputs[i]
		if err := move(outputs, o.Name, o.DimsOf(attrs)); err != nil {
			return nil, nil, at(err, "output %q", o.Name)
		}
	}
	return inputs, outputs, nil
}

// resolve is Resolve with all axes where the schema has them.
func (p *Program) resolve(dims map[string]int, attrs Attrs) (inputs, outputs map[string]tensor.Shape, err error) {
	all, err := p.Derive(dims, attrs)
	if err != nil {
		return nil, nil, err
	}
	lookup := lookupIn(all, attrs)
	inputs = make(map[string]tensor.Shape, len(p.inputs))
	for i, exprs := range p.inputs {
		name := p.schema.Inputs[i].Name
		if inputs[name], err = shapeOf(exprs, lookup); err != nil {
			return nil, nil, at(err, "input %q", name)
		}
	}
	outputs = make(map[string]tensor.Shape, len(p.outputs))
	for i, exprs := range p.outputs {
		name := p.schema.Outputs[i].Name
		if k := p.schema.Outputs[i].variant(attrs); k >= 0 {
			exprs = p.variants[i][k]
		}
		if outputs[name], err = shapeOf(exprs, lookup); err != nil {
			return nil, nil, at(err, "output %q", name)
		}
	}
	return inputs, outputs, nil
}

func shapeOf(exprs []*Expr, lookup Lookup) (tensor.Shape, error) {
	dims := make([]int64, len(exprs))
	for i, e := range exprs {
		v, err := e.Eval(lookup)
		if err != nil {
			return nil, err
		}
		dims[i] = v
	}
	return tensor.ParseShape(dims)
}

// Admits reports whether the relations that are about this one dimension alone ("D % 8 == 0") hold for size v, so
// that generators need not draw sizes which can never do.
func (p *Program) Admits(dim string, v int) bool {
	lookup := func(name string) (int64, bool) { return int64(v), name == dim }
	for _, r := range p.relations {
		if names := r.Names(); len(names) == 1 && names[0] == dim {
			if ok, err := r.Holds(lookup); !ok || err != nil {
				return false
			}
		}
	}
	return true
}

// Below returns the exclusive upper limit of an index input's values; ok is false if the input has none.
func (p *Program) Below(input int, dims map[string]int, attrs Attrs) (limit int64, ok bool, err error) {
	if p.below[input] == nil {
		return 0, false, nil
	}
	limit, err = p.below[input].Eval(lookupIn(dims, attrs))
	return limit, err == nil, err
}

// Resolve returns the shapes of all inputs and outputs for the given dimensions (derived ones may be left
// out), after checking sizes and relations.
func (s *Schema) Resolve(dims map[string]int, attrs Attrs) (inputs, outputs map[string]tensor.Shape, err error) {
	p, err := s.Compile()
	if err != nil {
		return nil, nil, err
	}
	return p.Resolve(dims, attrs)
}

// Bind infers every dimension from the shapes of given inputs and checks sizes, relations and that each input
// fits. Inputs missing from shapes and shapes of unknown inputs are errors.
func (s *Schema) Bind(inputs map[string]tensor.Shape, attrs Attrs) (map[string]int, error) {
	p, err := s.Compile()
	if err != nil {
		return nil, err
	}
	return p.Bind(inputs, attrs)
}
