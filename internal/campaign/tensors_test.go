package campaign

import (
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// rounded returns outputs that are exactly the expected ones.
func rounded(wants []expected) []tensor.Named {
	var out []tensor.Named
	for _, w := range wants {
		out = append(out, tensor.Named{Name: w.name, Tensor: tensor.FromFloat64s(w.want.DType, w.want.Shape, w.want.Value)})
	}
	return out
}

func named(c opspec.Case, inputs map[string]*tensor.Tensor) []tensor.Named {
	var out []tensor.Named
	for _, in := range c.Inputs {
		out = append(out, tensor.Named{Name: in.Name, Tensor: inputs[in.Name]})
	}
	return out
}
