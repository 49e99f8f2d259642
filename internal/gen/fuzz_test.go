package gen

import (
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// FuzzInputs: any text that parses as a case either gives the inputs it describes or is refused with a code.
func FuzzInputs(f *testing.F) {
	s := attentionLike()
	for _, st := range allStrategies() {
		stream := mustCases(f, s, st, 1)
		for i := range 4 {
			f.Add(mustCase(f, stream, i).String())
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := opspec.ParseCase(text)
		if err != nil {
			return
		}
		for _, in := range c.Inputs {
			if in.Shape.Elems() > 1<<16 {
				return // a case may ask for much memory; the fuzzer must not
			}
		}
		inputs, err := Inputs(s, c)
		if err != nil {
			if diag.CodeOf(err) == "" {
				t.Errorf("Inputs(%s): error without a code: %v", text, err)
			}
			return
		}
		for _, in := range c.Inputs {
			x := inputs[in.Name]
			if x == nil || x.DType != in.DType || !x.Shape.Equal(in.Shape) || in.Layout == tensor.Contiguous &&
				!x.IsContiguous() {
				t.Errorf("Inputs(%s): input %s is %+v", text, in.Name, x)
			}
		}
	})
}
