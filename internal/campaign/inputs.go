package campaign

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// This file implements where the inputs of a case come from: a generator, the published fuzzer, or the store.

// Distributions that no generator strategy draws.
const (
	// valuesPublished: the bytes of the published fuzzer, a function of the case's seed and the input's position.
	valuesPublished = "published"
	// valuesStored: whatever a client sent or a minimised case ended with; the tensors are in the store.
	valuesStored = "stored"
)

// inputsOf returns the inputs of a case. key is that of its stored tensors, "" where there are none.
func (e *Engine) inputsOf(
	ctx context.Context, s *opspec.Schema, c opspec.Case, key string,
) (map[string]*tensor.Tensor, error) {
	switch values := commonValues(c); {
	case values == valuesStored:
		return e.storedInputs(ctx, c, key)
	case values == valuesPublished:
		return publishedInputs(c)
	}
	return gen.Inputs(s, c)
}

// commonValues is the distribution of all inputs, "" where they differ or there are none.
func commonValues(c opspec.Case) string {
	if len(c.Inputs) == 0 {
		return ""
	}
	for _, in := range c.Inputs[1:] {
		if in.Values != c.Inputs[0].Values {
			return ""
		}
	}
	return c.Inputs[0].Values
}

// storedInputs loads tensors and copies them out of the file, which may be pruned while they are in use.
func (e *Engine) storedInputs(ctx context.Context, c opspec.Case, key string) (map[string]*tensor.Tensor, error) {
	if key == "" {
		return nil, diag.Errorf(UnknownCase, "replay it by its seed on the machine whose store has it, or export it there",
			"the inputs of this case were given or minimised: its text does not say them")
	}
	f, err := e.Store.LoadTensors(ctx, key)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]*tensor.Tensor{}
	for _, in := range c.Inputs {
		t, ok := f.Lookup(in.Name)
		if !ok {
			return nil, diag.Errorf(UnknownCase, "", "the stored inputs lack %q", in.Name)
		}
		own := *t
		own.Data = append([]byte(nil), t.Data...)
		out[in.Name] = &own
	}
	return out, nil
}

// publishedInputs makes the bytes of the published fuzzer. Its layouts are labels: data is contiguous.
func publishedInputs(c opspec.Case) (map[string]*tensor.Tensor, error) {
	data := rng.New(c.Seed).Derive("data")
	out := map[string]*tensor.Tensor{}
	for k, in := range c.Inputs {
		if err := in.Shape.CheckBytes(in.DType); err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		bytes := gen.FuzzData(data.Derive("input_"+strconv.Itoa(k)), in.DType, in.Shape.Elems())
		t, err := tensor.FromBytes(in.DType, in.Shape, bytes)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		out[in.Name] = t
	}
	return out, nil
}

// caseOfTensors makes the case of given inputs, and the schema it belongs to: the subject's own where the shapes fit
// it, else one made from the shapes, in which axes of equal size are one dimension.
func (s *subject) caseOfTensors(
	inputs []tensor.Named, values string, d dtype.DType, attrs opspec.Attrs, seed uint64,
) (*opspec.Schema, opspec.Case) {
	c := opspec.Case{Op: s.name, DType: d, Seed: seed, Gen: opspec.GenVersion}
	shapes := map[string]tensor.Shape{}
	for _, in := range inputs {
		shapes[in.Name] = in.Tensor.Shape
		c.Inputs = append(c.Inputs, opspec.CaseInput{Name: in.Name, DType: in.Tensor.DType, Shape: in.Tensor.Shape,
			Layout: tensor.Contiguous, Values: values})
	}
	all := s.schema.DefaultAttrs()
	for name, v := range attrs {
		if _, ok := all[name]; ok {
			all[name] = v
		}
	}
	c.Attrs = s.schema.CaseAttrs(all)
	if dims, err := s.arranged(shapes, all); err == nil && s.sameOrder(inputs) {
		for i := range s.schema.Dims {
			c.Dims = append(c.Dims, opspec.DimValue{Name: s.schema.Dims[i].Name, Value: dims[s.schema.Dims[i].Name]})
		}
		return s.schema, c
	}
	schema := sizeSchema(s.name, c.Inputs)
	schema.Attrs = s.schema.Attrs
	for i := range schema.Dims {
		c.Dims = append(c.Dims, opspec.DimValue{Name: schema.Dims[i].Name, Value: schema.Dims[i].Candidates[0]})
	}
	return schema, c
}

// arranged returns the dimensions that shapes of any rank which the op takes lead to.
func (s *subject) arranged(shapes map[string]tensor.Shape, attrs opspec.Attrs) (map[string]int, error) {
	program, err := s.program()
	if err != nil {
		return nil, err
	}
	a, err := program.Arrange(shapes, attrs)
	if err != nil {
		return nil, err
	}
	return a.Dims, nil
}

// sameOrder reports whether the inputs stand in the order of the schema, as a case's must.
func (s *subject) sameOrder(inputs []tensor.Named) bool {
	if len(inputs) != len(s.schema.Inputs) {
		return false
	}
	for i := range inputs {
		if inputs[i].Name != s.schema.Inputs[i].Name {
			return false
		}
	}
	return true
}

// sizeSchema is the schema of inputs of which only the shapes are known.
func sizeSchema(name string, inputs []opspec.CaseInput) *opspec.Schema {
	s := &opspec.Schema{Name: name}
	for _, in := range inputs {
		spec := opspec.Input{Name: in.Name, DType: in.DType.String()}
		for _, size := range in.Shape {
			dim := "n" + strconv.Itoa(size)
			if _, ok := s.Dim(dim); !ok {
				s.Dims = append(s.Dims, opspec.Dim{Name: dim, Candidates: []int{size}, Empty: size == 0})
			}
			spec.Dims = append(spec.Dims, dim)
		}
		s.Inputs = append(s.Inputs, spec)
	}
	return s
}

// schemaOf returns the schema that a case belongs to: the subject's, or one made from its shapes.
func (s *subject) schemaOf(c opspec.Case) *opspec.Schema {
	shapes := map[string]tensor.Shape{}
	for _, in := range c.Inputs {
		shapes[in.Name] = in.Shape
	}
	attrs := s.schema.DefaultAttrs()
	for _, a := range c.Attrs {
		attrs[a.Name] = a.Value
	}
	// Older versions took fewer ranks: their cases have dimensions of their own, and stay what they are.
	own := slices.ContainsFunc(c.Dims, func(d opspec.DimValue) bool { _, ok := s.schema.Dim(d.Name); return !ok })
	if program, err := s.program(); err == nil && len(s.schema.Inputs) > 0 && !own {
		if _, err := program.Arrange(shapes, attrs); err == nil {
			if _, _, err := program.Shapes(&c, attrs); err == nil {
				return s.schema
			}
		}
	}
	schema := sizeSchema(s.name, c.Inputs)
	if len(c.Attrs) > 0 {
		schema.Attrs = s.schema.Attrs
	}
	return schema
}

// with returns the subject for a case of another schema than its own: the contract of the catalogue then does not
// apply, because its operator does not take such shapes.
func (s *subject) with(schema *opspec.Schema) *subject {
	if schema == s.schema {
		return s
	}
	other := *s
	other.schema = schema
	if _, builtin := builtinName(s.reference); !builtin {
		other.entry = nil
	}
	return &other
}
