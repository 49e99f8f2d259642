// This file implements cases whose inputs have other ranks than the dims of their schema.

package opspec

import (
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/tensor"
)

// Folded returns how many elements the axes that fold have in a case: the product of Lead, or Tail.
func (p *Program) Folded(c *Case) (int, error) {
	dims, err := p.Derive(c.DimMap(), c.AttrMap())
	if err != nil {
		return 0, err
	}
	return p.folded(dims), nil
}

func (p *Program) folded(dims map[string]int) int {
	r := &p.schema.Ranks
	if r.Tail != "" {
		return dims[r.Tail]
	}
	n := 1
	for _, name := range r.Lead {
		n *= dims[name]
	}
	return n
}

// Spread returns the case with other axes in place of those that fold, which have as many elements. Attributes are
// complete.
func (p *Program) Spread(c Case, attrs Attrs, axes tensor.Shape) (Case, error) {
	inner, _, err := p.resolve(c.DimMap(), attrs)
	if err != nil {
		return c, err
	}
	a := p.arranger(attrs)
	if p.schema.Ranks.Tail != "" {
		a.trailing = axes
	} else {
		a.leading = axes
	}
	c.Inputs = slices.Clone(c.Inputs)
	for i := range c.Inputs {
		in := &p.schema.Inputs[i]
		placed, err := a.placed(in.Dims, inner[in.Name])
		if err == nil {
			c.Inputs[i].Shape, err = tensor.ParseShape(placed.Shape)
		}
		if err != nil {
			return c, at(err, "input %q", in.Name)
		}
	}
	_, outputs, err := p.Shapes(&c, attrs)
	for name, s := range outputs {
		if _, wrong := tensor.ParseShape(s); wrong != nil {
			return c, at(wrong, "output %q", name)
		}
	}
	return c, err
}

// SpreadLike is Spread over as many axes as another case of the schema has there, none of them larger where that is
// possible.
func (p *Program) SpreadLike(c, other Case) (Case, error) {
	r, shapes := &p.schema.Ranks, map[string]tensor.Shape{}
	attrs := p.schema.DefaultAttrs()
	for _, a := range other.Attrs {
		attrs[a.Name] = a.Value
	}
	for _, in := range other.Inputs {
		shapes[in.Name] = in.Shape
	}
	a := p.arranger(attrs)
	if err := a.inputs(shapes, map[string]Placed{}); err != nil {
		return c, err
	}
	was := a.leading
	if r.Tail != "" {
		was = a.trailing
	}
	left, err := p.Folded(&c)
	if err != nil {
		return c, err
	}
	axes := slices.Repeat(tensor.Shape{1}, len(was))
	for i := range was {
		axes[i] = gcd(was[i], left)
		left /= max(axes[i], 1)
	}
	if len(axes) > 0 {
		axes[len(axes)-1] *= left
	}
	for _, a := range c.Attrs {
		attrs[a.Name] = a.Value
	}
	return p.Spread(c, attrs, axes)
}

func gcd(x, y int) int {
	for y != 0 {
		x, y = y, x%y
	}
	return x
}

// Shapes returns the shapes of the inputs and outputs of a case, whose inputs may have any rank that the operator
// takes. The dims of the case must be those of its shapes; of the axes that fold their product. Attributes are
// complete.
func (p *Program) Shapes(c *Case, attrs Attrs) (inputs, outputs map[string]tensor.Shape, err error) {
	inputs, outputs, err = p.Resolve(c.DimMap(), attrs)
	if err != nil || !p.schema.Ranks.Any() || len(inputs) != len(c.Inputs) {
		return inputs, outputs, err
	}
	same, shapes := true, make(map[string]tensor.Shape, len(c.Inputs))
	for i := range c.Inputs {
		shapes[c.Inputs[i].Name] = c.Inputs[i].Shape
		same = same && c.Inputs[i].Shape.Equal(inputs[c.Inputs[i].Name])
	}
	if same {
		return inputs, outputs, nil
	}
	a, err := p.Arrange(shapes, attrs)
	if err != nil {
		return nil, nil, err
	}
	all, err := p.Derive(c.DimMap(), attrs)
	if err != nil {
		return nil, nil, err
	}
	if got, want := p.folded(a.Dims), p.folded(all); got != want {
		return nil, nil, diag.Errorf(BindFailed, "", "the axes that fold have %d elements in the shapes of the inputs, "+
			"want %d", got, want)
	}
	for _, d := range c.Dims {
		if n, ok := a.Dims[d.Name]; ok && n != d.Value && !slices.Contains(p.schema.Ranks.Lead, d.Name) {
			return nil, nil, diag.Errorf(BindFailed, "", "dim %q is %d, and %d in the shapes of the inputs", d.Name, d.Value,
				n)
		}
	}
	outputs = make(map[string]tensor.Shape, len(a.Outputs))
	for name, placed := range a.Outputs {
		outputs[name] = placed.Shape
	}
	return shapes, outputs, nil
}
