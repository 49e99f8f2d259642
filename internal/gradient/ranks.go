// This file implements gradients of tensors of other ranks than the operator's schema has.

package gradient

import (
	"fmt"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// arrange makes the problem one of tensors as the schema has them, and says how these were placed.
func (p *Problem) arrange() (*opspec.Arrangement, error) {
	op, arranged, err := oracle.Arrange(p.Op, p.Inputs, p.Attrs)
	if err != nil {
		return nil, fmt.Errorf("op %s: %w", p.Op.Name, err)
	}
	inputs, outputs := map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}
	for name, t := range p.Inputs {
		placed := arranged.Inputs[name]
		if placed.Expand != nil && (p.Wanted == nil || slices.Contains(p.Wanted, name)) {
			return nil, diag.Errorf(NoGradient, "repeat its axes to the shape of the others before the call",
				"op %s: input %q of shape %s broadcasts: its gradient is not computed", p.Op.Name, name, placed.Shape)
		}
		if inputs[name], err = placed.View(t); err != nil {
			return nil, fmt.Errorf("op %s: input %q: %w", p.Op.Name, name, err)
		}
	}
	for name, t := range p.Outputs {
		outputs[name] = t
		placed, ok := arranged.Outputs[name]
		if !ok || t == nil {
			continue // refused by name
		}
		if !t.Shape.Equal(placed.Shape) {
			return nil, shapeMismatch(p.Op, name, t.Shape, placed.Shape)
		}
		if outputs[name], err = placed.View(t); err != nil {
			return nil, fmt.Errorf("op %s: output %q: %w", p.Op.Name, name, err)
		}
	}
	attrs := op.Schema.DefaultAttrs()
	for name, v := range p.Attrs {
		if !opspec.PlacesAxes(name) {
			attrs[name] = v
		}
	}
	p.Op, p.Inputs, p.Outputs, p.Attrs = op, inputs, outputs, attrs
	return arranged, nil
}

// place gives the gradient the shape of the caller's input.
func (g *Gradient) place(placed opspec.Placed) {
	if from := placed.Source(); from != nil {
		g.Value, g.Scale, g.Estimate = reordered(g.Value, from), reordered(g.Scale, from), reordered(g.Estimate, from)
	}
	g.Shape = placed.Shape
}

func reordered(x []float64, from []int) []float64 {
	if x == nil {
		return nil
	}
	out := make([]float64, len(from))
	for i, at := range from {
		out[i] = x[at]
	}
	return out
}
