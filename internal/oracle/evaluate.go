// This file implements Evaluate: from tensors and attributes to what a candidate's outputs are compared with.

package oracle

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// Evaluate runs the reference of op on inputs. attrs are complete (opspec.Schema.ResolveAttrs). d is the type of the
// case; Invalid takes it from the inputs, or float32 where all inputs have types of their own.
func Evaluate(
	op *Op, inputs map[string]*tensor.Tensor, attrs opspec.Attrs, d dtype.DType,
) (map[string]*compare.Want, error) {
	c, err := newCall(op, inputs, attrs, d)
	if err != nil {
		return nil, err
	}
	return c.evaluate(op.ref)
}

// evaluate runs a reference and returns what it filled in.
func (c *call) evaluate(ref func(c *call) error) (map[string]*compare.Want, error) {
	if err := ref(c); err != nil {
		return nil, err
	}
	c.finish()
	wants := make(map[string]*compare.Want, len(c.outs))
	for name, r := range c.outs {
		wants[name] = &r.Want
	}
	c.release()
	return wants, nil
}

// Common runs the reference of op as Evaluate does and returns, for each element of each output, the error that a
// conforming implementation may make in all rows alike: what its roundings of sums and to the output type add has no
// common sign and is left out. See compare.Lean.
func Common(
	op *Op, inputs map[string]*tensor.Tensor, attrs opspec.Attrs, d dtype.DType,
) (map[string][]float64, error) {
	c, err := newCall(op, inputs, attrs, d)
	if err != nil {
		return nil, err
	}
	c.common = true
	for _, r := range c.outs {
		r.rounds = false
	}
	if err := op.ref(c); err != nil {
		return nil, err
	}
	c.finish()
	common := make(map[string][]float64, len(c.outs))
	for name, r := range c.outs {
		common[name] = r.Bound
	}
	c.release()
	return common, nil
}

// A call is one evaluation: decoded inputs, resolved dims and outputs to fill.
type call struct {
	arith
	T     dtype.DType // of the case
	dims  map[string]int
	attrs opspec.Attrs
	in    map[string]operand
	outs  map[string]*result
	// arranged is how the caller's tensors are seen; callers share it and must not change it.
	arranged *opspec.Arrangement
	shift    int // positions by which an alternative shifts the mask of attention
}

// An operand is one input in row-major order.
type operand struct {
	x     []float64
	shape tensor.Shape
	d     dtype.DType
}

func newCall(op *Op, inputs map[string]*tensor.Tensor, attrs opspec.Attrs, d dtype.DType) (*call, error) {
	if err := checkTensors(op, inputs); err != nil {
		return nil, err
	}
	attrs, err := checkAttrs(op, attrs)
	if err != nil {
		return nil, err
	}
	if d, err = caseDType(op, inputs, attrs, d); err != nil {
		return nil, err
	}
	sizes, err := op.form(inputs).sizesOf(inputs, attrs)
	if err != nil {
		return nil, err
	}
	c := &call{T: d, dims: sizes.dims, attrs: attrs, in: map[string]operand{}, outs: map[string]*result{},
		arranged: sizes.arranged}
	c.arith = newArith(d, attrs.Str("math"))
	c.setCompute(d, attrs.Str("compute"))
	for name, t := range inputs {
		placed := sizes.arranged.Inputs[name]
		seen, err := placed.View(t)
		if err != nil {
			return nil, fmt.Errorf("op %s: input %q: %w", op.Name, name, err)
		}
		c.in[name] = operand{x: decoded(seen), shape: seen.Shape, d: t.DType}
	}
	for i := range op.Schema.Outputs {
		o := &op.Schema.Outputs[i]
		od, err := o.ElemType(d, attrs)
		if err != nil {
			return nil, err
		}
		shape := slices.Clone(sizes.arranged.Outputs[o.Name].Inner)
		if err := shape.CheckBytes(dtype.Float64); err != nil {
			return nil, fmt.Errorf("op %s: output %q: %w", op.Name, o.Name, err)
		}
		r := newResult(od, shape, d, o.Saturate, op.setsAll)
		r.Once, r.Also = op.once, o.Alternatives()
		c.outs[o.Name] = r
	}
	return c, nil
}

// checkTensors refuses an input that is missing or nil.
func checkTensors(op *Op, inputs map[string]*tensor.Tensor) error {
	var none []string
	for name, t := range inputs {
		if t == nil {
			none = append(none, name)
		}
	}
	if len(none) > 0 { // the least: the same error each time
		return diag.Errorf(InputMismatch, "", "op %s: input %q is nil", op.Name, slices.Min(none))
	}
	for i := range op.Schema.Inputs {
		if name := op.Schema.Inputs[i].Name; inputs[name] == nil {
			return diag.Errorf(InputMismatch, "", "op %s: input %q is missing", op.Name, name)
		}
	}
	return nil
}

// checkAttrs returns the attributes in their normal form. A string selects a variant, so one that no variant has would
// silently be another; a number of the wrong type would be read as 0.
func checkAttrs(op *Op, attrs opspec.Attrs) (opspec.Attrs, error) {
	out := make(opspec.Attrs, len(op.Schema.Attrs))
	for i := range op.Schema.Attrs {
		a := &op.Schema.Attrs[i]
		v, ok := attrs[a.Name]
		if !ok && a.Quiet {
			v, ok = a.DefaultValue(), true
		}
		if !ok {
			return nil, diag.Errorf(InputMismatch, "", "op %s: attribute %q is missing", op.Name, a.Name)
		}
		n, err := a.Normal(v)
		if err != nil {
			return nil, fmt.Errorf("op %s: %w", op.Name, err)
		}
		out[a.Name] = n
	}
	return out, nil
}

// caseDType returns the type of the case and checks the types of all inputs, all of which are there.
func caseDType(
	op *Op, inputs map[string]*tensor.Tensor, attrs opspec.Attrs, d dtype.DType,
) (dtype.DType, error) {
	from := ""
	for i := range op.Schema.Inputs {
		spec := &op.Schema.Inputs[i]
		t := inputs[spec.Name]
		if spec.DType != "" {
			if want, err := spec.ElemType(d, attrs); err != nil || t.DType != want {
				return 0, diag.Errorf(InputMismatch, "", "op %s: input %q has dtype %s, want %s",
					op.Name, spec.Name, t.DType, want)
			}
			continue
		}
		if d != dtype.Invalid && t.DType != d {
			if from == "" {
				from = "the case"
			} else {
				from = "input \"" + from + "\""
			}
			return 0, diag.Errorf(InputMismatch, "give all inputs without a dtype of their own the same one",
				"op %s: input %q has dtype %s but %s has %s", op.Name, spec.Name, t.DType, from, d)
		}
		d, from = t.DType, spec.Name
	}
	if d == dtype.Invalid {
		d = dtype.Float32
	}
	var names []string
	for _, a := range op.Schema.AllowedDTypes() {
		if a == d {
			return d, nil
		}
		names = append(names, a.String())
	}
	return 0, diag.Errorf(DTypeRefused, "use one of "+strings.Join(names, ", "), "op %s is not defined for %s", op.Name, d)
}

// data returns the elements of an input.
func (c *call) data(name string) []float64 { return c.in[name].x }

// dim returns the size of a dimension.
func (c *call) dim(name string) int { return c.dims[name] }

// out returns an output to fill.
func (c *call) out(name string) *result { return c.outs[name] }

// A result is one output being filled. Elements may be set from several goroutines, each element once.
type result struct {
	compare.Want
	rounds bool      // the output type is narrower than the accumulation type: one more rounding
	marked sync.Once // makes Undetermined: most outputs have no undetermined element
}

func newResult(d dtype.DType, s tensor.Shape, t dtype.DType, saturate, setsAll bool) *result {
	n := s.Elems()
	acc := dtype.Float32
	if t == dtype.Float64 {
		acc = dtype.Float64
	}
	return &result{
		Want: compare.Want{
			DType: d, Shape: s, Value: array(n, setsAll), Bound: array(n, setsAll), Saturating: saturate,
		},
		rounds: d != acc && d.IsFloat(),
	}
}

// set stores element i. The bound is the error in the accumulation type plus the rounding to the output type, which
// for a value of magnitude up to |v|+e is at most half an ulp there.
func (r *result) set(i int, x num) {
	r.Value[i] = x.v
	if x.v-x.v != 0 {
		r.Bound[i] = 0
		if x.w != 0 {
			r.mark(i)
		}
		return
	}
	b := x.e
	if r.rounds {
		b += r.DType.HalfULP(min(abs(x.v)+x.e, r.DType.MaxFinite()))
	}
	r.Bound[i] = b
	if x.w == 0 {
		return
	}
	// Within its bound of the overflow threshold both sides of it are right, and beyond it only the infinity is:
	// the comparison knows that, so an infinity of the right sign leaves nothing open there.
	over := r.DType.OverflowThreshold()
	if b < noBound && (x.w == clsPosInf && x.v+b >= over || x.w == clsNegInf && x.v-b <= -over) {
		return
	}
	r.mark(i)
}

// setExact stores an element that every implementation gives exactly: a copy or a selection.
func (r *result) setExact(i int, v float64) { r.Value[i], r.Bound[i] = v, 0 }

// mark says that the contract does not decide element i.
func (r *result) mark(i int) {
	r.marked.Do(func() { r.Undetermined = make([]bool, len(r.Value)) })
	r.Undetermined[i] = true
}

func abs(x float64) float64 {
	if x < 0 {
		return -x
	}
	return x
}
