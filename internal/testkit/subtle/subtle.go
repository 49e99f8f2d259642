// Package subtle has kernels with faults that real kernels have and that pass a look at a few outputs: a constant that
// is off, a mask that is not quite -inf, a carry that is lost after 4,096 elements. Each fault has a conforming twin,
// the same code without it, so that a harness can ask two questions: is the fault found, and is the twin left alone?
//
// Kernels compute in float32, as GPU kernels do, and are written from the formulas of docs/ops.md, not from the
// oracle. They take the default dtypes of a campaign and bfloat16, not float64. Faults lists all of them; Run executes
// a Kernel on the inputs of one case.
package subtle

// This file implements the interface between kernels and cases: inputs as float32, outputs rounded to their dtype.

import (
	"fmt"
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// Kernel computes the outputs of one case.
type Kernel func(*Call)

// OutSpec is the shape and dtype of an output.
type OutSpec struct {
	Shape tensor.Shape
	DType dtype.DType
}

// Call is one case as a kernel sees it.
type Call struct {
	DType   dtype.DType // of the case
	Attrs   opspec.Attrs
	inputs  map[string]*tensor.Tensor
	outputs map[string]OutSpec
	results []tensor.Named
}

// Run executes a kernel. It fails where the kernel leaves out an output.
func Run(
	k Kernel, d dtype.DType, attrs opspec.Attrs, inputs map[string]*tensor.Tensor, outputs map[string]OutSpec,
) ([]tensor.Named, error) {
	c := &Call{DType: d, Attrs: attrs, inputs: inputs, outputs: outputs}
	k(c)
	if len(c.results) != len(outputs) {
		return nil, fmt.Errorf("the kernel wrote %d outputs, want %d", len(c.results), len(outputs))
	}
	return c.results, nil
}

// in returns an input in row-major order and its shape.
func (c *Call) in(name string) ([]float32, tensor.Shape) {
	t := c.inputs[name]
	if t == nil {
		panic(fmt.Sprintf("subtle: internal error: no input %q", name))
	}
	x := make([]float32, t.Elems())
	if t.DType.IsFloat() {
		dtype.DecodeFloat32(x, t.DType, t.Bytes())
		return x, t.Shape
	}
	for i, v := range t.Float64s() { // indices and int8: exact in float32
		x[i] = float32(v)
	}
	return x, t.Shape
}

// rounding is how a kernel stores a result in a narrow type.
type rounding uint8

const (
	nearest  rounding = iota // ties to even
	truncate                 // toward zero: the upper bits of the float32
	halfUp                   // ties away from zero: adding half an ulp and truncating
)

// put stores an output.
func (c *Call) put(name string, x []float32, r rounding) {
	spec, ok := c.outputs[name]
	if !ok || spec.Shape.Elems() != len(x) {
		panic(fmt.Sprintf("subtle: internal error: output %q has %d elements, want %s", name, len(x), spec.Shape))
	}
	t := tensor.New(spec.DType, spec.Shape)
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = r.apply(v, spec.DType)
	}
	dtype.Encode(t.Data, spec.DType, wide)
	c.results = append(c.results, tensor.Named{Name: name, Tensor: t})
}

// apply returns the value that x has after it was stored.
func (r rounding) apply(x float32, d dtype.DType) float64 {
	if r == nearest || d == dtype.Float32 || x-x != 0 {
		return float64(x)
	}
	near := d.Float64(d.Bits(float64(x)))
	if math.IsInf(near, 0) || near == float64(x) {
		return near
	}
	down := near // toward zero
	if math.Abs(near) > math.Abs(float64(x)) {
		down = d.Float64(d.Bits(near) - 1)
	}
	if r == truncate {
		return down
	}
	up := d.Float64(d.Bits(down) + 1)
	if math.Abs(float64(x)-down) >= math.Abs(up-down)/2 {
		return up
	}
	return down
}

// narrow rounds x to d and back.
func narrow(x float32, d dtype.DType) float32 { return d.Float32(d.BitsFloat32(x)) }

func (c *Call) float(name string) float32 { return float32(c.Attrs.Float(name)) }
func (c *Call) int(name string) int       { return c.Attrs.Int(name) }

// rows calls f with each row of the last axis of x.
func rows(x []float32, shape tensor.Shape, f func(at int, row []float32)) {
	h := shape[len(shape)-1]
	for r := range shape[:len(shape)-1].Elems() {
		f(r*h, x[r*h:(r+1)*h])
	}
}

// larger is the maximum that GPU kernels are asked for: NaN propagates.
func larger(x, y float32) float32 {
	if x != x || x > y {
		return x
	}
	return y
}

func maxOf(x []float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = larger(v, top)
	}
	return top
}

// negInf is what maxima begin with.
var negInf = float32(math.Inf(-1))

func exp(x float32) float32   { return float32(math.Exp(float64(x))) }
func log(x float32) float32   { return float32(math.Log(float64(x))) }
func sqrt(x float32) float32  { return float32(math.Sqrt(float64(x))) }
func erf(x float32) float32   { return float32(math.Erf(float64(x))) }
func tanh(x float32) float32  { return float32(math.Tanh(float64(x))) }
func isInf(x float32) bool    { return math.IsInf(float64(x), 0) }
func isNegInf(x float32) bool { return math.IsInf(float64(x), -1) }
