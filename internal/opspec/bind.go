// This file implements the inference of dimensions from the shapes of given inputs.

package opspec

import (
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/tensor"
)

// binding is the state of one inference.
type binding struct {
	p     *Program
	attrs Attrs
	dims  map[string]int
	from  map[string]string // which input gave a dimension its value
}

// Bind is Schema.Bind for a compiled schema. Arrange does the same for shapes of other ranks.
//
// It first takes the dimensions that stand alone in some input's shape, then repeatedly solves expressions
// with one unknown left ("2*D"), then derives and checks everything.
func (p *Program) Bind(inputs map[string]tensor.Shape, attrs Attrs) (map[string]int, error) {
	s := p.schema
	if err := p.checkNames(inputs); err != nil {
		return nil, err
	}
	for i := range s.Inputs {
		if in := &s.Inputs[i]; len(inputs[in.Name]) != len(in.Dims) {
			return nil, rankError(in, inputs[in.Name], len(in.Dims), false)
		}
	}
	b := &binding{p: p, attrs: attrs, dims: map[string]int{}, from: map[string]string{}}
	for i, exprs := range p.inputs {
		name := s.Inputs[i].Name
		for k, e := range exprs {
			if n := e.nodes[0]; len(e.nodes) == 1 && n.op == opName && b.isFree(n.name) {
				if err := b.set(n.name, int64(inputs[name][k]), name); err != nil {
					return nil, err
				}
			}
		}
	}
	for b.solveOne(inputs) {
	}
	for i := range s.Dims {
		if d := &s.Dims[i]; !d.Derived() {
			if _, ok := b.dims[d.Name]; !ok {
				return nil, diag.Errorf(BindFailed, "", "dim %q cannot be inferred from the shapes of the inputs", d.Name)
			}
		}
	}
	all, err := p.Derive(b.dims, attrs)
	if err != nil {
		return nil, err
	}
	return all, p.checkShapes(inputs, all, attrs)
}

// checkNames refuses inputs that are missing, and those that the operator does not have.
func (p *Program) checkNames(inputs map[string]tensor.Shape) error {
	s := p.schema
	known := make([]string, len(s.Inputs))
	for i := range s.Inputs {
		in := &s.Inputs[i]
		known[i] = in.Name
		if _, ok := inputs[in.Name]; !ok {
			return diag.Errorf(BindFailed, "", "input %q is missing", in.Name)
		}
	}
	first := ""
	for n := range inputs {
		if _, ok := s.Input(n); !ok && (first == "" || n < first) {
			first = n // the same error each time
		}
	}
	if first != "" || len(inputs) != len(s.Inputs) {
		return diag.Errorf(BindFailed, suggest(first, known), "operator %q has no input %q", s.Name, first)
	}
	return nil
}

func (b *binding) isFree(name string) bool {
	d, ok := b.p.schema.Dim(name)
	return ok && !d.Derived()
}

func (b *binding) set(dim string, v int64, input string) error {
	if old, ok := b.dims[dim]; ok && int64(old) != v {
		return diag.Errorf(BindFailed, "", "dim %q is %d in input %q but %d in input %q", dim, old, b.from[dim], v, input)
	}
	if v < 0 || v > MaxDimValue {
		return diag.Errorf(BindFailed, "", "input %q gives dim %q = %d", input, dim, v)
	}
	b.dims[dim] = int(v)
	b.from[dim] = input
	return nil
}

// solveOne finds one more dimension from an expression with a single unknown and reports whether it did.
func (b *binding) solveOne(inputs map[string]tensor.Shape) bool {
	lookup := lookupIn(b.dims, b.attrs)
	try := func(e *Expr, want int64, input string) bool {
		unknown := ""
		for _, n := range e.Names() {
			if _, ok := lookup(n); ok {
				continue
			}
			if unknown != "" || !b.isFree(n) {
				return false
			}
			unknown = n
		}
		if unknown == "" {
			return false
		}
		v, ok := e.solve(unknown, want, lookup)
		return ok && b.set(unknown, v, input) == nil
	}
	for i, exprs := range b.p.inputs {
		name := b.p.schema.Inputs[i].Name
		for k, e := range exprs {
			if try(e, int64(inputs[name][k]), name) {
				return true
			}
			// A derived dimension standing alone is an equation for what it is derived from.
			if n := e.nodes[0]; len(e.nodes) == 1 && n.op == opName {
				for _, w := range b.p.derived {
					if w.dim.Name == n.name && try(w.expr, int64(inputs[name][k]), name) {
						return true
					}
				}
			}
		}
	}
	return false
}

func (p *Program) checkShapes(inputs map[string]tensor.Shape, dims map[string]int, attrs Attrs) error {
	lookup := lookupIn(dims, attrs)
	for i, exprs := range p.inputs {
		in := &p.schema.Inputs[i]
		want, err := shapeOf(exprs, lookup)
		if err != nil {
			return at(err, "input %q", in.Name)
		}
		if got := inputs[in.Name]; !got.Equal(want) {
			return diag.Errorf(BindFailed, "", "input %q has shape %s, want %s [%s]",
				in.Name, got, want, strings.Join(in.Dims, ","))
		}
	}
	return nil
}
