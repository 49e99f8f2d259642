// This file implements Fit: a case whose shapes were changed by hand becomes one that can be generated again.

package gen

import (
	"slices"

	"gpuemu/internal/opspec"
)

// Fit returns the case with every layout that does not exist for its shape made contiguous, and every distribution that
// an input's role does not allow replaced by the role's own. Shrinking changes shapes and distributions; what comes out
// must be a case like any other.
func Fit(s *opspec.Schema, c opspec.Case) opspec.Case {
	c.Inputs = slices.Clone(c.Inputs)
	for i := range c.Inputs {
		got := &c.Inputs[i]
		in, ok := s.Input(got.Name)
		if !ok {
			continue
		}
		got.Layout = effectiveLayout(got.Layout, got.Shape, in)
		if own := roleDistribution(in, got.DType); own != "" {
			got.Values = own
		}
	}
	return c
}
