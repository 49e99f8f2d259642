// Package gradient computes the gradients of the catalogue's operators in float64: vector-Jacobian products, that is
// the derivatives of Σ g·f by every element of the inputs, with the error that honest backward code may have.
//
// It does not judge (package compare does, with the Want that a Gradient makes) and knows nothing of frameworks. Of is
// the entry point: it takes the formula of the operator where there is one (Analytic) and central differences of the
// oracle's float64 reference elsewhere (Numeric). Formulas compute in val, a value with its error; see there.
package gradient

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// A Problem is one vector-Jacobian product.
type Problem struct {
	Op     *oracle.Op
	Inputs map[string]*tensor.Tensor
	Attrs  opspec.Attrs // complete
	DType  dtype.DType  // of the case; Invalid: that of the inputs
	// Outputs are the gradients of the outputs, by name, of any float type. One that is missing is zero.
	Outputs map[string]*tensor.Tensor
	// Work is the narrowest type in which the framework rounds; Invalid: DType. Errors are counted in its roundoff.
	Work dtype.DType
	// Wanted are the inputs whose gradients are asked for; nil: all that have one.
	Wanted []string
}

// A Gradient is the derivative by one input, in row-major order.
type Gradient struct {
	Shape tensor.Shape
	Value []float64
	// Scale is the error of honest code in units of the roundoff of Work: the magnitudes of the terms that make the
	// element up, each as often as it is rounded. Infinite or NaN: nothing is known about the element.
	Scale []float64
	// Estimate is the error of Value itself where it is a difference quotient; nil: Value is a formula's.
	Estimate []float64
	// Work is the type whose roundoff Scale counts in.
	Work dtype.DType
}

// safety covers what the analysis of first order leaves out, and the roundings of the float64 formula itself where
// the framework computes in float64, too.
const safety = 2

// Want returns what a framework's gradient of type d is compared with. The bound of an element is
// safety·u·Scale, the estimate, and the rounding to d.
func (g *Gradient) Want(d dtype.DType) *compare.Want {
	w := &compare.Want{DType: d, Shape: g.Shape, Value: slices.Clone(g.Value), Bound: make([]float64, len(g.Value))}
	u := g.Work.UnitRoundoff()
	for i, v := range g.Value {
		b := float64(safety * float64(u*g.Scale[i]))
		if g.Estimate != nil {
			b += g.Estimate[i]
		}
		if !finite(v) || !finite(b) {
			if w.Undetermined == nil {
				w.Undetermined = make([]bool, len(g.Value))
			}
			w.Undetermined[i] = true
			w.Value[i] = 0
			continue
		}
		w.Bound[i] = b + d.HalfULP(math.Min(math.Abs(v)+b, d.MaxFinite()))
	}
	return w
}

// Of returns the gradients by input name, and how they were made: "" by formula, "by central differences" without one.
//
// Inputs, attributes and gradients of outputs are the caller's, of any rank that the operator takes, and so are the
// shapes of the gradients.
func Of(ctx context.Context, p Problem) (map[string]*Gradient, string, error) {
	arranged, err := p.arrange()
	if err != nil {
		return nil, "", err
	}
	all, how, err := of(ctx, p)
	if err != nil {
		return nil, "", err
	}
	for name, g := range all {
		g.place(arranged.Inputs[name])
	}
	return all, how, nil
}

func of(ctx context.Context, p Problem) (map[string]*Gradient, string, error) {
	if _, ok := formulas[p.Op.Name]; ok {
		g, err := Analytic(p)
		return g, "", err
	}
	g, err := Numeric(ctx, p)
	return g, "by central differences", err
}

// Differentiable returns the inputs of an operator that have a gradient: floats which central differences can move,
// in float64 or in the one type that the schema gives them. An operator that rounds to a grid, or gives indexes alone,
// has none.
func Differentiable(op *oracle.Op) []string {
	outputs := 0
	for i := range op.Schema.Outputs {
		o := &op.Schema.Outputs[i]
		d, err := o.ElemType(dtype.Float32, op.Schema.DefaultAttrs())
		if o.Saturate {
			return nil
		}
		if err == nil && d.IsFloat() {
			outputs++
		}
	}
	if outputs == 0 {
		return nil
	}
	var names []string
	for i := range op.Schema.Inputs {
		in := &op.Schema.Inputs[i]
		d, err := in.ElemType(dtype.Float64, op.Schema.DefaultAttrs())
		if err != nil || !d.IsFloat() || in.Role == opspec.RoleIndex || in.Role == opspec.RoleMask {
			continue
		}
		if in.DType == "" && !slices.Contains(op.Schema.AllowedDTypes(), dtype.Float64) {
			continue
		}
		names = append(names, in.Name)
	}
	return names
}

// wanted returns the inputs that are asked for, in the order of the schema.
func (p *Problem) wanted() ([]string, error) {
	have := Differentiable(p.Op)
	if len(have) == 0 {
		return nil, diag.Errorf(NoGradient, "compare its outputs instead: POST /v1/submit",
			"op %s has no gradient: its outputs are indexes or rounded to a grid", p.Op.Name)
	}
	if p.Wanted == nil {
		return have, nil
	}
	for _, name := range p.Wanted {
		if !slices.Contains(have, name) {
			return nil, diag.Errorf(NoGradient, diag.Suggest(name, have, "it has gradients by "+strings.Join(have, ", ")),
				"op %s has no gradient by an input %q", p.Op.Name, name)
		}
	}
	var out []string
	for _, name := range have {
		if slices.Contains(p.Wanted, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// check fills in what is left open and returns the operator's outputs for the inputs. The oracle checks shapes, types,
// attributes and indexes.
func (p *Problem) check() (map[string]*compare.Want, error) {
	wants, err := oracle.Evaluate(p.Op, p.Inputs, p.Attrs, p.DType)
	if err != nil {
		return nil, err
	}
	if p.DType == dtype.Invalid {
		p.DType = dtype.Float32
		for i := range p.Op.Schema.Inputs {
			if in := &p.Op.Schema.Inputs[i]; in.DType == "" {
				p.DType = p.Inputs[in.Name].DType
				break
			}
		}
	}
	if p.Work == dtype.Invalid {
		p.Work = p.DType
	}
	names := make([]string, 0, len(p.Outputs))
	for name := range p.Outputs {
		names = append(names, name)
	}
	sort.Strings(names) // the same error each time
	if len(names) == 0 {
		return nil, diag.Errorf(GradMismatch, "send the gradient of the output", "op %s: no gradient of an output is given",
			p.Op.Name)
	}
	for _, name := range names {
		if err := checkOutput(p.Op, name, p.Outputs[name], wants[name]); err != nil {
			return nil, err
		}
	}
	return wants, nil
}

func checkOutput(op *oracle.Op, name string, g *tensor.Tensor, w *compare.Want) error {
	var known []string
	for i := range op.Schema.Outputs {
		known = append(known, op.Schema.Outputs[i].Name)
	}
	switch {
	case w == nil:
		return diag.Errorf(GradMismatch, diag.Suggest(name, known, "its outputs are "+strings.Join(known, ", ")),
			"op %s has no output %q", op.Name, name)
	case !w.DType.IsFloat():
		return diag.Errorf(GradMismatch, "leave it out", "op %s: output %q is %s and has no gradient", op.Name, name, w.DType)
	case !g.DType.IsFloat():
		return diag.Errorf(GradMismatch, "send floats", "op %s: the gradient of output %q is %s", op.Name, name, g.DType)
	case !g.Shape.Equal(w.Shape):
		return shapeMismatch(op, name, g.Shape, w.Shape)
	}
	return nil
}

func shapeMismatch(op *oracle.Op, name string, got, want tensor.Shape) error {
	return diag.Errorf(GradMismatch, "send it in the shape of the output",
		"op %s: the gradient of output %q has shape %s, want %s", op.Name, name, got, want)
}

// A call is one evaluation of a formula.
type call struct {
	work, acc prec
	dims      map[string]int
	attrs     opspec.Attrs
	in        map[string][]val // float inputs as given: exact, unless they are not finite
	index     map[string][]int // integer inputs
	g         map[string][]val // gradients of the outputs
	out       map[string][]val // gradients of the inputs, filled by the formula
}

// Analytic returns the gradients by the formula of the operator.
func Analytic(p Problem) (map[string]*Gradient, error) {
	formula, ok := formulas[p.Op.Name]
	if !ok {
		return nil, diag.Errorf(NoGradient, "use central differences", "op %s has no formula for its gradient", p.Op.Name)
	}
	names, err := p.wanted()
	if err != nil {
		return nil, err
	}
	wants, err := p.check()
	if err != nil {
		return nil, err
	}
	c, err := newCall(&p, wants)
	if err != nil {
		return nil, err
	}
	if err := formula(c); err != nil {
		return nil, err
	}
	out := map[string]*Gradient{}
	for _, name := range names {
		x := c.out[name]
		g := &Gradient{Shape: p.Inputs[name].Shape, Value: make([]float64, len(x)), Scale: make([]float64, len(x)),
			Work: p.Work}
		for i := range x {
			g.Value[i], g.Scale[i] = x[i].v, x[i].e
		}
		out[name] = g
	}
	return out, nil
}

func newCall(p *Problem, wants map[string]*compare.Want) (*call, error) {
	shapes := map[string]tensor.Shape{}
	for name, t := range p.Inputs {
		shapes[name] = t.Shape
	}
	dims, err := p.Op.Schema.Bind(shapes, p.Attrs)
	if err != nil {
		return nil, fmt.Errorf("op %s: %w", p.Op.Name, err)
	}
	c := &call{dims: dims, attrs: p.Attrs, in: map[string][]val{}, index: map[string][]int{}, g: map[string][]val{},
		out: map[string][]val{}}
	c.work, c.acc = precs(p.Work)
	for name, t := range p.Inputs {
		x := t.Float64s()
		if !t.DType.IsFloat() {
			c.index[name] = make([]int, len(x))
			for i, v := range x {
				c.index[name][i] = int(v)
			}
			continue
		}
		c.in[name], c.out[name] = exactly(x), make([]val, len(x))
	}
	for name, w := range wants {
		if t := p.Outputs[name]; t != nil {
			c.g[name] = exactly(t.Float64s())
		} else {
			c.g[name] = make([]val, len(w.Value))
		}
		// What the contract leaves open, or makes infinite, has no derivative that all would agree on.
		for i := range c.g[name] {
			if w.Undetermined != nil && w.Undetermined[i] || !finite(w.Value[i]) {
				c.g[name][i] = open(c.g[name][i].v)
			}
		}
	}
	return c, nil
}

// exactly returns given values: without an error, except where they are not finite.
func exactly(x []float64) []val {
	out := make([]val, len(x))
	for i, v := range x {
		out[i].v = v
		if !finite(v) {
			out[i] = open(v)
		}
	}
	return out
}

func (c *call) dim(name string) int { return c.dims[name] }

// row returns row r of width w.
func row(x []val, r, w int) []val { return x[r*w : (r+1)*w] }

// kept rounds a value to the type of the framework, which keeps or returns it in that type.
func (c *call) kept(x val) val { return c.work.rounded(x.v, x.e) }
