// This file implements gradients by central differences of the oracle's own float64 reference.

package gradient

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

const (
	// MaxPerturbed is how many elements central differences move, at four evaluations each: seconds for the
	// operators that have no formula.
	MaxPerturbed = 4096
	// stepScale is the larger step relative to the element, 2^-10: after one extrapolation the truncation is of order
	// step⁴, about 1e-12, as large as the rounding of float64 over the step.
	stepScale = -10
	// largestStep keeps the step within the curvature of functions of differences (softmax) whatever the offset is.
	largestStep = -8
	// kinkShare is how much of the gradient the two one-sided slopes may differ by, beyond what a smooth function
	// explains.
	kinkShare = 0x1p-10
	// numericRoundings is how many roundings honest backward code makes of each term, where no formula tells: as many
	// as the longest formula of the elementwise ones has.
	numericRoundings = 32
	// ownNoise is the relative error of the oracle's values where its bounds are not about float64.
	ownNoise = 0x1p-46
)

// Numeric returns the gradients by central differences with two steps, h and h/2, and Richardson extrapolation. The
// inputs are moved in float64, those of a fixed type within it.
//
// An element is left open where the function has a kink within the step: one-sided slopes of a smooth function differ
// by h·f″ and so half as much at half the step; at a kink they differ by as much.
func Numeric(ctx context.Context, p Problem) (map[string]*Gradient, error) {
	names, err := p.wanted()
	if err != nil {
		return nil, err
	}
	wants, err := p.check()
	if err != nil {
		return nil, err
	}
	count := 0
	for _, name := range names {
		count += p.Inputs[name].Elems()
	}
	if count > MaxPerturbed {
		return nil, diag.Errorf(TooLarge, "use smaller shapes, or ask for the gradients of fewer inputs",
			"op %s has no formula for its gradient, and central differences take at most %d elements; the inputs have %d",
			p.Op.Name, MaxPerturbed, count)
	}
	d, err := newDifferences(&p, wants)
	if err != nil {
		return nil, err
	}
	out := map[string]*Gradient{}
	for _, name := range names {
		if out[name], err = d.by(ctx, name); err != nil {
			return nil, err
		}
		out[name].Work = p.Work
	}
	return out, nil
}

// differences is one function to be differentiated: Σ g·f.
type differences struct {
	op       *oracle.Op
	attrs    opspec.Attrs
	dtype    dtype.DType
	inputs   map[string]*tensor.Tensor // copies; one element at a time is moved
	g        map[string][]float64      // of outputs that have one
	center   map[string]*compare.Want
	work     prec
	acc      prec
	unknown  bool // the gradient of an output is not finite, or the operator leaves one open
	elements int  // of all outputs
}

func newDifferences(p *Problem, wants map[string]*compare.Want) (*differences, error) {
	d := &differences{op: p.Op, attrs: p.Attrs, dtype: p.DType, inputs: map[string]*tensor.Tensor{},
		g: map[string][]float64{}}
	d.work, d.acc = precs(p.Work)
	wide := slices.Contains(p.Op.Schema.AllowedDTypes(), dtype.Float64)
	if wide {
		d.dtype = dtype.Float64
	}
	for i := range p.Op.Schema.Inputs {
		in := &p.Op.Schema.Inputs[i]
		t := p.Inputs[in.Name]
		if in.DType == "" && wide {
			t = tensor.FromFloat64s(dtype.Float64, t.Shape, t.Float64s())
		}
		d.inputs[in.Name] = t.Clone().Contiguous()
	}
	for name, w := range wants {
		t := p.Outputs[name]
		if t == nil {
			continue
		}
		d.g[name] = t.Float64s()
		d.elements += len(d.g[name])
		for i, v := range d.g[name] {
			if v != 0 && (!finite(v) || !finite(w.Value[i]) || w.Undetermined != nil && w.Undetermined[i]) {
				d.unknown = true
			}
		}
	}
	var err error
	d.center, err = oracle.Evaluate(d.op, d.inputs, d.attrs, d.dtype)
	return d, err
}

// by returns the gradient by one input.
func (d *differences) by(ctx context.Context, name string) (*Gradient, error) {
	t := d.inputs[name]
	x := t.Float64s()
	out := &Gradient{Shape: t.Shape, Value: make([]float64, len(x)), Scale: make([]float64, len(x)),
		Estimate: make([]float64, len(x))}
	size, square := t.DType.Size(), 0.0
	for _, v := range x {
		square += float64(v * v)
	}
	typical := math.Sqrt(square / math.Max(1, float64(len(x))))
	for i, v := range x {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if d.unknown || !finite(v) || !finite(typical) {
			out.Scale[i] = math.Inf(1)
			continue
		}
		bits := t.Data[i*size : (i+1)*size]
		q, err := d.quotient(t.DType, bits, v, step(v, typical))
		if err != nil {
			return nil, fmt.Errorf("input %q element %d: %w", name, i, err)
		}
		t.DType.Store(bits, t.DType.Bits(v))
		out.Value[i], out.Scale[i], out.Estimate[i] = q.slope, q.scale, q.estimate
	}
	return out, nil
}

// step returns the larger step, a power of two, so that x±h is exact or nearly so.
func step(x, typical float64) float64 {
	size := math.Max(math.Abs(x), typical/64)
	if size == 0 {
		size = 1
	}
	_, exponent := math.Frexp(size)
	return math.Ldexp(1, min(exponent+stepScale, largestStep))
}

// quotient is the derivative by one element.
type quotient struct{ slope, scale, estimate float64 }

// side is what one step to both sides gives: the central quotient, the difference of the one-sided slopes, the
// magnitudes of the terms, and what the rounding of the reference may be in the quotient.
type side struct {
	slope, bend, terms, noise float64
	open                      bool
}

func (d *differences) quotient(t dtype.DType, bits []byte, x, h float64) (quotient, error) {
	var sides [2]side
	for i := range sides {
		var wants [2]map[string]*compare.Want
		var at [2]float64
		for j, sign := range []float64{1, -1} {
			t.Store(bits, t.Bits(x+float64(sign*h)))
			at[j] = t.Float64(t.Load(bits))
			w, err := oracle.Evaluate(d.op, d.inputs, d.attrs, d.dtype)
			if err != nil {
				return quotient{}, err
			}
			wants[j] = w
		}
		sides[i] = d.compare(wants[0], wants[1], at[0]-at[1])
		h /= 2
	}
	wide, near := sides[0], sides[1]
	slope := near.slope + (near.slope-wide.slope)/3
	kink := math.Abs(near.bend - 0.5*wide.bend)
	noise := 4 * (near.noise + wide.noise)
	if wide.open || near.open || kink > float64(kinkShare*near.terms)+noise {
		return quotient{slope, math.Inf(1), 0}, nil
	}
	roundings := numericRoundings + float64(d.acc.r*depth(d.elements))
	return quotient{slope, float64(roundings * near.terms), math.Abs(slope-near.slope) + kink + noise}, nil
}

// compare makes the quotient of the values at both sides, span apart.
func (d *differences) compare(plus, minus map[string]*compare.Want, span float64) side {
	var s side
	if span <= 0 {
		s.open = true
		return s
	}
	for o := range d.op.Schema.Outputs { // in the order of the schema: the same sum each time
		name := d.op.Schema.Outputs[o].Name
		p, m, c := plus[name], minus[name], d.center[name]
		for i, v := range d.g[name] {
			if v == 0 {
				continue
			}
			change := float64(v * (p.Value[i] - m.Value[i]))
			s.slope += change / span
			s.terms += math.Abs(change) / span
			s.bend += float64(v*((p.Value[i]-c.Value[i])-(c.Value[i]-m.Value[i]))) / (span / 2)
			noise := p.Bound[i] + m.Bound[i] + 2*c.Bound[i]
			if d.dtype != dtype.Float64 { // bounds are those of narrower kernels, values are float64 all the same
				noise = float64(ownNoise * (math.Abs(p.Value[i]) + math.Abs(m.Value[i])))
			}
			s.noise += float64(math.Abs(v)*noise) / span
			for _, w := range []*compare.Want{p, m, c} {
				s.open = s.open || w.Undetermined != nil && w.Undetermined[i] || !finite(w.Value[i])
			}
		}
	}
	return s
}
