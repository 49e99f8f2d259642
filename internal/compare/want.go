// This file implements the expected side of a comparison: values, bounds, marks and ties.

package compare

import (
	"slices"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// Want is what a candidate's output is compared with. Elements stand in row-major order of Shape, whatever the layout
// of the candidate's output is. Exactly one of Value, Exact and Stored holds the values.
type Want struct {
	// DType is the type the candidate's output must have, not the type of the values below.
	DType dtype.DType
	// Also are further types the output may have; both they and DType are integers then.
	Also  []dtype.DType
	Shape tensor.Shape
	// Value holds the results in float64 before any rounding to DType.
	Value []float64
	// Bound is the largest honest error of each element, the rounding to DType included. Nil: none known. In the regime
	// Spread it is what the tolerance of each element grows by.
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
	// Unit is the number of consecutive elements that share a sum, so that their errors are not independent; those of
	// different units are. 0: not known, or no sums.
	Unit int
	// Once: before it is rounded to DType the value has one correctly rounded operation, so a value that lies exactly
	// between two of DType is known exactly there.
	Once bool
	// Several marks elements of which Once does not hold: more operations than one made them. Nil: none.
	Several []bool
	// Saturating: values beyond the range of DType become its largest finite value instead of an infinity or NaN.
	Saturating bool
}

// Ties describes an output of indexes (argmax, top-k) of Rows rows with K indexes each into N scores.
//
// An index g is right iff 0 <= g < N and no rival clearly beats it: Score[g] is not below Score[rival] by more than
// Slack[g] + Slack[rival]. Its rivals are the indexes that its row leaves out and, where Ordered is set, those that
// come after it; the wanted index is among them unless it has been taken before. So a row is accepted iff there are
// scores within their slacks for which it is the answer: the errors of an honest kernel never fail it, and nothing
// else passes. (To compare only with the wanted index of the same place would refuse honest rows whose slacks differ.)
// Where Distinct is set, a second occurrence of an index in its row is wrong. NaN scores rank highest, as in PyTorch.
type Ties struct {
	Rows, K, N int
	Score      []float64 // Rows×N
	Slack      []float64 // Rows×N bound on the error of each score; nil: scores are exact
	Distinct   bool
	Ordered    bool
}

// TypeOf returns the type as which an output of type got is read: its own where it is permitted, else DType.
func (w *Want) TypeOf(got dtype.DType) dtype.DType {
	if slices.Contains(w.Also, got) {
		return got
	}
	return w.DType
}

// types are the permitted types in words.
func (w *Want) types() string {
	names := w.DType.String()
	for _, d := range w.Also {
		names += " or " + d.String()
	}
	return names
}
