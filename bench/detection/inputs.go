package main

// This file implements inputs for the runs that do not use the product's generator: baselines draw as their harnesses
// do, and the comparison with the base must not look where the product looks.

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// source draws one value of a tensor.
type source func(r *rand.Rand) float64

// allocate gives the memory of an input, to be filled.
type allocate func(d dtype.DType, s tensor.Shape) (*tensor.Tensor, error)

// dense is contiguous memory.
func dense(d dtype.DType, s tensor.Shape) (*tensor.Tensor, error) {
	return tensor.Allocate(d, s, tensor.Contiguous, tensor.LayoutParams{})
}

// choice says how the values of an input of that shape are drawn.
type choice func(r *rand.Rand, in *opspec.Input, s tensor.Shape) source

// draw makes the inputs of a trial, in the order of the schema.
func (s *subject) draw(
	r *rand.Rand, d dtype.DType, sh shape, memory allocate, choose choice,
) (*trial, error) {
	t := &trial{dtype: d, attrs: s.allAttrs(sh.attrs)}
	var err error
	if t.dims, err = s.program.Derive(sh.dims, t.attrs); err != nil {
		return nil, err
	}
	shapes, _, err := s.program.Resolve(t.dims, t.attrs)
	if err != nil {
		return nil, err
	}
	for i := range s.entry.Schema.Inputs {
		in := &s.entry.Schema.Inputs[i]
		elem, err := in.ElemType(d, t.attrs)
		if err != nil {
			return nil, err
		}
		x, err := memory(elem, shapes[in.Name])
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		if in.Role == opspec.RoleIndex {
			err = s.fillIndex(r, i, t, x)
		} else {
			fill(r, in, x, choose(r, in, x.Shape))
		}
		if err != nil {
			return nil, err
		}
		t.inputs = append(t.inputs, tensor.Named{Name: in.Name, Tensor: x})
	}
	return t, nil
}

// rowOf is how many elements the last so many axes have.
func rowOf(s tensor.Shape, axes int) int {
	n := 1
	for _, size := range s[max(0, len(s)-axes):] {
		n *= size
	}
	return n
}

// fillIndex draws indices that point into what they index, none twice in a row where the schema says so.
func (s *subject) fillIndex(r *rand.Rand, input int, t *trial, x *tensor.Tensor) error {
	below, ok, err := s.program.Below(input, t.dims, t.attrs)
	if err != nil {
		return err
	}
	if !ok || below < 1 {
		return fmt.Errorf("input %q: an index below %d", s.entry.Schema.Inputs[input].Name, below)
	}
	values := make([]float64, x.Elems())
	for i := range values {
		values[i] = float64(r.Int64N(below))
	}
	if row := rowOf(x.Shape, 1); s.entry.Schema.Inputs[input].Domain.Distinct {
		for i := 0; i+row <= len(values) && row > 0; i += row {
			for j, v := range r.Perm(int(below))[:row] {
				values[i+j] = float64(v)
			}
		}
	}
	x.SetFloat64s(values)
	return nil
}

// fill draws the values of an input inside its domain.
func fill(r *rand.Rand, in *opspec.Input, x *tensor.Tensor, from source) {
	values := make([]float64, x.Elems())
	for i := range values {
		switch {
		case x.DType == dtype.Bool:
			values[i] = float64(r.IntN(2))
		case x.DType.IsInteger():
			values[i] = float64(r.IntN(255) - 127) // quantised values: all of int8 but -128
		default:
			values[i] = inside(r, in, x.DType, from(r))
		}
	}
	x.SetFloat64s(values)
}

// inside moves a value into the domain of its input.
func inside(r *rand.Rand, in *opspec.Input, d dtype.DType, v float64) float64 {
	dom := &in.Domain
	if (dom.Finite || dom.Bounded()) && (math.IsNaN(v) || math.IsInf(v, 0)) {
		v = r.NormFloat64()
	}
	if dom.Finite || dom.Bounded() {
		v = max(-d.MaxFinite(), min(v, d.MaxFinite()))
	}
	if in.Role == opspec.RoleScale {
		v = max(math.Abs(v), d.SmallestNormal())
	}
	if dom.Bounded() && (v < dom.Min || v > dom.Max) {
		if math.IsInf(dom.Min, 0) || math.IsInf(dom.Max, 0) {
			v = max(dom.Min, min(math.Abs(v), dom.Max))
		} else {
			v = dom.Min + r.Float64()*(dom.Max-dom.Min)
		}
	}
	if dom.NonZero && v == 0 {
		v = 1
	}
	return v
}
