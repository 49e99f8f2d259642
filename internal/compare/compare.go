// Package compare decides whether a candidate's output is right, and says how far off it is.
//
// It compares a tensor with a Want: reference values in float64, bounds, marks and ties. It does not compute references
// (package oracle does), run candidates, or check properties that need no reference (package invariant does).
// The main entry points are Compare, with statistics and a diagnosis, and Quick, with verdict, counts and maxima at
// the speed of memory. Both apply one acceptance rule, and a Report is a pure function of its arguments: it depends
// neither on the CPU nor on the number of workers.
package compare

import "gpuemu/internal/tensor"

// Compare compares got with want: verdict, counts, statistics, worst elements, error map and diagnosis. An output of
// another shape or dtype is a Report with the verdict Error. An error means that the question itself is wrong.
func Compare(got *tensor.Tensor, want *Want, opt Options) (*Report, error) {
	return nil, nil
}

// Quick compares like Compare, but only for the verdict, the counts and the maxima.
func Quick(got *tensor.Tensor, want *Want, opt Options) (*Report, error) {
	return nil, nil
}
