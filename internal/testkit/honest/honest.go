// Package honest computes every op of the catalogue the way a correct kernel may, in the arithmetic a kernel has:
// float32 or float64 operations, in any order, fused or not, with approximate functions anywhere inside their
// documented bounds, subnormals flushed, tensor cores that truncate. It checks the oracle's error bounds from the other
// side: no result of an honest machine may lie outside, and a machine with a planted Fault should. It is written from
// the specification of the ops, not from the oracle, and it is no reference: its results have rounding errors on
// purpose.
//
// A Machine does the arithmetic, a Style says how, Run evaluates one Call.
package honest

import (
	"fmt"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// Array is an input: its exact values in row-major order.
type Array struct {
	Shape tensor.Shape
	DType dtype.DType
	X     []float64
}

// OutSpec is the shape and dtype of an output.
type OutSpec struct {
	Shape tensor.Shape
	DType dtype.DType
}

// Call is one evaluation of an op.
type Call struct {
	Op      string
	T       dtype.DType // the case's dtype
	Attrs   opspec.Attrs
	Inputs  map[string]Array
	Outputs map[string]OutSpec
}

// entry is one op of the catalogue.
type entry struct {
	name string
	eval func(*eval)
	traits
}

// Ops returns the names of all ops.
func Ops() []string {
	names := make([]string, len(catalogue))
	for i := range catalogue {
		names[i] = catalogue[i].name
	}
	return names
}

// eval is the evaluation of one call.
type eval struct {
	*Machine
	call    *Call
	outs    []output
	err     error
	shifted bool // the op has done OffByOne itself
}

type output struct {
	name     string
	spec     OutSpec
	x        []float64
	saturate bool
}

// Run evaluates a call on m. The results are rounded from A to the dtypes of the outputs, to nearest, ties to even.
func Run(m *Machine, c *Call) (map[string]*tensor.Tensor, error) {
	for i := range catalogue {
		if catalogue[i].name == c.Op {
			return run(m, c, catalogue[i].eval)
		}
	}
	return nil, fmt.Errorf("unknown op %q", c.Op)
}

func run(m *Machine, c *Call, f func(*eval)) (map[string]*tensor.Tensor, error) {
	m.setCase(c.T, c.Attrs.Str("math") == "ieee")
	e := &eval{Machine: m, call: c}
	f(e)
	if e.err != nil {
		return nil, fmt.Errorf("%s: %w", c.Op, e.err)
	}
	if len(e.outs) != len(c.Outputs) {
		return nil, fmt.Errorf("%s: %d outputs computed, %d asked for", c.Op, len(e.outs), len(c.Outputs))
	}
	res := make(map[string]*tensor.Tensor, len(e.outs))
	for i := range e.outs {
		o := &e.outs[i]
		e.spoil(o)
		t := tensor.New(o.spec.DType, o.spec.Shape)
		if o.saturate {
			dtype.EncodeSaturating(t.Data, o.spec.DType, o.x)
		} else {
			dtype.Encode(t.Data, o.spec.DType, o.x)
		}
		res[o.name] = t
	}
	return res, nil
}

// spoil plants the faults that are the same for all ops.
func (e *eval) spoil(o *output) {
	n := len(o.x)
	if n == 0 {
		return
	}
	row := n
	if r := len(o.spec.Shape); r > 0 {
		row = o.spec.Shape[r-1]
	}
	switch e.fault {
	case DropLast:
		for i := row - 1; i < n; i += row {
			o.x[i] = 0
		}
	case OffByOne:
		if e.shifted {
			return
		}
		if row == 1 {
			row = n
		}
		for i := 0; i < n; i += row {
			last := o.x[i+row-1]
			copy(o.x[i+1:i+row], o.x[i:i+row-1])
			o.x[i] = last
		}
	case SwallowNaN:
		if o.spec.DType.IsFloat() {
			for i, v := range o.x {
				if v != v {
					o.x[i] = 0
				}
			}
		}
	}
}

// fail records the first error of an evaluation.
func (e *eval) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// in returns an input of the given rank; ok is false if it is not there. Values of float64 are rounded to A.
func (e *eval) in(name string, rank int) (a Array, ok bool) {
	a, ok = e.raw(name, rank)
	if ok && a.DType == dtype.Float64 && !e.f64 {
		x := make([]float64, len(a.X))
		for i, v := range a.X {
			x[i] = e.Const(v)
		}
		a.X = x
	}
	return a, ok
}

// raw is in for ops that compare and copy only: their values never pass through A.
func (e *eval) raw(name string, rank int) (a Array, ok bool) {
	a, ok = e.call.Inputs[name]
	switch {
	case !ok:
		e.fail("input %q is missing", name)
	case len(a.Shape) != rank:
		e.fail("input %q has shape %s, want rank %d", name, a.Shape, rank)
	case len(a.X) != a.Shape.Elems():
		e.fail("input %q has %d values for shape %s", name, len(a.X), a.Shape)
	}
	if e.err != nil {
		return Array{}, false
	}
	return a, true
}

// out returns the memory of an output of n elements, nil after an error.
func (e *eval) out(name string, n int) []float64 {
	spec, ok := e.call.Outputs[name]
	switch {
	case !ok:
		e.fail("output %q is not asked for", name)
	case spec.Shape.Elems() != n:
		e.fail("output %q has shape %s, want %d elements", name, spec.Shape, n)
	}
	if e.err != nil {
		return nil
	}
	x := make([]float64, n)
	e.outs = append(e.outs, output{name: name, spec: spec, x: x})
	return x
}

// float is a float attribute, or def where the call has none.
func (e *eval) float(name string, def float64) float64 {
	if _, ok := e.call.Attrs[name]; ok {
		return e.call.Attrs.Float(name)
	}
	return def
}

// int is an integer attribute, or def where the call has none.
func (e *eval) int(name string, def int) int {
	if _, ok := e.call.Attrs[name]; ok {
		return e.call.Attrs.Int(name)
	}
	return def
}

// flag is a boolean attribute, or def where the call has none.
func (e *eval) flag(name string, def bool) bool {
	if _, ok := e.call.Attrs[name]; ok {
		return e.call.Attrs.Bool(name)
	}
	return def
}

// text is a string attribute, or def where the call has none.
func (e *eval) text(name, def string) string {
	if _, ok := e.call.Attrs[name]; ok {
		return e.call.Attrs.Str(name)
	}
	return def
}

// round rounds an intermediate result to the case's dtype where the style does so.
func (e *eval) round(x float64) float64 {
	if e.style.RoundIntermediates {
		return e.Cast(x, e.t)
	}
	return x
}
