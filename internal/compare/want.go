// This file implements the expected side of a comparison: values, bounds, marks and ties.

package compare

import (
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// Want is what a candidate's output is compared with. Elements stand in row-major order of Shape, whatever the layout
// of the candidate's output is. Exactly one of Value, Exact and Stored holds the values.
type Want struct {
	// DType is the type the candidate's output must have, not the type of the values below.
	DType dtype.DType
	Shape tensor.Shape
	// Value holds the results in float64 before any rounding to DType.
	Value []float64
	// Bound is the largest honest error of each element, the rounding to DType included. Nil: none known.
	Bound []float64
	// Undetermined marks elements on which the contract of the operation does not decide. Nil: none.
	Undetermined []bool
	// Ties, where set, says that the elements are indexes and which other indexes are as good.
	Ties *Ties
	// Exact holds integer (or bool) references of any width. They are compared as integers, never through float64.
	Exact *tensor.Tensor
	// Stored holds a reference that stays in its own float type, for instance the float32 reply of a user's script.
	// It is read in place, without a widened copy. Set Options.WantDType to account for its own rounding.
	Stored *tensor.Tensor
	// Saturating: values beyond the range of DType become its largest finite value instead of an infinity or NaN.
	Saturating bool
}

// Ties describes an output of indexes (argmax, top-k) of Rows rows with K indexes each into N scores.
//
// Got[r,j] = g is right iff 0 <= g < N and Score[r,g] is not below the score of the wanted index by more than
// Slack[r,g] + Slack[r,want]. Where Distinct is set, a second occurrence of an index in its row is wrong. Where Ordered is
// set, element j answers to the wanted index j; otherwise the row is a set, and it is right iff no index left out
// beats one taken in by more than their slacks. NaN scores rank highest, as in PyTorch.
type Ties struct {
	Rows, K, N int
	Score      []float64 // Rows×N
	Slack      []float64 // Rows×N bound on the error of each score; nil: scores are exact
	Distinct   bool
	Ordered    bool
}
