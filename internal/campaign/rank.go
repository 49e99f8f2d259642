package campaign

import (
	"slices"

	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// This file implements inputs of fewer axes than the catalogue's operators have: the published fuzzer makes vectors
// and matrices for operators that are written here for three axes.

// padded returns the inputs with leading axes of size 1 added, and how many; 0 where the ranks fit already or cannot
// be made to. Inputs that have the rank of the schema, such as a weight beside the data, stay as they are.
func padded(s *opspec.Schema, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, int) {
	missing := 0
	for i := range s.Inputs {
		t := inputs[s.Inputs[i].Name]
		if t == nil {
			return inputs, 0
		}
		missing = max(missing, len(s.Inputs[i].Dims)-len(t.Shape))
	}
	if missing <= 0 {
		return inputs, 0
	}
	out := make(map[string]*tensor.Tensor, len(inputs))
	for i := range s.Inputs {
		name := s.Inputs[i].Name
		t := inputs[name]
		switch len(s.Inputs[i].Dims) - len(t.Shape) {
		case 0:
			out[name] = t
		case missing:
			shape := append(slices.Repeat([]int{1}, missing), t.Shape...)
			view, err := t.Reshape(shape)
			if err != nil {
				view, err = t.Contiguous().Reshape(shape)
			}
			if err != nil {
				return inputs, 0
			}
			out[name] = view
		default:
			return inputs, 0
		}
	}
	return out, missing
}

// unpadded takes n leading axes of size 1 off a shape; a shape that has none, such as that of a scalar result, stays.
func unpadded(s tensor.Shape, n int) tensor.Shape {
	for i := range min(n, len(s)) {
		if s[i] != 1 {
			return s
		}
	}
	return s[min(n, len(s)):]
}
